"""Adjacent synchronous operators share one loop and one async generator, however many they are."""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable
from typing import Any

from lastsay.events import Event
from lastsay.operators._pipeline import Looks, Pipeline
from lastsay.operators._stage import Stage
from lastsay.operators._stream import Opened, Piped, Stream, as_stream, close_iterator

__all__ = ("Operator", "through")

Operator = Callable[[Stream | AsyncIterable[Event]], Stream]
"""What stands on the right of ``|``: called with a stream, gives a stream."""


def through(*makers: Callable[[], Stage]) -> Operator:
    """The operator that sends events through stages.

    Args:
        makers: each is called once per entry and gives a fresh stage; a `Stage` subclass without arguments is one.
    """

    def operator(source: Stream | AsyncIterable[Event]) -> Stream:
        if isinstance(source, _Fused):
            return _Fused(source.source, (*source.makers, *makers))
        return _Fused(as_stream(source), makers)

    return operator


class _Fused(Stream):
    """A stream and the stages behind it. One more stage makes a new one, with the same source."""

    __slots__ = ("makers", "source")

    def __init__(self, source: Stream, makers: tuple[Callable[[], Stage], ...]) -> None:
        super().__init__(lambda: _opened(source, makers))
        self.source = source
        self.makers = makers

    def opened_events(self) -> Opened[Event]:
        pipeline = _pipeline(self.makers)
        if not self.source.single:
            return Piped(self.source.opened(), lambda batches: _events(batches, pipeline))
        singles = _settling_singles if pipeline.settles or pipeline.may_end else _singles
        return Piped(self.source.opened_events(), lambda events: singles(events, pipeline))


def _pipeline(makers: Iterable[Callable[[], Stage]]) -> Pipeline:
    return Pipeline([make() for make in makers])


def _opened(source: Stream, makers: Iterable[Callable[[], Stage]]) -> Opened[list[Event]]:
    pipeline = _pipeline(makers)
    return Piped(source.opened(), lambda batches: _batches(batches, pipeline))


async def _batches(batches: AsyncIterator[list[Event]], pipeline: Pipeline) -> AsyncGenerator[list[Event], None]:
    push = pipeline.push
    may_end = pipeline.may_end
    try:
        async for batch in batches:
            out = push(batch)
            if out:
                yield out
            if may_end and pipeline.ended:
                await close_iterator(batches)  # at once, not when the entry is left
                break
        out = pipeline.flush()
        if out:
            yield out
    finally:
        pipeline.close()


async def _events(batches: AsyncIterator[list[Event]], pipeline: Pipeline) -> AsyncGenerator[Event, None]:
    push = pipeline.push
    may_end = pipeline.may_end
    try:
        async for batch in batches:
            for event in push(batch):
                yield event
            if may_end and pipeline.ended:
                await close_iterator(batches)  # at once, not when the entry is left
                break
        for event in pipeline.flush():
            yield event
    finally:
        pipeline.close()


async def _singles(  # noqa: C901, PLR0912  # one hot loop
    events: AsyncIterator[Event], pipeline: Pipeline
) -> AsyncGenerator[Event, None]:
    """The short path: no lists, and for most events nothing but calls of observers.

    Up to eight of these are written out: each call in a place of its own costs a quarter less than in a loop.
    """
    plans = pipeline.singles
    kind: type | None = None
    first: Looks | None = None
    second: Looks | None = None
    looks: Looks = ()
    rest: Any = None
    a: Any = None
    b = c = d = e = f = g = h = a
    try:
        async for event in events:
            if type(event) is not kind:  # most events are of the class of the one before
                kind = type(event)
                first, second, looks, rest = plans[kind]
                if first is not None:
                    a, b, c, d = first
                if second is not None:
                    e, f, g, h = second
            if first is not None:
                a(event)
                b(event)
                c(event)
                d(event)
                if second is not None:
                    e(event)
                    f(event)
                    g(event)
                    h(event)
            if looks:
                for look in looks:
                    look(event)
            if rest is None:
                yield event
            else:
                out = rest(event)
                if out:  # as a rule there is nothing, and then a loop costs more than the question
                    for passed in out:
                        yield passed
        for passed in pipeline.flush():
            yield passed
    finally:
        pipeline.close()


async def _settling_singles(events: AsyncIterator[Event], pipeline: Pipeline) -> AsyncGenerator[Event, None]:
    push, may_end = pipeline.push, pipeline.may_end
    try:
        async for event in events:
            for passed in push([event]):
                yield passed
            if may_end and pipeline.ended:
                await close_iterator(events)
                break
        for passed in pipeline.flush():
            yield passed
    finally:
        pipeline.close()
