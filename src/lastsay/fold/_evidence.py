"""Evidence: what a run's events say about its end, beside what its end record says.

The reported stop reason is never replaced. Beside it stands the *effective* one: the same, unless the run claims
success (or has no end record) and its own events contradict that. The first contradiction in this order names it:

| evidence               | seen as                                                      | effective            |
|------------------------|--------------------------------------------------------------|----------------------|
| limit_before_recovery  | an error named a limit before the last turn                  | that limit           |
| exit_status            | the process ended with another status than 0                 | error                |
| open_tool_call         | the last message's tool call has no result                   | incomplete           |
| open_background_task   | a background task was started and did not end                | incomplete           |
| last_attempt_failed    | an attempt was aborted, or an error came, and nothing after  | error                |
| synthetic_end          | the last message was written by the harness                  | error                |
| last_message_stop      | the last message stopped for max-tokens or refusal           | that reason          |
| no_end_record          | the stream ended without one, or with one that nobody said   | completed, if the    |
|                        |                                                              | last message ended   |
|                        |                                                              | its turn with text   |
"""

from lastsay.events import COMPLETED, ERROR, MAX_TOKENS, REFUSAL, RunEnded
from lastsay.fold._tally import Tally

__all__ = ("INCOMPLETE", "effective_stop")

INCOMPLETE = "incomplete"
"""The effective stop reason of a run that claims success with work still open. A failure, as every unknown one."""


def effective_stop(stop_reason: str, ended: RunEnded | None, tally: Tally) -> tuple[str, tuple[str, ...]]:
    """The effective stop reason, and the names of all evidence found, the deciding one first."""
    found = _contradictions(ended, tally)
    names = [name for name, _ in found]
    if ended is None or _nobody_said(ended):
        names.append("no_end_record")
        if not found and tally.last_told and tally.mapped_last_stop() in (COMPLETED, None):
            return COMPLETED, tuple(names)
    if not found:
        return stop_reason, tuple(names)
    name, reason = found[0]
    claims_success = stop_reason == COMPLETED or (name == "limit_before_recovery" and ended is not None)
    return (reason if claims_success else stop_reason), tuple(names)


def _nobody_said(ended: RunEnded) -> bool:
    """Whether a backend made up the end record because its source had none."""
    return ended.stop_reason == ERROR and ended.provenance == "unknown" and ended.raw is None and not ended.exit_status


def _contradictions(ended: RunEnded | None, tally: Tally) -> list[tuple[str, str]]:
    last = tally.mapped_last_stop()
    checks = (
        (tally.limit is not None and tally.spoke, "limit_before_recovery", tally.limit or ERROR),
        (ended is not None and bool(ended.exit_status), "exit_status", ERROR),
        (bool(tally.open_calls), "open_tool_call", INCOMPLETE),
        (bool(tally.tasks), "open_background_task", INCOMPLETE),
        (tally.failure is not None, "last_attempt_failed", ERROR),
        (tally.synthetic_last, "synthetic_end", ERROR),
        (last in (MAX_TOKENS, REFUSAL), "last_message_stop", last or ERROR),
    )
    return [(name, reason) for holds, name, reason in checks if holds]
