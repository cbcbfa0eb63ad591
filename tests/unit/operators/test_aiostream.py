"""aiostream on the left and on the right, with the real package."""

import asyncio

import aiostream
import anyio
import anyio.lowlevel
import pytest
from tests.unit.operators.streams import Watched, read, text

from lastsay.events import TextDelta
from lastsay.operators import Stage, Stream, coalesce, deadline, merge, own_task, tap, through

pytestmark = pytest.mark.asyncio
LETTERS = [TextDelta(c, "m") for c in "abcdefgh"]


class Upper(Stage):
    kind = "map"

    def handlers(self):
        return {TextDelta: lambda e: TextDelta(e.text.upper(), e.message)}


async def test_an_aiostream_stream_on_the_left():
    """Any operator takes an aiostream stream, and gives a lastsay stream."""
    stream = aiostream.stream.iterate(LETTERS) | through(Upper) | coalesce(characters=3)
    assert isinstance(stream, Stream)
    assert ["ABC", "DEF", "GH"] == [e.text for e in await read(stream)]
    assert ["ABC", "DEF", "GH"] == [e.text for e in await read(stream)]
    assert "abcdefgh" == text(await read(aiostream.stream.iterate(LETTERS) | deadline(idle=5)))


async def test_a_lastsay_stream_on_the_left():
    """Aiostream's pipes take a lastsay stream; taking less closes the source."""
    source = Watched(LETTERS, 60)
    piped = source.stream | through(Upper) | aiostream.pipe.take(3)
    async with piped.stream() as streamer:
        assert "ABC" == text([e async for e in streamer])
    assert 1 == source.closed
    assert 8 == len(await aiostream.stream.list(Watched(LETTERS).stream))
    chunks = await aiostream.stream.list(Watched(LETTERS).stream | aiostream.pipe.chunks(5))
    assert [5, 3] == [len(chunk) for chunk in chunks]


async def test_there_and_back_again():
    """Both kinds of operators alternate in one chain."""
    seen: list[TextDelta] = []
    stream = (
        Watched(LETTERS).stream
        | tap(seen.append)
        | aiostream.pipe.skip(2)
        | through(Upper)
        | aiostream.pipe.take(4)
        | coalesce(characters=99)
    )
    assert "CDEF" == text(await read(stream))
    assert LETTERS[: len(seen)] == seen


async def test_lists_can_be_the_items():
    """An aiostream chain over lists pays its price once per list."""
    stream = Watched(LETTERS[:4], LETTERS[4:]).stream

    async def lists():
        async with stream.batches() as batches:
            async for batch in batches:
                yield batch

    doubled = aiostream.stream.iterate(lists()) | aiostream.pipe.map(lambda batch: batch * 2)
    assert "abcdabcdefghefgh" == text(await read(Stream.from_batches(lambda: doubled)))


async def test_their_concurrent_operators_over_a_source_with_a_task_of_its_own():
    """Aiostream steps its sources in changing tasks; own_task makes that safe for a source that holds a scope."""
    closed = []

    async def scoped():
        with anyio.CancelScope():
            try:
                for event in LETTERS:
                    await anyio.lowlevel.checkpoint()
                    yield [event]
            finally:
                closed.append(1)

    safe = Stream.from_batches(scoped) | own_task()
    with pytest.raises(RuntimeError, match="cancel scope"):
        await aiostream.stream.list(Stream.from_batches(scoped) | aiostream.pipe.timeout(5))
    closed.clear()
    assert 8 == len(await aiostream.stream.list(safe | aiostream.pipe.timeout(5)))
    both = await aiostream.stream.list(aiostream.stream.merge(safe, safe))
    assert sorted("abcdefgh" * 2) == sorted(e.text for e in both)
    assert 16 == len(await read(merge(safe | aiostream.pipe.timeout(5), aiostream.stream.merge(safe))))
    assert 5 == len(closed)


async def test_errors_and_cancellation_pass_both_ways():
    """The source's error arrives, and a cancelled reader closes the source."""
    broken = Watched(LETTERS[:2], OSError("gone"))
    with pytest.raises(OSError, match="gone"):
        await aiostream.stream.list(broken.stream | tap(lambda e: None) | aiostream.pipe.take(5))
    assert 1 == broken.closed
    source = Watched(LETTERS[:2], 60)
    task = asyncio.ensure_future(read(source.stream | aiostream.pipe.action(lambda e: None) | coalesce()))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert 1 == source.closed
