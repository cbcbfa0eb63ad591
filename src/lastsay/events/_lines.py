"""Bytes to lines, without I/O.

A line ends at LF and nowhere else: U+2028 and its kind are data. A CR before the LF, a byte order mark at the start of
the input and NUL padding (a writer that was cut by a crash leaves it) are taken off; input that begins with the byte
order mark of UTF-16 (some shells redirect in it) is read as that. A line over the cap is skipped and reported; it never
grows memory beyond the cap.
"""

import codecs
from typing import Final

from lastsay.events._events import Fault

__all__ = ("MAX_LINE", "LineFramer")

MAX_LINE: Final = 256 * 1024 * 1024
"""Default cap of one line, in bytes. Real harnesses were seen to send 50 MB; beyond this it is a runaway writer."""

_MARKS: Final = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class LineFramer:
    """Splits pushed bytes into lines.

    Args:
        max_line: cap of one line, in bytes. A longer line is dropped as a whole and reported as a `Fault` of kind
            ``line_too_long``.

    `push` and `close` return lines in order, without their line ends; a `Fault` stands where a line was lost or
    mended. Empty lines are counted and left out. `line` is the number of the last line begun, from 1.
    """

    __slots__ = ("_held", "_pieces", "_skipping", "_start", "_utf16", "line", "max_line")

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self.max_line: int = max_line
        self.line: int = 0
        self._pieces: list[bytes] = []
        self._held = 0
        self._skipping = False
        self._start: bytes | None = b""  # the first bytes, until they tell the encoding
        self._utf16: codecs.IncrementalDecoder | None = None

    def push(self, data: bytes) -> list[tuple[int, bytes] | Fault]:
        """The lines completed by `data`, each with its number."""
        if self._start is not None:
            data = self._begin(self._start + data)
        if self._utf16 is not None:
            data = self._utf16.decode(data).encode("utf-8", "replace")
        *whole, rest = data.split(b"\n")
        out: list[tuple[int, bytes] | Fault] = []
        for part in whole:
            self._end_line(part, out)
        self._hold(rest)
        return out

    def can_skip(self, size: int) -> bool:
        """Whether whole lines of that many bytes together may be read past this framer, once a line has ended."""
        return self._start is None and self._utf16 is None and size <= self.max_line

    def skip(self, lines: int) -> None:
        """Count lines that were read past this framer; it must stand at the beginning of a line."""
        self.line += lines

    def close(self) -> list[tuple[int, bytes] | Fault]:
        """What was held back: the last line, if the input did not end with LF."""
        out: list[tuple[int, bytes] | Fault] = []
        if self._start:  # too short to tell, so it is what it is
            self._hold(self._start)
            self._start = None
        if self._pieces or self._skipping:
            self._end_line(b"", out)
        return out

    def _begin(self, data: bytes) -> bytes:
        """The data without its byte order mark, once enough of it is there to tell."""
        if any(len(data) < len(mark) and mark.startswith(data) for mark in _MARKS):
            self._start = data
            return b""
        self._start = None
        if data.startswith(codecs.BOM_UTF8):
            return data[len(codecs.BOM_UTF8) :]
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            self._utf16 = codecs.getincrementaldecoder("utf-16")("replace")
        return data

    def _hold(self, part: bytes) -> None:
        if not part:
            return
        self._held += len(part)
        if self._held > self.max_line:
            self._pieces.clear()
            self._skipping = True
        else:
            self._pieces.append(part)

    def _end_line(self, part: bytes, out: list[tuple[int, bytes] | Fault]) -> None:
        self.line += 1
        self._hold(part)
        length, skipped, pieces = self._held, self._skipping, self._pieces
        self._pieces, self._held, self._skipping = [], 0, False
        if skipped:
            detail = f"line {self.line} has {length} bytes, over the cap of {self.max_line}: skipped, the rest is read"
            out.append(Fault("line_too_long", detail, self.line))
            return
        line = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if line.endswith(b"\r"):
            line = line[:-1]
        if b"\0" in line:
            line = self._without_padding(line, out)
        if line and not line.isspace():
            out.append((self.line, line))

    def _without_padding(self, line: bytes, out: list[tuple[int, bytes] | Fault]) -> bytes:
        stripped = line.strip(b"\0")
        if len(stripped) != len(line):
            detail = f"line {self.line} was padded with {len(line) - len(stripped)} NUL bytes: taken off"
            out.append(Fault("nul_padding", detail, self.line))
        return stripped
