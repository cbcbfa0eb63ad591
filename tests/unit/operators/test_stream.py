"""Stream: entry, iteration, composition, closing."""

import anyio
import anyio.lowlevel
import pytest

from lastsay.errors import SourceError, UsageError
from lastsay.events import TextDelta
from lastsay.operators import Stream, as_stream
from lastsay.operators import _stream as stream_module

pytestmark = pytest.mark.anyio


class Source:
    """A source that counts how often it was opened and closed."""

    def __init__(self, batches: int = 3, *, endless: bool = False) -> None:
        self.opened = self.closed = 0
        self.count = batches
        self.endless = endless
        self.closing_task: int | None = None

    async def batches(self):
        self.opened += 1
        try:
            for i in range(self.count):
                await anyio.lowlevel.checkpoint()
                yield [TextDelta(f"{i}a"), TextDelta(f"{i}b")]
            if self.endless:
                await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            self.closing_task = anyio.get_current_task().id
            self.closed += 1

    async def events(self):
        async for batch in self.batches():
            for event in batch:
                yield event


async def test_events_come_one_by_one_in_order():
    """An entry gives the events of all batches in order."""
    source = Source()
    async with Stream.from_batches(source.batches) as events:
        texts = [e.text async for e in events]
    assert ["0a", "0b", "1a", "1b", "2a", "2b"] == texts
    assert (1, 1) == (source.opened, source.closed)


async def test_batches_come_as_lists():
    """`batches` gives the source's own lists."""
    async with Stream.from_batches(Source(2).batches) as events:
        assert 4 == len([e async for e in events])
    async with Stream.from_batches(Source(2).batches).batches() as batches:
        assert [2, 2] == [len(b) async for b in batches]


async def test_single_events_make_lists_of_one():
    """A source of events gives batches of one."""

    async def make():
        yield TextDelta("a")
        yield TextDelta("b")

    stream = Stream.from_events(make)
    async with stream.batches() as batches:
        assert [[TextDelta("a")], [TextDelta("b")]] == [b async for b in batches]
    async with stream as events:
        assert [TextDelta("a"), TextDelta("b")] == [e async for e in events]


async def test_a_stream_can_be_entered_again():
    """Each entry opens the source anew."""
    source = Source()
    stream = Stream.from_batches(source.batches)
    for _ in range(3):
        async with stream as events:
            assert 6 == len([e async for e in events])
    assert (3, 3) == (source.opened, source.closed)


async def test_entries_nest_and_run_side_by_side():
    """Entries of one stream object do not disturb each other, nested or in tasks."""
    source = Source()
    stream = Stream.from_batches(source.batches)
    counts: list[int] = []

    async def read() -> None:
        async with stream as events:
            counts.append(len([e async for e in events]))

    async with stream as outer:
        assert "0a" == (await anext(outer)).text
        async with stream as inner:
            assert 6 == len([e async for e in inner])
        assert "0b" == (await anext(outer)).text
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(read)
    assert [6, 6, 6] == counts
    assert source.opened == source.closed == 5


async def test_break_closes_at_once():
    """Leaving early closes the source before the block is left, in the entering task."""
    source = Source(endless=True)
    async with Stream.from_batches(source.batches) as events:
        async for _ in events:
            break
    assert 1 == source.closed
    assert anyio.get_current_task().id == source.closing_task


async def test_an_error_in_the_body_closes_and_passes():
    """The body's exception arrives unchanged, after the source was closed."""
    source = Source(endless=True)
    with pytest.raises(ValueError, match="body"):
        async with Stream.from_batches(source.batches) as events:
            await anext(events)
            raise ValueError("body")
    assert 1 == source.closed


async def test_cancellation_closes_with_awaits_in_the_cleanup():
    """A cancelled reader still closes a source whose cleanup awaits."""
    done: list[str] = []

    async def make():
        try:
            yield [TextDelta("a")]
            await anyio.sleep_forever()
        finally:
            await anyio.sleep(0.01)
            done.append("closed")

    with anyio.move_on_after(0.02) as scope:
        async with Stream.from_batches(make) as events:
            async for _ in events:
                pass
    # The cancellation hits inside the generator there, so its own cleanup is cancelled: nothing to shield yet.
    assert scope.cancelled_caught
    done.clear()
    with anyio.move_on_after(0.02) as scope:
        async with Stream.from_batches(make) as events:
            await anext(events)
            await anyio.sleep_forever()
    assert ["closed"] == done
    assert scope.cancelled_caught


async def test_closing_is_bounded(monkeypatch, caplog):
    """A source that does not close is cancelled after the limit, and the reader goes on."""
    monkeypatch.setattr(stream_module, "CLOSE_LIMIT", 0.02)

    async def make():
        try:
            yield [TextDelta("a")]
        finally:
            await anyio.sleep_forever()

    with anyio.fail_after(5):
        async with Stream.from_batches(make) as events:
            await anext(events)
    assert "did not close within 0.02 seconds" in caplog.text


async def test_a_source_may_hold_a_scope_or_a_task_group():
    """Sources that hold anyio scopes around their yields close cleanly after an early break."""

    async def scoped():
        with anyio.CancelScope():
            yield [TextDelta("a")]
            yield [TextDelta("b")]

    async def grouped():
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            try:
                yield [TextDelta("a")]
                yield [TextDelta("b")]
            finally:
                group.cancel_scope.cancel()

    async with Stream.from_batches(scoped) as events:
        assert "a" == (await anext(events)).text
    with anyio.move_on_after(0.02):
        async with Stream.from_batches(scoped) as events:
            await anext(events)
            await anyio.sleep_forever()
    async with Stream.from_batches(grouped) as events:
        assert ["a", "b"] == [e.text async for e in events]


async def test_a_source_that_cannot_start_raises_on_entry():
    """The opener's error is raised by the entry, and the task can go on."""

    class Broken:
        async def __aenter__(self):
            raise SourceError("no such program")

        async def __aexit__(self, *error):
            raise AssertionError

    with pytest.raises(SourceError, match="no such program"):
        async with Stream(Broken):
            pass
    await anyio.lowlevel.checkpoint()


async def test_a_failing_source_raises_in_the_body():
    """An exception of the source arrives where the next event was awaited."""

    async def make():
        yield [TextDelta("a")]
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        async with Stream.from_batches(make) as events:
            async for _ in events:
                pass


async def test_any_callable_stands_on_the_right():
    """`|` calls its right operand with the stream and gives what it gives."""
    stream = Stream.from_batches(Source().batches)
    assert stream is (stream | (lambda s: s))
    assert "Stream" == (stream | (lambda s: type(s).__name__))


async def test_foreign_iterables_become_streams():
    """Any async iterable of events can be a stream; other things are refused by name."""
    source = Source()
    async with as_stream(source.events()) as events:
        assert 6 == len([e async for e in events])
    with pytest.raises(UsageError, match="not int"):
        as_stream(3)  # type: ignore[arg-type]


async def test_plain_iteration_works_for_callers_that_close():
    """A stream is an async iterable whose iterator closes the source."""
    source = Source(endless=True)
    iterator = aiter(Stream.from_batches(source.batches))
    assert "0a" == (await anext(iterator)).text
    await iterator.aclose()
    assert 1 == source.closed


async def test_leaving_without_entering_is_refused():
    """Leaving in a task that never entered says what is wrong."""
    with pytest.raises(UsageError, match="left in the task that entered it"):
        await Stream.from_batches(Source().batches).__aexit__(None, None, None)
