"""validate: hold a source to the grammar of events.

What is checked, and the kind of the `Fault` that reports it:

| kind                | what is wrong                                                              |
|---------------------|----------------------------------------------------------------------------|
| not_an_event        | something else than an event; it is never passed on                        |
| wrong_type          | a field has a value of the wrong type                                      |
| started_twice       | a `RunStarted` for a run that is open                                      |
| after_end           | work of a run that has ended, without an `EpochStarted` or a new start     |
| result_without_call | a `ToolResult` whose call was never seen                                   |
| seq_backwards       | a sequence number that is not above the one before it, in the same run     |

Usage, notices and faults may trickle in after an end: harnesses do that, and it harms nobody.
"""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from lastsay.errors import SourceError
from lastsay.events import EpochStarted, Event, Fault, Notice, RunEnded, RunStarted, ToolCall, ToolResult, UsageReported
from lastsay.operators._fused import Operator, through
from lastsay.operators._stage import Handlers, Stage, every

__all__ = ("validate",)

_LATE: Final = (UsageReported, Notice, Fault)


def validate(on_fault: Literal["report", "drop", "raise"] = "report") -> Operator:
    """Checks every event, and its place in the stream; costs about two microseconds an event.

    Args:
        on_fault: ``report`` puts a `Fault` before an event that breaks a rule and passes it on; ``drop`` puts the fault
            in its place; ``raise`` raises.

    Raises:
        SourceError: a rule was broken, and `on_fault` is ``raise``.
    """
    return through(lambda: _Validate(on_fault))


class _Validate(Stage):
    kind = "flat"

    def __init__(self, on_fault: str) -> None:
        self._on_fault = on_fault
        self._open: set[str] = set()
        self._ended: set[str] = set()
        self._calls: set[tuple[str, str]] = set()
        self._seq: dict[str, int] = {}

    def handlers(self) -> Handlers:
        return {**every(self._one), object: self._stranger}

    def _stranger(self, thing: object) -> Sequence[Event]:
        return (self._fault("not_an_event", f"{type(thing).__name__} is not an event", None),)

    def _one(self, event: Event) -> Sequence[Event]:
        wrong = _type_fault(event) or self._order_fault(event)
        self._note(event)
        if wrong is None:
            return (event,)
        fault = self._fault(*wrong, event)
        return (fault,) if self._on_fault == "drop" else (fault, event)

    def _order_fault(self, event: Event) -> tuple[str, str] | None:
        kind, run, name = type(event), event.run, type(event).__name__
        before = self._seq.get(run)
        if event.seq is not None and before is not None and event.seq <= before:
            return "seq_backwards", f"{name} has number {event.seq} after {before}"
        if kind is RunStarted:
            return ("started_twice", f"run {run!r} is already open") if run in self._open else None
        if run in self._ended and kind is not EpochStarted and kind not in _LATE:
            return "after_end", f"{name} of run {run!r}, which has ended"
        if type(event) is ToolResult and (run, event.id) not in self._calls:
            return "result_without_call", f"a result for {event.id!r}, which was never called"
        return None

    def _note(self, event: Event) -> None:
        kind, run = type(event), event.run
        if event.seq is not None:
            self._seq[run] = event.seq
        if kind is RunEnded:
            self._open.discard(run)
            self._ended.add(run)
        elif kind is RunStarted or kind is EpochStarted:
            self._open.add(run)
            self._ended.discard(run)
        elif type(event) is ToolCall:
            self._calls.add((run, event.id))

    def _fault(self, kind: str, detail: str, event: Event | None) -> Fault:
        if self._on_fault == "raise":
            raise SourceError(f"{kind}: {detail}")
        return Fault(kind, detail) if event is None else Fault(kind, detail, run=event.run)


def _type_fault(event: Event) -> tuple[str, str] | None:
    try:
        plain = msgspec.to_builtins(event, enc_hook=repr, str_keys=True)
        msgspec.convert(plain, type(event))
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        return "wrong_type", f"{type(event).__name__}: {error}"
    return None
