"""A loop that pushes: in a task of its own, from callbacks, from threads."""

import asyncio
import importlib
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Final

import anyio
import anyio.abc

from lastsay.backends.in_process._plain import Item, PlainNormaliser
from lastsay.errors import UsageError
from lastsay.events import MAIN, Event, Message, RunEnded, Text, known_stop_reason
from lastsay.operators import Stream

__all__ = ("Handle", "pushed")

_ROOM: Final = 1024
"""Events that wait in a handle before `Handle.send` waits too."""


def _call_soon() -> Callable[..., Any]:
    """What calls a function in the running event loop, from any thread and in order."""
    try:
        return asyncio.get_running_loop().call_soon_threadsafe
    except RuntimeError:
        soon: Callable[..., Any] = importlib.import_module("trio").lowlevel.current_trio_token().run_sync_soon
        return soon


class Handle:
    """What a loop pushes into.

    `push` may be called from anywhere: from a callback in the event loop, or from another thread.
    """

    __slots__ = ("_changed", "_done", "_items", "_plain", "_room", "_soon", "_thread")

    def __init__(self, plain: PlainNormaliser) -> None:
        self._plain = plain
        self._items: list[Event] = []
        self._done = False
        self._changed = anyio.Event()
        self._room = anyio.Event()
        self._thread = threading.get_ident()
        self._soon = _call_soon()

    def push(self, item: Item) -> None:
        """Hand over an event, a text or a plain dict; see the module. Never waits, never raises."""
        if threading.get_ident() == self._thread:
            self._put(self._plain.push(item))
        else:
            self._soon(self.push, item)

    async def send(self, item: Item) -> None:
        """As `push`, and then wait until the reader has caught up: for loops that produce faster than is read."""
        self.push(item)
        while len(self._items) >= _ROOM and not self._done:
            await self._room.wait()

    def end(self, stop_reason: str, *, diagnostic: str | None = None, structured: Any = None) -> None:
        """End the run, or its epoch, with a stop reason of your own.

        Args:
            stop_reason: one of the known words, or your own: then it is a failure for every consumer.
            diagnostic: about the failure, for people; never assistant text.
            structured: the declared structured result, or None.
        """
        mapped = known_stop_reason(stop_reason)
        self.push(RunEnded(mapped, diagnostic=diagnostic, structured=structured, raw=stop_reason))

    def begin_epoch(self) -> None:
        """Go on after an end: what follows is judged on its own."""
        if threading.get_ident() == self._thread:
            self._put(self._plain.begin_epoch())
        else:
            self._soon(self.begin_epoch)

    def _put(self, events: list[Event]) -> None:
        if events and not self._done:
            self._items += events
            self._changed.set()

    def _finish(self, error: Exception | None = None) -> None:
        self._put(self._plain.end(error))
        self._done = True
        self._changed.set()

    async def _batches(self) -> AsyncGenerator[list[Event], None]:
        while True:
            if self._items:
                batch, self._items = self._items, []
                room, self._room = self._room, anyio.Event()
                room.set()
                yield batch
            elif self._done:
                return
            else:
                self._changed = anyio.Event()
                await self._changed.wait()


def pushed(
    work: Callable[[Handle], Awaitable[Item]],
    *,
    run: str = MAIN,
    parent: str | None = None,
    agent: str | None = None,
    model: str | None = None,
) -> Stream:
    """The events of a loop that pushes: for agents with callbacks, or with several tasks of their own.

    Args:
        work: called once per entry with a `Handle`, in a task of its own. A non-empty text that it returns is the
            answer, a message; a dict or an event that it returns is pushed; None adds nothing.
        run: the run's id.
        parent: id of the run that this one works for, or None.
        agent: the agent's name, or None.
        model: the model's name, or None.

    Cancellation: `work` is cancelled when the stream is left, and awaited.
    """
    if not callable(work):
        raise UsageError("work must be callable: give the coroutine function itself, not what it returns")
    return Stream(lambda: _Pushed(work, PlainNormaliser(run, parent=parent, agent=agent, model=model)))


class _Pushed(AbstractAsyncContextManager[AsyncIterator[list[Event]]]):
    """Runs the loop in a task, for the time of the block."""

    def __init__(self, work: Callable[[Handle], Awaitable[Item]], plain: PlainNormaliser) -> None:
        self._work = work
        self._plain = plain
        self._group: anyio.abc.TaskGroup
        self._batches: AsyncGenerator[list[Event], None]

    async def __aenter__(self) -> AsyncIterator[list[Event]]:
        handle = Handle(self._plain)
        handle._put(self._plain.begin())  # noqa: SLF001  (two parts of one thing)
        self._batches = handle._batches()  # noqa: SLF001
        self._group = await anyio.create_task_group().__aenter__()
        self._group.start_soon(self._run, handle)
        return self._batches

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._group.cancel_scope.cancel()
        try:
            await self._batches.aclose()
        finally:
            # The group is not told of the reader's exception, which it would wrap.
            await self._group.__aexit__(None, None, None)

    async def _run(self, handle: Handle) -> None:
        failure: Exception | None = None
        try:
            answer = await self._work(handle)
            if isinstance(answer, str):
                answer = Message((Text(answer),)) if answer else None
            handle.push(answer)
        except Exception as error:  # noqa: BLE001  (a child-level failure is an outcome)
            failure = error
        handle._finish(failure)  # noqa: SLF001
