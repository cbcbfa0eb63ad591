"""The stop reason table and the order of its witnesses."""

from pathlib import Path

import pytest

from lastsay.backends.claude import STOP_TABLE
from lastsay.backends.claude._stop import Ending, Witnesses, ending_of_child, ending_of_result, ending_of_transcript
from lastsay.events import STOP_REASONS

PAGE = Path(__file__).parents[4] / "docs" / "backends" / "claude.md"
NOTHING = Witnesses()


def result(
    subtype: str = "success",
    terminal: str | None = "completed",
    reported: str | None = "end_turn",
    seen: Witnesses = NOTHING,
    *,
    is_error: bool = False,
) -> tuple[str, str | None]:
    """Mapped reason and raw word of a result record."""
    ending = ending_of_result(subtype=subtype, terminal=terminal, is_error=is_error, reported=reported, seen=seen)
    return ending.stop_reason, ending.raw


def test_words_are_listed_once() -> None:
    """No witness has two rows for one word, and all mapped words are known or named as our own."""
    assert len(STOP_TABLE) == len({(row.witness, row.raw) for row in STOP_TABLE})
    assert {"max-turns", "max-budget"} == {row.mapped for row in STOP_TABLE} - set(STOP_REASONS)


def test_the_page_has_the_table() -> None:
    """Every row of the table stands in the documentation."""
    page = PAGE.read_text()
    for row in STOP_TABLE:
        assert f"| {row.witness} | `{row.raw}` | {row.mapped} | {row.provenance} |" in page


@pytest.mark.parametrize(
    ("reported", "terminal", "expected"),
    [
        ("tool_use", "aborted_streaming", ("aborted", "aborted_streaming")),
        (None, "aborted_tools", ("aborted", "aborted_tools")),
        ("tool_use", "max_turns", ("max-turns", "max_turns")),
        ("tool_use", "budget_exhausted", ("max-budget", "budget_exhausted")),
    ],
)
def test_a_stale_stop_reason_is_not_asked(reported: str | None, terminal: str, expected: tuple[str, str]) -> None:
    """After an interrupt or a limit the record's stop reason is the one of the message before."""
    assert expected == result("error_during_execution", terminal, reported, is_error=True)


def test_max_tokens_behind_stop_sequence() -> None:
    """A reply cut four times ends as success with stop_sequence; its last message says max_tokens."""
    seen = Witnesses(error="max_output_tokens", error_stop="stop_sequence", model="max_tokens")
    assert ("max-tokens", "max_tokens") == result("success", "api_error", "stop_sequence", seen, is_error=True)
    blind = Witnesses(error="max_output_tokens")
    assert ("max-tokens", "max_output_tokens") == result("success", "api_error", None, blind, is_error=True)
    window = Witnesses(error="new_word", model="model_context_window_exceeded")
    assert ("max-tokens", "model_context_window_exceeded") == result(
        "success", "api_error", None, window, is_error=True
    )


def test_a_failed_call_after_a_cut_one_is_an_error() -> None:
    """A server error is not the token limit, though the last whole message was cut there."""
    seen = Witnesses(error="server_error", model="max_tokens")
    assert ("error", "server_error") == result("success", "api_error", "stop_sequence", seen, is_error=True)


def test_refusal() -> None:
    """A refusal is known by the synthetic message, the last message, or at last the record."""
    for seen in (Witnesses("invalid_request", "refusal"), Witnesses("invalid_request", None, "refusal"), NOTHING):
        assert ("refusal", "refusal") == result("success", "api_error", "refusal", seen, is_error=True)


@pytest.mark.parametrize("word", ["end_turn", "stop_sequence", "pause_turn", "something_new", None])
def test_any_word_of_a_completed_run(word: str | None) -> None:
    """The harness passes the model's word through: a completed run is completed, and keeps the word."""
    assert ("completed", word or "completed") == result(reported=word)


def test_success_with_a_limit() -> None:
    """A run that is called a success and whose last message was cut is not completed."""
    assert ("max-tokens", "max_tokens") == result(seen=Witnesses(model="max_tokens"))


def test_unknown_words_are_failures() -> None:
    """An unknown terminal reason keeps its name, and an unknown error is an error."""
    assert ("hook_stopped", "hook_stopped") == result(terminal="hook_stopped")
    assert ("error", "prompt_too_long") == result(terminal="prompt_too_long", is_error=True)
    assert ("error", "error_during_execution") == result("error_during_execution", None, is_error=True)
    assert ("error", "word") == result(terminal="api_error", seen=Witnesses("word"), is_error=True)


def test_older_clis_without_terminal_reason() -> None:
    """Without a terminal reason the subtype names the limits."""
    assert ("max-turns", "error_max_turns") == result("error_max_turns", None, "tool_use", is_error=True)
    assert ("completed", "end_turn") == result(terminal=None)


@pytest.mark.parametrize(
    ("fields", "seen", "expected"),
    [
        ({"status": "completed"}, NOTHING, ("completed", "completed", "reported")),
        ({"status": "failed", "is_error": True}, NOTHING, ("error", "failed", "reported")),
        ({"status": "killed"}, NOTHING, ("aborted", "killed", "reported")),
        ({"kind": "user-rejected", "is_error": True}, NOTHING, ("aborted", "user-rejected", "reported")),
        ({"kind": "something-new", "is_error": True}, NOTHING, ("error", "is_error", "reported")),
        ({"status": "completed"}, Witnesses("server_error"), ("error", "server_error", "recovered")),
        ({"status": "failed"}, Witnesses("x", "refusal"), ("refusal", "refusal", "recovered")),
        ({"status": "completed"}, Witnesses(model="max_tokens"), ("max-tokens", "max_tokens", "recovered")),
        ({"status": "completed", "noted": True}, Witnesses(calling=True), ("max-turns", "completed", "recovered")),
        ({"status": "completed", "noted": True}, NOTHING, ("completed", "completed", "reported")),
        ({}, NOTHING, ("completed", None, "recovered")),
    ],
)
def test_children(fields: dict[str, object], seen: Witnesses, expected: tuple[str, str | None, str]) -> None:
    """A child's own error outweighs the status that its parent is told."""
    given: dict[str, object] = {"status": None, "kind": None, "is_error": False, "noted": False, **fields}
    assert Ending(*expected) == ending_of_child(**given, seen=seen)  # type: ignore[arg-type]  # a table of mixed types


@pytest.mark.parametrize(
    ("seen", "interrupted", "finished", "expected"),
    [
        (Witnesses(model="end_turn"), False, False, ("completed", "end_turn", "recovered")),
        (Witnesses(model="end_turn"), True, True, ("aborted", "interrupted", "recovered")),
        (Witnesses("server_error", model="end_turn"), False, False, ("error", "server_error", "recovered")),
        (NOTHING, False, True, ("completed", None, "recovered")),
        (NOTHING, False, False, ("error", None, "unknown")),
        (Witnesses(model="something_new"), False, False, ("error", "something_new", "unknown")),
    ],
)
def test_transcripts(seen: Witnesses, interrupted: bool, finished: bool, expected: tuple[str, str | None, str]) -> None:
    """Where nothing tells the end, the end is an error that nobody reported."""
    assert Ending(*expected) == ending_of_transcript(seen, interrupted=interrupted, finished=finished)
