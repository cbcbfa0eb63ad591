"""The fused pipeline: kinds of stages, both paths, endings."""

import pytest

from lastsay.errors import UsageError
from lastsay.events import Deltas, Event, Fault, Message, Notice, ReasoningDelta, Text, TextDelta, ToolCall
from lastsay.operators import Stage, Stream, every, through
from lastsay.operators._pipeline import Pipeline

pytestmark = pytest.mark.anyio


class Seen(Stage):
    """Keeps what it saw."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def handlers(self):
        return every(self.seen.append)


class Upper(Stage):
    kind = "map"

    def handlers(self):
        return {TextDelta: lambda e: TextDelta(e.text.upper(), e.message)}


class NoReasoning(Stage):
    kind = "filter"

    def handlers(self):
        return {ReasoningDelta: lambda e: False}


class Twice(Stage):
    kind = "flat"

    def handlers(self):
        return {TextDelta: lambda e: [e, Notice("again", e.text)]}


class Hold(Stage):
    """Holds text until the batch is over."""

    kind = "flat"

    def __init__(self) -> None:
        self.held: list[TextDelta] = []
        self.closed = 0

    def handlers(self):
        return {TextDelta: self.one}

    def one(self, event):
        self.held.append(event)
        return ()

    def settle(self):
        held, self.held = self.held, []
        return [TextDelta("".join(e.text for e in held))] if held else ()

    def flush(self):
        return [Notice("flushed")]

    def close(self):
        self.closed += 1


class First(Stage):
    """Ends the stream after n events."""

    kind = "filter"
    may_end = True

    def __init__(self, n: int) -> None:
        self.left = n

    def handlers(self):
        return every(self.one)

    def one(self, event):
        self.left -= 1
        self.ended = self.left <= 0
        return self.left >= 0


BATCH = [TextDelta("a"), TextDelta("b"), ReasoningDelta("r"), Message((Text("ab"),)), TextDelta("c"), TextDelta("d")]


def push(stages, batch, split):
    """What comes out of the stages for the batch in lists of `split` events."""
    pipeline = Pipeline(stages)
    out = []
    for i in range(0, len(batch), split):
        out += pipeline.push(batch[i : i + split])
    return out + pipeline.flush()


@pytest.mark.parametrize("split", [1, 2, 3, 4, 6])
async def test_every_split_gives_the_same(split):
    """Map, filter, flat and observers give the same for every way of cutting the input."""
    before, after = Seen(), Seen()
    out = push([before, NoReasoning(), Upper(), Twice(), after], BATCH, split)
    expected = []
    for event in BATCH:
        if type(event) is TextDelta:
            expected += [TextDelta(event.text.upper()), Notice("again", event.text.upper())]
        elif type(event) is not ReasoningDelta:
            expected.append(event)
    assert expected == out
    assert expected == after.seen
    assert BATCH == before.seen


@pytest.mark.parametrize("many", [2, 3, 4, 5, 9])
async def test_any_number_of_observers_see_an_event_once_each_in_their_order(many):
    """However many stages look, and whether events come alone or in lists."""
    seen: list[tuple[int, Event]] = []

    class Look(Stage):
        def __init__(self, place: int) -> None:
            self.place = place

        def handlers(self):
            return every(lambda event: seen.append((self.place, event)))

    for size in (1, 6):
        seen.clear()
        assert BATCH == push([Look(place) for place in range(many)], BATCH, size)
        assert [(place, event) for event in BATCH for place in range(many)] == seen


async def test_what_a_stage_holds_may_be_a_tuple():
    """Events handed back as a tuple pass the stages behind like a list of them, also where they are of one class."""

    class Last(Stage):
        def handlers(self):
            return {}

        def flush(self):
            return tuple(ToolCall(f"c{number}", "look") for number in range(5))

    after = Seen()
    out = push([Last(), after], BATCH, 6)
    assert (out, 5) == (after.seen, len(out) - len(BATCH))


@pytest.mark.parametrize("stranger", [[], [TextDelta("inside")], [1, 2], ("a",) * 5, None, "text"])
async def test_what_is_no_event_is_never_taken_for_a_list_of_them(stranger):
    """A list too deep, or anything else, passes whole, and only the stage that asks for strangers sees it."""

    class Strangers(Stage):
        def __init__(self) -> None:
            self.seen: list[object] = []

        def handlers(self):
            return {object: self.seen.append}

    strangers, seen = Strangers(), Seen()
    batch = [*[TextDelta("a")] * 5, stranger, *[ToolCall("c", "look")] * 5]
    assert [batch, batch[:5] + batch[6:], [stranger]] == [push([strangers, seen], batch, 11), seen.seen, strangers.seen]


@pytest.mark.parametrize("form", [list, tuple, iter, lambda events: (event for event in events)])
@pytest.mark.parametrize("last", [False, True])
async def test_a_stage_may_give_its_events_in_any_form(form, last):
    """Lists, tuples, iterators; None stands for nothing; wherever the stage stands, for one event and for a run."""

    class Calls(Stage):
        kind = "flat"

        def handlers(self):
            return {
                TextDelta: (lambda event: form([event]), form),
                ToolCall: (lambda event: None, lambda events: None),
                Notice: lambda event: None,
            }

    batch = [*[TextDelta("a")] * 5, *[ToolCall("c", "look")] * 5, *[Notice("n")] * 5]
    for size in (1, 15):
        assert batch[:5] == push([Calls()] if last else [Calls(), Seen()], batch, size)
    stream = Stream.from_events(lambda: singly(batch)) | through(Calls)
    async with stream if last else stream | through(Seen) as events:
        assert batch[:5] == [event async for event in events]


async def singly(events):
    """The events one by one."""
    for event in events:
        yield event


async def test_observers_pass_the_batch_itself():
    """A chain of observers copies nothing."""
    batch = list(BATCH)
    assert batch is Pipeline([Seen(), Seen()]).push(batch)


async def test_a_run_handler_gets_events_that_belong_together():
    """A long list is cut where the class changes, and text where its message does; shorter runs come one by one."""
    runs: list[object] = []

    class Runs(Stage):
        def handlers(self):
            return every(lambda event: runs.append(type(event)), runs.append)

    calls: list[Event] = [ToolCall(f"c{number}", "search") for number in range(4)]
    one: list[Event] = [TextDelta(letter, "m1") for letter in "abcd"]
    two: list[Event] = [TextDelta(letter, "m2") for letter in "efghi"]
    Pipeline([Runs()]).push([Notice("first"), *calls, *one, *two, TextDelta("j", "m3"), calls[0], calls[1]])
    assert [Notice, calls, one, two, TextDelta, ToolCall, ToolCall] == runs
    assert ["abcd", "efghi"] == [run.text for run in runs if isinstance(run, Deltas)]


async def test_what_is_held_comes_out_at_the_end_of_the_batch_and_of_the_source():
    """Settled and flushed events pass the stages behind."""
    after = Seen()
    assert [TextDelta("ab"), TextDelta("c"), Notice("flushed")] == push(
        [Hold(), after], [TextDelta("a"), TextDelta("b"), TextDelta("c")], 2
    )
    assert 3 == len(after.seen)


def counted_source(closed: list[int], single: bool) -> Stream:
    """Two hundred deltas in single events or in pairs; notes each closing."""

    async def batches():
        try:
            for i in range(100):
                yield [TextDelta(f"{i},"), TextDelta(f"{i}.")]
        finally:
            closed.append(1)

    async def events():
        try:
            for i in range(200):
                yield TextDelta(f"{i},")
        finally:
            closed.append(1)

    return Stream.from_events(events) if single else Stream.from_batches(batches)


@pytest.mark.parametrize("single", [True, False])
async def test_a_stage_ends_the_stream(single):
    """`ended` stops reading, closes the source at once and closes the stages; flushed events still come."""
    closed: list[int] = []
    stream = counted_source(closed, single) | through(lambda: First(3)) | through(Hold)
    for _ in range(2):
        async with stream as events:
            out = [e async for e in events]
            assert 1 == len(closed)
        assert ("0,1,2," if single else "0,0.1,") == "".join(e.text for e in out[:-1])
        assert Notice("flushed") == out[-1]
        closed.clear()
    async with stream.batches() as batches:
        assert Notice("flushed") == [batch async for batch in batches][-1][-1]


@pytest.mark.parametrize("single", [True, False])
async def test_events_and_batches_agree(single):
    """Both ways of reading give the same events, stages are fresh for every entry, and operators fuse."""
    seen: list[Seen] = []

    def make() -> Seen:
        seen.append(Seen())
        return seen[-1]

    closed: list[int] = []
    stream = counted_source(closed, single) | through(Upper, Twice) | through(make)
    async with stream as events:
        singly = [e async for e in events]
    async with stream.batches() as batches:
        listed = [e async for batch in batches for e in batch]
    assert singly == listed == seen[0].seen == seen[1].seen
    assert 400 == len(listed)
    assert stream.source.single is single
    assert 3 == len(stream.makers)


async def test_unknown_classes_pass():
    """What is not an event passes all stages untouched: `validate` is there to judge it."""
    assert ["x", Fault("a", "b")] == Pipeline([Upper(), Seen()]).push(["x", Fault("a", "b")])


async def test_an_unknown_kind_is_refused():
    """A stage with a wrong kind is named on entry."""

    class Wrong(Seen):
        kind = "watch"

    with pytest.raises(UsageError, match=r"Wrong\.kind is 'watch'"):
        async with counted_source([], True) | through(Wrong):
            pass


async def test_all_stages_are_closed_and_the_first_error_is_raised():
    """One stage's failing close does not keep the others open."""

    class Failing(Seen):
        def close(self):
            raise OSError("disk full")

    hold = Hold()
    with pytest.raises(OSError, match="disk full"):
        async with counted_source([], False) | through(lambda: hold, Failing) as events:
            async for _ in events:
                pass
    assert 1 == hold.closed
