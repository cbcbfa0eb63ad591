"""Logs as blocks of plain bytes: a plain file, or zstd with many frames in one file.

DeepSeek Harness appends one complete zstd frame per durable batch, so a log has dozens of them, and a one-shot
decompressor stops after the first. What a crash cut is the last frame: whatever of it decompresses is given, and then a
`TornFrameError` is raised. Reading backward needs the frames' places only; they stand in the headers of frames and blocks
(RFC 8878, sections 3.1.1 and 3.1.2), without decompressing.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from lastsay.errors import MissingExtraError

__all__ = ("MAGIC", "TornFrameError", "backward_blocks", "first_block", "forward_blocks")

MAGIC: Final = b"\x28\xb5\x2f\xfd"
"""What a zstd frame begins with."""
_BLOCK: Final = 1024 * 1024
"""Bytes that are read in one go."""
_TAIL_BLOCK: Final = 64 * 1024
"""Bytes of a plain file that are read in one go from its end: a few steps of a run."""
_CONTENT_SIZE: Final = (0, 2, 4, 8)
_DICTIONARY_ID: Final = (0, 1, 2, 4)
_RLE_BLOCK: Final = 1


class TornFrameError(Exception):
    """The last frame is not complete: the writer was cut, or is still writing."""


def _zstandard() -> Any:
    try:
        import zstandard  # noqa: PLC0415  (optional)
    except ImportError:
        raise MissingExtraError("zstd", "reading a compressed log") from None
    return zstandard


def forward_blocks(path: Path) -> Iterator[bytes]:
    """The plain bytes of a log, in order.

    Raises:
        MissingExtraError: it is compressed, and zstandard is not installed.
        TornFrameError: after all that could be read of a compressed log that is cut.
    """
    with path.open("rb") as file:
        head = file.read(len(MAGIC))
        file.seek(0)
        if head != MAGIC:
            while block := file.read(_BLOCK):
                yield block
            return
        yield from _decompressed(file)


def _decompressed(file: BinaryIO) -> Iterator[bytes]:
    zstandard = _zstandard()
    decompressor = zstandard.ZstdDecompressor()
    frame, begun = decompressor.decompressobj(), False
    while data := file.read(_BLOCK):
        while data:
            try:
                plain = frame.decompress(data)
            except zstandard.ZstdError as error:
                raise TornFrameError(str(error)) from error
            begun = True
            if plain:
                yield plain
            data = b""
            if frame.eof:
                data = frame.unused_data
                frame, begun = decompressor.decompressobj(), False
    if begun:
        raise TornFrameError("the last frame ends early")


def first_block(data: bytes) -> bytes:
    """The plain beginning of a log, from its first bytes; empty if they are compressed and cannot be read."""
    if not data.startswith(MAGIC):
        return data
    try:
        zstandard = _zstandard()
        plain: bytes = zstandard.ZstdDecompressor().decompressobj().decompress(data)
    except (MissingExtraError, ValueError, RuntimeError):
        return b""
    except Exception as error:
        if type(error).__name__ == "ZstdError":
            return b""
        raise
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
