"""The run scope: starts, ends, order, and containment."""

import logging
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import anyio
import pytest

from lastsay.consumers import Consumer, RunEnd, RunStart, lifecycle
from lastsay.errors import SourceError, UsageError
from lastsay.events import (
    EpochStarted,
    Event,
    Message,
    RunEnded,
    RunStarted,
    Text,
    TextDelta,
)
from lastsay.fold import ANSWER
from lastsay.operators import Stream
from lastsay.run import collect, open_run

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Both event loops."""
    return str(request.param)


class Source:
    """A source that tells what became of it."""

    def __init__(self, *steps: Any, close_error: Exception | None = None) -> None:
        self.steps = steps
        self.close_error = close_error
        self.closed = 0

    @property
    def stream(self) -> Stream:
        """The stream: events, lists of events, exceptions to raise, seconds to wait."""
        return Stream.from_batches(self._play)

    async def _play(self) -> AsyncGenerator[list[Event], None]:
        try:
            for step in self.steps:
                if isinstance(step, BaseException):
                    raise step
                if isinstance(step, (int, float)):
                    await anyio.sleep(step)
                else:
                    yield step if isinstance(step, list) else [step]
        finally:
            self.closed += 1
            if self.close_error is not None:
                raise self.close_error


class Record(Consumer):
    """Writes down what it is told."""

    def __init__(self, log: list[tuple[str, Any]], name: str = "record", rank: int = 0) -> None:
        self.log, self.name, self.rank = log, name, rank

    def start(self, start: RunStart) -> None:
        self.log.append((f"{self.name} start", start))

    def end(self, end: RunEnd) -> None:
        self.log.append((f"{self.name} end", end))


def words(log: list[tuple[str, Any]]) -> list[str]:
    """What happened, with the run it happened to."""
    return [f"{what} {(row.start if isinstance(row, RunEnd) else row).run}" for what, row in log]


FAMILY: Sequence[Event] = (
    RunStarted(run="root", backend="test"),
    TextDelta("par", run="root"),
    RunStarted(run="kid", parent="root", agent="Explore", call="call-1"),
    TextDelta("child text", run="kid"),
    TextDelta("ent", run="root"),
)


async def test_each_run_has_one_start_and_one_end_in_order() -> None:
    """A child ends at its own end record, the root when the stream has run out; parents are known by id."""
    log: list[tuple[str, Any]] = []
    source = Source(list(FAMILY), RunEnded("completed", run="kid"), RunEnded("completed", run="root"))
    async with open_run(source.stream, consumers=[Record(log)]) as run:
        seen = [event async for event in run]
    assert 7 == len(seen)
    assert ["record start root", "record start kid", "record end kid", "record end root"] == words(log)
    root, kid = log[0][1], log[1][1]
    assert (None, root.run_id, "call-1") == (root.parent_id, kid.parent_id, kid.call)
    assert ("parent", "child text") == (run.outcome.text, run.children["kid"].outcome.text)
    assert 1 == source.closed


async def test_children_left_open_are_aborted_when_the_root_ends() -> None:
    """The children's ends come before the root's, and the evidence says why."""
    log: list[tuple[str, Any]] = []
    source = Source(list(FAMILY), RunEnded("completed", run="root"))
    async with open_run(source.stream, consumers=[Record(log)]) as run:
        async for _ in run:
            pass
    assert ["record end kid", "record end root"] == words(log)[2:]
    kid = run.children["kid"].outcome
    assert ("aborted", ("parent_ended",), "child text") == (kid.stop_reason, kid.evidence, kid.text)


async def test_a_source_that_raises_is_an_outcome() -> None:
    """The text so far stays, the diagnostic names the error, and nothing is raised."""
    outcome = await collect(Source(TextDelta("so far"), ValueError("boom")).stream)
    assert ("error", "so far", ("source_failed",)) == (outcome.stop_reason, outcome.text, outcome.evidence)
    assert "ValueError: boom" in (outcome.diagnostic or "")


async def test_a_source_that_cannot_start_publishes_nothing() -> None:
    """Neither start nor end, and the caller gets the error."""
    log: list[tuple[str, Any]] = []

    class Broken:
        async def __aenter__(self) -> Any:
            raise SourceError("no such command")

        async def __aexit__(self, *_: object) -> None:
            raise AssertionError("never entered")

    with pytest.raises(SourceError, match="no such command"):
        async with open_run(Stream(Broken), consumers=[Record(log)]):
            pass
    assert [] == log


async def test_leaving_early_aborts_and_closes_at_once() -> None:
    """A break settles the run as aborted with the text so far, and closes the source."""
    source = Source(TextDelta("a"), TextDelta("b"))
    async with open_run(source.stream) as run:
        async for _ in run:
            break
        with pytest.raises(UsageError, match="snapshot"):
            _ = run.outcome
        assert ("a", False) == (run.snapshot().text, run.snapshot().final)
    assert ("aborted", ("closed_early",), "a") == (run.outcome.stop_reason, run.outcome.evidence, run.outcome.text)
    assert 1 == source.closed


async def test_breaking_at_the_end_record_keeps_it() -> None:
    """Who leaves after the end record was handed on gets the record's stop reason."""
    async with open_run(Source(TextDelta("a"), RunEnded("max-tokens"), 60).stream) as run:
        async for event in run:
            if type(event) is RunEnded:
                break
    assert "max-tokens" == run.outcome.stop_reason


async def test_the_readers_exception_goes_on() -> None:
    """The exception is the reader's own; the run is settled before it leaves the scope."""
    log: list[tuple[str, Any]] = []
    source = Source(TextDelta("a"), TextDelta("b"))
    with pytest.raises(KeyError):
        async with open_run(source.stream, consumers=[Record(log)]) as run:
            async for _ in run:
                raise KeyError("mine")
    assert ("aborted", ("consumer_failed",)) == (run.outcome.stop_reason, run.outcome.evidence)
    assert (1, 2) == (source.closed, len(log))


async def test_cancellation_keeps_the_partial_text_and_goes_on() -> None:
    """A cancelled reader finds the run aborted with what was streamed, and the source closed."""
    source = Source(TextDelta("partial"), 60)
    with anyio.move_on_after(0.05) as scope:
        async with open_run(source.stream) as run:
            async for _ in run:
                pass
    assert scope.cancelled_caught
    assert ("aborted", ("cancelled",), "partial") == (
        run.outcome.stop_reason,
        run.outcome.evidence,
        run.outcome.text,
    )
    assert 1 == source.closed


async def test_local_cancellation_wins_over_an_end_on_its_way() -> None:
    """An end record in the list that was being handed on when the cancellation came does not count."""
    source = Source([TextDelta("partial"), RunEnded("completed")])
    with anyio.move_on_after(0.05):
        async with open_run(source.stream) as run:
            async for _ in run:
                await anyio.sleep(60)
    assert ("aborted", "partial") == (run.outcome.stop_reason, run.outcome.text)


async def test_an_empty_stream_still_has_one_start_and_one_end() -> None:
    """A source that says nothing is a run that never spoke."""
    log: list[tuple[str, Any]] = []
    outcome = await collect(Source().stream, consumers=[Record(log)])
    assert ["record start main", "record end main"] == words(log)
    assert ("error", "never_spoke", ("no_end_record",)) == (
        outcome.stop_reason,
        outcome.none_reason,
        outcome.evidence,
    )


async def test_late_events_of_a_child_are_set_aside_and_counted() -> None:
    """A settled outcome never changes; what came after it is reported."""
    source = Source(list(FAMILY), RunEnded("completed", run="kid"), TextDelta("late", run="kid"))
    async with open_run(source.stream) as run:
        async for _ in run:
            pass
    assert ("child text", 1) == (run.children["kid"].outcome.text, run.children["kid"].late)


async def test_every_epoch_is_an_activation_of_its_own() -> None:
    """A continued child has a start, an end and an output per epoch, each from its own events."""
    log: list[tuple[str, Any]] = []
    source = Source(
        [RunStarted(), EpochStarted(0), Message((Text("first"),)), RunEnded("completed")],
        [EpochStarted(1), Message((Text("second"),)), RunEnded("max-tokens")],
    )
    async with open_run(source.stream, consumers=[Record(log)]) as run:
        async for _ in run:
            pass
    assert ["record start", "record end"] * 2 == [what for what, _ in log]
    assert [("first", "completed", 0), ("second", "max-tokens", 1)] == [
        (a.outcome.text, a.outcome.stop_reason, a.outcome.epoch) for a in run.activations if a.outcome is not None
    ]
    assert 2 == len({a.start.run_id for a in run.activations})


async def test_a_continued_child_whose_teardown_fails_is_an_error_without_output() -> None:
    """The last end follows the teardown, and takes its failure."""
    source = Source(
        [RunStarted(), Message((Text("first"),)), RunEnded("completed")],
        [EpochStarted(1), Message((Text("second"),)), RunEnded("completed")],
        close_error=OSError("stuck"),
    )
    async with open_run(source.stream) as run:
        async for _ in run:
            pass
    outcome = run.outcome
    assert ("error", None, ("teardown_failed",), 1) == (
        outcome.stop_reason,
        outcome.output,
        outcome.evidence,
        outcome.epoch,
    )
    assert "stuck" in (outcome.diagnostic or "")


async def test_an_error_after_the_end_is_no_longer_the_runs() -> None:
    """Closing a one-shot source may fail: the outcome stands, and the error is kept."""
    source = Source(Message((Text("done"),)), RunEnded("completed"), close_error=OSError("stuck"))
    async with open_run(source.stream) as run:
        async for _ in run:
            pass
    assert ("completed", "done") == (run.outcome.stop_reason, run.outcome.text)
    assert "stuck" in str(run.error)


async def test_consumers_are_contained_one_by_one(caplog: pytest.LogCaptureFixture) -> None:
    """One that raises, even what cannot be rendered, is logged once and dropped; its peers and the run go on."""

    class UnprintableError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    class Bad(Consumer):
        calls = 0

        def observe(self, start: RunStart, events: Sequence[Event]) -> None:
            Bad.calls += 1
            raise UnprintableError

    log: list[tuple[str, Any]] = []
    with caplog.at_level(logging.WARNING):
        await collect(Source(TextDelta("a"), TextDelta("b")).stream, consumers=[Bad(), Record(log)])
    assert (1, 1, 2) == (Bad.calls, len(caplog.records), len(log))


async def test_consumers_are_told_by_rank() -> None:
    """Spans end before end events, whatever the order of the list."""
    log: list[tuple[str, Any]] = []
    await collect(Source(RunEnded("completed")).stream, consumers=[Record(log, "b", 0), Record(log, "a", -1)])
    assert ["a start", "b start", "a end", "b end"] == [what for what, _ in log]


async def test_an_async_listener_is_awaited_in_the_loop() -> None:
    """What a listener returns is awaited before the scope is left, also under cancellation."""
    heard: list[str] = []

    async def on_end(event: dict[str, Any]) -> None:
        await anyio.sleep(0.01)
        heard.append(event["stopReason"])

    with anyio.move_on_after(0.05):
        async with open_run(Source(TextDelta("a"), 60).stream, consumers=[lifecycle(on_end=on_end)]) as run:
            async for _ in run:
                pass
    assert ["aborted"] == heard


async def test_no_output_leaves_the_field_out() -> None:
    """The end event has no lastAssistantMessage where there is no output, and the blocks where there is."""
    ends: list[dict[str, Any]] = []
    await collect(Source(RunEnded("completed")).stream, consumers=[lifecycle(on_end=ends.append)])
    outcome = await collect(
        Source(Message((Text("x"),)), RunEnded("completed")).stream, consumers=[lifecycle(on_end=ends.append)]
    )
    assert ["lastAssistantMessage" in end for end in ends] == [False, True]
    assert {"type", "runId", "provider", "id", "local", "stopReason", "policy", "digest"} == set(ends[0])
    assert outcome.digest == ends[1]["digest"]


async def test_the_policy_goes_to_every_run() -> None:
    """The rule is chosen once, for the whole stream."""
    source = Source(list(FAMILY), RunEnded("completed", run="root"))
    async with open_run(source.stream, policy=ANSWER) as run:
        async for _ in run:
            pass
    assert {"answer"} == {a.outcome.policy for a in run.activations if a.outcome is not None}


async def test_a_run_is_read_once() -> None:
    """Reading twice, or outside the scope, is a clear error."""
    async with open_run(Source(TextDelta("a")).stream) as run:
        async for _ in run:
            pass
        with pytest.raises(UsageError, match="read once"):
            async for _ in run:
                pass
    again = open_run(Source(TextDelta("a")).stream)
    async with again:
        pass
    with pytest.raises(UsageError, match="opened once"):
        async with again:
            pass


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: open_run(5), "async iterable of events"),  # type: ignore[arg-type]  # that is the mistake
        (lambda: open_run(Source().stream, consumers=[print]), "lifecycle"),  # type: ignore[list-item]  # likewise
        (lambda: open_run(Source().stream, policy="answer"), "lastsay.ANSWER"),  # type: ignore[arg-type]  # likewise
        (lambda: aiter(open_run(Source().stream)), "async with"),
    ],
)
async def test_mistakes_are_told_with_what_to_do(call: Any, told: str) -> None:
    """Wrong arguments are named at the call, before anything is started."""
    with pytest.raises(UsageError, match=told):
        call()


async def test_a_source_of_something_else_is_named() -> None:
    """A stream that gives no events is a mistake of its maker, and the source is closed all the same."""
    source = Source([TextDelta("a")], [5])
    with pytest.raises(UsageError, match="'int'"):
        await collect(source.stream)
    assert 1 == source.closed


async def test_a_named_root_ends_also_if_it_never_spoke() -> None:
    """With the root's id given, leaving before its first event still gives it a start, an end and an outcome."""
    log: list[tuple[str, Any]] = []
    with anyio.move_on_after(0.05):
        async with open_run(Source(60).stream, root="boss", consumers=[Record(log)]) as run:
            async for _ in run:
                pass
    assert ["record start boss", "record end boss"] == words(log)
    assert ("aborted", "never_spoke") == (run.outcome.stop_reason, run.outcome.none_reason)
