"""broadcast: one reader, any number of consumers at their own pace.

One task reads the source once. Every consumer has a lane, with a policy of its own for the case that it is slow.
Reading begins when the first consumer begins, so all who have subscribed before that see everything; later ones see
what comes from then on. A consumer that leaves is no burden any more; when nobody is left, the source waits.
"""

from collections.abc import AsyncIterable, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self

from lastsay.errors import UsageError
from lastsay.events import Event
from lastsay.operators._lane import Lane, LaneEntry, LaneStatistics, WhenFull
from lastsay.operators._mailbox import ROOM, Signal
from lastsay.operators._own_task import Pump
from lastsay.operators._stream import Opened, Stream, as_stream

__all__ = ("Broadcast", "broadcast")


def broadcast() -> Callable[[Stream | AsyncIterable[Event]], "Broadcast"]:
    """Shares one source among consumers.

    async with stream | broadcast() as shared:
        shown = shared.subscribe("display", policy="drop_deltas")
        kept = shared.subscribe("archive")
        async with anyio.create_task_group() as group: ...
    """
    return lambda source: Broadcast(as_stream(source))


class Broadcast(AbstractAsyncContextManager["Broadcast"]):
    """A source that is being shared. Entering opens it, leaving closes it.

    Raises:
        BaseException: entering raises what entering the source raises. What the source raises later is raised in every
            consumer, after the events before it.
    """

    __slots__ = ("_begun", "_error", "_finished", "_lanes", "_pump", "_signal", "_source")

    def __init__(self, source: Stream) -> None:
        self._source = source
        self._lanes: list[Lane] = []
        self._signal = Signal()
        self._begun = self._finished = False
        self._error: BaseException | None = None
        self._pump: Pump | None = None

    async def __aenter__(self) -> Self:
        if self._pump is not None:
            raise UsageError("a broadcast is entered once; make another from the stream")
        self._pump = Pump(self._source, self._deliver, self._finish)
        await self._pump.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._pump is not None
        await self._pump.stop()

    def subscribe(self, name: str, *, policy: WhenFull = "block", room: int = ROOM) -> Stream:
        """A consumer's stream; it can be entered once. Its lane counts from now on, entered or not.

        Args:
            name: for the statistics.
            policy: what happens when it is slow: ``block`` makes the source wait, ``drop_deltas`` drops deltas,
                ``disconnect`` sends end records only from then on. End records are never dropped.
            room: events that may wait for it.
        """
        lane = Lane(name, policy, room)
        if self._finished:
            lane.finish(self._error)
        self._lanes.append(lane)
        self._signal.wake()
        entries = iter((lane,))

        def opener() -> Opened[list[Event]]:
            mine = next(entries, None)
            if mine is None:
                raise UsageError(f"the subscription {name!r} was entered before; subscribe again")
            self._begun = True
            self._signal.wake()
            return LaneEntry(mine)

        return Stream(opener)

    def statistics(self) -> tuple[LaneStatistics, ...]:
        """What became of every consumer's events so far, in the order of subscription."""
        return tuple(lane.statistics() for lane in self._lanes)

    def _deliver(self, batch: list[Event]) -> Awaitable[None] | None:
        if not self._begun or (self._lanes[0].mailbox.closed and not self._heard()):
            return self._deliver_later(batch)
        full = [lane for lane in self._lanes if lane.offer(batch)]
        return self._wait_for(full) if full else None

    async def _deliver_later(self, batch: list[Event]) -> None:
        while not self._begun or not self._heard():
            await self._signal.wait()
        await self._wait_for([lane for lane in self._lanes if lane.offer(batch)])

    async def _wait_for(self, full: list[Lane]) -> None:
        for lane in full:
            await lane.mailbox.wait_for_room()

    def _heard(self) -> bool:
        """Whether anyone listens."""
        return any(not lane.mailbox.closed for lane in self._lanes)

    def _finish(self, error: BaseException | None) -> None:
        self._finished, self._error = True, error
        for lane in self._lanes:
            lane.finish(error)
