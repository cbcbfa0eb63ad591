"""Selection: what the policies choose from sequences that real harnesses send."""

from typing import Any

import pytest

from lastsay.events import (
    AttemptAborted,
    Event,
    Image,
    Message,
    MessageRetracted,
    Notice,
    Reasoning,
    RunEnded,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    ToolUse,
)
from lastsay.fold import ANSWER, CANONICAL, Candidate, Outcome, Policy, RunFold

CALL = ToolUse("call-1", "search")
COMPLETED = RunEnded("completed")
RESUME = Notice("user_message", {"meta": True})
USER = Notice("user_message", {"text": "And now?"})


def folded(events: list[Event], policy: Policy = ANSWER) -> RunFold:
    """The fold of the events, which keeps everything."""
    fold = RunFold(policy, everything=True)
    for event in events:
        fold.push(event)
    return fold


def outcome(events: list[Event], policy: Policy = ANSWER) -> Outcome:
    """The outcome, the same whether the fold keeps everything or not."""
    lean = RunFold(policy)
    for event in events:
        lean.push(event)
    found = lean.outcome()
    assert found.output == folded(events, policy).outcome().output
    return found


def said(text: str, message: str | None = None, **fields: Any) -> Message:
    """A message of one text block."""
    return Message((Text(text),), message, **fields)


def why(events: list[Event], policy: Policy = ANSWER) -> list[tuple[str, str]]:
    """Text and rule of each candidate, in order."""
    return [(row.text, row.why) for row in folded(events, policy).candidates()]


# Growing messages, and text that belongs to one.


def test_a_message_that_grows_counts_once_and_in_its_last_form() -> None:
    """One id sent three times, a block more each time, is one message with its last content."""
    blocks = (Text("I look."), CALL, Text("Found it."))
    events: list[Event] = [Message(blocks[:size], "m1") for size in (1, 2, 3)]
    assert blocks == outcome([*events, COMPLETED], CANONICAL).output
    assert 1 == outcome(events).counts.messages


def test_an_empty_repetition_does_not_take_content_away() -> None:
    """A second message with the same id and no content (its usage) leaves the first one standing."""
    assert "Found it." == outcome([said("Found it.", "m1"), Message((), "m1"), COMPLETED], CANONICAL).text


def test_text_streamed_on_in_the_same_message_is_joined_to_it() -> None:
    """A kill in the second text block of a message leaves the first block and what there was of the second."""
    events = [TextDelta("One. ", "m1"), said("One. ", "m1"), TextDelta("Tw", "m1")]
    found = outcome(events)
    assert ("One. Tw", True, 1, None) == (found.text, found.partial, found.pieces, found.beside)
    assert ["One. ", "Tw"] == [row.text for row in folded(events).candidates() if row.chosen]


def test_late_text_of_a_finished_message_stands_beside_it() -> None:
    """A message that ended its turn is whole; text that repeats under its id does not replace it."""
    found = outcome([said("Done.", "m1", stop_reason="end_turn"), TextDelta("Done.", "m1")])
    assert ("Done.", False, (Text("Done."),)) == (found.text, found.partial, found.beside)


def test_a_later_step_in_a_message_of_its_own_replaces_an_earlier_one() -> None:
    """Text of another message is the newest answer; the complete one stands beside it."""
    found = outcome([said("I look.", "m1", stop_reason="tool_use"), TextDelta("The answer is", "m2")])
    assert ("The answer is", "streamed", True) == (found.text, found.source, found.partial)
    assert (Text("I look."),) == found.beside


def test_a_tail_after_a_finished_answer_stands_beside_it() -> None:
    """A closing remark that was cut does not replace a whole answer."""
    events = [said("The report.", "m1", stop_reason="end_turn"), TextDelta("By the w", "m2")]
    found = outcome(events)
    assert ("The report.", False, True) == (found.text, found.partial, found.answer_complete)
    assert (Text("By the w"),) == found.beside
    assert ("By the w", "streamed after a finished answer (tail); kept beside") == why(events)[-1]


def test_a_tail_after_a_declared_final_answer_stands_beside_it() -> None:
    """What was declared final is whole, with or without a stop reason of its own."""
    found = outcome([said("The report.", "m1", phase="final_answer"), TextDelta("By the w", "m2")])
    assert ("The report.", (Text("By the w"),)) == (found.text, found.beside)


def test_a_tail_that_answers_a_new_question_is_the_newest_answer() -> None:
    """With a turn of the user between, the finished answer was to another question."""
    found = outcome([said("Four.", "m1", stop_reason="end_turn"), USER, TextDelta("Fi", "m2")])
    assert ("Fi", True, (Text("Four."),)) == (found.text, found.partial, found.beside)


def test_blank_text_is_no_tail() -> None:
    """Line ends streamed after the message do not replace it."""
    assert "Yes." == outcome([said("Yes."), TextDelta("\n\n")]).text


def test_an_interrupted_message_has_the_last_complete_one_beside_it() -> None:
    """The prefix that a cancelled harness saves as a message does not make the answer before it unreachable."""
    cut = said("Now I also", "m3", interrupted=True)
    found = outcome([said("The report.", "m1"), Message((CALL,), "m2"), cut, RunEnded("aborted")])
    assert ("Now I also", True, (Text("The report."),)) == (found.text, found.partial, found.beside)
    assert outcome([cut]).beside is None
    assert outcome([said("The report."), cut], CANONICAL).beside is None


# Pieces cut at max-tokens.


def test_pieces_are_joined_across_an_injected_resume_prompt() -> None:
    """Three pieces with the harness's own prompt between are one answer of three pieces."""
    pieces = [said("One ", "a", stop_reason="max_tokens"), RESUME, said("two ", "b", stop_reason="max_tokens"), RESUME]
    found = outcome([*pieces, said("three.", "c", stop_reason="end_turn"), COMPLETED])
    assert ("One two three.", 3, False, True) == (found.text, found.pieces, found.partial, found.answer_complete)
    assert "three." == outcome([*pieces, said("three.", "c", stop_reason="end_turn"), COMPLETED], CANONICAL).text


def test_a_piece_that_was_cut_too_makes_the_answer_partial() -> None:
    """The last piece stopped at the limit as well."""
    found = outcome([said("One ", stop_reason="max_tokens"), RESUME, said("two", stop_reason="length")])
    assert ("One two", 2, True, False) == (found.text, found.pieces, found.partial, found.answer_complete)


def test_a_piece_that_was_only_streamed_is_joined_too() -> None:
    """A kill in the continuation leaves the first piece and what there was of the second."""
    events = [said("One ", "a", stop_reason="max_tokens"), RESUME, TextDelta("tw", "b")]
    found = outcome(events)
    assert ("One tw", 2, True) == (found.text, found.pieces, found.partial)
    assert ("tw", "streamed on from the message before it, and not completed (tail)") == why(events)[-1]


@pytest.mark.parametrize("between", [USER, ToolResult("call-1")], ids=["user", "tool"])
def test_a_turn_or_a_tool_between_ends_the_joining(between: Event) -> None:
    """What follows a user's message or a tool result is no continuation."""
    cut = said("One ", stop_reason="max_tokens")
    assert "two" == outcome([cut, between, said("two")]).text
    assert "two" == outcome([cut, between, TextDelta("two", "b")]).text


def test_a_message_that_ended_itself_is_no_piece() -> None:
    """Only what was cut is continued."""
    assert "two" == outcome([said("One ", stop_reason="end_turn"), said("two")]).text


# Attempts.


def test_a_failed_attempt_is_dropped_once_another_spoke() -> None:
    """The half sentence of the first call is not glued to the second one's text."""
    events = [TextDelta("The ans", "a"), AttemptAborted("a"), TextDelta("The answer", "b")]
    assert ("The ansThe answer", "The answer") == (outcome(events, CANONICAL).text, outcome(events).text)
    assert "its attempt was aborted, and a later one produced text (drop_aborted)" == why(events)[0][1]


def test_the_last_failed_attempt_is_kept_where_nothing_followed() -> None:
    """A run whose every call failed still has what the last one said."""
    found = outcome([TextDelta("One", "a"), AttemptAborted("a"), TextDelta("Two", "b"), AttemptAborted("b"), COMPLETED])
    assert ("Two", True) == (found.text, found.partial)


def test_blank_text_does_not_replace_a_failed_attempt() -> None:
    """A later call that sent a line end and died has produced no text."""
    assert "The ans" == outcome([TextDelta("The ans", "a"), AttemptAborted("a"), TextDelta("\n", "b")]).text


def test_of_interleaved_attempts_the_one_that_was_not_aborted_stands() -> None:
    """Late pieces of an abandoned call do not make it the newest."""
    events = [TextDelta("ol", "a"), TextDelta("new", "b"), TextDelta("d", "a"), AttemptAborted("a")]
    assert "new" == outcome(events).text


def test_an_abort_without_a_name_reaches_back_to_the_last_step_only() -> None:
    """What an earlier step said in a model call that succeeded is not part of the failed one."""
    policy = Policy(name="drop", drop_aborted=True)
    step = [TextDelta("I look. "), ToolCall("call-1", "search"), ToolResult("call-1")]
    events = [*step, TextDelta("The ans"), AttemptAborted(), TextDelta("The answer.")]
    assert "I look. The answer." == outcome(events, policy).text
    assert "I look. The ansThe answer." == outcome(events, CANONICAL).text


def test_an_id_used_again_after_an_abort_is_a_new_attempt() -> None:
    """A harness that retries under the same id has its first try dropped."""
    assert "Two" == outcome([TextDelta("One", "a"), AttemptAborted("a"), TextDelta("Two", "a")]).text
    assert "Two" == outcome([TextDelta("One", "a"), AttemptAborted(), TextDelta("Two", "a")]).text


# Retraction.


def test_a_retracted_message_counts_as_never_written() -> None:
    """The message before it is the answer again."""
    events = [said("One.", "m1"), said("Two.", "m2"), MessageRetracted("m2"), COMPLETED]
    assert {"One."} == {outcome(events, policy).text for policy in (CANONICAL, ANSWER)}


def test_text_streamed_after_a_retraction_is_the_answer() -> None:
    """A retry that died in the middle is all there is."""
    events = [TextDelta("Ba", "m1"), said("Bad.", "m1"), MessageRetracted("m1"), TextDelta("Goo", "m2")]
    assert {"Goo"} == {outcome(events, policy).text for policy in (CANONICAL, ANSWER)}


def test_text_covered_by_a_message_that_was_taken_back_stays_covered() -> None:
    """Under the canonical rule a retraction does not bring streamed text back, and the explanation says so."""
    events = [TextDelta("Hm", "m0"), said("Bad.", "m1"), MessageRetracted("m1")]
    assert outcome(events, CANONICAL).output is None
    assert [("Hm", "streamed before a message that was taken back")] == why(events, CANONICAL)
    assert "Hm" == outcome(events).text


# Substance.


@pytest.mark.parametrize("last", [(CALL,), (Reasoning("Hm."),), (Text(" \n"),), (Text(""),)])
def test_a_message_without_substance_does_not_replace_one_that_has(last: tuple[Any, ...]) -> None:
    """A call, a thought or blank text after the answer: the answer stays. The canonical rule takes it, by length."""
    events = [said("The answer."), Message(last), COMPLETED]
    assert "The answer." == outcome(events).text
    assert last == outcome(events, CANONICAL).output
    assert ("nothing in it to read (substance)") == why(events)[1][1]


def test_an_image_is_substance() -> None:
    """A picture answers."""
    picture = Message((Image(data="aGk=", media_type="image/png"),))
    assert picture.content == outcome([said("Here:"), picture]).output


def test_streamed_text_stands_where_the_only_message_is_a_call() -> None:
    """The text that went with the call is the answer, not the call."""
    events = [TextDelta("I look."), Message((CALL,)), COMPLETED]
    assert ("I look.", (CALL,)) == (outcome(events).text, outcome(events, CANONICAL).output)


def test_blank_streamed_text_is_nothing() -> None:
    """ANSWER says none and why, the canonical rule returns it."""
    found = outcome([TextDelta(" \n"), COMPLETED])
    assert (None, "blank", " \n") == (
        found.output,
        found.none_reason,
        outcome([TextDelta(" \n"), COMPLETED], CANONICAL).text,
    )
    assert [(" \n", "nothing in it to read (substance)")] == why([TextDelta(" \n")])


def test_what_the_harness_wrote_is_output_under_no_policy() -> None:
    """An API error in the model's place leaves the model's last words standing."""
    events = [said("Half"), said("API Error: 500", origin="synthetic"), RunEnded("error", terminal="API Error: 500")]
    for policy in (CANONICAL, ANSWER):
        assert "Half" == outcome(events, policy).text
        assert "written by the harness, not by the model" == why(events, policy)[1][1]
        assert () == outcome(events, policy).unselected


# Steps, final answers, reactions.


def test_commentary_before_a_tool_is_not_glued_to_the_answer() -> None:
    """On a wire of chunks only, the last step's text is the answer."""
    events = [TextDelta("I look. "), ToolCall("call-1", "search"), ToolResult("call-1"), TextDelta("Found it.")]
    assert ("I look. Found it.", "Found it.") == (outcome(events, CANONICAL).text, outcome(events).text)
    assert "streamed in an earlier step (segment)" == why(events)[0][1]


def test_a_declared_final_answer_outranks_later_commentary() -> None:
    """The message that was declared final is the answer, whatever was said after it."""
    events = [said("The answer.", phase="final_answer"), said("Anything else?", phase="commentary")]
    found = outcome(events)
    assert ("The answer.", True) == (found.text, found.answer_complete)
    assert "declared to be the final answer (final_first)" == why(events)[0][1]
    assert "Anything else?" == outcome(events, CANONICAL).text


def test_the_last_of_several_final_answers_is_taken() -> None:
    """A second declaration replaces the first."""
    assert "Two." == outcome([said("One.", phase="final_answer"), said("Two.", phase="final_answer")]).text


def test_a_reaction_to_an_injected_prompt_does_not_replace_a_finished_answer() -> None:
    """A stop hook's reminder is answered with a short line; the report before it stays."""
    report, short = said("The report.", stop_reason="end_turn"), said("Noted.", stop_reason="end_turn")
    events = [report, RESUME, short, RESUME, said("Really.", stop_reason="end_turn"), COMPLETED]
    assert ("The report.", "Really.") == (outcome(events).text, outcome(events, CANONICAL).text)
    assert "answers a prompt that the harness injected (reactions_aside)" == why(events)[2][1]


@pytest.mark.parametrize(
    "events",
    [
        [said("The report.", stop_reason="end_turn"), USER, said("Noted.")],
        [said("The report.", stop_reason="end_turn"), RESUME, ToolCall("c", "search"), said("Noted.")],
        [said("The report.", stop_reason="tool_use"), RESUME, said("Noted.")],
        [said("The report.", stop_reason="end_turn"), said("Noted.")],
    ],
    ids=["asked by the user", "worked on", "was not finished", "nothing injected"],
)
def test_anything_but_a_mere_reaction_replaces(events: list[Event]) -> None:
    """A new question, further work, an unfinished answer or no prompt at all: the last message is the answer."""
    assert "Noted." == outcome(events).text


# The end record.


def test_the_end_record_is_the_last_resort() -> None:
    """Its text is output only where nothing else was said, and only under a policy that reads it."""
    ended = RunEnded("completed", terminal="From the record.")
    found = outcome([ended])
    assert ("From the record.", "terminal", True) == (found.text, found.source, found.answer_complete)
    assert [("From the record.", "nothing else was said (terminal)")] == why([ended])
    assert outcome([ended], CANONICAL).output is None
    assert "the policy does not read the end record's text" == why([ended], CANONICAL)[0][1]
    assert "Said." == outcome([said("Said."), ended]).text
    assert "the end record's text is the last resort" == why([said("Said."), ended])[1][1]


@pytest.mark.parametrize(
    "events",
    [
        [RunEnded("error", terminal="It failed.")],
        [RunEnded("refusal", terminal="I cannot.")],
        [RunEnded("completed", terminal=" \n")],
        [said("(no content)", origin="synthetic"), RunEnded("completed", terminal="(no content)")],
    ],
    ids=["error", "refusal", "blank", "the harness's own"],
)
def test_an_end_record_without_an_answer_is_no_source(events: list[Event]) -> None:
    """Error texts, refusals, blanks and fillers of the harness are no answer."""
    assert outcome(events).output is None
    assert "the end record's text is no answer: blank, of a failure, or the harness's own" == why(events)[-1][1]


def test_a_declared_structured_result_comes_first() -> None:
    """Its JSON is the output; the texts that would have been are listed as not selected."""
    events = [said("See the result."), RunEnded("completed", structured={"city": "Köln"})]
    found = outcome(events)
    assert ('{"city": "Köln"}', "structured", True) == (found.text, found.source, found.answer_complete)
    rule = "a declared structured result comes first (structured_first)"
    assert [("See the result.", rule), ('{"city": "Köln"}', rule)] == why(events)
    assert [("Se", rule), ("ok", rule)] == why([TextDelta("Se"), RunEnded("completed", structured="ok")])
    assert "the policy does not put a structured result first" == why(events, CANONICAL)[1][1]


def test_a_structured_value_that_json_has_no_form_for_is_written_as_python_does() -> None:
    """An adapter that hands over an odd value gets an answer and no exception."""
    assert "{(1, 2): 3}" == outcome([RunEnded("completed", structured={(1, 2): 3})]).text


# Candidates.


def test_candidates_are_numbered_in_order_and_carry_their_stop_reason() -> None:
    """One row for each text, from 1, as the outcome counts them."""
    events: list[Event] = [said("One", "m1", stop_reason="max_tokens"), said("Two", "m2"), COMPLETED]
    rows = folded(events, CANONICAL).candidates()
    first = Candidate(ordinal=1, kind="message", text="One", message="m1", stop_reason="max_tokens")
    first.why = "a later message counts"
    second = Candidate(ordinal=2, kind="message", text="Two", message="m2", chosen=True)
    second.why = "the last message that counts"
    assert [first, second] == rows


def test_an_empty_message_is_a_candidate_that_says_why_not() -> None:
    """The usage-only end of a run is visible, and rejected for being empty."""
    assert [("Yes.", "the last message that counts"), ("", "its content is empty")] == why([said("Yes."), Message(())])
