"""A log read from its end: the shortest stretch that decides what the session said last, and why it stopped.

The rule, in prose. Lines are read backward and kept. Reading stops at the first of these:

- the beginning of a step, once a message with content was found: what lies before it cannot be selected any more by the
  rule that takes the last message with content, and one step is enough to make its turn count;
- the message from outside that began the epoch: it found the session idle, that is, the next turn event before it is an
  end;
- the end of a fork's seed;
- the beginning of the log.

The kept lines then go forward through the same normaliser as a whole log. So output and stop reason under the canonical
policy are those of the whole log; counts, usage and what other policies look at (earlier messages) are not all there.
What lies before is neither read nor checked.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from lastsay.backends.dsh._log import LogNormaliser
from lastsay.backends.dsh._session import comes_from_outside
from lastsay.backends.dsh._shapes import AssistantData, RowEnvelope, SessionHeader, typed
from lastsay.backends.dsh._zstd import backward_blocks, first_block
from lastsay.events import Event

__all__ = ("tail_of",)

_HEAD: Final = 64 * 1024
"""Bytes of a file in which its header line is looked for: the harness writes it as the first durable batch."""
_IN_TURN: Final = frozenset({"turn/start", "step/start", "step/end", "assistant/message", "assistant/attempt"})


def tail_of(path: str | Path) -> list[Event]:
    """The events at the end of a log that decide its canonical outcome, between a start and an end of the run.

    Args:
        path: the log of one session: plain or zstd.

    Raises:
        MissingExtraError: it is compressed, and zstandard is not installed.
        OSError: it cannot be read.
    """
    path = Path(path)
    with path.open("rb") as file:
        head = first_block(file.read(_HEAD)).partition(b"\n")[0]
    header = _header(head)
    kept = _kept(_lines_backward(backward_blocks(path)), header)
    reader = LogNormaliser(resumed=True, pieces=False)
    out: list[Event] = reader.push(head) if header is not None else []
    for line in reversed(kept):
        out += reader.push(line)
    return [*out, *reader.close()]


def _header(line: bytes) -> SessionHeader | None:
    try:
        return typed(line, SessionHeader)
    except (ValueError, msgspec.MsgspecError):
        return None


def _kept(lines: Iterator[bytes], header: SessionHeader | None) -> list[bytes]:
    kept: list[bytes] = []
    found = False
    splice: int | None = None
    seed = header.seed_length if header is not None and header.seed_length is not None else 0
    seeded = header is not None and header.is_seeded
    parent = header.parent_session if header is not None else None
    for line in lines:
        try:
            row = typed(line, RowEnvelope)
        except (ValueError, msgspec.MsgspecError):
            kept.append(line)
            continue
        kind = row.type
        if kind == "session" or (row.seq is not None and row.seq < seed) or (seeded and kind == "session/end-seed"):
            break
        if kind == "turn/end" and splice is not None:
            return kept[: splice + 1]
        kept.append(line)
        if kind == "agent/inbox/spliced":
            splice = len(kept) - 1 if _from_outside(row, parent) else splice
        elif kind in _IN_TURN:
            splice = None
            found = found or (kind == "assistant/message" and _has_content(row))
            if found and kind == "step/start":
                break
    return kept


def _has_content(row: RowEnvelope) -> bool:
    try:
        message = typed(row.data, AssistantData).message
    except (ValueError, msgspec.MsgspecError):
        return False
    return bool(message and message.get("content"))


def _from_outside(row: RowEnvelope, parent: str | None) -> bool:
    try:
        data = msgspec.json.decode(row.data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return isinstance(data, dict) and comes_from_outside(data, parent)


def _lines_backward(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The lines of blocks that come from the end, last line first; empty lines are left out."""
    rest: list[bytes] = []  # pieces of a line whose beginning has not come, last piece first
    for block in blocks:
        first, *whole = block.split(b"\n")
        if whole:
            rest.append(whole.pop())
            yield from _line(rest)
            rest = []
            for line in reversed(whole):
                if line:
                    yield line
        rest.append(first)
    yield from _line(rest)


def _line(pieces: list[bytes]) -> Iterator[bytes]:
    line = pieces[0] if len(pieces) == 1 else b"".join(reversed(pieces))
    if line:
        yield line
