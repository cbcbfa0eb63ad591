"""A stream is a recipe, and entering it is what opens the source.

The unit that flows is a *batch*: a non-empty list of all events that are ready without waiting. Ownership is simple and
the same everywhere: whoever enters a stream closes it, at once, in the task that entered it, whatever ends the block
(the end of the stream, a break, an exception, a cancellation). While it closes, the surrounding cancellation is held
off, for `CLOSE_LIMIT` seconds at most.

The shield is entered *before* the source and only switched on at the end. A shield entered later would stand inside
the cancel scopes and task groups that a source holds, and leaving those would break the nesting that anyio demands.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Final, TypeVar

import anyio

from lastsay.errors import UsageError
from lastsay.events import Event

__all__ = ("CLOSE_LIMIT", "Batches", "Opened", "Stream", "as_stream", "close_iterator", "without")

CLOSE_LIMIT: Final = 5.0
"""Seconds that closing a source may take before it is cancelled."""

Item = TypeVar("Item")
Other = TypeVar("Other")
Result = TypeVar("Result")
Batches = AsyncIterator[list[Event]]
Opened = AbstractAsyncContextManager[AsyncIterator[Item]]


class Stream:
    """A stream of events that can be entered any number of times; each entry opens the source anew.

        async with stream as events:
            async for event in events: ...
        async with stream.batches() as batches:
            async for batch in batches: ...
        stream | operator | operator

    Args:
        opener: called at each entry. It gives an async context manager that owns the source: entering it gives an
            iterator of non-empty lists of events, leaving it closes the source in the task that entered.

    Entering raises what the opener raises (`lastsay.errors.SourceError` for a source that cannot be started).
    Cancellation is safe at every await: the source is closed before the cancellation goes on.
    """

    __slots__ = ("_entries", "_opener")

    single = False
    """Whether the source gives events one by one; then they are not put into lists where they are wanted singly."""

    def __init__(self, opener: Callable[[], Opened[list[Event]]]) -> None:
        self._opener = opener
        self._entries: dict[int, list[_Guarded[Event]]] = {}

    @staticmethod
    def from_batches(make: Callable[[], AsyncIterable[list[Event]]]) -> "Stream":
        """The stream of what `make()` yields, list by list; it is called, and closed, once per entry."""
        return Stream(lambda: Owned(make))

    @staticmethod
    def from_events(make: Callable[[], AsyncIterable[Event]]) -> "Stream":
        """The stream of what `make()` yields, event by event; it is called, and closed, once per entry."""
        return _EventStream(make)

    def batches(self) -> Opened[list[Event]]:
        """An entry that gives the events in lists: all that is ready without waiting, never an empty one."""
        return _Guarded(self.opened())

    def opened(self) -> Opened[list[Event]]:
        """For operators: `batches` without the shield, to be entered inside the entry of another stream."""
        return self._opener()

    def opened_events(self) -> Opened[Event]:
        """For operators: the events one by one, without the shield."""
        return Piped(self.opened(), _each)

    async def __aenter__(self) -> AsyncIterator[Event]:
        entry = _Guarded(self.opened_events())
        events = await entry.__aenter__()
        self._entries.setdefault(anyio.get_current_task().id, []).append(entry)
        return events

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        # One object may be entered several times at once: the entry to leave is the last one of this task.
        task = anyio.get_current_task().id
        entries = self._entries.get(task)
        if not entries:
            raise UsageError("a stream must be left in the task that entered it; give each task an entry of its own")
        entry = entries.pop()
        if not entries:
            del self._entries[task]
        return await entry.__aexit__(kind, error, trace)

    def __aiter__(self) -> AsyncIterator[Event]:
        """The events, for callers that close what they iterate (aiostream does). Prefer ``async with``."""
        return self._iterate()

    async def _iterate(self) -> AsyncGenerator[Event, None]:
        async with self.opened_events() as events:
            async for event in events:
                yield event

    def __or__(self, operator: Callable[["Stream"], Result]) -> Result:
        """What `operator` makes of this stream; any callable will do."""
        return operator(self)


class _EventStream(Stream):
    """A stream whose source gives single events."""

    __slots__ = ("_make",)

    single = True

    def __init__(self, make: Callable[[], AsyncIterable[Event]]) -> None:
        super().__init__(lambda: Piped(Owned(make), _singly))
        self._make = make

    def opened_events(self) -> Opened[Event]:
        return Owned(self._make)


def as_stream(source: "Stream | AsyncIterable[Event]") -> Stream:
    """The stream of any async iterable of events; a `Stream` comes back as it is.

    An iterable that can be iterated only once gives a stream that can be entered only once.
    """
    if isinstance(source, Stream):
        return source
    if not hasattr(source, "__aiter__"):
        kind = type(source).__name__
        raise UsageError(f"a stream or an async iterable of events is needed, not {kind}")
    return Stream.from_events(lambda: source)


def without(error: BaseException, *kinds: type[BaseException]) -> BaseException | None:
    """What is left of an error without those classes, also inside exception groups; a group of one is unwrapped."""
    if isinstance(error, BaseExceptionGroup):
        _, rest = error.split(kinds)
        while isinstance(rest, BaseExceptionGroup) and len(rest.exceptions) == 1:
            rest = rest.exceptions[0]
        return rest
    return None if isinstance(error, kinds) else error


async def close_iterator(iterator: Any) -> None:
    """Close an async iterator, if it can be closed."""
    try:
        if hasattr(iterator, "__aexit__"):
            await iterator.__aexit__(None, None, None)
        elif hasattr(iterator, "aclose"):
            await iterator.aclose()
    except BaseExceptionGroup as group:
        # A generator with a task group around its yield wraps the very exception that closes it.
        failure = without(group, GeneratorExit)
        if failure is not None:
            raise failure from None


class Owned(AbstractAsyncContextManager[AsyncIterator[Item]]):
    """Owns one iteration of what `make()` gives, and closes it on leaving."""

    __slots__ = ("_iterator", "_make")

    def __init__(self, make: Callable[[], AsyncIterable[Item]]) -> None:
        self._make = make
        self._iterator: Any = None

    async def __aenter__(self) -> AsyncIterator[Item]:
        self._iterator = iterator = aiter(self._make())
        # The iterators of aiostream are context managers too: entering is what arms them.
        return await iterator.__aenter__() if hasattr(iterator, "__aenter__") else iterator

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        iterator, self._iterator = self._iterator, None
        await close_iterator(iterator)
        return None


class Piped(AbstractAsyncContextManager[AsyncIterator[Other]]):
    """An opened source seen through an async generator; leaving closes the generator first, then the source."""

    __slots__ = ("_generator", "_source", "_transform")

    def __init__(
        self, source: Opened[Item], transform: Callable[[AsyncIterator[Item]], AsyncGenerator[Other, None]]
    ) -> None:
        self._source: Opened[Any] = source
        self._transform: Callable[[AsyncIterator[Any]], AsyncGenerator[Other, None]] = transform
        self._generator: AsyncGenerator[Other, None] | None = None

    async def __aenter__(self) -> AsyncIterator[Other]:
        self._generator = generator = self._transform(await self._source.__aenter__())
        return generator

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        generator, self._generator = self._generator, None
        try:
            await close_iterator(generator)
        finally:
            swallowed = await self._source.__aexit__(kind, error, trace)
        return swallowed


class _Guarded(AbstractAsyncContextManager[AsyncIterator[Item]]):
    """An entry that closes in peace: cancellation from outside waits until the source is closed, but not for ever."""

    __slots__ = ("_scope", "_source")

    def __init__(self, source: Opened[Item]) -> None:
        self._source = source
        self._scope: anyio.CancelScope | None = None

    async def __aenter__(self) -> AsyncIterator[Item]:
        if self._scope is not None:
            raise UsageError("an entry is used once; ask the stream for another")
        self._scope = scope = anyio.CancelScope()
        scope.__enter__()
        try:
            return await self._source.__aenter__()
        except BaseException as error:
            scope.__exit__(type(error), error, error.__traceback__)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        scope = self._scope
        assert scope is not None
        scope.shield = True
        scope.deadline = anyio.current_time() + CLOSE_LIMIT
        swallowed: bool | None = None
        failure: BaseException | None = None
        try:
            swallowed = await self._source.__aexit__(kind, error, trace)
        except BaseException as raised:  # noqa: BLE001  # handed to the scope, and raised again below
            failure = raised
        # The scope sees only what closing raised: the body's own cancellation is not its to swallow.
        # Trio's scope answers True also when there was nothing to swallow.
        handled = scope.__exit__(
            type(failure) if failure else None, failure, failure.__traceback__ if failure else None
        )
        if scope.cancelled_caught:
            logging.getLogger("lastsay.operators").warning("a source did not close within %s seconds", CLOSE_LIMIT)
        elif failure is not None and not handled:
            raise failure
        return swallowed


async def _each(batches: AsyncIterator[list[Event]]) -> AsyncGenerator[Event, None]:
    async for batch in batches:
        for event in batch:
            yield event


async def _singly(events: AsyncIterator[Event]) -> AsyncGenerator[list[Event], None]:
    async for event in events:
        yield [event]
