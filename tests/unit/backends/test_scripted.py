"""The scripted backend: what it sends, when it can be cancelled, and what it records."""

import anyio
import pytest

from lastsay.backends import scripted
from lastsay.errors import SourceError
from lastsay.events import Event, RunStarted, TextDelta

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Both event loops."""
    return str(request.param)


async def drain(child: scripted.Script) -> list[Event]:
    """All that the child plays."""
    async with child as events:
        return [event async for event in events]


async def test_events_come_in_order_and_lists_stay_batches() -> None:
    """Single events are batches of one, lists are batches of their own, empty lists are nothing."""
    child = scripted.stream([RunStarted(), [TextDelta("a"), TextDelta("b")], [], scripted.Checkpoint()])
    async with child.batches() as batches:
        got = [batch async for batch in batches]
    assert [[RunStarted()], [TextDelta("a"), TextDelta("b")]] == got
    assert [(3, True, True)] == [(e.sent, e.exhausted, e.closed) for e in child.entries]


async def test_each_entry_plays_from_the_start() -> None:
    """A script can be entered again and gives the same events."""
    child = scripted.stream([TextDelta("a"), scripted.Pause(0.001), TextDelta("b")])
    assert await drain(child) == await drain(child)
    assert 2 == len(child.entries)


async def test_a_source_that_cannot_start_leaves_no_entry() -> None:
    """The start error is raised on entry, before anything was opened."""
    child = scripted.stream([TextDelta("a")], start=SourceError("no such child"))
    with pytest.raises(SourceError, match="no such child"):
        await drain(child)
    assert [] == child.entries


async def test_raise_comes_after_what_was_sent() -> None:
    """An exception inside the source reaches the reader after the earlier events, and the source is closed."""
    got: list[Event] = []
    child = scripted.stream([TextDelta("a"), scripted.Raise(ConnectionError("lost"))])
    with pytest.raises(ConnectionError, match="lost"):
        async with child as events:
            async for event in events:
                got.append(event)  # noqa: PERF401 - what came before the exception is the point
    assert [TextDelta("a")] == got
    assert (True, False) == (child.entries[0].closed, child.entries[0].exhausted)


async def test_hang_ends_by_cancellation_and_closes_in_the_opening_task() -> None:
    """A hanging child is closed by the task that opened it when its reader is cancelled."""
    child = scripted.stream([TextDelta("a"), scripted.Hang(), TextDelta("never")])
    with anyio.CancelScope() as scope:
        async with child as events:
            async for _ in events:
                scope.cancel()
    (entry,) = child.entries
    assert (1, False) == (entry.sent, entry.exhausted)
    assert entry.opened_in == entry.closed_in


async def test_leaving_early_closes_the_source() -> None:
    """A break closes the source at once; the entry says that it was not played out."""
    child = scripted.stream([TextDelta("a"), TextDelta("b")])
    async with child as events:
        async for _ in events:
            break
    assert (True, False) == (child.entries[0].closed, child.entries[0].exhausted)


async def test_do_and_wait_make_order_without_clocks() -> None:
    """`Do` runs inside the source, sync or async, and `Wait` goes on when its event is set."""
    gate, order = anyio.Event(), []

    async def note() -> None:
        order.append("async")

    child = scripted.stream(
        [
            scripted.Do(lambda: order.append("sync")),
            scripted.Do(note),
            TextDelta("a"),
            scripted.Wait(gate),
            TextDelta("b"),
        ]
    )
    async with child as events:
        async for event in events:
            if event == TextDelta("a"):
                gate.set()
            else:
                order.append("after the gate")
    assert ["sync", "async", "after the gate"] == order


async def test_closing_steps_run_at_the_end() -> None:
    """A teardown that fails raises out of the entry, after the source was marked closed."""
    child = scripted.stream(
        [TextDelta("a")], closing=[scripted.Checkpoint(), scripted.Raise(OSError("teardown failed"))]
    )
    with pytest.raises(OSError, match="teardown failed"):
        await drain(child)
    assert child.entries[0].closed
