"""dedupe and in_order: streams that were sent twice, or out of order.

Both go by `seq`, run by run; an event without one passes. They belong together in this order: `dedupe() | in_order()`.
"""

import heapq
from collections.abc import Sequence
from typing import Final

from lastsay.errors import UsageError
from lastsay.events import Event, Fault, RunEnded
from lastsay.operators._fused import Operator, through
from lastsay.operators._stage import Handlers, Stage, every

__all__ = ("dedupe", "in_order")

_AHEAD: Final = 65_536
"""Sequence numbers above a gap that `dedupe` remembers for each run, before it gives the gap up."""


def dedupe() -> Operator:
    """Drops every event whose sequence number its run has had already (a reconnect that replays, a relay that repeats).

    Memory is constant for numbers without gaps.
    """
    return through(_Dedupe)


class _Had:
    """The numbers a run has had: all from the first up to `low`, and those in `ahead`."""

    __slots__ = ("ahead", "first", "low")

    def __init__(self, seq: int) -> None:
        self.first = seq
        self.low = seq
        self.ahead: set[int] = set()

    def add(self, seq: int) -> bool:
        """Whether the number is new."""
        if seq == self.low + 1:
            self.low = seq
            while self.low + 1 in self.ahead:
                self.low += 1
                self.ahead.discard(self.low)
            return True
        if self.first <= seq <= self.low or seq in self.ahead:
            return False
        self.ahead.add(seq)
        if len(self.ahead) > _AHEAD:
            self.low = max(self.low, min(self.ahead))
            self.ahead.discard(self.low)
        return True


class _Dedupe(Stage):
    kind = "filter"

    def __init__(self) -> None:
        self._had: dict[str, _Had] = {}

    def handlers(self) -> Handlers:
        return every(self._one)

    def _one(self, event: Event) -> bool:
        seq = event.seq
        if seq is None:
            return True
        had = self._had.get(event.run)
        if had is None:
            self._had[event.run] = _Had(seq)
            return True
        return had.add(seq)


def in_order(*, first: int | None = None, hold: int = 256) -> Operator:
    """Puts the events of every run into the order of their sequence numbers.

    An event that is early waits for the missing ones. When `hold` events of a run wait, or the run or the source ends,
    the missing ones are given up: a `Fault` of kind ``sequence_gap`` names them, and the stream goes on behind the gap.
    One that comes when it was given up passes behind a `Fault` of kind ``out_of_order``.

    Args:
        first: the number that every run starts with; that of its first event if None.
        hold: how many events of one run may wait.
    """
    if hold < 1:
        raise UsageError(f"in_order(hold={hold}): at least 1 event")
    return through(lambda: _InOrder(first, hold))


class _Line:
    """One run's queue: the number that is due, and the early ones by number."""

    __slots__ = ("due", "early", "ordinal")

    def __init__(self, due: int) -> None:
        self.due = due
        self.early: list[tuple[int, int, Event]] = []
        self.ordinal = 0


class _InOrder(Stage):
    kind = "flat"

    def __init__(self, first: int | None, hold: int) -> None:
        self._first = first
        self._hold = hold
        self._lines: dict[str, _Line] = {}

    def handlers(self) -> Handlers:
        return every(self._one)

    def _one(self, event: Event) -> Sequence[Event]:
        seq, line = event.seq, self._lines.get(event.run)
        if seq is None:
            ends = type(event) is RunEnded and line is not None
            return [*self._give_up(line), event] if ends and line is not None else (event,)
        if line is None:
            line = self._lines[event.run] = _Line(seq if self._first is None else self._first)
        if seq == line.due:
            line.due += 1
            return [event, *self._ready(line)] if line.early else (event,)
        if seq < line.due:
            late = f"number {seq} came when {line.due} was due"
            return Fault("out_of_order", late, run=event.run, seq=seq), event
        line.ordinal += 1
        heapq.heappush(line.early, (seq, line.ordinal, event))
        return self._skip(line) if len(line.early) >= self._hold else ()

    def _ready(self, line: _Line) -> list[Event]:
        """The early events that are due now."""
        ready = []
        while line.early and line.early[0][0] <= line.due:
            seq, _, event = heapq.heappop(line.early)
            line.due = max(line.due, seq + 1)
            ready.append(event)
        return ready

    def _skip(self, line: _Line) -> list[Event]:
        """Give up the numbers up to the first early event."""
        seq, _, event = line.early[0]
        missing = f"number {line.due}" if seq == line.due + 1 else f"numbers {line.due} to {seq - 1}"
        line.due = seq
        return [Fault("sequence_gap", f"{missing} never came", run=event.run), *self._ready(line)]

    def _give_up(self, line: _Line) -> list[Event]:
        out = []
        while line.early:
            out += self._skip(line)
        return out

    def flush(self) -> Sequence[Event]:
        return [event for line in self._lines.values() for event in self._give_up(line)]
