"""One source, three consumers that look at every event: a broadcast against memory streams and queues."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
from benchmarks._events import conversation, lists
from benchmarks._measure import LOOP, Effort, Row, gain_row

from lastsay.events import Event
from lastsay.operators import Stream, broadcast

CONSUMERS = 3
BURST = 64


def broadcasting(batches: list[list[Event]]) -> list[int]:
    """The broadcast operator; the source waits once after every list, as a real one does."""

    async def give() -> AsyncIterator[list[Event]]:
        for batch in batches:
            yield batch
            await asyncio.sleep(0)

    async def follow(stream: Stream, counts: list[int]) -> None:
        count = 0
        async with stream.batches() as mine:
            async for batch in mine:
                for _ in batch:
                    count += 1
        counts.append(count)

    async def main() -> list[int]:
        counts: list[int] = []
        async with Stream.from_batches(give) | broadcast() as shared:
            streams = [shared.subscribe(str(i)) for i in range(CONSUMERS)]
            async with anyio.create_task_group() as group:
                for stream in streams:
                    group.start_soon(follow, stream, counts)
        return counts

    return LOOP.run(main())


def memory_streams(events: list[Event]) -> list[int]:
    """An awaited send per event and consumer, into buffers of 1,024."""

    async def follow(receive: Any, counts: list[int]) -> None:
        count = 0
        async with receive:
            async for _ in receive:
                count += 1
        counts.append(count)

    async def main() -> list[int]:
        counts: list[int] = []
        pairs = [anyio.create_memory_object_stream[Event](1024) for _ in range(CONSUMERS)]
        async with anyio.create_task_group() as group:
            for _, receive in pairs:
                group.start_soon(follow, receive, counts)
            for event in events:
                for send, _ in pairs:
                    await send.send(event)
            for send, _ in pairs:
                await send.aclose()
        return counts

    return LOOP.run(main())


def queues(batches: list[list[Event]]) -> list[int]:
    """A queue per consumer, filled in bursts."""

    async def follow(queue: asyncio.Queue[Event | None], counts: list[int]) -> None:
        count = 0
        while await queue.get() is not None:
            count += 1
        counts.append(count)

    async def main() -> list[int]:
        counts: list[int] = []
        channels: list[asyncio.Queue[Event | None]] = [asyncio.Queue() for _ in range(CONSUMERS)]
        async with asyncio.TaskGroup() as group:
            for queue in channels:
                group.create_task(follow(queue, counts))
            for batch in batches:
                for event in batch:
                    for queue in channels:
                        queue.put_nowait(event)
                await asyncio.sleep(0)
            for queue in channels:
                queue.put_nowait(None)
        return counts

    return LOOP.run(main())


def rows(effort: Effort) -> Iterator[Row]:
    """The rows about broadcasting."""
    events = conversation(effort.events)
    batches = lists(events, BURST)
    few = events[: len(events) // 2]
    few_batches = lists(few, BURST)
    expected = [len(events)] * CONSUMERS
    assert expected == broadcasting(batches) == queues(batches), "the consumers disagree"
    assert memory_streams(few) == broadcasting(few_batches), "the consumers disagree"
    yield gain_row(
        "broadcast to 3, bursts of 64", "anyio memory streams, awaited", 100,
        lambda: broadcasting(few_batches), lambda: memory_streams(few), effort, len(few),
    )  # fmt: skip
    yield gain_row(
        "broadcast to 3, bursts of 64", "asyncio.Queue x 3", 6,
        lambda: broadcasting(batches), lambda: queues(batches), effort, len(events),
    )  # fmt: skip
