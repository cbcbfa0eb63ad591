"""own_task: one task owns a source for its whole life.

Sources may hold cancel scopes and task groups around their yields; asyncio and trio allow that only as long as every
step runs in the same task. Operators that need a second task (a time limit, a merge, a broadcast) therefore never
step the source themselves: one task enters it, reads it to its end and leaves it, and puts what it reads into a
mailbox.
Context variables that the source sets survive between its steps for the same reason
(https://github.com/python-trio/trio/issues/264, https://github.com/anthropics/claude-agent-sdk-python/issues/454).

On asyncio the task is a plain one, not a member of a task group: so the reader's side holds no scope of its own, and
may be driven from several tasks in turn, as aiostream does. On trio it lives in a nursery.

A source that waits when its reader leaves has to be cancelled. A bare ``task.cancel()`` would also hit a source that is
cleaning up behind a shield; a cancelled scope would cancel every await of a cleanup that has no shield. So the scope is
cancelled, which respects shields, and what has been delivered once is not delivered again.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Final

import anyio
import anyio.abc

from lastsay.errors import SourceError
from lastsay.events import Event
from lastsay.operators._fused import Operator
from lastsay.operators._mailbox import ROOM, Mailbox, Signal
from lastsay.operators._stream import CLOSE_LIMIT, Stream, as_stream, without

__all__ = ("Pump", "own_task", "pumped")

_TURNS: Final = 100
"""Turns of the loop that are all looked at for the cancellation: it arrives within two, if no shield holds it."""
_PAUSE: Final = 0.005
"""Seconds between looks after that."""


def own_task(*, room: int = ROOM) -> Operator:
    """Gives the source a task of its own; what the source has ready comes as one list.

    Errors of the source arrive as they are: an exception group of one is unwrapped. Costs one wake-up per list.

    Args:
        room: events that may be read ahead before the source has to wait.
    """

    def operator(source: Stream | AsyncIterable[Event]) -> Stream:
        return pumped(source, Mailbox.lists, room=room)

    return operator


def pumped(
    source: Stream | AsyncIterable[Event],
    read: Callable[[Mailbox], AsyncGenerator[list[Event], None]],
    *,
    room: int = ROOM,
) -> Stream:
    """The stream of what `read` makes of a mailbox that a task of its own fills from the source."""
    stream = as_stream(source)
    return Stream(lambda: _Pumped(stream, read, room))


class _Pumped(AbstractAsyncContextManager[AsyncIterator[list[Event]]]):
    __slots__ = ("_generator", "_mailbox", "_pump", "_read")

    def __init__(self, stream: Stream, read: Callable[[Mailbox], AsyncGenerator[list[Event], None]], room: int) -> None:
        self._read = read
        self._mailbox = Mailbox(room)
        self._pump = Pump(stream, self._mailbox.put, self._mailbox.close)
        self._generator: AsyncGenerator[list[Event], None] | None = None

    async def __aenter__(self) -> AsyncIterator[list[Event]]:
        await self._pump.start()
        self._generator = self._read(self._mailbox)
        return self._generator

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._mailbox.drop()
        try:
            if self._generator is not None:
                await self._generator.aclose()
        finally:
            await self._pump.stop()


class Pump:
    """The task that owns a source.

    Args:
        stream: what it enters, reads and leaves.
        deliver: called with every list. If it gives something to await, the source is not read further until then.
        finish: called once, after the source was left: with the error that ended it, or None.
    """

    __slots__ = (
        "_deliver",
        "_error",
        "_finish",
        "_group",
        "_interrupted",
        "_peace",
        "_reading",
        "_refused",
        "_requests",
        "_scope",
        "_signal",
        "_started",
        "_stopping",
        "_stream",
        "_task",
    )

    def __init__(
        self,
        stream: Stream,
        deliver: Callable[[list[Event]], Awaitable[None] | None],
        finish: Callable[[BaseException | None], None],
    ) -> None:
        self._stream = stream
        self._deliver = deliver
        self._finish = finish
        self._signal = Signal()
        self._scope = anyio.CancelScope()
        self._peace = anyio.CancelScope()
        self._requests = 0
        self._started = self._reading = self._stopping = self._interrupted = self._refused = False
        self._error: BaseException | None = None
        self._task: asyncio.Task[Any] | None = None
        self._group: anyio.abc.TaskGroup | None = None

    async def start(self) -> None:
        """Start the task, and return when the source is open.

        Raises:
            BaseException: what entering the source raised.
        """
        await self.begin()
        try:
            await self.opened()
        except BaseException:
            await self.stop()
            raise

    async def begin(self) -> None:
        """Start the task, and return at once. `stop` must follow, in any case."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._group = await anyio.create_task_group().__aenter__()
            self._group.start_soon(self._run)
        else:
            self._task = loop.create_task(self._run())

    async def opened(self) -> None:
        """Return when the source is open.

        Raises:
            BaseException: what entering the source raised.
        """
        while not self._started:
            await self._signal.wait()
        if self._refused and self._error is not None:
            raise self._error

    def interrupt(self) -> None:
        """Ask the task to stop, without waiting for it."""
        if self._stopping:
            return
        self._stopping = True
        self._interrupted = not self._started or self._reading
        if not self._interrupted:
            return
        self._requests = self._task.cancelling() if self._task is not None else 0
        self._scope.cancel()
        self._ease()

    def _ease(self) -> None:
        """Let the cleanup of the source await in peace, once the cancellation has reached it (trio: by its shields)."""
        if self._task is not None and self._task.cancelling() > self._requests:
            self._peace.shield = True

    async def stop(self) -> None:
        """Stop reading, and return when the source is closed.

        Raises:
            BaseException: what closing the source raised, if it was still being read.
        """
        self.interrupt()
        if self._group is not None:
            group, self._group = self._group, None
            # A scope of our own would stand inside the nursery that is left here; the nursery's own does not.
            group.cancel_scope.shield = True
            await group.__aexit__(None, None, None)
        elif self._task is not None and not self._task.done():
            # The source's own entry bounds its closing; this bound is for a source that swallows cancellation.
            with anyio.CancelScope(shield=True):
                turns = 0
                while self._interrupted and not self._peace.shield and not self._task.done():
                    await asyncio.sleep(0 if turns < _TURNS else _PAUSE)
                    self._ease()
                    turns += 1
                await asyncio.wait((self._task,), timeout=2 * CLOSE_LIMIT)
        if self._interrupted and self._error is not None:
            error, self._error = self._error, None
            raise error

    async def _run(self) -> None:
        cancelled = anyio.get_cancelled_exc_class()
        error: BaseException | None = None
        try:
            with self._scope, self._peace:
                await self._read()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as raised:  # noqa: BLE001  # the reader gets it, from `finish` or from `stop`
            error = without(raised, cancelled, GeneratorExit)
            if error is None and not self._stopping:
                error = SourceError("the source was cancelled from outside")
        finally:
            self._error = error
            self._refused = not self._started and error is not None
            self._started, self._reading = True, False
            self._finish(error)
            self._signal.wake()

    async def _read(self) -> None:
        async with self._stream.batches() as batches:
            self._started = self._reading = True
            self._signal.wake()
            try:
                async for batch in batches:
                    full = self._deliver(batch)
                    if full is not None:
                        await full
                    if self._stopping:
                        break
            finally:
                self._reading = self._stopping
