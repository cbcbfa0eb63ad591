"""The run fold: stop reasons and their evidence, reasons for none, usage, late events, epochs, state."""

import json
from typing import Any

import pytest

from lastsay.events import (
    AttemptAborted,
    EpochStarted,
    Event,
    Fault,
    Message,
    MessageRetracted,
    MessageStarted,
    Notice,
    Reasoning,
    ReasoningDelta,
    RunEnded,
    RunStarted,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    ToolUse,
    Usage,
    UsageReported,
)
from lastsay.fold import ANSWER, CANONICAL, INCOMPLETE, Outcome, Policy, RunFold

COMPLETED = RunEnded("completed")
CALL = Message((ToolUse("c1", "search"),), stop_reason="tool_use")
RESULT = ToolResult("c1", (Text("found"),))


def said(text: str, message: str | None = None, **fields: Any) -> Message:
    """A message of one text block."""
    return Message((Text(text),), message, **fields)


def fold_of(events: list[Event], policy: Policy = CANONICAL) -> RunFold:
    """The fold of the events."""
    fold = RunFold(policy)
    for event in events:
        fold.push(event)
    return fold


def outcome_of(*events: Event, policy: Policy = CANONICAL) -> Outcome:
    """The outcome of the events: the same however they are cut, merged and carried elsewhere."""
    whole = fold_of(list(events), policy).outcome()
    for cut in range(len(events) + 1):
        first, later = fold_of(list(events[:cut]), policy), fold_of(list(events[cut:]), policy)
        if not any(type(event) is EpochStarted for event in events):
            moved = RunFold.restore(json.loads(json.dumps(first.state())))
            moved.merge(later)
            assert whole == moved.outcome(), cut
    return whole


# Evidence.


@pytest.mark.parametrize(
    ("events", "effective", "evidence"),
    [
        ([said("Yes."), COMPLETED], "completed", ()),
        ([said("Yes."), RunEnded("completed", exit_status=0)], "completed", ()),
        ([said("Yes."), RunEnded("completed", exit_status=3)], "error", ("exit_status",)),
        ([CALL, COMPLETED], INCOMPLETE, ("open_tool_call",)),
        ([CALL, RESULT, said("Yes."), COMPLETED], "completed", ()),
        ([RESULT, CALL, said("Yes."), COMPLETED], "completed", ()),
        ([CALL, said("Yes."), COMPLETED], "completed", ()),
        ([said("Yes."), ToolCall("c9", "search"), COMPLETED], INCOMPLETE, ("open_tool_call",)),
        ([said("Yes."), ToolResult("c9"), ToolCall("c9", "search"), COMPLETED], "completed", ()),
        ([ToolCall("c1", "search"), CALL, RESULT, said("Yes."), COMPLETED], "completed", ()),
        ([said("Yes."), Notice("task_started", {"id": "t"}), COMPLETED], INCOMPLETE, ("open_background_task",)),
        (
            [Notice("task_started", {"id": "t"}), said("Yes."), Notice("task_ended", {"id": "t"}), COMPLETED],
            "completed",
            (),
        ),
        (
            [Notice("task_ended", {"id": "t"}), Notice("task_started", {"id": "t"}), said("Yes."), COMPLETED],
            "completed",
            (),
        ),
        ([said("Yes."), Notice("task_started", "what?"), Notice("task_started", {}), COMPLETED], "completed", ()),
        ([TextDelta("Ye"), AttemptAborted(reason="retry"), COMPLETED], "error", ("last_attempt_failed",)),
        ([TextDelta("Ye"), AttemptAborted(), TextDelta("Yes."), COMPLETED], "completed", ()),
        ([said("Yes."), Fault("error", "overloaded"), COMPLETED], "error", ("last_attempt_failed",)),
        ([said("Yes."), Notice("error", "overloaded"), COMPLETED], "error", ("last_attempt_failed",)),
        ([said("Yes."), Fault("invalid_json", "line 3"), COMPLETED], "completed", ()),
        ([said("Yes."), said("API Error", origin="synthetic"), COMPLETED], "error", ("synthetic_end",)),
        ([said("API Error", origin="synthetic"), said("Yes."), COMPLETED], "completed", ()),
        ([said("Ye", stop_reason="max_tokens"), COMPLETED], "max-tokens", ("last_message_stop",)),
        ([said("No.", stop_reason="refusal"), COMPLETED], "refusal", ("last_message_stop",)),
        ([Notice("error", {"message": "MAX_TURNS"}), said("So far."), COMPLETED], "max_turns", None),
        ([Notice("error", {"message": "MAX_TURNS"}), said("So far."), RunEnded("error")], "max_turns", None),
        ([said("Yes."), CALL, RunEnded("aborted")], "aborted", ("open_tool_call",)),
        ([said("Yes.", stop_reason="end_turn")], "completed", ("no_end_record",)),
        ([said("Yes.")], "completed", ("no_end_record",)),
        ([said("Yes", interrupted=True)], "error", ("no_end_record",)),
        ([TextDelta("Ye")], "error", ("no_end_record",)),
        ([said("I look.", "m1"), TextDelta("The ans", "m2")], "error", ("no_end_record",)),
        ([TextDelta("Ye", "m1"), TextDelta("s.", "m1"), said("Yes.", "m1")], "completed", ("no_end_record",)),
        ([CALL], "error", ("open_tool_call", "no_end_record")),
    ],
)
def test_the_effective_stop_reason_follows_the_evidence(
    events: list[Event], effective: str, evidence: tuple[str, ...] | None
) -> None:
    """The reported reason stands beside what the run's own events say, and the deciding evidence comes first."""
    found = outcome_of(*events)
    assert effective == found.effective_stop_reason
    assert evidence in (None, found.evidence)
    assert evidence is not None or found.evidence[0] == "limit_before_recovery"


def test_the_first_limit_is_the_cause() -> None:
    """A second error during the recovery turn does not rename it."""
    limits = [Notice("error", {"message": "timeout"}), said("Hm."), Notice("error", {"message": "max turns"})]
    assert "timeout" == outcome_of(*limits, said("So far."), COMPLETED).effective_stop_reason


def test_an_answer_can_be_whole_whatever_ended_the_run() -> None:
    """A finished answer under a timeout is not a half sentence under "completed"."""
    whole = said("The report.", stop_reason="end_turn")
    assert outcome_of(whole, RunEnded("aborted")).answer_complete
    assert outcome_of(said("Yes."), COMPLETED).answer_complete
    assert outcome_of(TextDelta("Yes."), COMPLETED).answer_complete
    assert not outcome_of(said("Ye"), RunEnded("aborted")).answer_complete
    assert not outcome_of(said("Ye", stop_reason="length"), COMPLETED).answer_complete
    assert not outcome_of(whole, ToolCall("c", "t"), COMPLETED).answer_complete
    assert not outcome_of(TextDelta("Ye"), RunEnded("aborted")).answer_complete
    assert outcome_of(said("Yes.", phase="final_answer"), RunEnded("error")).answer_complete


def test_what_cannot_be_read_is_no_answer() -> None:
    """The canonical rule may select reasoning; a consumer is not told that this is a whole answer."""
    thought = Message((Reasoning("I know it."),), stop_reason="end_turn")
    found = outcome_of(thought, COMPLETED)
    assert (thought.content, False) == (found.output, found.answer_complete)


def test_raw_mapped_and_unknown_stop_reasons() -> None:
    """The word as it came, its meaning, and where that comes from."""
    found = outcome_of(RunEnded("end_turn"))
    assert ("completed", "end_turn", "reported", True) == (
        found.stop_reason,
        found.raw_stop_reason,
        found.provenance,
        found.succeeded,
    )
    found = outcome_of(RunEnded("max-tokens", raw="error_max_tokens", provenance="recovered"))
    assert ("max-tokens", "error_max_tokens", "recovered") == (
        found.stop_reason,
        found.raw_stop_reason,
        found.provenance,
    )
    assert outcome_of(RunEnded("error", provenance="unknown")).raw_stop_reason is None
    assert not outcome_of(RunEnded("made_up")).succeeded
    found = outcome_of()
    assert ("error", None, "unknown") == (found.stop_reason, found.raw_stop_reason, found.provenance)


# None, and why.


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([], "never_spoke"),
        ([said("API Error", origin="synthetic")], "never_spoke"),
        ([ReasoningDelta("Hm.")], "reasoning_only"),
        ([Message((Reasoning("Hm."),))], "reasoning_only"),
        ([CALL, RESULT], "tools_only"),
        ([Message((Text(" "),))], "blank"),
        ([TextDelta("\n")], "blank"),
        ([Message(())], "empty_final"),
        ([Message((), stop_reason="refusal")], "refused"),
        ([RunEnded("refusal")], "refused"),
    ],
)
def test_no_output_has_a_reason(events: list[Event], reason: str) -> None:
    """A child that found nothing and one that never spoke can be told apart."""
    found = outcome_of(*events, policy=ANSWER)
    assert (None, None, "none", reason) == (found.output, found.text, found.source, found.none_reason)


@pytest.mark.parametrize("evidence", ["source_missing", "reader_dead"])
def test_a_run_closed_from_outside_says_why(evidence: str) -> None:
    """What ended it is evidence, its reason for silence where there is one, and not a missing end record."""
    fold = fold_of([RunStarted()])
    fold.close("error", evidence=(evidence,), diagnostic="gone", raw="lost")
    found = fold.outcome()
    assert ("error", "lost", "recovered", (evidence,), evidence, "gone") == (
        found.stop_reason,
        found.raw_stop_reason,
        found.provenance,
        found.evidence,
        found.none_reason,
        found.diagnostic,
    )
    fold.close("aborted")
    assert "error" == fold.outcome().stop_reason


def test_what_a_closed_run_had_open_is_listed_after_the_cause() -> None:
    """The cancellation first, then the call that it left open."""
    fold = fold_of([CALL])
    fold.close("aborted", evidence=("cancelled",))
    assert ("cancelled", "open_tool_call") == fold.outcome().evidence


def test_an_end_can_be_taken_back() -> None:
    """A cancellation that came before the end record was handed on decides instead."""
    fold = fold_of([said("Yes."), COMPLETED])
    fold.reopen()
    fold.close("aborted", evidence=("cancelled",))
    assert ("aborted", "Yes.") == (fold.outcome().stop_reason, fold.outcome().text)


# Usage and counts.


def test_usage_is_the_last_report_of_each_message_added_up() -> None:
    """Reported with each block, then once more, then by the run as a whole: no token is counted twice."""
    one, two = Usage(input_tokens=10, output_tokens=1), Usage(input_tokens=10, output_tokens=5)
    events: list[Event] = [
        said("O", "m1", usage=one),
        said("One.", "m1", usage=one),
        UsageReported(two, "m1"),
        said("Two.", usage=Usage(output_tokens=3)),
        UsageReported(Usage(input_tokens=99)),
        COMPLETED,
    ]
    assert Usage(input_tokens=10, output_tokens=8) == outcome_of(*events).usage


def test_usage_of_the_run_counts_where_messages_have_none() -> None:
    """Its last report; None where nobody said anything."""
    total = Usage(input_tokens=99)
    assert total == outcome_of(said("Yes."), UsageReported(Usage(input_tokens=1)), UsageReported(total)).usage
    assert outcome_of(said("Yes.")).usage is None


def test_counts_say_how_much_there_was() -> None:
    """Messages by id, calls once though they are told twice, attempts, faults."""
    found = outcome_of(
        TextDelta("On", "m1"),
        AttemptAborted("m1"),
        said("One.", "m2"),
        Message((Text("One."), ToolUse("c1", "t")), "m2"),
        ToolCall("c1", "t"),
        RESULT,
        Message((), "m3"),
        said("(filler)", origin="synthetic"),
        said("(info)", origin="notice"),
        Fault("invalid_json", "line 9"),
        COMPLETED,
    )
    counts = found.counts
    assert (2, 1, 1, 1, 1, 1, 2, 1) == (
        counts.messages,
        counts.empty,
        counts.tool_calls,
        counts.tool_results,
        counts.aborted_attempts,
        counts.deltas,
        counts.characters,
        counts.synthetic,
    )
    assert (3, 1) == (found.attempts, counts.faults)


def test_a_message_that_grows_is_counted_once() -> None:
    """Sent empty, then with reasoning, then with text: one message, once empty, once with reasoning."""
    thought = Reasoning("Hm.")
    found = outcome_of(
        Message((), "m1"),
        Message((), "m1"),
        Message((thought,), "m1"),
        Message((thought, Text("Yes.")), "m1"),
        Message((thought,)),
        Message(()),
    )
    assert (3, 2, 2) == (found.counts.messages, found.counts.empty, found.counts.reasoning)


def test_a_call_told_twice_in_one_message_is_one_call() -> None:
    """A harness that repeats an id has one call open, and one result closes it."""
    found = outcome_of(Message((ToolUse("c1", "t"), ToolUse("c1", "t"))), ToolResult("c1"), COMPLETED)
    assert (1, ()) == (found.counts.tool_calls, found.evidence)


# Lists.


def test_lists_of_one_class_fold_like_single_events() -> None:
    """Deltas, late deltas and everything else."""
    events: list[list[Event]] = [
        [],
        [TextDelta("O", "m1"), TextDelta("n", "m1")],
        [said("One.", "m1"), said("Two.", "m2")],
        [COMPLETED],
        [TextDelta("late", "m9"), TextDelta("r", "m9")],
    ]
    grouped = RunFold()
    for same in events:
        grouped.push_run(same)
    assert fold_of([event for same in events for event in same]).outcome() == grouped.outcome()


# Late events.


def test_late_text_of_the_message_that_was_streamed_is_taken() -> None:
    """A handler that runs after the end record still completes its message."""
    events: list[Event] = [MessageStarted("m1"), TextDelta("The ", "m1"), COMPLETED, TextDelta("answer", "m1")]
    fold = fold_of(events)
    assert ("The answer", 0, 0) == (fold.outcome().text, fold.outcome().counts.late, fold.late)
    fold.push(said("The answer.", "m1"))
    assert "The answer." == fold.outcome().text


@pytest.mark.parametrize("rest", [TextDelta("answer", "m1"), said("The answer", "m1")], ids=["delta", "message"])
def test_a_late_rest_is_taken_from_a_part_that_is_merged(rest: Event) -> None:
    """The rest of the streamed message, folded elsewhere; beside other things it is set aside with them."""
    fold = fold_of([MessageStarted("m1"), TextDelta("The ", "m1"), COMPLETED])
    fold.merge(fold_of([rest]))
    assert ("The answer", 0) == (fold.outcome().text, fold.late)
    other = fold_of([MessageStarted("m1"), TextDelta("The ", "m1"), COMPLETED])
    other.merge(fold_of([rest, ToolCall("c", "search")]))
    other.merge(fold_of([Notice("status")]))
    assert 2 == other.late


def test_late_text_of_others_is_set_aside_and_counted() -> None:
    """What comes after the end and belongs to no open message changes nothing but a count."""
    events: list[Event] = [MessageStarted("m1"), said("Yes.", "m1"), COMPLETED]
    late: list[Event] = [TextDelta("Hm", "m2"), said("No.", "m2"), ToolCall("c", "t"), Notice("status")]
    found = outcome_of(*events, *late)
    assert ("Yes.", 3) == (found.text, found.counts.late)
    assert 4 == fold_of([*events, *late]).late


def test_late_chunks_of_a_run_without_messages_are_its_text() -> None:
    """On a chunk-only wire the answer may overtake the end record, or be overtaken by it."""
    found = outcome_of(TextDelta("The "), COMPLETED, TextDelta("answer."))
    assert ("The answer.", 2, 0) == (found.text, found.counts.deltas, found.counts.late)
    assert "The answer." == outcome_of(COMPLETED, TextDelta("The "), TextDelta("answer.")).text


def test_a_second_end_record_shows_that_the_first_was_none() -> None:
    """A result while a background task is open is not the end: the answer after it is the answer."""
    task, done = Notice("task_started", {"id": "t"}), Notice("task_ended", {"id": "t"})
    first = [task, said("It is on its way.", "m1"), COMPLETED]
    assert INCOMPLETE == outcome_of(*first).effective_stop_reason
    found = outcome_of(*first, done, said("It has come.", "m2"), COMPLETED)
    assert ("It has come.", "completed", ()) == (found.text, found.effective_stop_reason, found.evidence)


def test_a_second_start_goes_on_with_the_run() -> None:
    """A child resumed under its id, without an epoch of its own: what was late belongs to it."""
    events: list[Event] = [RunStarted(agent="a"), said("One.", "m1"), COMPLETED, Notice("status")]
    fold = fold_of([*events, said("Two.", "m2"), RunStarted(agent="b")])
    assert ("Two.", "no_end_record") == (fold.outcome().text, fold.outcome().evidence[0])
    assert "a" == (fold.started.agent if fold.started else None)
    fold.push_run([said("Three.", "m3")])
    fold.push(RunEnded("max-tokens"))
    assert ("Three.", "max-tokens") == (fold.outcome().text, fold.outcome().stop_reason)
    assert "Two." == fold_of([said("One."), COMPLETED, RunStarted(), said("Two."), COMPLETED]).outcome().text


def test_late_events_survive_a_move() -> None:
    """A fold carried elsewhere after its end knows what came late."""
    fold = fold_of([said("Yes."), COMPLETED, TextDelta("Hm", "m2")])
    moved = RunFold.restore(json.loads(json.dumps(fold.state())))
    assert (fold.outcome(), fold.late) == (moved.outcome(), moved.late)
    moved.push(RunEnded("error"))
    assert "error" == moved.outcome().stop_reason


def test_candidates_of_a_run_with_late_events_are_those_that_it_had() -> None:
    """Text whose message arrived is not listed beside it, and what came late is not listed at all."""
    fold = RunFold(ANSWER, everything=True)
    for event in (TextDelta("Yes.", "m1"), said("Yes.", "m1"), TextDelta("Hm"), COMPLETED, said("No.", "m2")):
        fold.push(event)
    assert ["Yes.", "Hm"] == [row.text for row in fold.candidates()]


# Epochs and snapshots.


def test_an_epoch_is_folded_from_its_own_events() -> None:
    """Output, usage and counts of an earlier activation are not this one's."""
    fold = fold_of([RunStarted(), EpochStarted(0), said("One.", usage=Usage(output_tokens=1)), COMPLETED])
    assert ("One.", 0) == (fold.outcome().text, fold.outcome().epoch)
    fold.push(EpochStarted(1))
    assert (None, 1, "never_spoke", None) == (
        fold.outcome().output,
        fold.outcome().epoch,
        fold.outcome().none_reason,
        fold.outcome().usage,
    )
    assert not fold.spoke
    fold.push(TextDelta("Two."))
    assert fold.spoke
    fold.push(EpochStarted(1))
    assert fold.outcome().output is None


def test_a_snapshot_is_not_final_while_the_run_goes_on() -> None:
    """What there is so far, with no evidence drawn from an end that has not come."""
    fold = fold_of([said("I look.", stop_reason="tool_use"), CALL])
    found = fold.snapshot()
    assert (False, (), "error") == (found.final, found.evidence, found.effective_stop_reason)
    fold.push_run([RESULT])
    fold.push(COMPLETED)
    assert fold.outcome() == fold.snapshot()


def test_what_was_not_selected_is_listed() -> None:
    """Ordinal, length, stop reason and id of each text, and a hint where the chosen one is far shorter."""
    events = [said("A report. " * 10, "m1", stop_reason="end_turn"), said("Done.", "m2"), COMPLETED]
    found = outcome_of(*events)
    (row,) = found.unselected
    assert (1, 100, "end_turn", "m1", True) == (row.ordinal, row.length, row.stop_reason, row.message, found.outweighed)
    assert not outcome_of(said("One.", "m1"), said("Two.", "m2")).outweighed
    assert not outcome_of(TextDelta(" "), policy=ANSWER).outweighed


def test_an_end_record_that_repeats_the_answer_is_not_listed_as_another_text() -> None:
    """Its text is the selected one once more."""
    assert () == outcome_of(said("Yes."), RunEnded("completed", terminal="Yes.")).unselected
    assert 1 == len(outcome_of(said("Yes."), RunEnded("completed", terminal="No.")).unselected)


def test_a_retracted_message_leaves_the_run_without_output() -> None:
    """Nothing of it is selected or listed."""
    found = outcome_of(said("Bad.", "m1"), MessageRetracted("m1"), COMPLETED)
    assert (None, ()) == (found.output, found.unselected)
