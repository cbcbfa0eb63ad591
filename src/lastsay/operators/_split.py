"""split_runs: one stream per run out of an interleaved one.

One task reads the source. A run's stream begins with the first event of the run and ends with its `RunEnded`; a run
that goes on after that (a new `RunStarted` or `EpochStarted`) comes as another stream, so every epoch has its own.
What trickles in after an end belongs to no stream and is dropped.
"""

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType

from lastsay.events import EpochStarted, Event, RunEnded, RunStarted
from lastsay.operators._lane import Lane, LaneEntry, WhenFull
from lastsay.operators._mailbox import ROOM, Signal
from lastsay.operators._own_task import Pump
from lastsay.operators._stream import Stream, as_stream

__all__ = ("RunStream", "SplitRuns", "split_runs")


def split_runs(
    *, policy: WhenFull = "block", room: int = ROOM
) -> Callable[[Stream | AsyncIterable[Event]], "SplitRuns"]:
    """Gives every run of a stream a stream of its own.

        async with stream | split_runs() as runs:
            async for run in runs:
                group.start_soon(follow, run)      # run.run, run.parent; async with run as events: ...

    Args:
        policy: what happens when a run is read slowly or not at all. With ``block`` the source waits for it, so every
            run must be read, or skipped with `RunStream.skip`.
        room: events of one run that may wait.
    """
    return lambda source: SplitRuns(as_stream(source), policy, room)


class RunStream(Stream):
    """The events of one run. It can be entered once.

    Attributes:
        run: the run's id.
        parent: its parent's id, where the run said so when it started.
    """

    __slots__ = ("_lane", "parent", "run")

    def __init__(self, lane: Lane, first: Event) -> None:
        super().__init__(lambda: LaneEntry(lane))
        self._lane = lane
        self.run: str = first.run
        self.parent: str | None = first.parent if type(first) is RunStarted else None

    def skip(self) -> None:
        """Do without this run's events: it holds up nobody any more."""
        self._lane.mailbox.drop()


class SplitRuns(AbstractAsyncContextManager[AsyncIterator[RunStream]]):
    """The runs of a source, in the order in which they begin. Entering opens the source, leaving closes it.

    Raises:
        BaseException: entering raises what entering the source raises. What the source raises later is raised by the
            iteration and in the streams of all open runs.
    """

    __slots__ = (
        "_ended",
        "_error",
        "_finished",
        "_generator",
        "_lanes",
        "_new",
        "_policy",
        "_pump",
        "_room",
        "_signal",
    )

    def __init__(self, source: Stream, policy: WhenFull, room: int) -> None:
        Lane("", policy, room)
        self._policy: WhenFull = policy
        self._room = room
        self._lanes: dict[str, Lane] = {}
        self._ended: set[str] = set()
        self._new: deque[RunStream] = deque()
        self._signal = Signal()
        self._finished = False
        self._error: BaseException | None = None
        self._pump = Pump(source, self._deliver, self._finish)
        self._generator: AsyncGenerator[RunStream, None] | None = None

    async def __aenter__(self) -> AsyncIterator[RunStream]:
        await self._pump.start()
        self._generator = self._runs()
        return self._generator

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._generator is not None:
                await self._generator.aclose()
        finally:
            await self._pump.stop()

    async def _runs(self) -> AsyncGenerator[RunStream, None]:
        while True:
            while self._new:
                yield self._new.popleft()
            if self._finished:
                break
            await self._signal.wait()
        if self._error is not None:
            raise self._error

    async def _deliver(self, batch: list[Event]) -> None:
        touched = []
        parts: dict[str, list[Event]] = {}
        for event in batch:
            part = parts.get(event.run)
            if part is None:
                part = parts[event.run] = []
            part.append(event)
            if type(event) is RunEnded:
                touched.append(self._give(parts.pop(event.run)))
        touched += [self._give(part) for part in parts.values()]
        for lane in touched:
            if lane is not None:
                await lane.mailbox.wait_for_room()

    def _give(self, part: list[Event]) -> Lane | None:
        """Hand a part of one run to its lane; only its last event may be an end."""
        run = part[0].run
        lane = self._lanes.get(run)
        if lane is None:
            lane, part = self._open(run, part)
            if lane is None:
                return None
        full = lane.offer(part)
        if type(part[-1]) is RunEnded:
            del self._lanes[run]
            self._ended.add(run)
            lane.finish(None)
        return lane if full else None

    def _open(self, run: str, part: list[Event]) -> tuple[Lane | None, list[Event]]:
        if run in self._ended:
            starts = (i for i, event in enumerate(part) if type(event) in (RunStarted, EpochStarted))
            first = next(starts, None)
            if first is None:
                return None, []
            part = part[first:]
            self._ended.discard(run)
        lane = self._lanes[run] = Lane(run, self._policy, self._room)
        self._new.append(RunStream(lane, part[0]))
        self._signal.wake()
        return lane, part

    def _finish(self, error: BaseException | None) -> None:
        self._finished, self._error = True, error
        for lane in self._lanes.values():
            lane.finish(error)
        self._signal.wake()
