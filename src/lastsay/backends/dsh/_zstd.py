"""Logs as blocks of plain bytes: a plain file, or zstd with many frames in one file.

DeepSeek Harness appends one complete zstd frame per durable batch, so a log has dozens of them, and a one-shot
decompressor stops after the first. What a crash cut is the last frame: whatever of it decompresses is given. Reading
backward needs the frames' places only; they stand in the headers of frames and blocks (RFC 8878, sections 3.1.1 and
3.1.2), without decompressing.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from lastsay.errors import MissingExtraError
from lastsay.events import Fault

__all__ = ("MAGIC", "PlainBytes", "backward_blocks", "first_block")

MAGIC: Final = b"\x28\xb5\x2f\xfd"
"""What a zstd frame begins with."""
_TAIL_BLOCK: Final = 64 * 1024
"""Bytes of a plain file that are read in one go from its end: a few steps of a run."""
_CONTENT_SIZE: Final = (0, 2, 4, 8)
_DICTIONARY_ID: Final = (0, 1, 2, 4)
_RLE_BLOCK: Final = 1


def _zstandard() -> Any:
    try:
        import zstandard  # noqa: PLC0415  (optional)
    except ImportError:
        raise MissingExtraError("zstd", "reading a compressed log") from None
    return zstandard


class PlainBytes:
    """Turns the bytes of a log, compressed or not, into plain bytes: `push` each block, `close` at the end."""

    __slots__ = ("_begun", "_compressed", "_frame", "_held", "_make", "fault")

    def __init__(self) -> None:
        self._held = b""
        self._compressed: bool | None = None  # not known before the first four bytes
        self._make: Any = None
        self._frame: Any = None
        self._begun = False
        self.fault: Fault | None = None
        """What is broken, once something is; nothing is given after it."""

    def push(self, data: bytes) -> bytes:
        """The plain bytes that `data` holds.

        Raises:
            MissingExtraError: the log is compressed, and zstandard is not installed.
        """
        if self._compressed is None:
            data = self._held + data
            if len(data) < len(MAGIC) and MAGIC.startswith(data):
                self._held = data
                return b""
            self._held = b""
            self._compressed = data.startswith(MAGIC)
            if self._compressed:
                self._make = _zstandard().ZstdDecompressor().decompressobj
        return self._inflated(data) if self._compressed else data

    def close(self) -> bytes:
        """What was held back; an unfinished last frame becomes the `fault`."""
        if self._begun and self.fault is None:
            self.fault = Fault("torn_frame", "the compressed log is cut: its last frame ends early")
        return self._held

    def _inflated(self, data: bytes) -> bytes:
        plain: list[bytes] = []
        error = _zstandard().ZstdError
        while data and self.fault is None:
            self._frame = self._frame or self._make()
            try:
                plain.append(self._frame.decompress(data))
            except error as broken:
                self.fault = Fault("torn_frame", f"the compressed log is broken: {broken}"[:400])
                break
            self._begun, data = True, b""
            if self._frame.eof:
                data, self._frame, self._begun = self._frame.unused_data, None, False
        return plain[0] if len(plain) == 1 else b"".join(plain)


def first_block(data: bytes) -> bytes:
    """The plain beginning of a log, from its first bytes; empty if they are compressed and cannot be read."""
    if not data.startswith(MAGIC):
        return data
    try:
        zstandard = _zstandard()
    except MissingExtraError:
        return b""
    try:
        plain: bytes = zstandard.ZstdDecompressor().decompressobj().decompress(data)  # one frame, no more
    except zstandard.ZstdError:
        return b""
    return plain


def backward_blocks(path: Path) -> Iterator[bytes]:
    """The plain bytes of a log in blocks from its end to its beginning; each block's own bytes are in order.

    Raises:
        MissingExtraError: it is compressed, and zstandard is not installed.
    """
    with path.open("rb") as file:
        if file.read(len(MAGIC)) == MAGIC:
            file.seek(0)
            yield from _frames_backward(file.read())
            return
        end = file.seek(0, 2)
        while end > 0:
            start = max(0, end - _TAIL_BLOCK)
            file.seek(start)
            yield file.read(end - start)
            end = start


def _frames_backward(data: bytes) -> Iterator[bytes]:
    zstandard = _zstandard()
    decompressor = zstandard.ZstdDecompressor()
    starts = _frame_starts(data)
    ends = [*starts[1:], len(data)]
    for start, end in zip(reversed(starts), reversed(ends), strict=True):
        try:
            yield decompressor.decompressobj().decompress(data[start:end])
        except zstandard.ZstdError:
            continue  # the torn last frame: what came before it is whole


def _frame_starts(data: bytes) -> list[int]:
    """Where each frame begins; a cut one at the end included."""
    starts: list[int] = []
    at, size = 0, len(data)
    while at + 5 < size and data[at : at + 4] == MAGIC:
        starts.append(at)
        descriptor = data[at + 4]
        single = descriptor >> 5 & 1
        content_size = _CONTENT_SIZE[descriptor >> 6] or single
        at += 5 + (not single) + _DICTIONARY_ID[descriptor & 3] + content_size
        last = 0
        while not last and at + 3 <= size:
            header = int.from_bytes(data[at : at + 3], "little")
            last = header & 1
            at += 3 + (1 if header >> 1 & 3 == _RLE_BLOCK else header >> 3)
        at += 4 * (descriptor >> 2 & 1)
    return starts
