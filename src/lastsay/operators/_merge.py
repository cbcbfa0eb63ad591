"""merge: several sources as one stream.

Every source has a task of its own. The reader takes turns: at most `turn` events of one source before the next one that
has any, so a source that never pauses cannot shut out the others. A source that fails takes only itself: a `Fault` says
what happened, its open runs end as errors, and the others go on.
"""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any

import msgspec

from lastsay.errors import UsageError
from lastsay.events import ERROR, MAIN, Event, Fault, RunStarted
from lastsay.operators._mailbox import ROOM, Mailbox, Signal
from lastsay.operators._own_task import Pump
from lastsay.operators._runs import OpenRuns
from lastsay.operators._stream import Stream, as_stream

__all__ = ("merge",)


def merge(
    *sources: Stream | AsyncIterable[Event],
    labelled: Mapping[str, Stream | AsyncIterable[Event]] | None = None,
    turn: int = 256,
    room: int = ROOM,
) -> Stream:
    """The events of all sources, each source's in order, fairly mixed.

    Args:
        sources: streams whose run ids differ already; they pass unchanged.
        labelled: streams by label. Their main run becomes the label, and any other run ``label/run``, so that sources
            that know nothing of each other do not collide.
        turn: events of one source before the next one gets its turn.
        room: events of one source that may be read ahead.

    Entering opens all sources. One that cannot be opened counts as failed; if none can, the first one's error is
    raised.
    """
    if turn < 1:
        raise UsageError(f"merge(turn={turn}): at least 1 event")
    given = [("", as_stream(source)) for source in sources]
    given += [(label, as_stream(source)) for label, source in (labelled or {}).items()]
    if "" in (labelled or {}):
        raise UsageError("merge(labelled=...): a label is not empty")
    return Stream(lambda: _Merged(given, turn, room))


class _Source:
    """One source on its way: its task, its mailbox, its label, its open runs."""

    __slots__ = ("_label", "_names", "mailbox", "pump", "runs")

    def __init__(self, label: str, stream: Stream, room: int, signal: Signal) -> None:
        self.mailbox = Mailbox(room, signal)
        self.pump = Pump(stream, self.mailbox.put, self.mailbox.close)
        self.runs = OpenRuns()
        self._label = label
        self._names = {MAIN: label or MAIN}

    def take(self, most: int) -> list[Event]:
        """What waits, under its label."""
        batch = self.mailbox.take_nowait(most)
        if batch:
            if self._label:
                batch = [self._renamed(event) for event in batch]
            self.runs.see_batch(batch)
        return batch

    def failure(self) -> list[Event]:
        """What a source that failed leaves behind; nothing if it did not."""
        error = self.mailbox.error
        if error is None:
            return []
        said = f"the source failed: {type(error).__name__}: {error}"
        if self.runs.untouched and self._label:
            self.runs.see(RunStarted(run=self._label))
        fault = Fault("source_failed", said, run=self._label or MAIN)
        return [fault, *self.runs.end("source_failed", said, ERROR)]

    def _name(self, run: str) -> str:
        name = self._names.get(run)
        if name is None:
            name = self._names[run] = f"{self._label}/{run}"
        return name

    def _renamed(self, event: Event) -> Event:
        changes: dict[str, Any] = {"run": self._name(event.run)}
        if type(event) is RunStarted and event.parent is not None:
            changes["parent"] = self._name(event.parent)
        return msgspec.structs.replace(event, **changes)


class _Merged(AbstractAsyncContextManager[AsyncIterator[list[Event]]]):
    __slots__ = ("_generator", "_signal", "_sources", "_turn")

    def __init__(self, given: Sequence[tuple[str, Stream]], turn: int, room: int) -> None:
        self._turn = turn
        self._signal = Signal()
        self._sources = [_Source(label, stream, room, self._signal) for label, stream in given]
        self._generator: AsyncGenerator[list[Event], None] | None = None

    async def __aenter__(self) -> AsyncIterator[list[Event]]:
        try:
            await self._open()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        self._generator = self._read()
        return self._generator

    async def _open(self) -> None:
        failures: list[Exception] = []
        for source in self._sources:
            await source.pump.begin()
        for source in self._sources:
            try:
                await source.pump.opened()
            except Exception as error:  # noqa: BLE001  # told as a Fault, or raised below if all failed
                failures.append(error)
        if failures and len(failures) == len(self._sources):
            raise failures[0]

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        failure: BaseException | None = None
        for source in self._sources:
            source.mailbox.drop()
            source.pump.interrupt()
        if self._generator is not None:
            await self._generator.aclose()
        for source in reversed(self._sources):
            try:
                await source.pump.stop()
            except BaseException as raised:  # noqa: BLE001  # the other sources must be closed too; raised below
                failure = failure or raised
        if failure is not None:
            raise failure

    async def _read(self) -> AsyncGenerator[list[Event], None]:
        live = list(self._sources)
        while live:
            idle = True
            for source in tuple(live):
                batch = source.take(self._turn)
                if not batch and source.mailbox.closed:
                    live.remove(source)
                    batch = source.failure()
                if batch:
                    idle = False
                    yield batch
            if idle and live:
                await self._signal.wait()
