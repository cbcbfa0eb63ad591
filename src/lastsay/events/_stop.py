"""Stop reasons: why a run ended, in one vocabulary.

Five words are known to every consumer. The vocabulary is open: a backend may pass a reason of its own, and then every
consumer must treat it as a failure, never as a success. `known_stop_reason` maps the words that protocols and vendors
use on the wire; a backend that knows better maps by its own table before.
"""

from typing import Final, Literal

__all__ = (
    "ABORTED",
    "COMPLETED",
    "ERROR",
    "MAX_TOKENS",
    "REFUSAL",
    "STOP_REASONS",
    "Provenance",
    "known_stop_reason",
)

COMPLETED: Final = "completed"
ABORTED: Final = "aborted"
ERROR: Final = "error"
MAX_TOKENS: Final = "max-tokens"
REFUSAL: Final = "refusal"

STOP_REASONS: Final = (COMPLETED, ABORTED, ERROR, MAX_TOKENS, REFUSAL)

Provenance = Literal["reported", "recovered", "unknown"]
"""Where a mapped stop reason comes from: said by the harness, recovered by a cited rule of the backend, or a guess."""

# Words seen on the wire of Anthropic Messages, OpenAI chat and Responses, Gemini, ACP, Codex, opencode and AG-UI.
_WIRE_WORDS: Final = {
    COMPLETED: ("complete", "done", "end_turn", "finished", "idle", "stop", "stop_sequence", "success", "succeeded"),
    ABORTED: (
        "abort", "aborted_streaming", "aborted_tools", "cancel", "canceled", "cancelled", "interrupt", "interrupted",
        "killed", "shutdown", "stopped", "user_cancelled",
    ),
    ERROR: ("api_error", "crash", "errored", "failed", "failure", "error_during_execution"),
    MAX_TOKENS: (
        "length", "max_output_tokens", "max_token", "max_tokens", "model_context_window_exceeded", "token_limit",
    ),
    REFUSAL: ("blocked", "content_filter", "declined", "refused", "safety"),
}  # fmt: skip
_MAPPED: Final = {word: reason for reason, words in _WIRE_WORDS.items() for word in (reason, *words)}
_MAPPED["max-tokens"] = MAX_TOKENS


def known_stop_reason(raw: str) -> str:
    """The known stop reason that a wire word stands for, or the word itself where none is known.

    Case and the choice between ``-`` and ``_`` do not matter. An unknown word comes back unchanged: it is a failure
    for every consumer, and it keeps its name.
    """
    return _MAPPED.get(raw.strip().lower().replace("-", "_"), raw) if raw != MAX_TOKENS else MAX_TOKENS
