"""The one table of names: what spans, metrics and log records of each profile are called.

Three dialects of the GenAI conventions are alive (checked in 2026-11); nothing here is imported from the package of the
conventions, because it marks all of these names as moved.

| profile          | differs in                                                                                        |
|------------------|---------------------------------------------------------------------------------------------------|
| `genai-1.41`     | the last numbered release, and what back ends read: provider and cache tokens on every agent      |
|                  | span, one token histogram; transfers have no official name                                        |
| `genai-next`     | the conventions' own repository: `cache_write` for `cache_creation`, no provider and no cache     |
|                  | tokens on agents in this process, transfers by name, token counters                               |
| `+openinference` | added to either: `input.value`, `output.value`, the span kind and token counts that Phoenix reads |

What no convention names is under ``lastsay.``.
"""

from typing import Final

import msgspec

from lastsay.errors import UsageError

__all__ = (
    "DEFAULT_PROFILE",
    "OPENINFERENCE_KINDS",
    "PROVIDERS",
    "Names",
    "finish_reason",
    "names_of",
)

DEFAULT_PROFILE: Final = "genai-1.41"
_SUFFIX: Final = "+openinference"

OPERATION: Final = "gen_ai.operation.name"
AGENT: Final = "gen_ai.agent.name"
CONVERSATION: Final = "gen_ai.conversation.id"
PROVIDER: Final = "gen_ai.provider.name"
MODEL: Final = "gen_ai.request.model"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
ERROR_TYPE: Final = "error.type"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL: Final = "gen_ai.tool.call.id"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
TOKEN_TYPE: Final = "gen_ai.token.type"  # noqa: S105  # the kind of token that a model counts
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ: Final = "gen_ai.usage.cache_read.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"

INVOKE_AGENT: Final = "invoke_agent"
EXECUTE_TOOL: Final = "execute_tool"
OTHER: Final = "_OTHER"
"""The conventions' word for an error without a class."""

AGENT_DURATION: Final = "gen_ai.invoke_agent.duration"
INFERENCE_CALLS: Final = "gen_ai.invoke_agent.inference_calls"
TOOL_CALLS: Final = "gen_ai.invoke_agent.tool_calls"
FIRST_CHUNK: Final = "gen_ai.client.operation.time_to_first_chunk"
"""The same in all profiles: `genai-next` renames it for single model calls, and an agent's run is none."""
TOKEN_USAGE: Final = "gen_ai.client.token.usage"  # noqa: S105  # see TOKEN_TYPE

LOG_EVENT: Final = "lastsay.subagent.end"
"""A private name: the conventions have no event for the end of an agent."""

PROVIDERS: Final = {"claude": "anthropic", "codex": "openai", "openai_agents": "openai", "openai-agents": "openai"}
"""Whose models a backend drives, where it drives one vendor's. Any other backend stands for itself."""

OPENINFERENCE_KINDS: Final = {INVOKE_AGENT: "AGENT", EXECUTE_TOOL: "TOOL"}

_FINISH: Final = {
    "completed": "stop", "max-tokens": "length", "refusal": "content_filter", "aborted": "error", "error": "error",
    "tool_use": "tool_call", "tool_calls": "tool_call", "compaction": "compaction",
}  # fmt: skip


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between profiles. None: the profile does not emit it."""

    profile: str
    schema_url: str | None = "https://opentelemetry.io/schemas/1.41.0"
    provider_of_local: bool = True
    """Whether the provider and the cache tokens stand on agents in this process, too."""
    cache_write: str = "gen_ai.usage.cache_creation.input_tokens"
    transfer_mode: str = "lastsay.transfer.mode"
    transfer_target: str = "lastsay.transfer.target.name"
    target_in_name: bool = False
    """Whether the name of a delegation's span ends with its target."""
    token_counters: tuple[tuple[str, str], ...] | None = None
    """Field of `Usage` and counter; None: one histogram, by token type."""
    openinference: bool = False


_PROFILES: Final = {
    DEFAULT_PROFILE: Names(profile=DEFAULT_PROFILE),
    "genai-next": Names(
        profile="genai-next",
        schema_url=None,  # the repository has no numbered release
        provider_of_local=False,
        cache_write="gen_ai.usage.cache_write.input_tokens",
        transfer_mode="gen_ai.transfer.mode",
        transfer_target="gen_ai.transfer.target.name",
        target_in_name=True,
        token_counters=(
            ("input", "gen_ai.client.inference.usage.input_tokens"),
            ("output", "gen_ai.client.inference.usage.output_tokens"),
            ("cache_read", "gen_ai.client.inference.usage.cache_read.input_tokens"),
            ("cache_write", "gen_ai.client.inference.usage.cache_write.input_tokens"),
            ("reasoning", "gen_ai.client.inference.usage.reasoning.output_tokens"),
        ),
    ),
}


def names_of(profile: str) -> Names:
    """The names of a profile, such as ``genai-1.41`` or ``genai-next+openinference``.

    Raises:
        UsageError: there is no such profile.
    """
    base = profile.removesuffix(_SUFFIX)
    names = _PROFILES.get(base)
    if names is None:
        known = ", ".join(_PROFILES)
        raise UsageError(f"profile {profile!r} is not known; take one of {known}, each also with {_SUFFIX}")
    if base == profile:
        return names
    return msgspec.structs.replace(names, profile=profile, openinference=True)


def finish_reason(stop_reason: str) -> str:
    """The conventions' word for a mapped stop reason; a backend's own word passes unchanged."""
    return _FINISH.get(stop_reason, stop_reason)
