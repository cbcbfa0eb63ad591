"""The output fold: pushing, merging, carrying elsewhere, and reading a complete list."""

import copy
import json
import pickle
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from lastsay.errors import UsageError
from lastsay.events import (
    AttemptAborted,
    EpochStarted,
    Event,
    Message,
    MessageRetracted,
    MessageStarted,
    Notice,
    ReasoningDelta,
    RunEnded,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    ToolUse,
)
from lastsay.fold import ANSWER, CANONICAL, POLICIES, OutputFold, Policy, RunFold, final_output, policy_named

POLICY = pytest.mark.parametrize("policy", [CANONICAL, ANSWER], ids=lambda policy: policy.name)


def fold_of(events: list[Event], policy: Policy = CANONICAL) -> OutputFold:
    """The fold of the events."""
    fold = OutputFold(policy)
    for event in events:
        fold.push(event)
    return fold


def said(text: str, message: str | None = None, **fields: Any) -> Message:
    """A message of one text block."""
    return Message((Text(text),), message, **fields)


def text_of(fold: OutputFold) -> str | None:
    """The output's text."""
    output = fold.collect()
    return None if output is None else "".join([block.text for block in output if type(block) is Text])


def test_nothing_pushed_is_no_output() -> None:
    """Absent, not empty."""
    assert OutputFold().collect() is None
    assert final_output([]) is None


def test_only_assistant_text_is_the_fallback() -> None:
    """Reasoning, tool arguments and tool results are never output."""
    events = [
        ReasoningDelta("Hm."),
        TextDelta("The "),
        ToolCall("c", "search", {"q": "secret"}),
        ToolResult("c", (Text("secret"),)),
        Notice("status", "secret"),
        TextDelta("answer."),
        Message(()),
    ]
    assert "The answer." == text_of(fold_of(events))


def test_raw_chunks_are_joined_and_empty_ones_ignored() -> None:
    """A transport without messages is folded with `push_text`."""
    fold = OutputFold()
    for chunk in ("", "The ", "", "answer."):
        fold.push_text(chunk)
    assert (Text("The answer."),) == fold.collect()


@POLICY
def test_lists_of_one_class_are_taken_whole(policy: Policy) -> None:
    """Whatever the lists hold: nothing, deltas of one message or of several, messages, events that decide nothing."""
    fold, single = OutputFold(policy), OutputFold(policy)
    lists: list[list[Event]] = [
        [],
        [TextDelta("a", "m1"), TextDelta("b", "m1")],
        [TextDelta("c", "m1")],
        [ReasoningDelta("hm"), ReasoningDelta("hm")],
        [TextDelta("x", "m1"), TextDelta("y", "m2")],
        [ToolCall("c1", "search"), ToolCall("c2", "search")],
        [said("One.", "m3"), said("Two.", "m4")],
        [TextDelta("late", "m5"), TextDelta(" text", "m5")],
        [RunEnded("completed")],
    ]
    for events in lists:
        fold.push_run(events)
        for event in events:
            single.push(event)
        assert single.collect() == fold.collect()


@POLICY
@pytest.mark.parametrize("odd", [False, True])
def test_single_events_and_lists_may_be_mixed(policy: Policy, *, odd: bool) -> None:
    """Events that were pushed one by one are in place before the list that comes next, and after the one before."""
    lists: list[list[Event]] = [
        [TextDelta("a", "m1")],
        [MessageStarted("m1"), MessageStarted("m1")],
        [TextDelta("b", "m1"), TextDelta("c", "m1")],
        [ToolCall("c1", "search"), ToolCall("c2", "search")],
        [TextDelta("d", "m2")],
        [said("Two.", "m2")],
        [TextDelta("late", "m3")],
        [MessageRetracted("m2")],
        [TextDelta("later", "m4")],
        [TextDelta("x", "m5"), TextDelta("y", "m5")],
    ]
    mixed, single = OutputFold(policy), OutputFold(policy)
    for at, events in enumerate(lists):
        if at % 2 == odd:
            mixed.push_run(events)
        else:
            for event in events:
                mixed.push(event)
        for event in events:
            single.push(event)
    assert single.collect() == mixed.collect()
    assert single.state() == mixed.state()


@POLICY
@pytest.mark.parametrize("whole", [False, True])
def test_many_small_deltas_cost_little_more_than_their_text(policy: Policy, *, whole: bool) -> None:
    """Folded text is held at a few bytes a character, however small the pieces; a list of them would cost 13."""
    fold = OutputFold(policy)
    tracemalloc.start()
    for start in range(0, 30_000, 100):
        some: list[Event] = [TextDelta(f"{number:05}", "m1") for number in range(start, start + 100)]
        if whole:
            fold.push_run(some)
        else:
            for event in some:
                fold.push(event)
    some.clear()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    text = text_of(fold)
    assert "".join([f"{number:05}" for number in range(30_000)]) == text
    assert size < 8 * len(text)


def test_the_fallback_is_dropped_for_good_once_a_message_has_content() -> None:
    """Under the canonical rule neither earlier nor later deltas are kept beside a message."""
    fold = fold_of([TextDelta("x" * 1000, "m1"), said("Yes.", "m1"), *[TextDelta("y" * 1000, "m2")] * 50])
    fold.push_run([TextDelta("z" * 1000, "m2")])
    assert [said("Yes.", "m1")] == fold.items


@POLICY
def test_a_message_that_never_came_keeps_its_text_when_others_come(policy: Policy) -> None:
    """Interleaved drafts: the one whose message arrives is done, the other is still there for a policy that asks."""
    events = [TextDelta("Te", "a"), TextDelta("Other", "b"), Message((ToolUse("c", "t"),), "a")]
    expected = {"canonical": "", "answer": "Other"}
    assert expected[policy.name] == text_of(fold_of(events, policy))


def test_a_start_without_an_id_separates_what_was_streamed() -> None:
    """On a wire that only says "a message begins", the last message's text is the answer."""
    events = [TextDelta("I look."), MessageStarted(), TextDelta("Found it."), MessageStarted("m")]
    assert ("I look.Found it.", "Found it.") == (text_of(fold_of(events)), text_of(fold_of(events, ANSWER)))


@POLICY
def test_merging_parts_equals_folding_the_whole(policy: Policy) -> None:
    """Wherever the run is cut in two, with a retraction, attempts, a repeated id and interleaved drafts in it."""
    events: list[Event] = [
        TextDelta("On", "m1"),
        AttemptAborted("m1"),
        TextDelta("One", "m1"),
        TextDelta("Tw", "m2"),
        said("One.", "m1"),
        ToolCall("c", "search"),
        ToolResult("c"),
        ToolResult("d"),
        MessageRetracted("m1"),
        TextDelta("Two", "m2"),
        Notice("user_message", {"meta": True}),
        said("Two.", "m2", stop_reason="max_tokens"),
        said("Two!", "m2", stop_reason="max_tokens"),
        said("(filler)", origin="synthetic"),
        TextDelta("Thr", "m3"),
        MessageRetracted("m2"),
    ]
    whole = fold_of(events, policy).collect()
    for cut in range(len(events) + 1):
        first = fold_of(events[:cut], policy)
        first.merge(fold_of(events[cut:], policy))
        assert whole == first.collect(), cut
        moved = OutputFold.restore(json.loads(json.dumps(fold_of(events[:cut], policy).state())), policy)
        for event in events[cut:]:
            moved.push(event)
        assert whole == moved.collect(), cut


@pytest.mark.parametrize(
    "events",
    [
        [TextDelta("Hm"), Message((Text(" "),), "m1"), MessageRetracted("m1"), TextDelta("x", "m2")],
        [TextDelta("Hm"), said("One.", "m1"), Message((ToolUse("c", "t"),), "m1"), TextDelta(" ", "m2")],
        [TextDelta("I look."), MessageStarted(), TextDelta("Found it.")],
        [said("One.", stop_reason="max_tokens"), MessageStarted(), said("Two.")],
    ],
    ids=["a blank message retracted", "a text replaced by a call", "a start without an id", "a start between pieces"],
)
def test_what_is_gone_from_a_part_is_not_forgotten(events: list[Event]) -> None:
    """A message that a part has dropped still covers what came before it in another part; a boundary still stands."""
    whole = fold_of(events, ANSWER).selection()
    for cut in range(len(events) + 1):
        first = fold_of(events[:cut], ANSWER)
        first.merge(fold_of(events[cut:], ANSWER))
        assert whole == first.selection(), cut


def test_a_message_that_begins_does_not_end_the_joining_of_pieces() -> None:
    """On a wire without ids the start of the next piece is no step between."""
    events = [said("One, ", stop_reason="max_tokens"), MessageStarted(), TextDelta("two"), said("two.")]
    assert "One, two." == text_of(fold_of(events, ANSWER))


def test_a_merged_end_record_is_that_of_the_later_part() -> None:
    """The end of the later part; of the earlier one where the later has none."""
    first, second, third = OutputFold(ANSWER), OutputFold(ANSWER), OutputFold(ANSWER)
    first.end(RunEnded("completed", terminal="One."))
    second.end(RunEnded("completed", terminal="Two."))
    first.merge(third)
    assert "One." == text_of(first)
    first.merge(second)
    assert "Two." == text_of(first)


def test_the_state_holds_no_empty_text() -> None:
    """A delta without text leaves nothing to carry."""
    assert [] == fold_of([TextDelta("", "m1")]).state()


def test_folds_of_different_policies_do_not_merge() -> None:
    """The rule is chosen once for a run."""
    with pytest.raises(UsageError, match="cannot merge a fold of 'answer' into one of 'canonical'"):
        OutputFold().merge(OutputFold(ANSWER))


def test_collecting_changes_nothing() -> None:
    """The fold goes on after it was asked, however often."""
    fold = fold_of([TextDelta("The ", "m1")])
    assert ["The ", "The "] == [text_of(fold), text_of(fold)]
    fold.push(TextDelta("answer", "m1"))
    assert "The answer" == text_of(fold)


@POLICY
def test_a_complete_list_or_any_iterable_can_be_folded_at_once(policy: Policy) -> None:
    """`final_output` selects what the fold does, with the end record, of the last epoch only."""
    events: list[Event] = [said("Old."), EpochStarted(1), TextDelta("New."), RunEnded("completed", terminal="Word.")]
    assert (Text("New."),) == final_output(events, policy) == final_output(iter(events), policy)
    assert final_output([said("Old."), EpochStarted(1)], policy) is None
    ended = final_output([RunEnded("completed", terminal="Word.")], policy)
    assert ((Text("Word."),) if policy is ANSWER else None) == ended


def test_a_complete_list_is_read_backwards_to_what_decides() -> None:
    """A retraction and what it names, a harness's text, an empty message: the one before them is found."""
    events = [said("One.", "m1"), said("Two.", "m2"), MessageRetracted("m2"), said("(filler)", origin="synthetic")]
    assert (Text("One."),) == final_output([*events, Message(()), ReasoningDelta("hm")])
    assert (Text("Three."),) == final_output([*events, said("Three.")])
    assert final_output([TextDelta("x", "m1"), said("One.", "m1"), MessageRetracted("m1")]) is None


def test_every_field_of_a_policy_can_be_set_alone() -> None:
    """A policy of one's own has a name and the rules it wants; names of shipped ones find them."""
    mine = Policy(name="mine", substance=True)
    events = [said("Yes."), Message((ToolUse("c", "t"),))]
    assert ("Yes.", "") == (text_of(fold_of(events, mine)), text_of(fold_of(events)))
    assert list(POLICIES.values()) == [policy_named(name) for name in POLICIES]
    with pytest.raises(UsageError, match="no policy named 'mine'; the shipped ones are answer, canonical"):
        policy_named("mine")


@POLICY
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda fold: pickle.loads(pickle.dumps(fold))])
def test_a_copy_goes_its_own_way(policy: Policy, copied: Callable[[OutputFold], OutputFold]) -> None:
    """A fold can be copied and pickled in the middle; what is pushed to one does not reach the other."""
    fold = fold_of([said("One.", "m1"), ToolCall("c", "look"), TextDelta("Tw", "m2")], policy)
    fold.end(RunEnded("completed", terminal="Done."))
    other = copied(fold)
    assert fold.selection() == other.selection()
    other.push(TextDelta("o", "m2"))
    other.push(said("Two.", "m2"))
    assert "Two." == text_of(other)
    assert "Two." != text_of(fold)
    run = copy.deepcopy(run_of := RunFold(policy))
    run.push(TextDelta("mine"))
    assert (None, "mine") == (run_of.snapshot().text or None, run.snapshot().text)


def test_an_exception_in_the_middle_of_a_push_costs_no_more_than_that_event() -> None:
    """An event with a field of a wrong type raises; what came before stands, and what comes after is taken."""
    fold = fold_of([TextDelta("a")])
    with pytest.raises(TypeError):
        fold.push(said("x", ["no", "id"]))  # type: ignore[arg-type]  # wrong on purpose
    fold.push(TextDelta("b"))
    assert "ab" == text_of(fold)
    fold.push(said("final"))
    assert "final" == text_of(fold)
    push = OutputFold().push  # of a fold that is gone
    with pytest.raises(TypeError):
        push(said("x", ["no", "id"]))  # type: ignore[arg-type]  # as above


@POLICY
def test_empty_text_decides_nothing(policy: Policy) -> None:
    """It opens no draft, so it moves no boundary, and merged parts agree with the whole."""
    events: list[Event] = [TextDelta(" ", "a"), TextDelta("zzz"), TextDelta("x", "a"), TextDelta("")]
    merged = fold_of(events[:3], policy)
    merged.merge(fold_of(events[3:], policy))
    assert text_of(fold_of(events[:3], policy)) == text_of(fold_of(events, policy)) == text_of(merged)
