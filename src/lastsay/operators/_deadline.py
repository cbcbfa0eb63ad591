"""deadline: stop a stream that takes too long.

Three clocks, each with its own word: until the first event, between two events, and in total. When one runs out, what
was received has already been passed on; every open run gets its end record with that word, and the source is closed.
"""

from collections.abc import AsyncGenerator, AsyncIterable
from math import inf
from typing import Final

import anyio

from lastsay.errors import UsageError
from lastsay.events import Event
from lastsay.operators._fused import Operator
from lastsay.operators._mailbox import Mailbox
from lastsay.operators._own_task import pumped
from lastsay.operators._runs import OpenRuns
from lastsay.operators._stream import Stream

__all__ = ("deadline",)

_TOTAL: Final = "deadline_total"


def deadline(*, first: float | None = None, idle: float | None = None, total: float | None = None) -> Operator:
    """Ends the stream when it takes too long; everything received until then is kept.

    The runs still open end with the stop reason ``deadline-first``, ``deadline-idle`` or ``deadline-total`` (raw: the
    same in snake case), which every consumer treats as a failure with partial output. The source has a task of its own,
    so time that the reader takes for itself is not counted as the source being idle.

    Args:
        first: seconds until the first event.
        idle: seconds between two events.
        total: seconds from entering to the end.

    Cancellation wins over a deadline that runs out at the same time.
    """
    for name, seconds in (("first", first), ("idle", idle), ("total", total)):
        if seconds is not None and seconds <= 0:
            raise UsageError(f"deadline({name}={seconds}): more than 0 seconds")
    if first is None and idle is None and total is None:
        raise UsageError("deadline() needs a limit: first, idle, total")
    limits = _Limits(first, idle, total)

    def operator(source: Stream | AsyncIterable[Event]) -> Stream:
        return pumped(source, lambda mailbox: _read(mailbox, limits))

    return operator


class _Limits:
    """The three clocks. Pure: time is an argument."""

    __slots__ = ("first", "idle", "total")

    def __init__(self, first: float | None, idle: float | None, total: float | None) -> None:
        self.first = first
        self.idle = idle
        self.total = total

    @property
    def total_sentence(self) -> str:
        """What a total that ran out is for people."""
        return f"stopped: not finished after {self.total or 0:g} seconds"

    def next(self, began: float, last: float | None) -> tuple[float, str, str]:
        """The moment that comes first, the word for it, and the sentence for people.

        Args:
            began: when the stream was entered.
            last: when the last event came, or None before the first.
        """
        moments = []
        if self.total is not None:
            moments.append(
                (began + self.total, "deadline_total", f"stopped: not finished after {self.total:g} seconds")
            )
        if last is None and self.first is not None:
            text = f"stopped: no event within {self.first:g} seconds"
            moments.append((began + self.first, "deadline_first", text))
        elif last is not None and self.idle is not None:
            moments.append((last + self.idle, "deadline_idle", f"stopped: no event for {self.idle:g} seconds"))
        return min(moments, default=(inf, "", ""))


async def _read(mailbox: Mailbox, limits: _Limits) -> AsyncGenerator[list[Event], None]:
    runs = OpenRuns()
    began = anyio.current_time()
    last: float | None = None
    late = inf if limits.total is None else began + limits.total
    while True:
        batch: list[Event] | None = mailbox.take_nowait()
        moment, word, sentence = limits.next(began, last)
        if not batch:
            batch = None
            with anyio.move_on_at(moment):
                batch = await mailbox.take()
            # What came in the very moment in which the time ran out has come in time.
            batch = mailbox.take_nowait() if batch is None else batch or None
            if batch is None:
                return
        if batch:
            runs.see_batch(batch)
            yield batch
            last = anyio.current_time()
            if last < late or mailbox.closed:
                continue
            word, sentence = _TOTAL, limits.total_sentence
        mailbox.drop()
        ends = runs.end(word, sentence)
        if ends:
            yield ends
        return
