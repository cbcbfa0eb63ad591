"""One line of the CLI's output or of a session file, decoded."""

import json
from typing import Any, Final

import msgspec

from lastsay.events import Fault

__all__ = ("decode_line",)

_DECODE: Final = msgspec.json.Decoder().decode
_EXCERPT: Final = 200
"""Characters of a broken line that its Fault keeps."""


def decode_line(number: int, line: bytes) -> dict[str, Any] | Fault:
    """The object that a line holds, or a `Fault` that says what is wrong with it. Never raises.

    Args:
        number: the line's number, from 1.
        line: the line without its LF.
    """
    try:
        value = _DECODE(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # The standard library's decoder is slower and takes lone surrogates, NaN and stray bytes.
        text = line.decode("utf-8", "surrogateescape")
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            return _fault("invalid_json", f"not JSON: {error}", text, number)
    if isinstance(value, dict):
        return value
    kind = type(value).__name__
    return _fault(
        "not_an_object", f"a JSON {kind} where a record was expected", line.decode("utf-8", "replace"), number
    )


def _fault(kind: str, detail: str, text: str, number: int) -> Fault:
    excerpt = text[:_EXCERPT].encode("utf-8", "replace").decode()
    return Fault(kind, f"line {number}: {detail}"[:600], number, excerpt)
