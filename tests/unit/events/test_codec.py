"""The codec: lines of NDJSON, and what becomes of broken ones."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.scale import examples

from lastsay.events import (
    EVENT_TYPES,
    Event,
    EventDecoder,
    Fault,
    Image,
    Message,
    Notice,
    Opaque,
    RunStarted,
    Text,
    TextDelta,
    ToolUse,
    decode_block,
    decode_event,
    encode,
    encode_many,
)
from lastsay.testing._strategies import run_events


def decoded(data: bytes, size: int = 7) -> list[Event]:
    """The events of some bytes, pushed in small parts."""
    decoder = EventDecoder()
    events = [e for at in range(0, len(data), size) for e in decoder.push(data[at : at + size])]
    return events + decoder.close()


def test_tags_are_class_names_in_snake_case() -> None:
    """The tags that other programs read are fixed."""
    expected = (
        "run_started message_started text_delta reasoning_delta message message_retracted attempt_aborted tool_call "
        "tool_result usage_reported epoch_started run_ended fault notice"
    )
    assert expected.split() == [str(kind.__struct_config__.tag) for kind in EVENT_TYPES]


def test_fields_stand_under_their_names() -> None:
    """A line is flat JSON, and fields at their defaults are left out."""
    line = encode(Message((Text("hi"), ToolUse("t1", "Read", {"a": 1})), "m1", "end_turn", run="kid"))
    assert {
        "type": "message",
        "content": [
            {"type": "text", "text": "hi"},
            {"type": "tool_use", "id": "t1", "name": "Read", "input": {"a": 1}},
        ],
        "message": "m1",
        "stop_reason": "end_turn",
        "run": "kid",
    } == json.loads(line)
    assert b'{"type":"run_started"}\n' == encode(RunStarted())


@examples(2000)
@given(run_events(), st.integers(1, 50))
def test_events_survive_their_line_in_any_parts(events: list[Event], size: int) -> None:
    """What was written is read back equal, however the bytes are cut."""
    assert events == decoded(encode_many(events), size)


@examples(4000)
@given(st.binary(max_size=200))
def test_no_bytes_raise(data: bytes) -> None:
    """Whatever the bytes are, the decoder gives events and never raises."""
    for event in decoded(data):
        assert type(event) in EVENT_TYPES


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b'{"type":"text_delta"}', "invalid_event"),
        (b'{"type":"message","content":5}', "invalid_event"),
        (b'{"a":', "invalid_json"),
        (b"[1]", "not_an_object"),
        (b"42", "not_an_object"),
        (b"null", "not_an_object"),
        (b"hello", "invalid_json"),
        (b"[" * 100_000, "invalid_json"),
    ],
)
def test_a_broken_line_is_a_named_fault(line: bytes, kind: str) -> None:
    """A broken line costs itself only, and the fault tells its number."""
    first, fault, last = decoded(b'{"type":"notice","kind":"a"}\n' + line + b'\n{"type":"notice","kind":"b"}\n', 4096)
    assert ("a", "b") == (first.kind, last.kind)  # type: ignore[union-attr]  # both are notices
    assert isinstance(fault, Fault)
    assert (kind, 2) == (fault.kind, fault.line)
    assert "line 2" in fault.detail


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"type": "made_up", "a": 1, "run": "r"}, Notice("made_up", {"type": "made_up", "a": 1, "run": "r"}, run="r")),
        ({"a": 1}, Notice("untyped", {"a": 1})),
        ({"type": 5, "run": 6}, Notice("5", {"type": 5, "run": 6})),
        ({"type": "message", "content": "hi"}, Message((Text("hi"),))),
        ({"type": "message", "content": ["hi"]}, Message((Text("hi"),))),
        (
            {"type": "message", "content": [{"type": "video"}, {"type": "image", "url": "u"}]},
            Message((Opaque("video", {"type": "video"}), Image(url="u"))),
        ),
        (
            {"type": "message", "content": [7, {"type": "text"}]},
            Message((Opaque("untyped", 7), Opaque("text", {"type": "text"}))),
        ),
        ({"type": "text_delta", "text": "x", "new": 1}, TextDelta("x")),
    ],
)  # fmt: skip
def test_unknown_input_is_kept(value: dict[str, Any], expected: Event) -> None:
    """What the vocabulary has no word for is kept as it came; near shapes are mended."""
    assert expected == decode_event(json.dumps(value).encode())


@pytest.mark.parametrize("text", ["\ud800", "a\u2028b", "\x00", "\U0001f389", "\udcff"])
def test_odd_characters_survive(text: str) -> None:
    """Lone surrogates, line separators and NUL are data."""
    assert [TextDelta(text)] == decoded(encode(TextDelta(text)))


def test_values_without_a_json_form_are_written_as_text() -> None:
    """Whatever a harness puts into raw, encoding does not fail."""
    event = decode_event(encode(Notice("odd", {"value": {1, 2}, "fun": print, 3: b"x"}))[:-1])
    assert isinstance(event, Notice)
    assert "{1, 2}" == event.raw["value"] or event.raw["value"] == [1, 2]


def test_invalid_utf8_costs_nothing() -> None:
    """A byte that is no UTF-8 survives as a surrogate escape."""
    assert [TextDelta("a\udcff")] == decoded(b'{"type":"text_delta","text":"a\xff"}\n')


def test_a_cut_last_line_is_named() -> None:
    """A writer that was killed leaves half a line; a whole one without LF is read."""
    (fault,) = decoded(b'{"type":"text_delta","te')
    assert isinstance(fault, Fault)
    assert ("truncated_line", 1) == (fault.kind, fault.line)
    assert [TextDelta("x")] == decoded(b'{"type":"text_delta","text":"x"}')


def test_well_formed_blocks_decode_in_one_call() -> None:
    """The fast way for logs that are known to be whole."""
    events: list[Event] = [TextDelta("a"), RunStarted()]
    assert events == decode_block(encode_many(events))


def test_line_numbers_go_on_over_pushes() -> None:
    """The decoder tells how many lines it has begun."""
    decoder = EventDecoder()
    decoder.push(b"\n\n{}\n")
    assert 3 == decoder.line
