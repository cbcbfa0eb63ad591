"""Cost per event as streams grow: sixteen times the events, sixteen times the message."""

import statistics
from collections.abc import AsyncIterator, Callable, Iterator

from benchmarks._events import WORDS, conversation, lists
from benchmarks._measure import LOOP, Effort, Row, cpu
from benchmarks.pipelines import STAGES

from lastsay.events import Event, Message, Text, TextDelta
from lastsay.operators import Stream, coalesce, through


def piped(batches: list[list[Event]]) -> Callable[[], int]:
    """All stages and the fold over the lists."""

    async def give() -> AsyncIterator[list[Event]]:
        for batch in batches:
            yield batch

    async def main() -> int:
        count = 0
        async with (Stream.from_batches(give) | through(*STAGES) | coalesce(characters=320)).batches() as out:
            async for batch in out:
                count += len(batch)
        return count

    return lambda: LOOP.run(main())


def long_message(deltas: int) -> list[Event]:
    """One message of that many deltas, and the message itself."""
    words = [WORDS[i & 7] for i in range(deltas)]
    deltas_of_it = [TextDelta(word, "m", seq=i) for i, word in enumerate(words)]
    return [*deltas_of_it, Message((Text("".join(words)),), "m", seq=deltas)]


def growth(small: list[list[Event]], large: list[list[Event]], rounds: int) -> float:
    """Cost per event of the large one over that of the small one, which is run sixteen times."""
    one, sixteen = piped(small), piped(large)
    one()
    ratios = []
    for _ in range(rounds):
        base = cpu(lambda: [one() for _ in range(16)])
        ratios.append(cpu(sixteen) / base)
    return statistics.median(ratios)


def rows(effort: Effort) -> Iterator[Row]:
    """The rows about growth."""
    count = effort.events // 2
    small, large = lists(conversation(count), 64), lists(conversation(count * 16), 64)
    more = growth(small, large, min(effort.rounds, 15))
    yield Row("pipeline, 16 x the events", "itself, per event", 1.35, "at most", measured=more)
    small, large = lists(long_message(4_000), 64), lists(long_message(64_000), 64)
    longer = growth(small, large, min(effort.rounds, 15))
    yield Row("pipeline, a message 16 x as long", "itself, per event", 1.35, "at most", measured=longer)
