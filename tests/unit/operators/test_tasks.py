"""own_task, deadline, mailbox: operators with a task of their own."""

import contextvars

import anyio
import anyio.lowlevel
import pytest
from tests.unit.operators.streams import Watched, read, read_batches, text

from lastsay.errors import SourceError, UsageError
from lastsay.events import MAIN, RunEnded, RunStarted, TextDelta
from lastsay.operators import Mailbox, Stream, deadline, own_task

pytestmark = pytest.mark.anyio
A, B = TextDelta("a"), TextDelta("b")


async def test_own_task_gives_everything_in_order():
    """What the source gives arrives complete and in order."""
    source = Watched(*[[TextDelta(str(i)), TextDelta(",")] for i in range(500)])
    assert "".join(f"{i}," for i in range(500)) == text(await read(source.stream | own_task(room=16)))
    assert (1, 1) == (source.opened, source.closed)


async def test_what_is_ready_comes_as_one_list():
    """A source that does not suspend is read ahead, up to the room."""

    async def make():
        for i in range(100):
            yield [TextDelta(str(i))]

    sizes = [len(b) for b in await read_batches(Stream.from_batches(make) | own_task(room=10))]
    assert 100 == sum(sizes)
    assert 10 == max(sizes)


async def test_the_source_runs_in_one_task_with_its_context():
    """Every step and the closing happen in one task; context variables last; the reader's task is another."""
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)
    tasks, values = set(), []

    async def make():
        variable.set(1)
        try:
            for _ in range(3):
                tasks.add(anyio.get_current_task().id)
                await anyio.lowlevel.checkpoint()
                yield [A]
                values.append(variable.get())
        finally:
            tasks.add(anyio.get_current_task().id)

    assert "aaa" == text(await read(Stream.from_batches(make) | own_task()))
    assert [1, 1, 1] == values
    assert 1 == len(tasks)
    assert anyio.get_current_task().id not in tasks


async def test_errors_are_unwrapped():
    """A single error out of a task group in the source arrives bare, after the events before it."""

    async def make():
        async with anyio.create_task_group():
            yield [A]
            raise OSError("gone")

    async with Stream.from_batches(make) | own_task() as events:
        assert A == await anext(events)
        with pytest.raises(OSError, match="gone"):
            await anext(events)


async def test_a_start_that_fails_raises_on_entry():
    """What entering the source raises is raised by entering the operator."""

    class Broken:
        async def __aenter__(self):
            await anyio.lowlevel.checkpoint()
            raise SourceError("no such program")

        async def __aexit__(self, *error):
            raise AssertionError

    for stream in (Stream(Broken) | own_task(), Stream(Broken) | deadline(idle=1)):
        with pytest.raises(SourceError, match="no such program"):
            async with stream:
                pass
    await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("held", ["scope", "group"])
async def test_sources_with_scopes_survive_breaks_and_deadlines(held):
    """A source that holds a cancel scope or a task group closes cleanly after a break, a deadline, a cancellation."""
    closed = []

    async def scoped():
        with anyio.CancelScope():
            try:
                yield [A]
                yield [B]
                await anyio.sleep_forever()
            finally:
                closed.append(1)

    async def grouped():
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            try:
                yield [A]
                yield [B]
                await anyio.sleep_forever()
            finally:
                closed.append(1)

    stream = Stream.from_batches(scoped if held == "scope" else grouped)
    async with stream | own_task() as events:
        assert A == await anext(events)
    assert 1 == len(closed)
    out = await read(stream | deadline(idle=0.02))
    assert "ab" == text(out)
    assert 2 == len(closed)
    with anyio.move_on_after(0.02):
        await read(stream | own_task())
    assert 3 == len(closed)


async def test_a_reader_that_leaves_stops_an_endless_source():
    """Leaving stops a source that never waits, and one whose cleanup awaits."""
    closed = []

    async def make():
        try:
            while True:
                yield [A]
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.01)
            closed.append(1)

    with anyio.fail_after(5):
        async with Stream.from_batches(make) | own_task(room=4) as events:
            await anext(events)
    assert [1] == closed


async def test_a_source_that_is_cleaning_up_is_left_in_peace():
    """A reader that leaves while the source finishes behind a shield does not cut its cleanup."""
    closed = []

    async def make():
        try:
            yield [A]
        finally:
            with anyio.CancelScope(shield=True):
                for _ in range(5):
                    await anyio.lowlevel.checkpoint()
            closed.append(1)

    for turns in range(8):
        closed.clear()
        async with Stream.from_batches(make) | own_task() as events:
            await anext(events)
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
        assert [1] == closed


async def test_a_cleanup_without_a_shield_may_await_on_asyncio(anyio_backend):
    """A waiting source is cancelled once, so its cleanup may await; on trio a cleanup needs its own shield."""
    closed = []

    async def make():
        try:
            yield [A]
            await anyio.sleep_forever()
        finally:
            await anyio.sleep(0.01)
            closed.append(1)

    if anyio_backend == "asyncio":
        async with Stream.from_batches(make) | own_task() as events:
            await anext(events)
            await anyio.sleep(0.01)
        assert [1] == closed


async def test_an_error_while_closing_is_raised_when_leaving():
    """A source that fails to close is not silent."""

    async def make():
        try:
            yield [A]
            await anyio.sleep_forever()
        finally:
            raise OSError("cannot close")

    with pytest.raises(OSError, match="cannot close"):
        async with Stream.from_batches(make) | own_task() as events:
            await anext(events)


@pytest.mark.parametrize(
    ("limits", "word", "sentence"),
    [
        ({"first": 0.03}, "first", "no event within 0.03 seconds"),
        ({"total": 0.03, "idle": 5}, "total", "not finished after 0.03 seconds"),
    ],
)
async def test_nothing_ever_comes(limits, word, sentence):
    """Without any event the main run ends with the word of the clock that ran out."""
    source = Watched(60)
    (end,) = await read(source.stream | deadline(**limits))
    assert (f"deadline-{word}", f"deadline_{word}", MAIN) == (end.stop_reason, end.raw, end.run)
    assert f"stopped: {sentence}" == end.diagnostic
    assert 1 == source.closed


async def test_an_idle_stream_ends_with_its_partial_output():
    """All open runs end, the youngest first; what came is kept; an ended run is not ended again."""
    source = Watched(
        [RunStarted(), RunStarted(run="x"), RunStarted(run="y"), A], 0.001, [B, RunEnded("completed", run="x")], 60
    )
    out = await read(source.stream | deadline(idle=0.1, first=5))
    assert "ab" == text(out)
    assert [("y", "deadline-idle"), (MAIN, "deadline-idle")] == [(e.run, e.stop_reason) for e in out[-2:]]
    assert 1 == source.closed


async def test_a_busy_stream_meets_its_total():
    """The total holds against a source that never pauses for long."""

    async def make():
        while True:
            await anyio.lowlevel.checkpoint()
            yield [A]

    with anyio.fail_after(10):
        out = await read(Stream.from_batches(make) | deadline(total=0.05, idle=5))
    assert "deadline-total" == out[-1].stop_reason
    assert len(out) > 1


async def test_a_stream_in_time_is_not_touched():
    """A source that ends in time passes unchanged, and so does one whose reader is slow."""
    source = Watched([A], 0.001, [B], [RunEnded("completed")])
    assert [A, B, RunEnded("completed")] == await read(source.stream | deadline(first=5, idle=5, total=5))
    out = []
    async with source.stream | deadline(idle=0.05, total=0.06) as events:
        async for event in events:
            await anyio.sleep(0.04)
            out.append(event)
    assert [A, B, RunEnded("completed")] == out


async def test_all_over_but_not_closed():
    """A source that lingers after the last end is closed without another end."""
    out = await read(Watched([A, RunEnded("completed")], 60).stream | deadline(idle=0.03))
    assert [A, RunEnded("completed")] == out


async def test_cancellation_wins_over_a_deadline():
    """A cancelled reader gets its cancellation, and the source is closed."""
    source = Watched([A], 60)
    with anyio.move_on_after(0.02) as scope:
        await read(source.stream | deadline(idle=30))
        raise AssertionError
    assert scope.cancelled_caught
    assert 1 == source.closed


async def test_wrong_limits_are_refused():
    """A deadline needs a limit above zero."""
    with pytest.raises(UsageError, match="needs a limit"):
        deadline()
    with pytest.raises(UsageError, match="idle=0"):
        deadline(idle=0)


async def test_a_mailbox_hands_over_lists_and_its_error():
    """A reader takes all that waits, then the error; a writer waits while the box is full."""
    box = Mailbox(room=2)
    box.put_nowait([A])
    box.put_nowait([])
    box.put_nowait([B])
    assert 2 == box.waiting
    with anyio.move_on_after(0.01) as scope:
        await box.put([A])
    assert scope.cancelled_caught
    assert [A, B] == box.take_nowait(2)
    assert [A] == await box.take()
    box.close(OSError("gone"))
    box.put_nowait([A])
    with pytest.raises(OSError, match="gone"):
        await box.take()
    ended = Mailbox()
    ended.close()
    assert [] == await ended.take()
    assert ended.closed
