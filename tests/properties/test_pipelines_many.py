"""Ten thousand children in one process, each with its own pipeline (a thousand outside CI)."""

import asyncio
import gc
import sys
from collections.abc import AsyncIterator

import pytest
from tests.properties.scale import FULL

from lastsay.events import Event, Message, RunEnded, RunStarted, Text, TextDelta
from lastsay.operators import Stream, budget, coalesce, dedupe, epochs, tap
from lastsay.run import collect

CHILDREN = 10_000 if FULL else 1_000
WAVE = 500


def child(number: int, seen: list[int]) -> Stream:
    """A child that streams its number; every second one says it in a message, every third one is cut."""

    async def make() -> AsyncIterator[list[Event]]:
        yield [RunStarted(), *[TextDelta(digit, "m") for digit in str(number)]]
        await asyncio.sleep(0)
        if number % 2:
            yield [Message((Text(f"message {number}"),), "m"), Message((), "n")]
        if number % 3:
            yield [RunEnded("completed")]

    stream = Stream.from_batches(make) | dedupe() | coalesce() | budget(events=100) | epochs()
    return stream | tap(lambda event: seen.__setitem__(0, seen[0] + 1), RunEnded)


async def wave(numbers: range, seen: list[int]) -> None:
    """Run these children side by side, and compare every outcome."""
    outcomes = await asyncio.gather(*[collect(child(number, seen)) for number in numbers])
    expected = [(f"message {n}" if n % 2 else str(n), "completed" if n % 3 else "error") for n in numbers]
    assert expected == [(outcome.text, outcome.stop_reason) for outcome in outcomes]


async def settled_blocks() -> int:
    """Blocks of memory in use, once what the last wave left behind is gone."""
    for _ in range(3):
        await asyncio.sleep(0)
    gc.collect()
    return sys.getallocatedblocks()


@pytest.mark.asyncio
@pytest.mark.timeout(120)
async def test_many_children():
    """Every outcome is right, and when the last child has ended, the memory is back where it was."""
    seen = [0]
    for _ in range(2):
        await wave(range(WAVE), seen)
    before = await settled_blocks()
    seen[0] = 0
    for start in range(0, CHILDREN, WAVE):
        await wave(range(start, start + WAVE), seen)
    held = await settled_blocks() - before
    assert sum(1 for n in range(CHILDREN) if n % 3) == seen[0]
    assert held < CHILDREN // 10, f"{held} blocks of memory are left of {CHILDREN} children"
    assert 1 == len(asyncio.all_tasks())
