"""`traced`: the spans alone, as an operator, for pipelines that take their outcome elsewhere.

The span lives from the entry of the stream to its exit, in the task of whoever enters, and is never current: it is the
pattern that generators with a span inside get wrong. The outcome that it tells is folded here, as `open_run` would.
"""

import sys
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import overload

from opentelemetry.trace import Tracer

from lastsay.consumers import Telemetry, telemetry
from lastsay.errors import UsageError
from lastsay.events import Event
from lastsay.fold import CANONICAL, Policy
from lastsay.operators import Stream, as_stream
from lastsay.run import Run, open_run

__all__ = ("traced",)


@overload
def traced(
    stream: Stream | AsyncIterable[Event],
    /,
    *,
    tracer: Tracer | None = None,
    using: Telemetry | None = None,
    policy: Policy = CANONICAL,
) -> Stream: ...


@overload
def traced(
    *, tracer: Tracer | None = None, using: Telemetry | None = None, policy: Policy = CANONICAL
) -> Callable[[Stream | AsyncIterable[Event]], Stream]: ...


def traced(
    stream: Stream | AsyncIterable[Event] | None = None,
    /,
    *,
    tracer: Tracer | None = None,
    using: Telemetry | None = None,
    policy: Policy = CANONICAL,
) -> Stream | Callable[[Stream | AsyncIterable[Event]], Stream]:
    """The stream, with one span for every run in it; the events pass unchanged.

    Used as ``traced(stream)`` or ``stream | traced()``. What the source raises is raised where the stream is read.

    Args:
        stream: the events.
        tracer: the tracer to use. None: the global one, named ``lastsay``.
        using: a `lastsay.consumers.telemetry` with other options; it may be shared.
        policy: the rule that selects the output which the spans tell of.

    Cancellation: safe at every await; the span ends as an error before the source is closed.

    Raises:
        UsageError: both `tracer` and `using` are given.
    """
    if tracer is not None and using is not None:
        raise UsageError("traced() takes a tracer or a telemetry consumer, not both: telemetry(tracer=...) has room")
    consumer = using if using is not None else telemetry(tracer=tracer)

    def operator(source: Stream | AsyncIterable[Event]) -> Stream:
        recipe = as_stream(source)
        return Stream(lambda: _Traced(open_run(recipe, policy=policy, consumers=(consumer,))))

    return operator if stream is None else operator(stream)


class _Traced(AbstractAsyncContextManager[AsyncIterator[list[Event]]]):
    """One entry: a run scope, seen as the batches that it reads."""

    __slots__ = ("_batches", "_raised", "_run", "_scope")

    def __init__(self, scope: open_run) -> None:
        self._scope = scope
        self._run: Run | None = None
        self._batches: AsyncGenerator[list[Event], None] | None = None
        self._raised = False

    async def __aenter__(self) -> AsyncIterator[list[Event]]:
        self._run = run = await self._scope.__aenter__()
        self._batches = self._read(run)
        return self._batches

    async def _read(self, run: Run) -> AsyncGenerator[list[Event], None]:
        batches = run.batches()
        try:
            async for batch in batches:
                yield batch
        finally:
            await batches.aclose()
        self._raise_failure(run)

    def _raise_failure(self, run: Run) -> None:
        """A run scope makes an outcome of what its source raises; an operator passes it on."""
        if run.error is not None and not self._raised:
            self._raised = True
            raise run.error

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._run is not None and self._batches is not None
        # Some of those who close a stream do not say why. It is the exception in flight, if there is one.
        reason = error if error is not None else sys.exc_info()[1]
        try:
            await self._batches.aclose()
        finally:
            await self._scope.__aexit__(type(reason) if reason is not None else None, reason, trace)
        if reason is None:
            self._raise_failure(self._run)
