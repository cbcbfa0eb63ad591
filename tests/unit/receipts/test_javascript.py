"""Text as JavaScript counts and trims it."""

import pytest

from lastsay.receipts import JS_WHITESPACE, elide_middle, is_blank, js_trim, utf16_length

KEPT = ("\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\u180e", "\u200b", "\u2060", "\x00")


@pytest.mark.parametrize("character", JS_WHITESPACE)
def test_white_space_is_trimmed(character: str) -> None:
    """Each of the 25 characters goes at both ends and stays inside."""
    assert f"a{character}b" == js_trim(f"{character}a{character}b{character}")
    assert is_blank(character)


@pytest.mark.parametrize("character", KEPT)
def test_what_python_or_a_reader_takes_for_white_space_is_kept(character: str) -> None:
    """Characters that JavaScript does not trim stay, though some of them are white space to Python."""
    assert f"{character}a{character}" == js_trim(f"{character}a{character}")
    assert not is_blank(character)


def test_the_set_differs_from_python_in_both_directions() -> None:
    """U+FEFF is trimmed here and not by str.strip; U+0085 the other way round."""
    assert 25 == len(set(JS_WHITESPACE))
    assert ("", "\ufeff") == (js_trim("\ufeff"), "\ufeff".strip())
    assert ("\x85", "") == (js_trim("\x85"), "\x85".strip())


@pytest.mark.parametrize(("text", "units"), [("", 0), ("abc", 3), ("é", 1), ("漢", 1), ("😀", 2), ("\ud800", 1)])
def test_lengths_are_in_utf16_units(text: str, units: int) -> None:
    """A character beyond the basic plane counts twice; a lone surrogate counts once."""
    assert units == utf16_length(text)


def test_the_middle_is_left_out_and_counted() -> None:
    """Both ends stay, and the notice says how many units are missing."""
    assert "aab<4>caa" == elide_middle("aabbbbccaa"[:3] + "bbbb" + "caa", 3, "<{count}>")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ab😀xxxxxxcde", "ab<8>cde"),
        ("abcxxxxxx😀de", "abc<8>de"),
        ("ab😀xxxx😀de", "ab<8>de"),
        ("a😀xxxx😀e", "a😀<4>😀e"),
    ],
)
def test_a_cut_never_splits_a_pair(text: str, expected: str) -> None:
    """An end that would hold half a pair is one unit shorter, and the count says so."""
    assert expected == elide_middle(text, 3, "<{count}>")
