"""Why an agent stopped: the protocol's words, and what is known about agents that use them wrongly.

The protocol has five words (`STOP_REASONS`). They are often not what happened: of nine agents that were driven against
a scripted model (agent and version in each row), a stop at the token limit came through as ``max_tokens`` from three,
as ``end_turn`` from five, and as a JSON-RPC error from one. So the answer is mapped in this order:

1. a rule of this agent (`STOP_RULES`), with provenance ``recovered``;
2. our own cancellation: after ``session/cancel`` an error or ``end_turn`` means aborted (github/copilot-cli#4561,
   agentclientprotocol/agent-client-protocol#171), ``recovered``;
3. the word itself, ``reported``; but ``end_turn`` from an agent that is known to say it for truncation and refusal too
   (`AGENTS`) is only a guess: provenance ``unknown``;
4. a word that is not known passes through unchanged, and is a failure for every consumer;
5. no word at all: ``error``, ``unknown``.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from lastsay.events import ABORTED, COMPLETED, ERROR, MAX_TOKENS, REFUSAL, Provenance, known_stop_reason

__all__ = ("AGENTS", "STOP_REASONS", "STOP_RULES", "Agent", "End", "StopRule", "agent_named", "end_of")

STOP_REASONS: Final[Mapping[str, str]] = {
    "end_turn": COMPLETED,
    "max_tokens": MAX_TOKENS,
    "max_turn_requests": ERROR,
    "refusal": REFUSAL,
    "cancelled": ABORTED,
}
"""The protocol's stop reasons (versions 1 and 2), and ours. A turn limit is no answer: an error that keeps its word."""

_CANCELLED_CODE: Final = -32800
"""JSON-RPC error code of a request that was cancelled (protocol 1, stable since June 2026)."""


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about one agent's use of the protocol.

    Attributes:
        name: a part of the name it gives itself, in lower case.
        ids: it gives every message of the model an id, so that text without one is the harness's own.
        synthetic_uuid: a message whose id is a UUID was written by the harness (the model's ids are not).
        honest_end_turn: it says ``end_turn`` only for a turn that was finished.
        usage_of_last_call: the token counts in its answer are the last model call's, not the turn's.
        seen: the version in which this was seen.
    """

    name: str
    ids: bool = False
    synthetic_uuid: bool = False
    honest_end_turn: bool = True
    usage_of_last_call: bool = False
    seen: str


AGENTS: Final = (
    Agent(name="claude", ids=True, synthetic_uuid=True, seen="claude-agent-acp 0.49.0 and 0.101.0"),
    Agent(name="codex", ids=True, honest_end_turn=False, seen="codex-acp 2.6.0"),
    Agent(name="gemini", honest_end_turn=False, seen="gemini-cli 0.61.0"),
    Agent(name="opencode", ids=True, honest_end_turn=False, usage_of_last_call=True, seen="opencode 1.18.33"),
    Agent(name="vibe", ids=True, honest_end_turn=False, usage_of_last_call=True, seen="mistral-vibe 3.0.2"),
    Agent(name="openhands", honest_end_turn=False, seen="openhands 1.16.0"),
    Agent(name="kimi", honest_end_turn=False, seen="kimi-cli 1.52.0"),
    Agent(name="fast-agent", honest_end_turn=False, seen="fast-agent-mcp 0.10.48"),
    Agent(name="dsh", ids=True, seen="DeepSeek Harness 0.2.1rc2"),
    Agent(name="deepseek", ids=True, seen="DeepSeek Harness 0.2.1rc2"),
)
"""By name. An agent that is not here is taken at its word."""

_UNKNOWN: Final = Agent(name="", seen="")


class StopRule(msgspec.Struct, frozen=True, kw_only=True):
    """An answer of one agent that means another stop than it says.

    Attributes:
        agent: the agent's name in `AGENTS`.
        path: the keys that lead to a value in the answer, ``result`` or ``error`` first.
        value: that value.
        stop: what it means.
        seen: where it was seen.
    """

    agent: str
    path: tuple[str, ...]
    value: str
    stop: str
    seen: str


STOP_RULES: Final = (
    StopRule(
        agent="claude",
        path=("error", "data", "errorKind"),
        value="max_output_tokens",
        stop=MAX_TOKENS,
        seen="claude-agent-acp 0.49.0 and 0.101.0: error -32603 under protocol 1, idle with an error under protocol 2",
    ),
    StopRule(
        agent="codex",
        path=("result", "_meta", "codex", "threadStatus"),
        value="systemError",
        stop=ERROR,
        seen="codex-acp 2.6.0: end_turn for the token limit, refusals and server errors",
    ),
)
"""The first that fits decides."""


class End(msgspec.Struct, frozen=True):
    """How a turn ended: the fields of `RunEnded` that an answer decides."""

    stop_reason: str
    raw: str | None = None
    provenance: Provenance = "reported"
    diagnostic: str | None = None


def agent_named(name: str | None) -> Agent:
    """What is known about the agent of that name; the defaults for an unknown one."""
    lowered = (name or "").lower()
    return next((agent for agent in AGENTS if agent.name in lowered), _UNKNOWN)


def end_of(answer: Mapping[str, Any], agent: Agent, *, cancelling: bool) -> End:
    """How a turn ended, from its answer.

    Args:
        answer: the response to ``session/prompt``, or under protocol 2 the idle ``state_update`` in its form: an object
            with ``result`` (holding ``stopReason``) or ``error``.
        agent: who answered.
        cancelling: whether we had asked for cancellation.
    """
    error, result = answer.get("error"), answer.get("result")
    raw = result.get("stopReason") if isinstance(result, dict) else None
    raw = raw if isinstance(raw, str) else None
    diagnostic = _diagnostic(error)
    if error is not None:
        raw = raw or _error_word(error)
    for rule in STOP_RULES:
        if rule.agent == agent.name and _value_at(answer, rule.path) == rule.value:
            return End(rule.stop, raw, "recovered", diagnostic)
    if cancelling and (error is not None or raw in (None, "end_turn")):
        return End(ABORTED, raw, "recovered", diagnostic)
    if error is not None:
        cancelled = isinstance(error, dict) and error.get("code") == _CANCELLED_CODE
        return End(ABORTED if cancelled else ERROR, raw, "reported", diagnostic)
    if raw is None:
        return End(ERROR, None, "unknown", "the agent ended the turn without a stop reason")
    guess = raw == "end_turn" and not agent.honest_end_turn
    return End(STOP_REASONS.get(raw) or known_stop_reason(raw), raw, "unknown" if guess else "reported")


def _error_word(error: Any) -> str:
    if not isinstance(error, dict):
        return "error"
    data = error.get("data")
    kind = data.get("errorKind") if isinstance(data, dict) else None
    return kind if isinstance(kind, str) else str(error.get("code", "error"))


def _diagnostic(error: Any) -> str | None:
    if error is None:
        return None
    if not isinstance(error, dict):
        return "the agent answered with an error"
    message, code = error.get("message"), error.get("code")
    text = message if isinstance(message, str) and message.strip() else "the agent answered with an error"
    data = error.get("data")
    details = data.get("details") or data.get("errorKind") if isinstance(data, dict) else data
    parts = [text, details if isinstance(details, str) and details != text else "", f"code {code}" if code else ""]
    return "; ".join([part for part in parts if part])


def _value_at(answer: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = answer
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    # A status may be an object that names its type.
    return value.get("type") if isinstance(value, Mapping) else value
