"""Seven stages (sequence check, class check, counts, fold, telemetry, lifecycle, coalescing), written four ways."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from benchmarks._events import conversation, lists
from benchmarks._measure import LOOP, Effort, Row, cost_row, gain_row

from lastsay.events import (
    EVENT_TYPES,
    Deltas,
    Event,
    Message,
    ReasoningDelta,
    RunEnded,
    RunStarted,
    TextDelta,
    ToolCall,
)
from lastsay.fold import OutputFold
from lastsay.operators import Handlers, Stage, Stream, coalesce, every, through

CHARACTERS = 320
"""Size of a coalesced delta: about 64 pieces."""


class Sequence(Stage):
    """Counts numbers that do not follow the one before. Its state lives in a closure: cheaper than attributes."""

    def __init__(self) -> None:
        self.gaps = 0

    def handlers(self) -> Handlers:
        due = 0

        def one(event: Event) -> None:
            nonlocal due
            seq = event.seq
            if seq != due:
                self.gaps += 1
            due = seq + 1  # type: ignore[operator]  # every event here has a number

        def run(events: list[Event]) -> None:
            nonlocal due
            upto: Any = due
            for event in events:
                seq: Any = event.seq
                if seq != upto:
                    self.gaps += 1
                upto = seq + 1
            due = upto

        return every(one, run)


class Known(Stage):
    """Counts what is not an event. The table finds it, so events cost nothing."""

    def __init__(self) -> None:
        self.strangers = 0

    def handlers(self) -> Handlers:
        return {object: self.one}

    def one(self, _: Any) -> None:
        self.strangers += 1


class Counts(Stage):
    """Events by class. A handler knows its class, so each has a number of its own."""

    def __init__(self) -> None:
        self.numbers: dict[type, Callable[[], int]] = {}

    def handlers(self) -> Handlers:
        return {kind: self.counting(kind) for kind in EVENT_TYPES}

    def counting(self, kind: type) -> tuple[Callable[[Event], None], Callable[[list[Event]], None]]:
        count = 0

        def one(_: Event) -> None:
            nonlocal count
            count += 1

        def run(events: list[Event]) -> None:
            nonlocal count
            count += len(events)

        self.numbers[kind] = lambda: count
        return one, run

    def found(self) -> dict[str, int]:
        return {kind.__name__: number() for kind, number in self.numbers.items() if number()}


class Folding(Stage):
    """The output."""

    def __init__(self) -> None:
        self.fold = OutputFold()

    def handlers(self) -> Handlers:
        return every(self.fold.push, self.fold.push_run)


class Telemetry(Stage):
    """Characters of text and reasoning, and tool calls."""

    def __init__(self) -> None:
        self.found: Callable[[], tuple[int, int, int]]

    def handlers(self) -> Handlers:
        text = reasoning = calls = 0

        def text_one(event: TextDelta) -> None:
            nonlocal text
            text += len(event.text)

        def text_run(events: Deltas) -> None:
            nonlocal text
            text += len(events.text)

        def reasoning_one(event: ReasoningDelta) -> None:
            nonlocal reasoning
            reasoning += len(event.text)

        def call_one(_: ToolCall) -> None:
            nonlocal calls
            calls += 1

        def call_run(events: list[ToolCall]) -> None:
            nonlocal calls
            calls += len(events)

        self.found = lambda: (text, reasoning, calls)
        return {TextDelta: (text_one, text_run), ReasoningDelta: reasoning_one, ToolCall: (call_one, call_run)}


class Lifecycle(Stage):
    """Starts and ends."""

    def __init__(self) -> None:
        self.open: set[str] = set()
        self.ended: list[tuple[str, str]] = []

    def handlers(self) -> Handlers:
        return {RunStarted: self.start, RunEnded: self.end}

    def start(self, event: RunStarted) -> None:
        self.open.add(event.run)

    def end(self, event: RunEnded) -> None:
        self.open.discard(event.run)
        self.ended.append((event.run, event.stop_reason))


STAGES = (Sequence, Known, Counts, Folding, Telemetry, Lifecycle)


def result(stages: list[Any]) -> tuple[Any, ...]:
    """What the stages found, to be compared."""
    sequence, known, counts, folding, telemetry, lifecycle = stages
    return (
        sequence.gaps,
        known.strangers,
        counts.found(),
        folding.fold.collect(),
        telemetry.found(),
        lifecycle.ended,
    )


def hand_loop(events: list[Event]) -> tuple[Any, ...]:
    """The same work in one loop, as one would write it by hand."""
    last, gaps, strangers = -1, 0, 0
    counts: dict[type, int] = dict.fromkeys(EVENT_TYPES, 0)
    known = frozenset(EVENT_TYPES)
    pieces: list[str] = []
    selected = None
    text = reasoning = calls = 0
    is_open: set[str] = set()
    ended: list[tuple[str, str]] = []
    held: list[str] = []
    held_key: tuple[str, str | None] = ("", None)
    held_length = held_seq = 0
    out: list[Event] = []
    for event in events:
        seq = event.seq
        if seq != last + 1:
            gaps += 1
        last = seq
        kind = type(event)
        if kind not in known:
            strangers += 1
        counts[kind] += 1
        if kind is TextDelta:
            piece = event.text
            if selected is None:
                pieces.append(piece)
            length = len(piece)
            text += length
            key = (event.run, event.message)
            if held and key != held_key:
                out.append(TextDelta("".join(held), held_key[1], run=held_key[0], seq=held_seq))
                held, held_length = [], 0
            held_key, held_seq = key, seq
            held.append(piece)
            held_length += length
            if held_length >= CHARACTERS:
                out.append(TextDelta("".join(held), held_key[1], run=held_key[0], seq=held_seq))
                held, held_length = [], 0
            continue
        if held:
            out.append(TextDelta("".join(held), held_key[1], run=held_key[0], seq=held_seq))
            held, held_length = [], 0
        if kind is ReasoningDelta:
            reasoning += len(event.text)
        elif kind is Message:
            if event.content and event.origin == "model":
                selected = event.content
                pieces.clear()
        elif kind is ToolCall:
            calls += 1
        elif kind is RunStarted:
            is_open.add(event.run)
        elif kind is RunEnded:
            is_open.discard(event.run)
            ended.append((event.run, event.stop_reason))
        out.append(event)
    found = {kind.__name__: count for kind, count in counts.items() if count}
    return (gaps, strangers, found, selected, (text, reasoning, calls), ended), out


def fused(batches: list[list[Event]] | None, events: list[Event]) -> tuple[Any, ...]:
    """The seven stages as lastsay operators, over lists or over single events."""
    stages = [make() for make in STAGES]
    makers = [lambda stage=stage: stage for stage in stages]

    async def give_lists() -> AsyncIterator[list[Event]]:
        for batch in batches or ():
            yield batch

    async def give_events() -> AsyncIterator[Event]:
        for event in events:
            yield event

    async def main() -> list[Event]:
        out: list[Event] = []
        if batches is not None:
            stream = Stream.from_batches(give_lists) | through(*makers) | coalesce(characters=CHARACTERS)
            async with stream.batches() as passed:
                async for batch in passed:
                    out += batch
        else:
            stream = Stream.from_events(give_events) | through(*makers) | coalesce(characters=CHARACTERS)
            async with stream as singles:
                async for event in singles:
                    out.append(event)
        return out

    out = LOOP.run(main())
    return result(stages), out


class Joiner:
    """Coalescing for the pipelines that are not fused."""

    def __init__(self) -> None:
        self.held: list[str] = []
        self.length = 0
        self.last: Any = None

    def push(self, event: Any) -> list[Any]:
        out = []
        if type(event) is TextDelta:
            last = self.last
            if last is not None and (last.run != event.run or last.message != event.message):
                out.append(self.flush())
            self.last = event
            self.held.append(event.text)
            self.length += len(event.text)
            if self.length >= CHARACTERS:
                out.append(self.flush())
            return out
        if self.last is not None:
            out.append(self.flush())
        out.append(event)
        return out

    def flush(self) -> Any:
        last, self.last = self.last, None
        joined = TextDelta("".join(self.held), last.message, run=last.run, seq=last.seq)
        self.held, self.length = [], 0
        return joined


def observers(stages: list[Any]) -> list[Callable[[Any], None]]:
    """The stages as plain functions of one event."""

    def of(stage: Any) -> Callable[[Any], None]:
        handlers = stage.handlers()
        table = {kind: handler[0] if isinstance(handler, tuple) else handler for kind, handler in handlers.items()}

        def push(event: Any) -> None:
            handler = table.get(type(event))
            if handler is not None:
                handler(event)

        return push

    return [of(stage) for stage in stages]


def aiostreamed(events: list[Event], size: int | None) -> tuple[Any, ...]:
    """The seven stages as aiostream operators, over single events or over lists."""
    from aiostream import operator, pipable_operator, streamcontext

    stages = [make() for make in STAGES]
    joiner = Joiner()

    @pipable_operator
    async def observe(source, push):
        async with streamcontext(source) as streamer:
            async for item in streamer:
                push(item)
                yield item

    @pipable_operator
    async def join(source):
        async with streamcontext(source) as streamer:
            async for item in streamer:
                for out in joiner.push(item):
                    yield out

    @pipable_operator
    async def observe_lists(source, push):
        async with streamcontext(source) as streamer:
            async for items in streamer:
                for item in items:
                    push(item)
                yield items

    @pipable_operator
    async def join_lists(source):
        async with streamcontext(source) as streamer:
            async for items in streamer:
                yield [out for item in items for out in joiner.push(item)]

    @operator
    async def give():
        for item in events if size is None else lists(events, size):
            yield item

    async def main() -> list[Event]:
        stream = give()
        for push in observers(stages):
            stream = stream | (observe if size is None else observe_lists).pipe(push)
        stream = stream | (join if size is None else join_lists).pipe()
        out: list[Event] = []
        async with stream.stream() as passed:
            async for item in passed:
                if size is None:
                    out.append(item)
                else:
                    out += item
        return out

    out = LOOP.run(main())
    return result(stages), out


def generators(events: list[Event], pushes: list[Callable[[Any], None]]) -> int:
    """One plain async generator per function."""

    async def give() -> AsyncIterator[Event]:
        for event in events:
            yield event

    async def stage(source: AsyncIterator[Event], push: Callable[[Any], None]) -> AsyncIterator[Event]:
        async for event in source:
            push(event)
            yield event

    async def main() -> int:
        stream = give()
        for push in pushes:
            stream = stage(stream, push)
        count = 0
        async for _ in stream:
            count += 1
        return count

    return LOOP.run(main())


class Looking(Stage):
    """A function of one event as a stage."""

    def __init__(self, push: Callable[[Any], None]) -> None:
        self.push = push

    def handlers(self) -> Handlers:
        return every(self.push)


def looking(events: list[Event], pushes: list[Callable[[Any], None]]) -> int:
    """The same functions as fused stages, over single events."""

    async def give() -> AsyncIterator[Event]:
        for event in events:
            yield event

    async def main() -> int:
        count = 0
        stream = Stream.from_events(give) | through(*[lambda push=push: Looking(push) for push in pushes])
        async with stream as out:
            async for _ in out:
                count += 1
        return count

    return LOOP.run(main())


def rows(effort: Effort) -> Iterator[Row]:
    """The rows about pipelines."""
    events = conversation(effort.events)
    count = len(events)
    expected = hand_loop(events)

    def hand() -> Any:
        return hand_loop(events)

    for size, goal in ((64, 0.8), (16, 1.3)):
        batches = lists(events, size)
        assert fused(batches, events) == expected, "the pipelines disagree"
        yield cost_row(
            f"7 stages, lists of {size}", "a hand-written loop", goal,
            lambda batches=batches: fused(batches, events), hand, effort, count,
        )  # fmt: skip
    assert fused(None, events) == expected, "the pipelines disagree"
    yield cost_row(
        "7 stages, single events", "a hand-written loop", 2.5, lambda: fused(None, events), hand, effort, count
    )
    yield from _aiostream_rows(events, expected, effort)

    pushes: list[Callable[[Any], None]] = [lambda _: None] * 8
    yield gain_row(
        "8 stages, single events", "an async generator per stage", 2.5,
        lambda: looking(events, pushes), lambda: generators(events, pushes), effort, count,
    )  # fmt: skip
    yield _iterator_row(events, effort)


def _aiostream_rows(events: list[Event], expected: tuple[Any, ...], effort: Effort) -> Iterator[Row]:
    try:
        import aiostream  # noqa: F401  # its absence is a result
    except ImportError:
        yield Row("7 stages, single events", "aiostream operators", 6, "at least", note="aiostream is not installed")
        yield Row("7 stages, lists of 64", "aiostream operators", 15, "at least", note="aiostream is not installed")
        return
    few = events
    batches = lists(few, 64)
    assert aiostreamed(events, None) == expected, "the pipelines disagree"
    yield gain_row(
        "7 stages, single events", "aiostream operators", 6,
        lambda: fused(None, few), lambda: aiostreamed(few, None), effort, len(few),
    )  # fmt: skip
    yield gain_row(
        "7 stages, lists of 64", "aiostream operators, single events", 15,
        lambda: fused(batches, few), lambda: aiostreamed(few, None), effort, len(few),
    )  # fmt: skip


def _iterator_row(events: list[Event], effort: Effort) -> Row:
    async def give() -> AsyncIterator[Event]:
        for event in events:
            yield event

    stream = Stream.from_events(give)

    async def ours() -> None:
        async with stream as out:
            async for _ in out:
                pass

    async def bare() -> None:
        async for _ in give():
            pass

    return cost_row(
        "iterating a stream", "a bare async generator", 1.4,
        lambda: LOOP.run(ours()), lambda: LOOP.run(bare()), effort, len(events),
    )  # fmt: skip
