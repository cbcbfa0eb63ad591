"""Random pipelines over random streams, left in random ways."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import chain, pairwise
from typing import Any

import anyio
import anyio.lowlevel
import trio
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.scale import examples
from trio.testing import MockClock

from lastsay.events import (
    FEW,
    Event,
    Message,
    MessageStarted,
    Notice,
    ReasoningDelta,
    RunEnded,
    RunStarted,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    stretches,
)
from lastsay.operators import (
    Stream,
    budget,
    coalesce,
    deadline,
    dedupe,
    epochs,
    in_order,
    merge,
    own_task,
    redact,
    tap,
    validate,
)
from lastsay.run import open_run
from lastsay.testing._operators import said

Operator = Callable[[Stream], Stream]

PASSING: dict[str, Callable[[], Operator]] = {
    "tap": lambda: tap(lambda event: None),
    "coalesce": coalesce,
    "coalesce_timed": lambda: coalesce(0.001),
    "coalesce_sized": lambda: coalesce(characters=5),
    "deadline": lambda: deadline(idle=30, total=60),
    "budget": lambda: budget(events=100_000),
    "redact": lambda: redact(r"secret\d+", hold=4),
    "dedupe": dedupe,
    "in_order": in_order,
    "epochs": epochs,
    "own_task": lambda: own_task(room=3),
    "merge": lambda: merge,
}
CUTTING: dict[str, Callable[[], Operator]] = {
    "budget_events": lambda: budget(events=5),
    "budget_characters": lambda: budget(characters=6),
    "validate": lambda: validate("drop"),
}

TEXT = st.text("ab secrt0", min_size=1, max_size=6)
MESSAGES = st.sampled_from(["m", "n", None])
RUNS = st.sampled_from(["main", "main", "child"])
EVENTS = st.one_of(
    st.builds(lambda t, m, r: TextDelta(t, m, run=r), TEXT, MESSAGES, RUNS),
    st.builds(lambda t, m, r: TextDelta(t, m, run=r), TEXT, MESSAGES, RUNS),
    st.builds(lambda t, m, r: ReasoningDelta(t, m, run=r), TEXT, MESSAGES, RUNS),
    st.builds(lambda t, m, r: Message((Text(t),) if m else (), m, run=r), TEXT, MESSAGES, RUNS),
    st.builds(lambda m, r: MessageStarted(m, run=r), MESSAGES, RUNS),
    st.builds(lambda r: ToolCall("t", "look", run=r), RUNS),
    st.builds(lambda r: ToolResult("t", run=r), RUNS),
    st.builds(Notice, TEXT),
)
STRETCHES = st.builds(
    lambda texts, m, r: [TextDelta(t, m, run=r) for t in texts], st.lists(TEXT, min_size=4, max_size=12), MESSAGES, RUNS
)
SINGLES = EVENTS.map(lambda event: [event])
STREAMS = st.lists(st.one_of(SINGLES, SINGLES, STRETCHES), max_size=20).map(
    lambda parts: [RunStarted(), *chain(*parts), RunEnded("completed", run="child"), RunEnded("completed")]
)
PASSING_CHAINS = st.lists(st.sampled_from(sorted(PASSING)), max_size=4)
ANY_CHAINS = st.lists(st.sampled_from(sorted(PASSING) + sorted(CUTTING)), max_size=4)
CUTS = st.lists(st.integers(1, 20), max_size=40)


def chained(source: Stream, names: list[str]) -> Stream:
    """The source through the named operators."""
    for name in names:
        source = source | (PASSING.get(name) or CUTTING[name])()
    return source


class Source:
    """Gives events in lists of the drawn sizes; does something at one step, and counts its openings and closings."""

    def __init__(self, events: list[Event], cuts: list[int]) -> None:
        self.lists: list[list[Event]] = []
        position = 0
        for cut in [*cuts, len(events)]:
            if position < len(events):
                self.lists.append(events[position : position + cut])
                position += cut
        self.opened = self.closed = 0
        self.at = -1
        self.what: Callable[[], Any] | None = None

    async def batches(self) -> AsyncIterator[list[Event]]:
        self.opened += 1
        try:
            for i, batch in enumerate(self.lists):
                if i == self.at and self.what is not None:
                    await self.what()
                await anyio.lowlevel.checkpoint()
                yield batch
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            self.closed += 1

    @property
    def stream(self) -> Stream:
        return Stream.from_batches(self.batches)


LOOPS = st.sampled_from(["asyncio", "trio"])


def watched(work: Callable[[], Awaitable[None]], loop: str = "asyncio") -> None:
    """Runs the coroutine function; nothing may be left over, and nothing may go unheard."""
    if loop == "trio":  # whose nurseries can neither leave a task over nor lose an error
        trio.run(work, clock=MockClock(autojump_threshold=0))
        return
    unheard: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: unheard.append(context))
        before = asyncio.all_tasks()
        with anyio.fail_after(10):
            await work()
        await anyio.lowlevel.checkpoint()
        assert before == asyncio.all_tasks(), "a task was left over"

    asyncio.run(main())
    assert [] == unheard


@given(STREAMS, PASSING_CHAINS, CUTS, LOOPS)
@examples(400)
def test_pipelines_change_no_outcome(events, names, cuts, loop):
    """Through any chain of passing operators, cut anyhow, every run says the same and has the same outcome."""

    async def work() -> None:
        plain, source = Source(events, []), Source(events, cuts)
        async with open_run(plain.stream) as expected:
            whole = [event async for event in expected]
        async with open_run(chained(source.stream, names)) as run:
            out = [event async for event in run]
        if "redact" not in names:
            assert said(whole) == said(out)
            assert expected.outcome.output == run.outcome.output
        assert expected.outcome.stop_reason == run.outcome.stop_reason
        assert set(expected.children) == set(run.children)
        assert 1 == source.opened == source.closed

    watched(work, loop)


class BodyError(Exception):
    """The reader's own."""


@given(
    STREAMS, ANY_CHAINS, CUTS, st.integers(0, 12), st.sampled_from(["break", "raise", "cancel", "fail", "hang"]), LOOPS
)
@examples(800)
def test_every_way_out_closes_the_source_and_ends_every_run(events, names, cuts, at, way, loop):
    """A break, an error on either side, a cancellation, a deadline, at any point: closed once, one end for each run."""

    async def work() -> None:
        source = Source(events, cuts)
        source.at = at
        scope = anyio.CancelScope()
        names_here = list(names)

        async def fail() -> None:
            raise OSError("the source broke")

        async def cancel() -> None:
            scope.cancel()

        source.what = {"fail": fail, "cancel": cancel, "hang": anyio.sleep_forever}.get(way)
        stream = chained(source.stream, names_here)
        if way == "hang":
            stream = stream | deadline(first=0.005, idle=0.005)
        opened = open_run(stream)
        caught = run = None
        with scope:
            try:
                async with opened as run:
                    count = 0
                    async for _ in run:
                        count += 1
                        if count > at and way == "break":
                            break
                        if count > at and way == "raise":
                            raise BodyError
            except BodyError as error:
                caught = error
        assert 1 == source.opened == source.closed
        assert way == "raise" or caught is None
        if run is None:  # cancelled on the way in, by a source that is read ahead
            assert "cancel" == way
            return
        runs = [activation.start.run for activation in run.activations]
        assert run.outcome is not None
        assert all(activation.outcome is not None for activation in run.activations)
        assert len(runs) == len(set(runs)) or "epochs" in names
        if scope.cancelled_caught:
            assert "completed" != run.outcome.stop_reason or not run.outcome.evidence

    watched(work, loop)


@given(STREAMS, ANY_CHAINS, CUTS, LOOPS)
@examples(200)
def test_batches_and_events_agree(events, names, cuts, loop):
    """Reading a pipeline in lists and event by event gives the same, and no list is empty."""

    async def work() -> None:
        stream = chained(Source(events, cuts).stream, [name for name in names if name != "coalesce_timed"])
        async with stream as singles:
            one = [event async for event in singles]
        async with stream.batches() as batches:
            lists = [batch async for batch in batches]
        assert all(lists)
        assert said(one) == said([event for batch in lists for event in batch])

    watched(work, loop)


EXACT_CHAINS = st.lists(
    st.sampled_from(["tap", "coalesce_sized", "budget", "dedupe", "in_order", "epochs", *sorted(CUTTING)]), max_size=4
)


@given(STREAMS, EXACT_CHAINS, CUTS, LOOPS)
@examples(400)
def test_how_the_input_was_cut_changes_nothing(events, names, cuts, loop):
    """Operators that wait for nothing give the very same events, whether these came in lists or one by one."""

    async def work() -> None:
        async def singles() -> AsyncIterator[Event]:
            for event in events:
                yield event

        outs = []
        for source in (Source(events, cuts).stream, Source(events, []).stream, Stream.from_events(singles)):
            async with chained(source, names) as out:
                outs.append([event async for event in out])
        assert outs[0] == outs[1] == outs[2]

    watched(work, loop)


@given(STREAMS, CUTS)
@examples(400)
def test_a_list_is_cut_into_stretches_that_belong_together(events, cuts):
    """The stretches put together are the list; each is of one class and run, and text of one message with it joined."""
    for batch in Source(events, cuts).lists:
        found = stretches(batch)
        assert batch == [event for stretch in found for event in stretch]
        keys = [{(type(e), e.run, getattr(e, "text", None) and e.message) for e in stretch} for stretch in found]
        assert all(len(key) == 1 for key in keys)
        assert all(one != other for one, other in pairwise(keys))
        for stretch in found:
            if type(stretch[0]) in (TextDelta, ReasoningDelta) and len(stretch) >= FEW:
                assert ([event.text for event in stretch], "".join(stretch.texts)) == (stretch.texts, stretch.text)
