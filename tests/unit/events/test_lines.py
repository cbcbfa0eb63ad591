"""The framer: bytes to lines."""

from hypothesis import given
from hypothesis import strategies as st
from tests.properties.scale import examples

from lastsay.events import Fault, LineFramer


def framed(data: bytes, *, size: int = 1 << 20, max_line: int = 1 << 30) -> list[tuple[int, bytes] | Fault]:
    """The lines of some bytes, pushed in parts."""
    framer = LineFramer(max_line)
    lines = [line for at in range(0, len(data), size) for line in framer.push(data[at : at + size])]
    return lines + framer.close()


def test_lines_end_at_lf_only() -> None:
    """CR before LF is taken off; U+2028, VT and a lone CR are data; empty lines are counted and left out."""
    separator = "\u2028".encode()
    data = b"one\r\n\n  \ntwo" + separator + b"\x0bmore\rx\n"
    assert [(1, b"one"), (4, b"two" + separator + b"\x0bmore\rx")] == framed(data)


def test_a_byte_order_mark_is_taken_off_once() -> None:
    """Only at the start of the input, also when it comes in parts."""
    assert [(1, b"a"), (2, b"\xef\xbb\xbfb")] == framed(b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", size=1)


def test_utf16_input_is_read_as_text() -> None:
    """Some shells write UTF-16; its byte order mark gives it away."""
    for encoding in ("utf-16-le", "utf-16-be"):
        data = "\ufeffparty \U0001f389\n\u4f60\n".encode(encoding)
        for size in (1, 3, 100):
            assert [(1, "party \U0001f389".encode()), (2, "\u4f60".encode())] == framed(data, size=size)


def test_nul_padding_is_taken_off_and_reported() -> None:
    """What a crash left before and behind a record is no part of it; NUL inside one is."""
    first, padded, only = framed(b"\0\0a\0b\0\n\0\0\0\n")
    assert isinstance(first, Fault)
    assert ("nul_padding", 1) == (first.kind, first.line)
    assert (1, b"a\0b") == padded
    assert isinstance(only, Fault)
    assert 2 == only.line


def test_a_line_over_the_cap_is_skipped_and_named() -> None:
    """It costs itself only, and memory never holds more than the cap."""
    for size in (1, 5, 1000):
        short, fault, after = framed(b"ok\n" + b"x" * 50 + b"\nafter\n", size=size, max_line=10)
        assert ((1, b"ok"), (3, b"after")) == (short, after)
        assert isinstance(fault, Fault)
        assert ("line_too_long", 2) == (fault.kind, fault.line)
        assert "50 bytes" in fault.detail
    (last,) = framed(b"x" * 50, size=7, max_line=10)
    assert isinstance(last, Fault)


@examples(2000)
@given(st.lists(st.sampled_from([b"a", b"\n", b"\r\n", b"\0", b" ", b"bc", b"\xef\xbb\xbf"])), st.integers(1, 9))
def test_parts_do_not_matter(pieces: list[bytes], size: int) -> None:
    """However the bytes are cut, the lines are the same."""
    data = b"".join(pieces)
    assert framed(data) == framed(data, size=size)


def test_input_as_short_as_the_start_of_a_mark_is_read() -> None:
    """Two bytes that could have begun a byte order mark are data when nothing follows."""
    assert [(1, b"\xef\xbb")] == framed(b"\xef\xbb", size=1)
    assert [] == framed(b"")
