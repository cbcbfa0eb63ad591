"""Messages that are sent more than once, as harnesses do that write a message block by block."""

from lastsay.events import Message, RunEnded, Text, ToolResult, ToolUse
from lastsay.fold import ANSWER, CANONICAL, RunFold


def test_a_message_sent_again_after_its_tool_result_stays_before_it() -> None:
    """A message cut at max-tokens inside a tool call is not the first piece of the message after the tool's result."""
    cut = (Text("I write it."), ToolUse("t1", "Write"))
    fold = RunFold(ANSWER)
    for event in (
        Message(cut, "m1"),
        ToolResult("t1", is_error=True),
        Message(cut, "m1", "max_tokens"),
        Message((Text("Done."),), "m2", "end_turn"),
        RunEnded("completed"),
    ):
        fold.push(event)
    outcome = fold.outcome()
    assert ("Done.", 1, False) == (outcome.text, outcome.pieces, outcome.partial)


def test_an_old_message_sent_again_is_the_last_one() -> None:
    """What was said last is what was sent last, under both policies."""
    for policy in (CANONICAL, ANSWER):
        fold = RunFold(policy)
        for text, name in (("old", "m1"), ("newer", "m2"), ("corrected", "m1")):
            fold.push(Message((Text(text),), name))
        assert "corrected" == fold.outcome().text


def test_an_end_that_nobody_said_counts_as_none() -> None:
    """A backend that has to make up the end record does not hide that the last message ended its turn."""
    fold = RunFold()
    fold.push(Message((Text("ANSWER"),), "m1"))
    fold.push(RunEnded("error", provenance="unknown"))
    outcome = fold.outcome()
    assert ("error", "completed", ("no_end_record",)) == (
        outcome.stop_reason,
        outcome.effective_stop_reason,
        outcome.evidence,
    )
