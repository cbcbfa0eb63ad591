"""tap, coalesce, budget, dedupe, in_order, epochs, validate: the operators that share one loop."""

import anyio
import pytest
from tests.unit.operators.streams import Watched, listed, read, read_batches, split, text

from lastsay.errors import SourceError, UsageError
from lastsay.events import (
    EpochStarted,
    Fault,
    Message,
    MessageStarted,
    Notice,
    ReasoningDelta,
    RunEnded,
    RunStarted,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    Usage,
    UsageReported,
)
from lastsay.operators import budget, coalesce, dedupe, epochs, in_order, tap, validate

pytestmark = pytest.mark.anyio

DELTAS = [TextDelta(c, "m") for c in "abcdef"]


async def test_tap_sees_everything_or_the_named_classes():
    """A tap sees events in order, all or by class, and changes nothing."""
    seen, texts = [], []
    events = [RunStarted(), *DELTAS, RunEnded("completed")]
    assert events == await read(split(events, 5) | tap(seen.append) | tap(texts.append, TextDelta))
    assert events == seen
    assert DELTAS == texts


async def test_a_failing_tap_is_dropped(caplog):
    """A tap that raises is logged once and not called again; the stream goes on."""
    calls = []

    def look(event):
        calls.append(event)
        raise ValueError("broken tap")

    assert DELTAS == await read(split(DELTAS, 4) | tap(look))
    assert 1 == len(calls)
    assert 1 == caplog.text.count("a tap failed")


async def test_coalesce_joins_what_is_ready_together():
    """Without arguments each list's neighbouring deltas become one, and nothing waits."""
    out = await read_batches(split(DELTAS, 4) | coalesce())
    assert [[TextDelta("abcd", "m")], [TextDelta("ef", "m")]] == out


async def test_coalesce_keeps_order_and_borders():
    """Another class, run or message lets the joined delta go first; the last number is kept."""
    events = [
        TextDelta("a", "m", seq=1),
        TextDelta("b", "m", seq=2),
        ReasoningDelta("r", "m"),
        TextDelta("c", "m"),
        TextDelta("d", "n"),
        TextDelta("e", "n", run="x"),
        Notice("n"),
        TextDelta("f", "n", run="x"),
    ]
    expected = [TextDelta("ab", "m", seq=2), *events[2:]]
    for size in (3, 8):
        out = (
            await read(split(events, 8) | coalesce())
            if size == 8
            else await read(split(events, 3) | coalesce(characters=99))
        )
        assert expected == out


@pytest.mark.parametrize("size", [1, 2, 4, 6])
async def test_coalesce_by_characters_waits_for_the_size(size):
    """With a size alone a delta goes on when it is large enough, or at the end, however the pieces arrived."""
    assert ["abcd", "ef"] == [e.text for e in await read(split(DELTAS, size) | coalesce(characters=4))]


async def test_coalesce_cuts_a_list_where_single_pieces_would_have_been_cut():
    """Pieces of very different sizes, empty ones among them; each delta has the number of its last piece."""
    sizes = [1, 1, 1, 1, 40, 0, 0, 3, 5, 1, 1, 1, 80, 1, 7, 0, 2, 2, 2, 2]
    events = [TextDelta("x" * size, "m", seq=seq) for seq, size in enumerate(sizes)]
    for characters in (1, 2, 5, 6, 41, 1000):
        expected = await read(split(events, 1) | coalesce(characters=characters))
        assert sum(sizes) == sum([len(e.text) for e in expected])
        for size in (4, 7, 20):
            assert expected == await read(split(events, size) | coalesce(characters=characters))


async def test_coalesce_lets_one_message_go_before_the_next():
    """Whole lists of one message, then of another, then of reasoning: three deltas, in order."""
    other = [TextDelta(c, "n") for c in "ghij"]
    thoughts = [ReasoningDelta(c, "n") for c in "klmn"]
    out = await read(split([*DELTAS[:4], *other, *thoughts], 4) | coalesce(characters=99))
    assert [TextDelta("abcd", "m"), TextDelta("ghij", "n"), ReasoningDelta("klmn", "n")] == out


async def test_coalesce_within_a_time():
    """With a time, pieces wait for their neighbours, but no longer than that."""
    source = Watched(DELTAS[0], DELTAS[1], 0.2, DELTAS[2], MessageStarted("n"), DELTAS[3])
    out = await read_batches(source.stream | coalesce(0.05))
    assert [[TextDelta("ab", "m")], [TextDelta("c", "m"), MessageStarted("n")], [TextDelta("d", "m")]] == out
    assert source.closed == 1


async def test_a_busy_source_does_not_starve_the_time():
    """Text goes on after its time although more of it arrives all the while."""
    source = Watched(*[step for _ in range(20) for step in (DELTAS[0], 0.01)])
    out = await read(source.stream | coalesce(0.03))
    assert 2 < len(out) < 20
    assert "a" * 20 == text(out)


@pytest.mark.parametrize("size", [1, 2, 3, 10])
async def test_budget_of_events(size):
    """The limit of events passes that many, ends open runs, and closes the source; an end record costs nothing."""
    events = [RunStarted(run="r"), *[TextDelta(c, run="r") for c in "abc"], RunEnded("completed", run="r")]
    assert events == await read(split(events, size) | budget(events=4))
    out = await read(split(events, size) | budget(events=3))
    assert events[:3] == out[:3]
    (end,) = out[3:]
    assert ("budget-events", "budget_events", "r") == (end.stop_reason, end.raw, end.run)
    assert "stopped: more than the budget of 3 events" == end.diagnostic


@pytest.mark.parametrize("size", [1, 3, 10])
async def test_budget_of_characters_tokens_and_calls(size):
    """Going over passes the event that did, and ends the runs, the youngest first."""
    events = [RunStarted(), RunStarted(run="c", parent="main"), *DELTAS, TextDelta("never")]
    out = await read(split(events, size) | budget(characters=5))
    assert events[:-1] == out[:-2]
    assert ["c", "main"] == [e.run for e in out[-2:]]
    calls = [ToolCall(str(i), "t") for i in range(3)]
    out = await read(split(calls, size) | budget(tool_calls=1))
    assert [*calls[:2], "budget-tool-calls"] == [*out[:-1], out[-1].stop_reason]
    usages = [
        UsageReported(Usage(output_tokens=4), "m"),
        UsageReported(Usage(output_tokens=6), "m"),
        Message(message="n", usage=Usage(input_tokens=4, cache_read_tokens=50)),
        UsageReported(Usage(input_tokens=8, output_tokens=3)),
        Notice("late"),
    ]
    out = await read(split(usages, size) | budget(tokens=10))
    assert usages[:4] == out[:-1]
    assert "budget-tokens" == out[-1].stop_reason


@pytest.mark.parametrize("limits", [{"characters": 7}, {"events": 7}])
async def test_a_budget_goes_over_in_the_middle_of_a_list(limits):
    """Lists of text are taken whole while they fit, and passed piece by piece to the point where they do not."""
    events = [TextDelta(c, "m") for c in "abcdefghijkl"]
    out = await read(split(events, 5) | budget(**limits))
    assert events[: 8 if "characters" in limits else 7] == out[:-1]
    assert ["main"] == [end.run for end in out[-1:]]


async def test_a_budget_closes_its_source():
    """The source is closed when the budget is spent, before the reader has left."""
    source = Watched(DELTAS, 60)
    async with source.stream | budget(characters=2) as events:
        out = [e async for e in events]
        assert 1 == source.closed
    assert "budget-characters" == out[-1].stop_reason


async def test_wrong_arguments_are_named():
    """Limits that make no sense are refused with their name."""
    for make, message in [
        (budget, "needs a limit"),
        (lambda: budget(events=-1), "events=-1"),
        (lambda: coalesce(0), "seconds must be more than 0"),
        (lambda: coalesce(characters=0), "at least 1 character"),
        (lambda: in_order(hold=0), "at least 1 event"),
    ]:
        with pytest.raises(UsageError, match=message):
            make()


async def test_dedupe_drops_what_came_before():
    """A number that a run has had is dropped, with gaps and per run; events without one pass."""
    numbers = [1, 2, 2, 1, 5, 4, 5, 3, 4, 6, 6]
    events = [TextDelta(str(n), seq=n) for n in numbers]
    events += [TextDelta("other", run="x", seq=1), Notice("n"), Notice("n"), TextDelta("earlier", seq=0)]
    out = await read(split(events, 4) | dedupe())
    assert ["1", "2", "5", "4", "3", "6", "other", "earlier"] == [e.text for e in out if type(e) is TextDelta]
    assert 2 == len([e for e in out if type(e) is Notice])


@pytest.mark.parametrize("size", [1, 3, 10])
async def test_in_order_waits_for_the_missing(size):
    """Early events wait; a gap is named when too many wait, when the run ends, or at the end."""
    events = [TextDelta(str(n), seq=n) for n in (1, 3, 2, 4, 7, 6)]
    out = await read(split(events, size) | in_order())
    assert ["1", "2", "3", "4", Fault("sequence_gap", "number 5 never came"), "6", "7"] == [
        e.text if type(e) is TextDelta else e for e in out
    ]
    out = await read(split([events[0], events[4], RunEnded("completed")], size) | in_order())
    assert [events[0], Fault("sequence_gap", "numbers 2 to 6 never came"), events[4], RunEnded("completed")] == out
    out = await read(split([events[3], events[1], events[4], events[5]], size) | in_order(first=4, hold=2))
    assert ["TextDelta", "Fault", "TextDelta", "Fault", "TextDelta", "TextDelta"] == [type(e).__name__ for e in out]
    assert "out_of_order" == out[1].kind


@pytest.mark.parametrize("size", [1, 2, 10])
async def test_epochs_are_marked(size):
    """Work after an end starts an epoch; what trickles in does not; a source's own mark is kept."""
    events = [
        TextDelta("a"),
        RunEnded("completed"),
        UsageReported(Usage()),
        Message((Text("old"),), origin="replay"),
        Notice("user_message"),
        TextDelta("b"),
        RunEnded("completed"),
        EpochStarted(7),
        TextDelta("c"),
        RunEnded("completed"),
        TextDelta("d"),
        TextDelta("e"),
    ]
    out = await read(split(events, size) | epochs())
    assert [4, 8, 11] == [i for i, e in enumerate(out) if type(e) is EpochStarted]
    assert [1, 7, 8] == [e.epoch for e in out if type(e) is EpochStarted]
    assert events == [e for e in out if type(e) is not EpochStarted or e.epoch == 7]


VALID = [
    RunStarted(),
    ToolCall("t", "n", {"a": object()}),
    ToolResult("t"),
    TextDelta("a", seq=1),
    RunEnded("completed", seq=2),
    UsageReported(Usage()),
    EpochStarted(1),
    TextDelta("b"),
]


async def test_validate_passes_what_is_right():
    """A stream that keeps the grammar is not changed."""
    assert VALID == await read(split(VALID, 3) | validate("raise"))


@pytest.mark.parametrize(
    ("kind", "events"),
    [
        ("not_an_event", ["text"]),
        ("wrong_type", [TextDelta(3)]),
        ("started_twice", [RunStarted(), RunStarted()]),
        ("after_end", [RunEnded("completed"), TextDelta("late")]),
        ("result_without_call", [ToolResult("t")]),
        ("seq_backwards", [TextDelta("a", seq=2), TextDelta("b", seq=2)]),
    ],
)
async def test_validate_names_what_is_wrong(kind, events):
    """Each rule reports its kind, before the event or instead of it, or raises."""
    out = await read(listed(events) | validate())
    assert kind == out[-2 if kind != "not_an_event" else -1].kind
    out = await read(listed(events) | validate("drop"))
    assert len(events) == len(out)
    assert kind == out[-1].kind
    with pytest.raises(SourceError, match=kind):
        await read(listed(events) | validate("raise"))


async def test_a_bad_event_in_validate_does_not_stop_the_clock():
    """Operators behind see the fault."""
    faults = []
    with anyio.fail_after(5):
        await read(listed(["x", *DELTAS]) | validate() | tap(faults.append, Fault))
    assert 1 == len(faults)
