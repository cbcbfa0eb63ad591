"""Text as JavaScript counts and trims it.

A native harness written in JavaScript measures text in UTF-16 code units and takes white space off by
`String.prototype.trim`. Python differs in both: `len` counts code points, and `str.strip` takes off U+001C to
U+001F and U+0085, which JavaScript keeps, and keeps U+FEFF, which JavaScript takes off.
"""

from typing import Final

__all__ = ("JS_WHITESPACE", "elide_middle", "is_blank", "js_trim", "utf16_length")

JS_WHITESPACE: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""WhiteSpace and LineTerminator of ECMA-262: the characters that `String.prototype.trim` takes off."""

_UTF16: Final = "utf-16-le"
_UNIT: Final = 2
"""Bytes of one UTF-16 code unit."""


def js_trim(text: str) -> str:
    """The text without JavaScript white space at both ends."""
    return text.strip(JS_WHITESPACE)


def is_blank(text: str) -> bool:
    """Whether JavaScript would trim the text to nothing."""
    return not text.strip(JS_WHITESPACE)


def utf16_length(text: str) -> int:
    """The length of the text in UTF-16 code units, as JavaScript's `length` gives it."""
    return len(text) if text.isascii() else len(text.encode(_UTF16, "surrogatepass")) // _UNIT


def elide_middle(text: str, keep: int, notice: str) -> str:
    """The first and last `keep` UTF-16 units with a notice in the place of the middle; no surrogate pair is split.

    Args:
        text: a text of more than twice `keep` units.
        keep: units kept at each end; one less where the cut would fall inside a pair.
        notice: the notice, with ``{count}`` where the number of left-out units stands.
    """
    units = text.encode(_UTF16, "surrogatepass")
    head_end, tail_start = keep * _UNIT, len(units) - keep * _UNIT
    if _is_low_surrogate(units, head_end):
        head_end -= _UNIT
    if _is_low_surrogate(units, tail_start):
        tail_start += _UNIT
    count = (tail_start - head_end) // _UNIT
    head, tail = units[:head_end], units[tail_start:]
    return head.decode(_UTF16, "surrogatepass") + notice.format(count=count) + tail.decode(_UTF16, "surrogatepass")


def _is_low_surrogate(units: bytes, at: int) -> bool:
    return 0xDC <= units[at + 1] <= 0xDF
