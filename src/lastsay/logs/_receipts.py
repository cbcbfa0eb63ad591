"""The audit of a log's tool results: which calls got one, how the model was shown it, and what the bridge said.

Calls are `ToolCall` events and the calls inside messages; results are `ToolResult` events; verdicts are the notices
that `confirm` left in a log that lastsay recorded. How a result was shown is read from the native record by the
harness's profile, for every tool, and without knowing what was submitted:

    rejected     the call was not executed
    timed_out    the harness stopped waiting for the function
    persisted    a notice that names a file stands for the content
    truncated    an error text whose middle was left out
    placeholder  the harness's own words for a result without text
    blank        no block, or nothing but white space
    image        an image among the blocks
    whole        anything else
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any

import msgspec

from lastsay.events import Event, Fault, Image, Message, Notice, Text, ToolCall, ToolResult, ToolUse
from lastsay.logs._find import Log
from lastsay.receipts import (
    NativeProfile,
    Receipt,
    Verdict,
    is_blank,
    is_rejection,
    persisted_path,
    profile_for,
    receipt_of,
    stopped_waiting,
)

__all__ = ("AuditedCall", "ReceiptAudit", "ReceiptReport", "Shown", "audit_log")


class Shown(StrEnum):
    """How the model was shown a result; the table at the top of this module says what each word means."""

    REJECTED = "rejected"
    TIMED_OUT = "timed_out"
    PERSISTED = "persisted"
    TRUNCATED = "truncated"
    PLACEHOLDER = "placeholder"
    BLANK = "blank"
    IMAGE = "image"
    WHOLE = "whole"


class AuditedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a log, as far as the log tells."""

    call: str
    run: str
    tool: str | None
    results: int
    is_error: bool | None = None
    shown: Shown | None = None
    verdict: str | None = None
    """What the function bridge said; None where the log holds no such notice."""
    detail: str | None = None


class ReceiptReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a log says about its tool results. The lists hold call ids, in order of appearance."""

    calls: int
    results: int
    errors: int
    without_result: tuple[str, ...]
    without_call: tuple[str, ...]
    blank: tuple[str, ...]
    """Results that hold no text of the tool's own: blank ones, and placeholders."""
    duplicates: tuple[str, ...]
    shown: dict[str, int]
    verdicts: dict[str, int]
    refused: tuple[AuditedCall, ...]
    """Calls that the bridge could not confirm."""

    @property
    def sound(self) -> bool:
        """Whether no call has a verdict that makes its run untrustworthy."""
        return not any(call.verdict in _UNSOUND for call in self.refused)


_UNSOUND = frozenset(
    verdict.value for verdict in (Verdict.MISMATCH, Verdict.FLAG_CONFLICT, Verdict.BEFORE_SUBMISSION, Verdict.MISSING)
)


class _Entry:
    __slots__ = ("called", "detail", "is_error", "order", "results", "run", "shown", "tool", "verdict")

    def __init__(self, run: str) -> None:
        self.run = run
        self.tool: str | None = None
        self.called = False
        self.results = 0
        self.is_error: bool | None = None
        self.shown: Shown | None = None
        self.verdict: str | None = None
        self.detail: str | None = None


class ReceiptAudit:
    """Audits the tool results of any number of interleaved runs.

    Args:
        profile: how the harness shows results; None takes the row for the version that the log names, else the newest.
    """

    def __init__(self, profile: NativeProfile | None = None) -> None:
        self._profile = profile if profile is not None else profile_for(None)
        self._learns = profile is None
        self._entries: dict[str, _Entry] = {}

    def push(self, batch: list[Event]) -> None:
        """Take the next events, of whatever runs."""
        for event in batch:
            take = _TAKES.get(type(event))
            if take is not None:
                take(self, event)

    def report(self) -> ReceiptReport:
        """What the events so far say."""
        entries = self._entries
        shown = Counter(entry.shown.value for entry in entries.values() if entry.shown is not None)
        verdicts = Counter(entry.verdict for entry in entries.values() if entry.verdict is not None)
        confirmed = {verdict.value for verdict in Verdict if verdict.confirmed}
        return ReceiptReport(
            calls=sum(entry.called for entry in entries.values()),
            results=sum(entry.results for entry in entries.values()),
            errors=sum(entry.is_error is True for entry in entries.values()),
            without_result=self._ids(lambda entry: entry.called and not entry.results),
            without_call=self._ids(lambda entry: not entry.called and entry.results > 0),
            blank=self._ids(lambda entry: entry.shown in (Shown.BLANK, Shown.PLACEHOLDER)),
            duplicates=self._ids(lambda entry: entry.results > 1),
            shown=dict(sorted(shown.items())),
            verdicts=dict(sorted(verdicts.items())),
            refused=tuple(call for call in self.calls() if call.verdict is not None and call.verdict not in confirmed),
        )

    def calls(self) -> Iterator[AuditedCall]:
        """Every call and every result without one, in order of appearance."""
        for call, entry in self._entries.items():
            yield AuditedCall(
                call=call,
                run=entry.run,
                tool=entry.tool,
                results=entry.results,
                is_error=entry.is_error,
                shown=entry.shown,
                verdict=entry.verdict,
                detail=entry.detail,
            )

    def _ids(self, wanted: Callable[[_Entry], bool]) -> tuple[str, ...]:
        return tuple(call for call, entry in self._entries.items() if wanted(entry))

    def _entry(self, call: str, run: str) -> _Entry:
        return self._entries.setdefault(call, _Entry(run))

    def _call(self, event: Any) -> None:
        entry = self._entry(event.id, event.run)
        entry.called, entry.tool = True, event.name

    def _message(self, event: Any) -> None:
        for block in event.content:
            if type(block) is ToolUse:
                entry = self._entry(block.id, event.run)
                entry.called, entry.tool = True, block.name

    def _result(self, event: Any) -> None:
        receipt = receipt_of(event)
        if not receipt.live:
            return
        entry = self._entry(event.id, event.run)
        entry.results += 1
        if entry.results == 1:
            entry.is_error = event.is_error
            entry.shown = _shown(receipt, entry.tool or "", self._profile)

    def _notice(self, event: Any) -> None:
        raw = event.raw
        if not isinstance(raw, dict):
            return
        if event.kind == "init" and self._learns and isinstance(raw.get("claude_code_version"), str):
            self._profile = profile_for(raw["claude_code_version"])
        call, verdict, detail = raw.get("call"), raw.get("verdict"), raw.get("detail")
        if (
            event.kind in ("function_applied", "function_refused")
            and isinstance(call, str)
            and isinstance(verdict, str)
        ):
            entry = self._entry(call, event.run)
            entry.verdict, entry.detail = verdict, detail if isinstance(detail, str) else None


_TAKES: dict[type[Any], Callable[[ReceiptAudit, Any], None]] = {
    ToolCall: ReceiptAudit._call,  # noqa: SLF001  # the class's own table, written where its methods exist
    Message: ReceiptAudit._message,  # noqa: SLF001
    ToolResult: ReceiptAudit._result,  # noqa: SLF001
    Notice: ReceiptAudit._notice,  # noqa: SLF001
}


def _shown(receipt: Receipt, tool: str, profile: NativeProfile) -> Shown:
    if receipt.not_executed or is_rejection(receipt, profile):
        return Shown.REJECTED
    if stopped_waiting(receipt, profile):
        return Shown.TIMED_OUT
    if persisted_path(receipt, profile) is not None:
        return Shown.PERSISTED
    texts = [block.text for block in receipt.content if type(block) is Text]
    if any(type(block) is Image for block in receipt.content):
        return Shown.IMAGE
    if all(is_blank(text) for text in texts) and len(texts) == len(receipt.content):
        return Shown.BLANK
    return _shown_text(texts, receipt, tool, profile)


def _shown_text(texts: list[str], receipt: Receipt, tool: str, profile: NativeProfile) -> Shown:
    only = texts[0] if len(texts) == 1 else None
    if only is None:
        return Shown.WHOLE
    rule = profile.error
    if receipt.is_error and rule is not None:
        notice = re.escape(rule.elision).replace(re.escape("{count}"), r"\d+")
        if re.search(notice, only):
            return Shown.TRUNCATED
        return Shown.PLACEHOLDER if only in (rule.empty, rule.no_text_part) else Shown.WHOLE
    if profile.blank is not None and only == profile.blank.format(tool=tool):
        return Shown.PLACEHOLDER
    return Shown.WHOLE


def audit_log(
    log: Log,
    *,
    profile: NativeProfile | None = None,
    on_fault: Callable[[Fault], None] | None = None,
) -> ReceiptReport:
    """What a log says about its tool results.

    Args:
        log: what to read: events that lastsay recorded, a Claude session, or another known format.
        profile: how the harness shows results; None takes the row for the version that the log names.
        on_fault: told of everything broken.

    Raises:
        SourceError: a file cannot be read.
    """
    audit = ReceiptAudit(profile)
    for batch in log.batches():
        audit.push(batch)
        for event in batch if on_fault is not None else ():
            if type(event) is Fault and on_fault is not None:
                on_fault(event)
    return audit.report()
