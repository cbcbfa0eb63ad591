"""The run scope: where stream, fold and consumers meet.

A stream may carry many runs, a parent and its subagents interleaved. The scope keeps one fold per run and publishes for
each exactly one start and one end, whatever happens:

| the stream                        | a run that is still open gets                  | what the caller sees       |
|-----------------------------------|------------------------------------------------|----------------------------|
| brings the run's end record       | the reason of the record                       | the outcome                |
| runs out without one              | error, evidence no_end_record                  | the outcome                |
| is left early (break)             | aborted, evidence closed_early                 | the outcome                |
| is cancelled                      | aborted, evidence cancelled                    | the cancellation goes on   |
| is left by the reader's exception | aborted, evidence consumer_failed              | the exception goes on      |
| raises                            | error, evidence source_failed, a diagnostic    | the outcome                |
| ends its root with children open  | the children aborted, evidence parent_ended    | the outcomes               |
| fails to open                     | nothing: no start either                       | SourceError                |

A cancellation that comes while the end record is still on its way to the reader wins over it. At the end the folds are
settled first, then every consumer is told, spans before end events, and then the source is closed; a child that has
been continued is the other way round: its last end follows the teardown, and a teardown that fails makes it an error
without output.
"""

import logging
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any, Final, TypeVar, cast

from lastsay.consumers import Consumer, Panel, RunEnd, RunStart, StreamEnd, rendered
from lastsay.errors import UsageError
from lastsay.events import (
    ABORTED,
    ERROR,
    EVENT_TYPES,
    MAIN,
    EpochStarted,
    Event,
    RunEnded,
    RunStarted,
    stretches,
)
from lastsay.fold import CANONICAL, Outcome, Policy, RunFold
from lastsay.operators import Stream, as_stream

__all__ = ("Activation", "Run", "collect", "open_run")

_LOG: Final = logging.getLogger("lastsay.run")
_NANOSECONDS: Final = 1_000_000_000
_KINDS: Final = frozenset(EVENT_TYPES)

Item = TypeVar("Item")


class Activation:
    """One activation of one run: from its start to its end. A continued child has one per epoch.

    `start` holds the facts, `outcome` is None until the end.
    """

    __slots__ = ("fold", "outcome", "start")

    def __init__(self, start: RunStart, fold: RunFold) -> None:
        self.start: RunStart = start
        self.fold: RunFold = fold
        self.outcome: Outcome | None = None

    @property
    def late(self) -> int:
        """Events that came after the end: set aside, and no part of the outcome."""
        return self.fold.late

    def snapshot(self) -> Outcome:
        """The outcome, or what it would be if the run ended now, with `final` False."""
        return self.outcome if self.outcome is not None else self.fold.snapshot()


class Run:
    """An opened stream: an async iterable of its events, and the outcomes of the runs in it.

    Iterate it with ``async for``, or over `batches` for lists. `outcome` is the root's, `children` maps the run id of
    every other run to its last activation, and `activations` lists all of them in the order of their starts. Inside the
    scope a run that has not ended has no outcome; `snapshot` gives what it would be.
    """

    def __init__(self, policy: Policy, consumers: Iterable[Consumer], root: str | None) -> None:
        self.activations: list[Activation] = []
        self.error: BaseException | None = None
        """What the source raised, if it did."""
        self._policy = policy
        self._panel = Panel(consumers)
        self._root = root
        self._open: dict[str, Activation] = {}
        self._last: dict[str, Activation] = {}
        self._opened_ns = time.time_ns()
        self._undelivered = False
        self._how: StreamEnd | None = None
        self._source: AsyncIterator[list[Event]]  # set on entry
        self._reader: Any = None  # the async generator that is being read

    @property
    def root(self) -> Activation | None:
        """The root's last activation; None before the first event."""
        return self._last.get(self._root) if self._root is not None else None

    @property
    def outcome(self) -> Outcome:
        """The root's outcome.

        Raises:
            UsageError: the run has not ended; leave the scope first, or ask for a `snapshot`.
        """
        root = self.root
        if root is None or root.outcome is None:
            raise UsageError("the run has no outcome before its scope is left; snapshot() tells how it stands")
        return root.outcome

    @property
    def children(self) -> Mapping[str, Activation]:
        """The last activation of every run but the root, by run id."""
        return {run: activation for run, activation in self._last.items() if run != self._root}

    def snapshot(self) -> Outcome:
        """The root's outcome as it would be now, with `final` False while it goes on."""
        root = self.root
        return root.snapshot() if root is not None else RunFold(self._policy).snapshot()

    def batches(self) -> AsyncGenerator[list[Event], None]:
        """The events in lists, as the source gave them."""
        return self._reading(self._read_batches())

    def __aiter__(self) -> AsyncIterator[Event]:
        """The events, one by one."""
        return self._reading(self._read_events())

    def _reading(self, generator: AsyncGenerator[Item, None]) -> AsyncGenerator[Item, None]:
        """The generator, kept: a reader that breaks out leaves it open, and the scope closes it."""
        if self._reader is not None:
            raise UsageError("a run is read once; iterate the events or the batches, in one place")
        self._reader = generator
        return generator

    async def _read_batches(self) -> AsyncGenerator[list[Event], None]:
        source = self._source
        while self._how is None:
            try:
                batch = await anext(source)
            except StopAsyncIteration:
                self._how = "drained"
                break
            except UsageError:
                raise
            except Exception as error:  # noqa: BLE001  # a child-level failure is an outcome
                self.error = error
                self._how = "source_failed"
                break
            self._take(batch)
            if self._panel.waiting:
                await self._panel.settle()
            yield batch

    async def _read_events(self) -> AsyncGenerator[Event, None]:
        async with aclosing(self._read_batches()) as batches:
            async for batch in batches:
                last = batch[-1]
                for event in batch:
                    self._undelivered = event is not last
                    yield event

    def _take(self, batch: list[Event]) -> None:
        """Fold a list of events."""
        for events in stretches(batch):
            kind = type(events[0])
            if kind is RunStarted or kind is EpochStarted or kind is RunEnded:
                for event in events:
                    self._take_boundary(event)
            elif kind in _KINDS:
                self._take_stretch(events)
            else:
                raise UsageError(f"the stream gave {kind.__name__!r} where an event of lastsay.events was expected")

    def _take_stretch(self, events: Sequence[Event]) -> None:
        run = events[0].run
        activation = self._open.get(run) or self._activation(run)
        if len(events) == 1:
            activation.fold.push(events[0])
        else:
            activation.fold.push_run(events)
        if self._panel.observed and activation.outcome is None:
            self._panel.observe(activation.start, events)

    def _take_boundary(self, event: Event) -> None:
        run = event.run
        if type(event) is RunStarted:
            activation = self._open.get(run)
            if activation is None:
                activation = self._begin(run, event)
            activation.fold.push(event)
        elif type(event) is EpochStarted:
            self._begin_epoch(event)
        else:
            activation = self._open.get(run) or self._activation(run)
            if activation.outcome is None:
                self._panel.observe(activation.start, [event])
            activation.fold.push(event)
            if run != self._root and run in self._open:
                self._settle(activation, "ended")

    def _activation(self, run: str) -> Activation:
        """The activation that an event of the run belongs to: the last one, or a new one for a run never heard of."""
        return self._last.get(run) or self._begin(run, None)

    def _begin(self, run: str, event: RunStarted | None, epoch: int | None = None) -> Activation:
        before = self._last.get(run)
        if self._root is None:
            self._root = run
        facts = event or (before.fold.started if before is not None else None) or RunStarted(run=run)
        parent = self._last.get(facts.parent) if facts.parent is not None else None
        fold = RunFold(self._policy)
        if before is not None:
            fold = before.fold if epoch is None else fold
        start = RunStart(
            run_id=str(uuid.uuid4()),
            run=run,
            parent_id=parent.start.run_id if parent is not None else None,
            parent=facts.parent,
            agent=facts.agent,
            provider=facts.backend,
            model=facts.model,
            local=facts.local,
            call=facts.call,
            epoch=epoch if epoch is not None else fold.epoch,
            time_ns=self._started_ns(event, first=not self.activations),
        )
        activation = Activation(start, fold)
        if epoch is not None:
            fold.push(facts)
            fold.push(EpochStarted(epoch, run=run))
        self.activations.append(activation)
        self._open[run] = self._last[run] = activation
        self._panel.start(start)
        return activation

    def _started_ns(self, event: RunStarted | None, *, first: bool) -> int:
        if event is not None and event.time is not None:
            return int(event.time * _NANOSECONDS)
        return self._opened_ns if first else time.time_ns()

    def _begin_epoch(self, event: EpochStarted) -> None:
        """An epoch that follows another one ends that one, and gets an activation of its own."""
        run = event.run
        activation = self._last.get(run)
        if activation is None:
            self._begin(run, None, event.epoch)
            return
        fold = activation.fold
        if run in self._open and fold.ended is None and not fold.spoke:
            fold.push(event)  # the first epoch, named before anything was said
            return
        if run in self._open:
            self._settle(activation, "ended" if fold.ended is not None else "drained")
        self._begin(run, None, event.epoch)

    def _settle(self, activation: Activation, how: StreamEnd) -> None:
        """Freeze the outcome and tell every consumer, once."""
        del self._open[activation.start.run]
        activation.outcome = activation.fold.outcome()
        ended = activation.fold.ended
        time_ns = int(ended.time * _NANOSECONDS) if ended is not None and ended.time is not None else time.time_ns()
        self._panel.end(RunEnd(start=activation.start, outcome=activation.outcome, how=how, time_ns=time_ns))

    def _finish(self, error: BaseException | None) -> None:
        """Settle every run that is open, the children before the root."""
        how = self._how or _how_left(error)
        self._how = how
        if self.root is None:
            self._begin(self._root or MAIN, None)
        for activation in list(reversed(self._open.values())):
            if activation.start.run != self._root:
                self._close_child(activation, how)
        root = self._open.get(cast("str", self._root))
        if root is not None:
            self._close_root(root, how)

    def _close_child(self, activation: Activation, how: StreamEnd) -> None:
        root = self.root
        evidence = "parent_ended" if root is not None and root.fold.ended is not None and how != "cancelled" else how
        if evidence != "drained":
            activation.fold.close(ABORTED, evidence=(evidence,))
        self._settle(activation, how)

    def _close_root(self, root: Activation, how: StreamEnd) -> None:
        if how == "cancelled" and self._undelivered and root.fold.ended is not None:
            root.fold.reopen()  # the end record never reached the reader
        if root.fold.ended is not None:
            how = "ended"
        elif how == "source_failed":
            root.fold.close(ERROR, evidence=(how,), diagnostic=f"the source failed: {rendered(self.error)}")
        elif how != "drained":
            root.fold.close(ABORTED, evidence=(how,))
        self._settle(root, how)

    def _continued(self) -> bool:
        root = self.root
        return root is not None and root.start.epoch > 0 and root.outcome is None

    async def _stop_reading(self) -> None:
        """Close what the reader left open. A reader in another task, still waiting, is left to its own error."""
        if self._reader is not None and not self._reader.ag_running:
            await self._reader.aclose()

    def _fail_teardown(self, error: BaseException | None) -> None:
        """The root of a continued child whose teardown failed: an error, without output."""
        root = self.root
        if error is None and self._how == "source_failed":
            error = self.error  # a generator source is torn down as it runs out
        if error is not None and root is not None and root.outcome is None and root.fold.ended is not None:
            fold = RunFold(self._policy)
            fold.epoch = root.start.epoch
            fold.close(ERROR, evidence=("teardown_failed",), diagnostic=f"teardown failed: {rendered(error)}")
            root.fold = fold


class open_run:  # noqa: N801  # a context manager that reads as the verb it is, like open()
    """Opens a stream as a run: its events to iterate, its outcomes at the end.

    Args:
        stream: a `Stream`, or any async iterable of events.
        policy: the selection rule, for every run in the stream.
        consumers: who is told of every start and end; see `lastsay.consumers`.
        root: the run id of the root, where it is not the first run in the stream.

    Entering raises what opening the source raises (`SourceError`), and then nothing was published. Leaving never raises
    for a failure of the child. Cancellation is safe at every await: the runs get their ends, the source is closed in
    the task that opened it, and the cancellation goes on.

    Example:
        >>> import anyio
        >>> from lastsay.backends import scripted
        >>> from lastsay.events import RunEnded, TextDelta
        >>> async def main():
        ...     stream = scripted.stream([TextDelta("hi"), RunEnded("completed")])
        ...     async with open_run(stream) as run:
        ...         async for event in run:
        ...             pass
        ...     return run.outcome.text
        >>> anyio.run(main)
        'hi'
    """

    __slots__ = ("_entry", "_run", "_stream")

    def __init__(
        self,
        stream: Stream | AsyncIterator[Event],
        *,
        policy: Policy = CANONICAL,
        consumers: Iterable[Consumer] = (),
        root: str | None = None,
    ) -> None:
        self._stream = as_stream(stream)
        self._run = Run(_checked_policy(policy), _checked_consumers(consumers), root)
        self._entry: Any = None

    def __aiter__(self) -> AsyncIterator[Event]:
        raise UsageError("a run is entered before it is read: async with open_run(...) as run")

    async def __aenter__(self) -> Run:
        if self._entry is not None:
            raise UsageError("a run is opened once; call open_run again for another")
        run = self._run
        run._opened_ns = time.time_ns()
        self._entry = entry = self._stream.batches()
        run._source = await entry.__aenter__()
        return run

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run = self._run
        await run._stop_reading()
        continued = run._continued()
        try:
            if not continued:
                run._finish(error)
                await run._panel.settle()
        finally:
            failure = await self._close()
        if continued:
            run._fail_teardown(failure)
            run._finish(error)
            await run._panel.settle()

    async def _close(self) -> Exception | None:
        """Close the source; what that raises comes after the end, and is no longer the run's."""
        try:
            await self._entry.__aexit__(None, None, None)
        except Exception as failure:  # noqa: BLE001  # teardown, see above
            self._run.error = self._run.error or failure
            _LOG.debug("closing the source failed: %s", rendered(failure))
            return failure
        return None


async def collect(
    stream: Stream | AsyncIterator[Event], *, policy: Policy = CANONICAL, consumers: Iterable[Consumer] = ()
) -> Outcome:
    """The root's outcome, after reading the whole stream.

    Args:
        stream: a `Stream`, or any async iterable of events.
        policy: the selection rule.
        consumers: who is told of every start and end.

    Raises:
        SourceError: the source could not be opened. A child that fails is an outcome, not an exception.
    """
    async with open_run(stream, policy=policy, consumers=consumers) as run:
        async for _ in run.batches():
            pass
    return run.outcome


def _checked_policy(policy: Policy) -> Policy:
    if not isinstance(policy, Policy):
        raise UsageError(f"policy must be a Policy, such as lastsay.CANONICAL or lastsay.ANSWER, not {policy!r}")
    return policy


def _checked_consumers(consumers: Iterable[Consumer]) -> list[Consumer]:
    checked = list(consumers)
    for consumer in checked:
        if not isinstance(consumer, Consumer):
            raise UsageError(
                f"a consumer must be a lastsay.consumers.Consumer, not {type(consumer).__name__}; "
                "a callback is given as lastsay.lifecycle(on_end=...)"
            )
    return checked


def _how_left(error: BaseException | None) -> StreamEnd:
    if error is None or isinstance(error, GeneratorExit):
        return "closed_early"
    return "consumer_failed" if isinstance(error, Exception) else "cancelled"
