"""Sources and readers that the tests of operators share."""

from collections.abc import AsyncIterator, Iterable

import anyio
import anyio.lowlevel

from lastsay.events import Event, TextDelta
from lastsay.operators import Stream


def listed(*batches: Iterable[Event]) -> Stream:
    """A stream of these lists."""

    async def make() -> AsyncIterator[list[Event]]:
        for batch in batches:
            await anyio.lowlevel.checkpoint()
            yield list(batch)

    return Stream.from_batches(make)


def split(events: list[Event], size: int) -> Stream:
    """A stream of the events in lists of `size`."""
    return listed(*[events[i : i + size] for i in range(0, len(events), size)])


async def read(stream: Stream) -> list[Event]:
    """All events of the stream."""
    async with stream as events:
        return [event async for event in events]


async def read_batches(stream: Stream) -> list[list[Event]]:
    """All lists of the stream."""
    async with stream.batches() as batches:
        return [batch async for batch in batches]


def text(events: Iterable[Event]) -> str:
    """The joined text of the deltas."""
    return "".join(event.text for event in events if type(event) is TextDelta)


class Watched:
    """A source that plays events and pauses (seconds), and knows whether it is open."""

    def __init__(self, *script: Event | list[Event] | float | Exception) -> None:
        self.script = script
        self.opened = self.closed = 0

    async def play(self) -> AsyncIterator[list[Event]]:
        """The script: a list or an event is given, a number is slept, an exception is raised."""
        self.opened += 1
        try:
            for step in self.script:
                if isinstance(step, Exception):
                    raise step
                if isinstance(step, (int, float)):
                    await anyio.sleep(step)
                    continue
                await anyio.lowlevel.checkpoint()
                yield step if isinstance(step, list) else [step]
        finally:
            self.closed += 1

    @property
    def stream(self) -> Stream:
        """The stream that plays the script anew at each entry."""
        return Stream.from_batches(self.play)
