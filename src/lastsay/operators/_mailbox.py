"""The mailbox: how one task hands events to another.

A list and one wake-up. The writer never waits unless the box is full; the reader takes everything that is there at
once. Handing over 64 events this way costs what handing over one costs, which is why no operator uses a memory stream
(10 to 80 microseconds an event, measured). One writer, one reader.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Final

import anyio

from lastsay.events import Event

__all__ = ("ROOM", "Mailbox", "Signal")

ROOM: Final = 1024
"""Events that may wait in a mailbox before its writer has to."""


class Signal:
    """Lets one task sleep until another one wakes it."""

    __slots__ = ("_event", "_future")

    def __init__(self) -> None:
        self._future: asyncio.Future[None] | None = None
        self._event: anyio.Event | None = None

    def wake(self) -> None:
        """Wake the sleeper, if there is one."""
        future = self._future
        if future is not None:
            self._future = None
            if not future.done():
                future.set_result(None)
        elif self._event is not None:
            self._event.set()
            self._event = None

    async def wait(self) -> None:
        """Sleep until the next `wake`. Cancellation is safe."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._event = event = anyio.Event()
            await event.wait()
            return
        # A bare future costs a fifth of an anyio.Event on asyncio.
        self._future = future = loop.create_future()
        await future


class Mailbox:
    """Lists of events on their way from one task to another.

    Args:
        room: events that may wait before `put` does.
        filled: what to wake when something was put in or the box was closed, if one reader has several boxes.
    """

    __slots__ = ("_batches", "_closed", "_error", "_filled", "_freed", "room", "waiting")

    def __init__(self, room: int = ROOM, filled: Signal | None = None) -> None:
        self.room: int = room
        self.waiting: int = 0
        self._batches: deque[list[Event]] = deque()
        self._filled = filled or Signal()
        self._freed = Signal()
        self._closed = False
        self._error: BaseException | None = None

    @property
    def closed(self) -> bool:
        """Whether the writer or the reader has finished."""
        return self._closed

    def put_nowait(self, events: list[Event]) -> None:
        """Put events in, however full the box is. Nothing happens once it is closed."""
        if events and not self._closed:
            self._batches.append(events)
            self.waiting += len(events)
            self._filled.wake()

    async def put(self, events: list[Event]) -> None:
        """Put events in, and wait until the box has room again."""
        self.put_nowait(events)
        if self.waiting >= self.room:
            await self.wait_for_room()

    async def wait_for_room(self) -> None:
        """Wait until less than `room` events wait, or the box is closed."""
        while self.waiting >= self.room and not self._closed:
            await self._freed.wait()

    @property
    def error(self) -> BaseException | None:
        """What the writer closed with."""
        return self._error

    def close(self, error: BaseException | None = None) -> None:
        """No more will come. The reader gets what is waiting, and then `error`, if there is one."""
        if not self._closed:
            self._closed = True
            self._error = error
            self._filled.wake()
            self._freed.wake()

    def drop(self) -> None:
        """The reader has gone: nothing is kept any more, and the writer never waits again."""
        self._closed = True
        self._batches.clear()
        self.waiting = 0
        self._freed.wake()

    async def take(self) -> list[Event]:
        """Everything that is waiting, at least one event; an empty list at the end.

        Raises:
            BaseException: what the writer closed with, after the last event was taken.
        """
        while not self._batches:
            if self._closed:
                if self._error is not None:
                    raise self._error
                return []
            await self._filled.wait()
        return self.take_nowait()

    async def lists(self) -> AsyncGenerator[list[Event], None]:
        """Everything that comes, in lists, to the end; raises what the writer closed with."""
        while True:
            while not self._batches:
                if self._closed:
                    if self._error is not None:
                        raise self._error
                    return
                await self._filled.wait()
            yield self.take_nowait()

    def take_nowait(self, most: int | None = None) -> list[Event]:
        """Everything that is waiting, or about `most` events of it; an empty list if nothing is."""
        batches = self._batches
        if len(batches) == 1 and (most is None or len(batches[0]) <= most):
            taken = batches.popleft()
        else:
            taken = []
            while batches and (most is None or len(taken) < most):
                taken += batches.popleft()
        if most is not None and len(taken) > most:
            batches.appendleft(taken[most:])
            taken = taken[:most]
        self.waiting -= len(taken)
        if self.waiting < self.room:
            self._freed.wake()
        return taken
