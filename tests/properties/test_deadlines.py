"""Random deadlines over random sources, on a clock that jumps: every moment is known exactly."""

from collections.abc import AsyncIterator
from itertools import accumulate
from math import inf

import anyio
import trio
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.scale import examples
from trio.testing import MockClock

from lastsay.events import Event, RunStarted, TextDelta
from lastsay.operators import Stream, coalesce, deadline
from lastsay.run import open_run

GAPS = st.lists(st.integers(0, 12), min_size=1, max_size=10)
"""Seconds before every list, and before the end."""
LIMITS = st.builds(lambda whole: None if whole is None else whole + 0.5, st.none() | st.integers(0, 20))
"""Seconds that no event falls on."""


class Timed:
    """A source that gives a list after each gap but the last, in which it ends."""

    def __init__(self, gaps: list[int], size: int) -> None:
        self.gaps = gaps
        self.lists: list[list[Event]] = [
            [TextDelta(f"{at}.{piece} ", "m") for piece in range(size)] for at in range(len(gaps) - 1)
        ]
        self.closed = 0

    async def batches(self) -> AsyncIterator[list[Event]]:
        try:
            for gap, batch in zip(self.gaps, self.lists, strict=False):
                await anyio.sleep(gap)
                yield batch
            await anyio.sleep(self.gaps[-1])
        finally:
            self.closed += 1

    def stopped(self, first: float | None, idle: float | None, total: float | None) -> tuple[str | None, float, int]:
        """The word of the clock that runs out first, when, and how many lists came before."""
        last: float | None = None
        times = list(accumulate(self.gaps))
        for count, time in enumerate(times):
            clocks = [(total or inf, "deadline-total")]
            if last is None:
                clocks.append((first or inf, "deadline-first"))
            else:
                clocks.append((last + (idle or inf), "deadline-idle"))
            moment, word = min(clocks)
            if time > moment:
                return word, moment, count
            last = time
        return None, times[-1], len(self.lists)


@given(GAPS, st.integers(1, 6), LIMITS, LIMITS, LIMITS, st.booleans())
@examples(2000)
def test_a_deadline_ends_the_stream_at_its_moment(gaps, size, first, idle, total, joined):
    """The first clock to run out decides, to the instant; all that came before is kept, and the source is closed."""
    source = Timed(gaps, size)
    if first is None and idle is None and total is None:
        total = 1000.0

    async def main() -> None:
        stream = Stream.from_batches(source.batches) | deadline(first=first, idle=idle, total=total)
        began = anyio.current_time()
        async with open_run(stream | coalesce() if joined else stream) as run:
            texts = [event.text async for event in run if isinstance(event, TextDelta)]
            took = anyio.current_time() - began
        word, moment, count = source.stopped(first, idle, total)
        assert moment == took
        assert "".join([event.text for batch in source.lists[:count] for event in batch]) == "".join(texts)
        assert 1 == source.closed == len(run.activations)
        assert (word or "error") == run.outcome.stop_reason
        assert bool(run.outcome.output) == (count > 0)

    trio.run(main, clock=MockClock(autojump_threshold=0))


@given(GAPS, st.lists(st.integers(0, 9), min_size=10, max_size=10), LIMITS, LIMITS)
@examples(800)
def test_a_slow_reader_loses_nothing_to_a_deadline(gaps, pauses, idle, total):
    """However long the reader takes, what it gets is a beginning of what the source gave, and one end."""
    source = Timed(gaps, 2)

    async def main() -> None:
        stream = Stream.from_batches(source.batches) | deadline(idle=idle, total=total or 1000.0)
        got: list[Event] = []
        async with open_run(stream) as run:
            async for batch in run.batches():
                got += [event for event in batch if isinstance(event, TextDelta)]
                await anyio.sleep(pauses[len(got) % len(pauses)])
        given = [event for batch in source.lists for event in batch]
        assert given[: len(got)] == got
        assert len(got) == len(given) or run.outcome.stop_reason.startswith("deadline-")
        assert 1 == source.closed == len(run.activations)

    trio.run(main, clock=MockClock(autojump_threshold=0))


@given(st.integers(1, 20), LIMITS)
@examples(200)
def test_a_source_that_opens_slowly_is_on_the_clock(seconds, total):
    """A run that started, and then says nothing, is ended by the total too."""

    async def batches() -> AsyncIterator[list[Event]]:
        yield [RunStarted()]
        await anyio.sleep(seconds)
        yield [TextDelta("late")]

    async def main() -> None:
        limit = total or 1000.0
        async with open_run(Stream.from_batches(batches) | deadline(total=limit)) as run:
            seen = [event async for event in run]
        assert (seconds < limit) == (TextDelta("late") in seen)
        assert (None if seconds < limit else "deadline_total") == run.outcome.raw_stop_reason

    trio.run(main, clock=MockClock(autojump_threshold=0))
