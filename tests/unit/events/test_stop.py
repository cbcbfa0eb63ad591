"""Stop reasons: one vocabulary for the words of many wires."""

import pytest

from lastsay.events import STOP_REASONS, known_stop_reason


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("end_turn", "completed"), ("STOP", "completed"), ("stop_sequence", "completed"), ("success", "completed"),
        ("cancelled", "aborted"), ("interrupted", "aborted"), ("aborted_streaming", "aborted"),
        ("max_tokens", "max-tokens"), ("length", "max-tokens"), ("MAX_TOKENS", "max-tokens"),
        ("content_filter", "refusal"), ("SAFETY", "refusal"), ("failed", "error"),
    ],
)  # fmt: skip
def test_wire_words_are_mapped(raw: str, expected: str) -> None:
    """Case and the kind of dash do not matter."""
    assert expected == known_stop_reason(raw) == known_stop_reason(raw.replace("_", "-"))


@pytest.mark.parametrize("raw", ["max_turns", "GOAL", "", "tool_use", "exit 0"])
def test_unknown_words_keep_their_name(raw: str) -> None:
    """An unknown reason is never turned into a known one."""
    assert raw == known_stop_reason(raw)


@pytest.mark.parametrize("reason", STOP_REASONS)
def test_known_reasons_stay(reason: str) -> None:
    """Mapping twice changes nothing."""
    assert reason == known_stop_reason(reason)
