"""merge, broadcast, split_runs: many sources, many readers, many runs."""

import anyio
import anyio.lowlevel
import pytest
from tests.unit.operators.streams import Watched, listed, read, text

from lastsay.errors import SourceError, UsageError
from lastsay.events import (
    EpochStarted,
    Fault,
    Message,
    Notice,
    RunEnded,
    RunStarted,
    TextDelta,
    Usage,
    UsageReported,
)
from lastsay.operators import Stream, broadcast, merge, own_task, split_runs

pytestmark = pytest.mark.anyio
A, B = TextDelta("a"), TextDelta("b")
END = RunEnded("completed")


def endless(word: str, closed: list[str]) -> Stream:
    """A source that never suspends and never ends."""

    async def make():
        try:
            while True:
                yield [TextDelta(word)]
        finally:
            closed.append(word)

    return Stream.from_batches(make)


class Broken:
    """A source that cannot be opened."""

    async def __aenter__(self):
        raise SourceError("no such program")

    async def __aexit__(self, *error):
        raise AssertionError


async def test_merge_labels_runs_and_keeps_each_order():
    """Each source's events come in order, its runs under its label, parents too."""
    child = [RunStarted(), RunStarted(run="x", parent="main"), A, TextDelta("b", run="x"), END]
    out = await read(merge(listed([TextDelta("p", run="p")]), labelled={"one": listed(*[[e] for e in child])}))
    assert [TextDelta("p", run="p")] == [e for e in out if e.run == "p"]
    one = [e for e in out if e.run != "p"]
    assert ["one", "one/x", "one", "one/x", "one"] == [e.run for e in one]
    assert "one" == one[1].parent
    assert "ab" == text(one)


async def test_merge_is_fair():
    """Sources that never pause do not shut out the others, and all are closed on leaving."""
    closed: list[str] = []
    counts = dict.fromkeys("abc", 0)
    with anyio.fail_after(10):
        async with merge(*[endless(c, closed) for c in "abc"], turn=8, room=16) as events:
            async for event in events:
                counts[event.text] += 1
                if sum(counts.values()) > 600:
                    break
    assert min(counts.values()) > 150
    assert ["a", "b", "c"] == sorted(closed)


async def test_one_failing_source_does_not_take_the_others():
    """A failure becomes a fault and the ends of that source's open runs; the others go on."""
    bad = Watched([RunStarted(), A], OSError("gone"))
    good = Watched(0.02, [RunStarted()], 0.01, [B, END])
    out = await read(merge(labelled={"bad": bad.stream, "good": good.stream, "never": Stream(Broken)}))
    assert "ab" == text(out)
    ends = {e.run: e for e in out if type(e) is RunEnded}
    assert {"bad": "error", "never": "error", "good": "completed"} == {r: e.stop_reason for r, e in ends.items()}
    assert "the source failed: OSError: gone" == ends["bad"].diagnostic
    assert {"bad", "never"} == {e.run for e in out if type(e) is Fault and e.kind == "source_failed"}
    assert (1, 1) == (bad.closed, good.closed)


async def test_merge_needs_one_source_that_opens():
    """If none can be opened, the first error is raised; wrong arguments are named; no source is an empty stream."""
    with pytest.raises(SourceError, match="no such program"):
        async with merge(Stream(Broken), Stream(Broken)):
            pass
    with pytest.raises(UsageError, match="turn=0"):
        merge(turn=0)
    with pytest.raises(UsageError, match="label is not empty"):
        merge(labelled={"": listed()})
    assert [] == await read(merge())


async def test_merge_of_scoped_sources_and_its_cancellation():
    """Sources that hold scopes merge, and a cancelled reader closes all of them."""
    closed = []

    async def scoped():
        with anyio.CancelScope():
            try:
                yield [A]
                await anyio.sleep_forever()
            finally:
                closed.append(1)

    with anyio.move_on_after(0.05):
        async with merge(*[Stream.from_batches(scoped)] * 3) as events:
            assert "aaa" == text([await anext(events) for _ in range(3)])
            await anext(events)
    assert [1, 1, 1] == closed


async def test_a_source_that_fails_to_close_is_heard():
    """All sources are closed, and then the first error is raised."""
    closed: list[str] = []

    async def bad():
        try:
            yield [A]
            await anyio.sleep_forever()
        finally:
            raise OSError("cannot close")

    with pytest.raises(OSError, match="cannot close"):
        async with merge(Stream.from_batches(bad), endless("x", closed)) as events:
            assert A == await anext(events)
            await anext(events)
    assert ["x"] == closed


async def test_broadcast_gives_everything_to_everyone():
    """Every consumer gets all events in order; the source is opened once."""
    source = Watched(*[[TextDelta(str(i))] for i in range(100)], [END])
    outs: dict[str, list[object]] = {}

    async def follow(name: str, stream: Stream) -> None:
        outs[name] = await read(stream)

    async with source.stream | broadcast() as shared:
        async with anyio.create_task_group() as group:
            for name in "abc":
                group.start_soon(follow, name, shared.subscribe(name, room=7))
        late = shared.subscribe("late")
        assert [] == await read(late)
        statistics = shared.statistics()
    assert outs["a"] == outs["b"] == outs["c"]
    assert 101 == len(outs["a"])
    assert [("a", 101, 0), ("b", 101, 0), ("c", 101, 0), ("late", 0, 0)] == [
        (s.name, s.delivered, s.dropped) for s in statistics
    ]
    assert (1, 1) == (source.opened, source.closed)


async def slow_and_fast(policy: str, room: int = 4) -> tuple[list[object], list[object], object]:
    """What a fast consumer and one that sleeps until the end get, and the sleeper's statistics."""
    source = Watched(*[[TextDelta(f"{i},")] for i in range(10)], [Message(message="m")], [A], [END])
    fast: list[object] = []
    slow: list[object] = []
    done = anyio.Event()

    async def read_fast(stream: Stream) -> None:
        fast.extend(await read(stream))
        done.set()

    async def read_slow(stream: Stream) -> None:
        async with stream as events:
            await done.wait()
            slow.extend([e async for e in events])

    async with source.stream | broadcast() as shared:
        sleeper = shared.subscribe("slow", policy=policy, room=room)
        async with anyio.create_task_group() as group:
            group.start_soon(read_fast, shared.subscribe("fast"))
            group.start_soon(read_slow, sleeper)
        return fast, slow, shared.statistics()[0]


async def test_a_slow_consumer_can_lose_deltas():
    """drop_deltas drops text only, says how many and where, and keeps the rest and the end."""
    fast, slow, statistics = await slow_and_fast("drop_deltas")
    assert 13 == len(fast)
    assert "0,1,2,3," == text(slow)
    assert [Message(message="m"), END] == [e for e in slow if type(e) in (Message, RunEnded)]
    assert [{"count": 7}] == [e.raw for e in slow if type(e) is Notice]
    assert (6, 7) == (statistics.delivered, statistics.dropped)


async def test_a_slow_consumer_can_be_disconnected():
    """Disconnect tells the consumer, and still delivers the end."""
    fast, slow, statistics = await slow_and_fast("disconnect")
    assert 13 == len(fast)
    assert "0,1,2,3," == text(slow)
    assert ["disconnected"] == [e.kind for e in slow if type(e) is Fault]
    assert END == slow[-1]
    assert not statistics.connected


async def test_a_blocking_consumer_holds_the_source():
    """Block makes the source wait; a consumer that leaves sets it free."""
    source = Watched(*[[A]] * 50, [END])
    fast: list[object] = []

    async def read_fast(stream: Stream) -> None:
        fast.extend(await read(stream))

    async with source.stream | broadcast() as shared:
        blocker = shared.subscribe("blocker", room=3)
        async with anyio.create_task_group() as group:
            group.start_soon(read_fast, shared.subscribe("fast"))
            async with blocker:
                await anyio.sleep(0.05)
                assert 3 == shared.statistics()[0].waiting
                assert fast == []
    assert 51 == len(fast)


async def test_a_source_that_fails_is_heard_by_every_consumer():
    """Each consumer gets the events and then the error."""
    errors = []

    async def follow(stream: Stream) -> None:
        with pytest.raises(OSError, match="gone") as caught:
            await read(stream)
        errors.append(caught.value)

    async with Watched([A], OSError("gone")).stream | broadcast() as shared, anyio.create_task_group() as group:
        for name in "ab":
            group.start_soon(follow, shared.subscribe(name))
    assert 2 == len(errors)


async def test_misuse_of_a_broadcast_is_named():
    """A subscription or a broadcast entered twice, an unknown policy, no room: each is refused."""
    async with listed([A]) | broadcast() as shared:
        once = shared.subscribe("once")
        await read(once)
        with pytest.raises(UsageError, match="'once' was entered before"):
            await read(once)
        with pytest.raises(UsageError, match="one of block"):
            shared.subscribe("x", policy="later")
        with pytest.raises(UsageError, match="room=0"):
            shared.subscribe("x", room=0)
        with pytest.raises(UsageError, match="entered once"):
            await shared.__aenter__()


async def test_a_broadcast_nobody_reads_closes():
    """Leaving without any reader closes the source."""
    source = Watched([A], 60)
    async with source.stream | broadcast() as shared:
        shared.subscribe("never")
    assert 1 == source.closed


async def test_split_runs_gives_each_run_its_stream():
    """Interleaved runs come apart; each stream ends with its run; late trickles open nothing."""
    x, y = {"run": "x"}, {"run": "y"}
    events = [
        RunStarted(),
        RunStarted(parent="main", **x),
        TextDelta("1", **x),
        TextDelta("2", **y),
        TextDelta("3", **x),
        RunEnded("completed", **x),
        UsageReported(Usage(), **x),
        TextDelta("4", **y),
        EpochStarted(1, **x),
        TextDelta("5", **x),
        END,
    ]
    got: list[tuple[str, str | None, str]] = []

    async def follow(run) -> None:
        got.append((run.run, run.parent, text(await read(run))))

    for size in (1, 3, 20):
        got.clear()
        batches = [events[i : i + size] for i in range(0, len(events), size)]
        async with anyio.create_task_group() as group, listed(*batches) | split_runs() as runs:
            async for run in runs:
                group.start_soon(follow, run)
        assert [("main", None, ""), ("x", "main", "13"), ("x", None, "5"), ("y", None, "24")] == sorted(
            got, key=lambda g: (g[0], g[1] is None)
        )


async def test_a_run_can_be_skipped():
    """A skipped run holds up nobody."""
    events = [TextDelta("x", run="x")] * 50 + [TextDelta("y", run="y")]
    with anyio.fail_after(5):
        async with listed(*[[e] for e in events]) | split_runs(room=2) as runs:
            async for run in runs:
                if run.run == "x":
                    run.skip()
                else:
                    assert "y" == text(await read(run))


async def test_a_failing_source_ends_all_runs():
    """The error is raised in every open run and by the iteration."""
    with pytest.raises(OSError, match="gone"):
        async with Watched([A], OSError("gone")).stream | split_runs() as runs:
            async for run in runs:
                with pytest.raises(OSError, match="gone"):
                    await read(run)


async def test_nested_tasks_compose():
    """Operators with tasks stand on one another."""
    source = Watched(*[[A]] * 10)
    assert "a" * 20 == text(await read(merge(source.stream | own_task(), source.stream | own_task()) | own_task()))
