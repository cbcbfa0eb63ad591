"""The mailbox: how one task hands events to another.

A list and one wake-up. The writer never waits unless the box is full; the reader takes everything that is there at
once. Handing over 64 events this way costs what handing over one costs, which is why no operator uses a memory stream
(10 to 80 microseconds an event, measured). One writer, one reader.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable
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

    def wait(self) -> Awaitable[None]:
        """To be awaited at once: sleeps until the next `wake`. Cancellation is safe."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._event = event = anyio.Event()
            return event.wait()
        # A bare future costs a fifth of an anyio.Event on asyncio.
        future: asyncio.Future[None] = asyncio.Future(loop=loop)
        self._future = future
        return future


class Mailbox:
    """Lists of events on their way from one task to another.

    Args:
        room: events that may wait before `put` does.
        filled: what to wake when something was put in or the box was closed, if one reader has several boxes.
    """

    __slots__ = ("_batches", "_error", "_filled", "_freed", "closed", "room", "waiting")

    def __init__(self, room: int = ROOM, filled: Signal | None = None) -> None:
        self.room: int = room
        self.waiting: int = 0
        self._batches: deque[list[Event]] = deque()
        self._filled = filled or Signal()
        self._freed = Signal()
        self.closed: bool = False
        """Whether the writer or the reader has finished."""
        self._error: BaseException | None = None

    def put_nowait(self, events: list[Event]) -> bool:
        """Put events in, however full the box is; whether it is full now. Nothing happens once it is closed."""
        if self.closed:
            return False
        if events:
            self._batches.append(events)
            self.waiting += len(events)
            self._filled.wake()
        return self.waiting >= self.room

    def put(self, events: list[Event]) -> Awaitable[None] | None:
        """Put events in. If it gives something to await, the box is full, and has room again afterwards."""
        return self.wait_for_room() if self.put_nowait(events) else None

    async def wait_for_room(self) -> None:
        """Wait until less than `room` events wait, or the box is closed."""
        while self.waiting >= self.room and not self.closed:
            await self._freed.wait()

    @property
    def error(self) -> BaseException | None:
        """What the writer closed with."""
        return self._error

    def close(self, error: BaseException | None = None) -> None:
        """No more will come. The reader gets what is waiting, and then `error`, if there is one."""
        if not self.closed:
            self.closed = True
            self._error = error
            self._filled.wake()
            self._freed.wake()

    def drop(self) -> None:
        """The reader has gone: nothing is kept any more, and the writer never waits again."""
        self.closed = True
        self._batches.clear()
        self.waiting = 0
        self._freed.wake()

    async def take(self) -> list[Event]:
        """Everything that is waiting, at least one event; an empty list at the end.

        Raises:
            BaseException: what the writer closed with, after the last event was taken.
        """
        while not self._batches:
            if self.closed:
                if self._error is not None:
                    raise self._error
                return []
            await self._filled.wait()
        return self.take_nowait()

    async def lists(self) -> AsyncGenerator[list[Event], None]:
        """Everything that comes, in lists, to the end; raises what the writer closed with."""
        batches = self._batches
        while True:
            while not batches:
                if self.closed:
                    if self._error is not None:
                        raise self._error
                    return
                await self._filled.wait()
            if len(batches) == 1 and self.waiting < self.room:  # as a rule: the short way of `take_nowait`
                self.waiting = 0
                yield batches.popleft()
            else:
                yield self.take_nowait()

    def take_nowait(self, most: int | None = None) -> list[Event]:
        """Everything that is waiting, or about `most` events of it; an empty list if nothing is."""
        batches, waiting = self._batches, self.waiting
        if len(batches) == 1 and (most is None or waiting <= most):
            taken = batches.popleft()
            self.waiting = 0
        else:
            taken = []
            while batches and (most is None or len(taken) < most):
                taken += batches.popleft()
            if most is not None and len(taken) > most:
                batches.appendleft(taken[most:])
                taken = taken[:most]
            self.waiting = waiting - len(taken)
        if waiting >= self.room > self.waiting:
            self._freed.wake()
        return taken
