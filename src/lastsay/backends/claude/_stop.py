"""Why a Claude run ended: one table, and the order in which its rows are asked.

The `stop_reason` of a result record is not the answer. After an interrupt it is the stale value of the message before,
and after a reply cut at the token limit it says ``stop_sequence`` with the subtype ``success`` (Claude Code 2.1.269 to
2.1.332). So the witnesses are asked in this order, and the first one that knows decides:

    1. `terminal`  the result's ``terminal_reason``, where it names an abort or a limit of turns or money
    2. `error`     the ``error`` of the synthetic message that the harness wrote last, or the result's ``api_error``
    3. `model`     the stop reason of the last model message (``message_delta``, or the line on disk)
    4. `subtype`   the result's subtype

For a child there is no result record; the status of its task and the kind of its tool result stand in for it.
The raw word that decided is kept.
"""

from dataclasses import dataclass
from typing import Final, Literal

from lastsay.events import ABORTED, COMPLETED, ERROR, MAX_TOKENS, REFUSAL, Provenance, known_stop_reason

__all__ = ("STOP_TABLE", "Ending", "Row", "Witnesses", "ending_of_child", "ending_of_result", "ending_of_transcript")

MAX_TURNS: Final = "max-turns"
MAX_BUDGET: Final = "max-budget"

Witness = Literal["terminal", "error", "model", "subtype", "status", "kind"]


@dataclass(frozen=True, slots=True)
class Row:
    """One word of one witness, and what it stands for."""

    witness: Witness
    raw: str
    mapped: str
    provenance: Provenance
    note: str


STOP_TABLE: Final = (
    Row("terminal", "completed", COMPLETED, "reported", "the loop ended by itself"),
    Row("terminal", "aborted_streaming", ABORTED, "reported", "interrupt while text was streaming"),
    Row("terminal", "aborted_tools", ABORTED, "reported", "interrupt while a tool call was pending"),
    Row("terminal", "max_turns", MAX_TURNS, "reported", "limit of turns"),
    Row("terminal", "budget_exhausted", MAX_BUDGET, "reported", "limit of money"),
    Row("error", "max_output_tokens", MAX_TOKENS, "recovered", "the CLI gave up after four cut replies"),
    Row("error", "authentication_failed", ERROR, "reported", "API"),
    Row("error", "billing_error", ERROR, "reported", "API"),
    Row("error", "connection_failed", ERROR, "reported", "API"),
    Row("error", "rate_limit", ERROR, "reported", "API"),
    Row("error", "server_error", ERROR, "reported", "API"),
    Row("error", "unknown", ERROR, "reported", "API"),
    Row("model", "end_turn", COMPLETED, "reported", ""),
    Row("model", "stop_sequence", COMPLETED, "reported", ""),
    Row("model", "max_tokens", MAX_TOKENS, "recovered", "the result record says stop_sequence"),
    Row("model", "model_context_window_exceeded", MAX_TOKENS, "recovered", "the result record says stop_sequence"),
    Row("model", "refusal", REFUSAL, "reported", ""),
    Row("subtype", "success", COMPLETED, "reported", ""),
    Row("subtype", "error_max_turns", MAX_TURNS, "reported", "limit of turns, older CLIs"),
    Row("subtype", "error_max_budget_usd", MAX_BUDGET, "reported", "limit of money, older CLIs"),
    Row("subtype", "error_during_execution", ERROR, "reported", ""),
    Row("status", "completed", COMPLETED, "reported", "task status"),
    Row("status", "failed", ERROR, "reported", "task status"),
    Row("status", "killed", ABORTED, "reported", "task status"),
    Row("status", "stopped", ABORTED, "reported", "task status"),
    Row("kind", "user-rejected", ABORTED, "reported", "the call was interrupted or refused"),
)
"""Measured on Claude Code 2.1.269 and 2.1.332."""

_ROWS: Final = {(row.witness, row.raw): row for row in STOP_TABLE}
_LIMITS: Final = frozenset({MAX_TOKENS, REFUSAL})


@dataclass(frozen=True, slots=True)
class Ending:
    """A mapped stop reason, the raw word that decided it, and how it was found."""

    stop_reason: str
    raw: str | None
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class Witnesses:
    """What a run has shown about its end.

    Args:
        error: error word of the last synthetic message, if no model message came after it.
        error_stop: stop reason of that synthetic message.
        model: stop reason of the last model message.
        calling: the last model message ends in a tool call, and nothing was injected since.
    """

    error: str | None = None
    error_stop: str | None = None
    model: str | None = None
    calling: bool = False


def _row(witness: Witness, word: str | None) -> Ending | None:
    row = None if word is None else _ROWS.get((witness, word))
    return None if row is None else Ending(row.mapped, word, row.provenance)


def _failure(seen: Witnesses) -> Ending | None:
    """What a failing API call was: refusal and token limit have names of their own, the rest is an error."""
    if REFUSAL in (seen.error_stop, seen.model):
        return Ending(REFUSAL, REFUSAL, "reported")
    if seen.error is None:
        return None
    named = _row("error", seen.error)
    if named is not None and named.stop_reason != MAX_TOKENS:
        return named
    if (model := _row("model", seen.model)) is not None and model.stop_reason == MAX_TOKENS:
        return model
    return named or Ending(ERROR, seen.error, "reported")


def ending_of_result(
    *, subtype: str | None, terminal: str | None, is_error: bool, reported: str | None, seen: Witnesses
) -> Ending:
    """How a run ended that has a result record.

    Args:
        subtype: the record's subtype.
        terminal: its ``terminal_reason``; None from older CLIs.
        is_error: its flag.
        reported: its own stop reason, used only where no better witness is.
        seen: what the stream has shown.
    """
    by_terminal = _row("terminal", terminal)
    if by_terminal is not None and by_terminal.stop_reason != COMPLETED:
        return by_terminal
    if is_error:
        failure = _failure(seen) or (_row("model", reported) if reported == REFUSAL else None)
        return failure or _unnamed_failure(subtype, terminal)
    word = seen.model or reported
    if (model := _row("model", word)) is not None and model.stop_reason in _LIMITS:
        return model
    if by_terminal is not None or terminal is None:
        return Ending(COMPLETED, word or terminal or subtype, "reported")
    return Ending(known_stop_reason(terminal), terminal, "reported")


def _unnamed_failure(subtype: str | None, terminal: str | None) -> Ending:
    by_subtype = _row("subtype", subtype)
    if by_subtype is not None and by_subtype.stop_reason not in (COMPLETED, ERROR):
        return by_subtype
    word = terminal if terminal not in (None, "completed") else subtype
    return Ending(ERROR, word, "reported")


def ending_of_child(*, status: str | None, kind: str | None, is_error: bool, noted: bool, seen: Witnesses) -> Ending:
    """How a child ended, from what its parent was told and from the child's own messages.

    Args:
        status: its task status, or the status inside its tool result.
        kind: the ``non_execution_kind`` of its tool result.
        is_error: whether its tool result is an error.
        noted: the harness put a note of its own before the child's report.
        seen: what the child's messages have shown.
    """
    rejected = _row("kind", kind)
    by_status = _row("status", status)
    if rejected is not None or (by_status is not None and by_status.stop_reason == ABORTED):
        return rejected or by_status or Ending(ABORTED, kind, "reported")
    if (failure := _failure(seen)) is not None:
        return Ending(failure.stop_reason, failure.raw, "recovered")
    if is_error or (by_status is not None and by_status.stop_reason == ERROR):
        return Ending(ERROR, status or "is_error", "reported")
    if (model := _row("model", seen.model)) is not None and model.stop_reason in _LIMITS:
        return model
    if noted and seen.calling:
        # A child that met its limit of turns is called completed (2.1.332): its last message is a call that was
        # answered, nobody asked it to go on, and the harness put a note before the report.
        return Ending(MAX_TURNS, status, "recovered")
    return Ending(COMPLETED, status or seen.model, "reported" if by_status is not None else "recovered")


def ending_of_transcript(seen: Witnesses, *, interrupted: bool, finished: bool) -> Ending:
    """How a run ended of which only the transcript is left: it holds no end record.

    Args:
        seen: what the lines have shown.
        interrupted: the last message was cut, or the harness wrote that it was interrupted.
        finished: the harness wrote elsewhere that the run or its last turn was finished.
    """
    if interrupted:
        return Ending(ABORTED, "interrupted", "recovered")
    if (failure := _failure(seen)) is not None:
        return Ending(failure.stop_reason, failure.raw, "recovered")
    if (model := _row("model", seen.model)) is not None:
        return Ending(model.stop_reason, model.raw, "recovered")
    if finished:
        return Ending(COMPLETED, seen.model, "recovered")
    return Ending(ERROR, seen.model, "unknown")
