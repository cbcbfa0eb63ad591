"""The delegation tool's result: what the parent model is told.

A completed child gives its text. Anything else is an error result in up to three labelled parts, never mixed: a
headline for the stop reason, the diagnostic, the partial text. A token limit is not a failure of the tool, and still
the parent must not take the text for a whole answer; a stop reason that nobody knows is named, and is a failure.
"""

from typing import ClassVar, Final

from pydantic import BaseModel, ConfigDict

from lastsay.events import ABORTED, COMPLETED, ERROR, MAX_TOKENS, REFUSAL
from lastsay.fold import Outcome

__all__ = ("DelegationResult", "tool_result")

_HEADLINES: Final = {
    ABORTED: "The subagent was cancelled before it finished.",
    ERROR: "The subagent failed.",
    MAX_TOKENS: "The subagent reached its output token limit before it finished.",
    REFUSAL: "The subagent declined the task.",
}


class DelegationResult(BaseModel):
    """What the delegation tool returns to the parent model."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    text: str
    """The tool result's text; empty if the child completed without any."""
    is_error: bool
    stop_reason: str
    policy: str
    digest: str
    """The outcome's digest: equal in the tool result, the end event and the span of one run."""


def tool_result(outcome: Outcome) -> DelegationResult:
    """The delegation tool's result for an outcome.

    Args:
        outcome: the run's outcome, as `open_run` or `collect` gives it.
    """
    text = outcome.text or ""
    failed = outcome.stop_reason != COMPLETED
    return DelegationResult(
        text=_failing_text(outcome, text) if failed else text,
        is_error=failed,
        stop_reason=outcome.stop_reason,
        policy=outcome.policy,
        digest=outcome.digest,
    )


def _failing_text(outcome: Outcome, text: str) -> str:
    headline = _HEADLINES.get(outcome.stop_reason)
    parts = [headline or f"The subagent ended for a reason that is not known here: {outcome.stop_reason}."]
    if outcome.diagnostic:
        parts.append(f"Diagnostic: {outcome.diagnostic}")
    if text:
        parts.append(f"Partial output:\n{text}")
    return "\n".join(parts)
