"""EventDecoder reads whole lines in one call; nothing else about it may change."""

from hypothesis import given
from hypothesis import strategies as st

from lastsay.events import EventDecoder, TextDelta, decode_event, encode_many
from lastsay.events import _codec as codec

GOOD = encode_many([TextDelta(f"piece {i}", "m") for i in range(3)])
ODD = [
    b"",
    b"  ",
    b"not json",
    b'{"type":"text_delta","text":"a"} {"type":"text_delta","text":"b"}',
    b'{"type":"text_delta",\n"text":"a"}',
    b'{"type":"text_delta","text":"a\xff"}',
    b'{"type":"new_kind","x":1}',
    b'\0\0{"type":"text_delta","text":"padded"}',
    b'{"type":"text_delta","text":"cr"}\r',
    b"[1]",
]


def by_line(data: bytes) -> tuple[list[object], int]:
    """What pushing byte by byte gives: blocks never come into play."""
    decoder = EventDecoder()
    events = [event for i in range(len(data)) for event in decoder.push(data[i : i + 1])]
    return events + decoder.close(), decoder.line


def test_a_block_of_plain_lines_is_one_call(monkeypatch):
    """Large blocks of well-formed lines are not cut into lines first, and their lines are counted."""
    pushed: list[int] = []
    push = codec.LineFramer.push
    monkeypatch.setattr(codec.LineFramer, "push", lambda self, data: pushed.append(len(data)) or push(self, data))
    decoder = EventDecoder()
    assert 300 == len(decoder.push(GOOD * 100)) + len(decoder.close())
    assert 300 == decoder.line
    assert sum(pushed) < len(GOOD)


@given(st.lists(st.one_of(st.just(GOOD[:-1]), st.sampled_from(ODD)), max_size=30), st.integers(1, 900))
def test_blocks_and_lines_agree(parts, size):
    """Every input, cut anyhow, gives the events, faults and line numbers that reading it byte by byte gives."""
    data = b"\n".join(parts)
    decoder = EventDecoder()
    events = [event for i in range(0, len(data), size) for event in decoder.push(data[i : i + size])]
    assert by_line(data) == (events + decoder.close(), decoder.line)


def test_a_small_cap_still_holds():
    """A block above the cap of one line goes line by line."""
    decoder = EventDecoder(max_line=600)
    long = b'{"type":"text_delta","text":"' + b"x" * 700 + b'"}\n'
    kinds = [type(event).__name__ for event in decoder.push(GOOD + long + GOOD)]
    assert ["TextDelta"] * 3 + ["Fault"] + ["TextDelta"] * 3 == kinds
    assert decode_event(GOOD.splitlines()[0]) == TextDelta("piece 0", "m")
