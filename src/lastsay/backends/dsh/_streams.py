"""Streamed pieces, packed and embedded, as deltas.

A packed run holds the pieces of one block that came one after the other; it stands in a log of generation A as a row,
and in the `stream` of a record of generations B and C beside single chunks. Only what was streamed counts: text that
stands in a `block-end` chunk alone is left out, as it is in the harness's own fallback.
"""

from typing import Any, Final, NamedTuple

from lastsay.backends.dsh._blocks import usage_of
from lastsay.backends.dsh._shapes import StreamRecord
from lastsay.events import Event, ReasoningDelta, TextDelta, Usage

__all__ = ("DELTAS", "PACKED", "ROWS", "Delta", "Expanded", "expanded", "finish_of", "pieces_of")

Delta = type[TextDelta] | type[ReasoningDelta]

PACKED: Final[dict[str, Delta]] = {"text-chunks": TextDelta, "reasoning-chunks": ReasoningDelta}
"""Packed runs that become deltas, by their type."""
ROWS: Final = frozenset({*PACKED, "tool-call-chunks"})
"""All packed runs: as rows of a log they stand for several numbers."""
DELTAS: Final[dict[str, Delta]] = {"text-delta": TextDelta, "reasoning-delta": ReasoningDelta}
"""Single chunks that become deltas, by their type."""


class Expanded(NamedTuple):
    """What an embedded stream held: its deltas, how the model call finished, the code of its failure, its usage."""

    events: list[Event]
    finish: str | None
    failure: str | None
    usage: Usage | None


def expanded(stream: list[StreamRecord], message: str, run: str, *, apart: bool) -> Expanded:
    """The embedded stream of one model call.

    Args:
        stream: its records.
        message: the id that its deltas get.
        run: the run's id.
        apart: whether pieces that were packed together become events of their own.
    """
    events: list[Event] = []
    finish = failure = usage = None
    for record in stream:
        packed = PACKED.get(record.type)
        if packed is not None:
            events += pieces_of(packed, record.texts, message, run, apart=apart)
            continue
        chunk = record.chunk
        if chunk is None:
            continue
        what = chunk.get("type")
        if what == "finish":
            finish, failure = finish_of(chunk)
        elif what == "usage":
            usage = usage_of(chunk.get("usage"))
        elif isinstance(what, str) and what in DELTAS:
            events.append(DELTAS[what](str(chunk.get("text", "")), message, run=run))
    return Expanded(events, finish, failure, usage)


def pieces_of(delta: Delta, texts: list[str], message: str, run: str, *, apart: bool) -> list[Event]:
    """The deltas of a packed run: one for each piece, or one for all of them."""
    if not apart and len(texts) > 1:
        texts = ["".join(texts)]
    return [delta(text, message, run=run) for text in texts]


def finish_of(chunk: dict[str, Any]) -> tuple[str | None, str | None]:
    """The kind of a `finish` chunk, and the code of its failure."""
    reason = chunk.get("reason")
    if not isinstance(reason, dict):
        return None, None
    failure = reason.get("failure")
    code = failure.get("code") if isinstance(failure, dict) else None
    return str(reason.get("kind")), str(code) if code is not None else None
