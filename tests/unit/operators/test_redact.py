"""redact: secrets that straddle deltas."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.operators.streams import listed, read, text

from lastsay.errors import UsageError
from lastsay.events import (
    Fault,
    Message,
    Notice,
    Reasoning,
    ReasoningDelta,
    RunEnded,
    Text,
    TextDelta,
    ToolCall,
    ToolUse,
    Usage,
    UsageReported,
)
from lastsay.operators import redact
from lastsay.operators._pipeline import Pipeline
from lastsay.operators._redact import _Finder, _Redact

pytestmark = pytest.mark.anyio

KEY = r"sk-[a-z0-9]{4,}"


async def test_a_secret_over_many_deltas_is_found():
    """A secret is replaced once, wherever the deltas were cut."""
    for size in (1, 2, 3, 5, 50):
        whole = "my key is sk-abc123def, keep it; not sk-a, nor desk-top"
        deltas = [TextDelta(whole[i : i + size], "m") for i in range(0, len(whole), size)]
        out = await read(listed(deltas) | redact(KEY, hold=12))
        assert "my key is [redacted], keep it; not sk-a, nor desk-top" == text(out)
        assert {"m"} == {e.message for e in out}


async def test_text_is_released_as_early_as_it_is_safe():
    """Only the last `hold - 1` characters wait, unless a match is under way."""
    out = [e.text for e in await read(listed([TextDelta("abcdefghij")], [TextDelta("k")]) | redact(KEY, hold=4))]
    assert ["abcdefg", "h", "ijk"] == out
    out = [e.text for e in await read(listed([TextDelta("sk-abcdefghij")], [TextDelta("k l")]) | redact(KEY, hold=4))]
    assert "[redacted] l" == "".join(out)


async def test_a_message_releases_its_text_and_usage_does_not():
    """The end of a message, a tool call and the end of a run release; usage and notices in between do not."""
    parts = [
        TextDelta("sk-ab"),
        UsageReported(Usage()),
        Notice("n"),
        TextDelta("cd"),
        ToolCall("t", "n"),
        TextDelta("x"),
    ]
    out = await read(listed(*[[p] for p in parts]) | redact(KEY))
    assert [UsageReported, Notice, TextDelta, ToolCall, TextDelta] == [type(e) for e in out]
    assert "[redacted]x" == text(out)


async def test_runs_messages_and_reasoning_do_not_mix():
    """Text is joined only within one run, class and message."""
    parts = [
        TextDelta("sk-", "m"),
        TextDelta("abcd", "n"),
        ReasoningDelta("abcd", "m"),
        TextDelta("abcd", "m", run="x"),
    ]
    out = await read(listed(parts) | redact(KEY))
    assert sorted(e.text for e in parts) == sorted(e.text for e in out)


async def test_everything_that_holds_text_is_cleaned():
    """Messages, tool inputs, results, ends, faults and notices are searched value by value; ids are left alone."""
    secret = "sk-abcd"
    events = [
        Message((Text(secret), Reasoning(secret), ToolUse(secret, "n", {"k": [secret, 1]})), secret),
        ToolCall("t", "n", {"a": (secret,)}),
        Notice("n", {"deep": {"er": secret}}),
        Fault("f", "x", raw=secret),
        RunEnded("error", terminal=secret, diagnostic=secret, structured={"v": secret}),
    ]
    out = await read(listed(events) | redact(KEY))
    r = "[redacted]"
    assert [
        Message((Text(r), Reasoning(r), ToolUse(secret, "n", {"k": [r, 1]})), secret),
        ToolCall("t", "n", {"a": (r,)}),
        Notice("n", {"deep": {"er": r}}),
        Fault("f", "x", raw=r),
        RunEnded("error", terminal=r, diagnostic=r, structured={"v": r}),
    ] == out


async def test_word_borders_see_what_was_released():
    """Released text still counts for look-behinds and word boundaries."""
    out = await read(listed(*[[TextDelta(c)] for c in "xxxxxxxxpin pin"]) | redact(r"\bpin\b", hold=4))
    assert "xxxxxxxxpin [redacted]" == text(out)


async def test_wrong_arguments_are_refused():
    """No pattern, or no hold-back, is an error."""
    with pytest.raises(UsageError, match="at least one pattern"):
        redact()
    with pytest.raises(UsageError, match="at least 1 character"):
        redact("a", hold=0)


@given(
    st.text("sk-ab1 \n", max_size=60),
    st.lists(st.integers(1, 7), max_size=40),
    st.lists(st.sampled_from([KEY, r"a\b", r"(?<=b)1", "ab+", r"s|k-a"]), min_size=1, max_size=3),
)
def test_any_cut_gives_what_one_piece_gives(whole, cuts, patterns):
    """However the text is cut, the result is that of the whole text."""
    finder = _Finder([re.compile(p) for p in patterns], "*")
    pipeline = Pipeline([_Redact(finder, 8)])
    out, position = [], 0
    for cut in cuts:
        out += pipeline.push([TextDelta(whole[position : position + cut])])
        position += cut
    out += pipeline.push([TextDelta(whole[position:])])
    out += pipeline.flush()
    assert finder.clean(whole) == text(out)
