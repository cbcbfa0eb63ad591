"""Properties of the run scope: whatever the events, and wherever it is left, every run ends once and all agree."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.properties.scale import examples

from lastsay.consumers import Consumer, RunEnd, RunStart, lifecycle, telemetry, tool_result
from lastsay.events import EpochStarted, Event, RunEnded, RunStarted
from lastsay.fold import ANSWER, CANONICAL, Policy
from lastsay.operators import Stream
from lastsay.run import Run, open_run
from lastsay.testing._strategies import run_events

FAMILY = (("root", None), ("kid", "root"), ("grandkid", "kid"), ("orphan", "nobody"))
LANES = {run: run_events(run=run, max_size=8) for run, _ in FAMILY}


@st.composite
def families(draw: st.DrawFn) -> list[Event]:
    """Interleaved events of a root and up to three children, with starts, epochs and ends where they may be missing."""
    lanes: list[list[Event]] = []
    for run, parent in FAMILY[: draw(st.integers(1, 4))]:
        lane = list(draw(LANES[run]))
        if draw(st.booleans()):
            lane.insert(0, RunStarted(run=run, parent=parent))
        if draw(st.integers(0, 4)) == 0:
            lane += [EpochStarted(1, run=run), *draw(LANES[run])]
        lanes.append(lane)
    order = draw(st.randoms(use_true_random=False))
    events: list[Event] = []
    while any(lanes):
        events.append(order.choice([lane for lane in lanes if lane]).pop(0))
    return events


class Pairs(Consumer):
    """Counts starts and ends per activation, and checks their order."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.ended: list[RunEnd] = []

    def start(self, start: RunStart) -> None:
        assert start.run_id not in self.open
        self.open.append(start.run_id)

    def observe(self, start: RunStart, events: Sequence[Event]) -> None:
        assert start.run_id in self.open
        assert 1 == len({type(event) for event in events})

    def end(self, end: RunEnd) -> None:
        self.open.remove(end.start.run_id)
        self.ended.append(end)


def source(events: list[Event], sizes: list[int], fault: int | None, closed: list[int]) -> Stream:
    """A stream of the events in lists; it suspends before each, and raises at `fault`."""

    async def play() -> AsyncGenerator[list[Event], None]:
        try:
            at = 0
            for number, size in enumerate([*sizes, *([1] * len(events))]):
                if at >= len(events):
                    return
                await anyio.lowlevel.checkpoint()
                if number == fault:
                    raise ConnectionError("cut")
                yield events[at : at + size]
                at += size
        finally:
            closed.append(1)

    return Stream.from_batches(play)


async def leave(stream: Stream, policy: Policy, consumers: list[Consumer], way: str, after: int) -> Run:
    """Read the stream and leave it in one of the ways there are."""
    run: Run
    with anyio.CancelScope() as scope:
        try:
            async with open_run(stream, policy=policy, consumers=consumers) as run:
                seen = 0
                async for _ in run:
                    seen += 1
                    if seen <= after:
                        continue
                    if way == "break":
                        break
                    if way == "raise":
                        raise KeyError("mine")
                    if way == "cancel":
                        scope.cancel()
                        await anyio.lowlevel.checkpoint()
        except KeyError:
            assert way == "raise"
    return run


@examples(3000)
@given(
    families(),
    st.lists(st.integers(1, 5), max_size=12),
    st.sampled_from(("drain", "break", "raise", "cancel")),
    st.integers(0, 20),
    st.none() | st.integers(0, 6),
    st.sampled_from((CANONICAL, ANSWER)),
)
def test_every_start_has_one_end_and_all_consumers_agree(
    events: list[Event], sizes: list[int], way: str, after: int, fault: int | None, policy: Policy
) -> None:
    """Tool result, end event and span carry one digest, and the source is closed once, however it ends."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    pairs, ends, closed = Pairs(), list[dict[str, Any]](), list[int]()
    spans = telemetry(tracer_provider=provider, metrics=False, content=True, delegations=False)
    consumers = [pairs, lifecycle(on_end=ends.append), spans]
    run = anyio.run(leave, source(events, sizes, fault, closed), policy, consumers, way, after)

    assert [1] == closed
    assert [] == pairs.open
    runs = [span for span in exporter.get_finished_spans() if span.name.startswith("invoke_agent")]
    assert len(run.activations) == len(pairs.ended) == len(ends) == len(runs)
    by_span = sorted(str((span.attributes or {})["lastsay.output.digest"]) for span in runs)
    assert by_span == sorted(end.outcome.digest for end in pairs.ended) == sorted(end["digest"] for end in ends)
    for told, event in zip(pairs.ended, ends, strict=True):
        outcome = told.outcome
        assert (outcome.digest, outcome.stop_reason) == (event["digest"], event["stopReason"])
        assert outcome.digest == tool_result(outcome).digest
        blocks = msgspec.to_builtins(list(outcome.output)) if outcome.output is not None else None
        assert blocks == event.get("lastAssistantMessage")
        assert outcome is next(a.outcome for a in run.activations if a.start.run_id == told.start.run_id)
    assert run.root is not None
    assert run.root.start.run_id == pairs.ended[-1].start.run_id


@pytest.mark.parametrize("policy", [CANONICAL, ANSWER], ids=lambda policy: policy.name)
def test_live_and_log_of_one_run_agree(policy: Policy) -> None:
    """What the scope decides is what folding the same events from a log decides."""
    from lastsay.fold import RunFold

    events: list[Event] = [RunStarted(), RunEnded("max-tokens", terminal="said")]
    fold = RunFold(policy)
    for event in events:
        fold.push(event)
    run = anyio.run(leave, source(events, [], None, []), policy, [], "drain", 99)
    assert fold.outcome() == run.outcome
