"""The end of a run as an event: its stop reason, the harness's own report, and what is known about a failure.

A report is assistant text as the harness hands it on; it goes into `terminal`, and only for a run that completed. What
the harness says about a failure goes into `diagnostic`: the two are never mixed, although on the wire they share a
field (`result` holds the text of an API error, and a child's report may begin with notes of the harness).
"""

import signal
from typing import Any

from lastsay.backends.claude._blocks import text_of
from lastsay.backends.claude._run import Run
from lastsay.backends.claude._stop import Ending, Witnesses, ending_of_child, ending_of_result, ending_of_transcript
from lastsay.events import ABORTED, COMPLETED, ERROR, RunEnded

__all__ = ("child_end", "lost_end", "result_end")


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _ended(run: Run, ending: Ending, **fields: Any) -> RunEnded:
    return RunEnded(
        ending.stop_reason, raw=ending.raw, provenance=ending.provenance, time=run.time, run=run.id, **fields
    )


def result_end(run: Run, record: dict[str, Any]) -> RunEnded:
    """The end of the root, from its result record."""
    seen = run.witnesses()
    if seen.error is None and (word := _string(record.get("api_error"))) is not None:
        seen = Witnesses(word, seen.error_stop, seen.model, seen.calling)
    is_error = record.get("is_error") is True
    ending = ending_of_result(
        subtype=_string(record.get("subtype")),
        terminal=_string(record.get("terminal_reason")),
        is_error=is_error,
        reported=_string(record.get("stop_reason")),
        seen=seen,
    )
    return _ended(
        run,
        ending,
        terminal=None if is_error else _string(record.get("result")),
        diagnostic=_failure_text(run, record) if is_error and ending.stop_reason != ABORTED else None,
        structured=record.get("structured_output"),
    )


def _failure_text(run: Run, record: dict[str, Any]) -> str | None:
    listed = record.get("errors")
    errors = [e for e in listed if isinstance(e, str) and e.strip()] if isinstance(listed, list) else []
    text = "\n".join(errors) or run.error_text or _string(record.get("result"))
    status = record.get("api_error_status")
    return text or (f"API error (HTTP {status})" if status is not None else None)


def child_end(run: Run, native: dict[str, Any] | None) -> RunEnded:
    """The end of a child.

    Args:
        run: the child.
        native: what its parent was told (`ToolResult.native`); None for a child in the background.
    """
    given = native or {}
    told = given.get("tool_use_result")
    fields: dict[str, Any] = told if isinstance(told, dict) else {}
    notes = _number(fields.get("harnessNoteCount"))
    is_error = given.get("is_error") is True
    ending = ending_of_child(
        status=run.status or _string(fields.get("status")),
        kind=_string(given.get("non_execution_kind")),
        is_error=is_error,
        noted=notes > ("toolsUsed" in fields),
        seen=run.witnesses(),
    )
    parts = fields.get("content")
    # The content for the parent is framed and indented (2.1.332), the summary of the task's notification is not.
    report: Any = run.status_text or given.get("content")
    note: str | None = None
    if isinstance(parts, list):
        report = parts[notes : len(parts) - _number(fields.get("harnessTailCount"))]
        note = text_of(parts[:notes]) or None
    if ending.stop_reason == COMPLETED:
        return _ended(run, ending, terminal=text_of(report) if report is not None else None)
    if ending.stop_reason == ABORTED:
        return _ended(run, ending)
    failure = note or (text_of(given.get("content") if is_error else report) if is_error or native is None else None)
    return _ended(run, ending, diagnostic=run.error_text or (failure or "").strip() or None)


def _number(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0


def lost_end(
    run: Run,
    *,
    exit_status: int | None = None,
    detail: str | None = None,
    finished: bool | None = None,
    aborted: bool = False,
) -> RunEnded:
    """The end of a run that has no end record.

    Args:
        run: the run.
        exit_status: how the CLI's process ended; negative for a signal.
        detail: what is known about the failure.
        finished: for a transcript, whether something outside it says that the run was finished; None for a live stream.
        aborted: the run above it was aborted, and took it along.
    """
    if finished is not None:
        ending = ending_of_transcript(run.witnesses(), interrupted=run.interrupted, finished=finished)
        missing = "the transcript ends without the end of this run" if ending.provenance == "unknown" else None
        failed = ending.stop_reason not in (COMPLETED, ABORTED)
        return _ended(run, ending, diagnostic=(run.error_text or missing) if failed else None)
    if run.status is not None:
        return child_end(run, None)
    if aborted or run.interrupted:
        return _ended(run, Ending(ABORTED, None, "recovered"), exit_status=exit_status)
    word = _exit_word(exit_status)
    text = "Claude Code ended without a result" + (f" ({word})" if word else "")
    diagnostic = f"{text}: {detail.strip()}" if detail and detail.strip() else text
    return _ended(run, Ending(ERROR, word, "unknown"), diagnostic=diagnostic, exit_status=exit_status)


def _exit_word(status: int | None) -> str | None:
    if status is None:
        return None
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
