"""What is decoded of DeepSeek Harness records: only the fields that events are made of.

A session event is the same object on the wire (inside a `session.event` notification) and in the log (one line of it).
It comes in three generations, told apart by shape and never by a product version:

| generation | log version | streamed text |
|---|---|---|
| A | 0, 1 | one `assistant/chunk` event per piece; in logs, runs of pieces packed into one slash-less row |
| B | 2, 3 | in the `stream` list of the `assistant/message` or `assistant/attempt` that it became |
| C | 4 | as B; tool results have the role `tool` |

The structs leave out what nothing needs (the times of the pieces, the fragments of tool arguments), so msgspec skips it
without building it. A payload arrives as raw JSON (logs) or as a decoded object (wire); `typed` reads both.
"""

import json
from typing import Any, Final, TypeVar

import msgspec

__all__ = (
    "AssistantData",
    "ChunkData",
    "PackedCall",
    "PackedData",
    "PackedRow",
    "RowEnvelope",
    "SessionHeader",
    "StreamRecord",
    "ToolCallData",
    "ToolResultData",
    "TurnEndData",
    "decoded",
    "typed",
)

S = TypeVar("S", bound=msgspec.Struct)


class RowEnvelope(msgspec.Struct, gc=False):
    """One line of a log, its payload still undecoded."""

    type: str = ""
    seq: int | None = None
    time: float | None = None
    data: msgspec.Raw = msgspec.Raw(b"null")
    seq0: int | None = None


class SessionHeader(msgspec.Struct, rename="camel"):
    """The first line of a log."""

    id: str
    version: int | None = None
    created_at: float | None = None
    cwd: str | None = None
    is_seeded: bool = False
    seed_length: int | None = None
    parent_session: str | None = None


class PackedData(msgspec.Struct, gc=False):
    """A packed run of pieces of one block (generation A, logs only)."""

    texts: list[str]
    turn: int = 0
    step: int = 0


class PackedCall(msgspec.Struct, gc=False):
    """A packed run of pieces of a tool call's arguments: only their number matters."""

    args: list[str]


class PackedRow(msgspec.Struct, gc=False):
    """A whole line that holds a packed run."""

    seq0: int
    data: PackedData


class ChunkData(msgspec.Struct):
    """One streamed piece (generation A)."""

    chunk: dict[str, Any]
    turn: int = 0
    step: int = 0


class StreamRecord(msgspec.Struct):
    """One record of an embedded stream (generations B and C)."""

    type: str
    texts: list[str] = []
    chunk: dict[str, Any] | None = None


class AssistantData(msgspec.Struct):
    """A committed message, or with `message` None a model call that ended without one."""

    turn: int = 0
    step: int = 0
    message: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    interrupted: bool = False
    stream: list[StreamRecord] = []


class ToolCallData(msgspec.Struct, rename="camel"):
    """A tool call that the harness runs."""

    call_id: str
    name: str
    arguments: Any = None


class ToolResultData(msgspec.Struct):
    """A tool call's result, in the shape of any generation."""

    message: dict[str, Any]
    error: Any = None


class TurnEndData(msgspec.Struct):
    """The end of a turn."""

    reason: dict[str, Any]
    turn: int = 0


_DECODERS: Final[dict[type[msgspec.Struct], msgspec.json.Decoder[Any]]] = {
    kind: msgspec.json.Decoder(kind)
    for kind in (
        AssistantData, ChunkData, PackedCall, PackedData, PackedRow, RowEnvelope, SessionHeader, ToolCallData,
        ToolResultData, TurnEndData,
    )
}  # fmt: skip


def typed(raw: Any, kind: type[S]) -> S:
    """The payload as a struct.

    Args:
        raw: a `msgspec.Raw` or bytes of JSON, or an object already decoded.
        kind: one of the structs of this module.

    Raises:
        msgspec.ValidationError: it has another shape.
        ValueError: it is not JSON.
    """
    if isinstance(raw, (bytes, msgspec.Raw)):
        try:
            found: S = _DECODERS[kind].decode(raw)
        except msgspec.ValidationError:
            raise
        except (msgspec.DecodeError, UnicodeDecodeError):
            raw = decoded(bytes(raw))
        else:
            return found
    if kind is RowEnvelope and isinstance(raw, dict) and "data" in raw:
        data = raw["data"]
        return msgspec.structs.replace(typed({k: v for k, v in raw.items() if k != "data"}, kind), data=data)
    return msgspec.convert(raw, kind)


def decoded(line: bytes) -> Any:
    """The JSON value, lone surrogates and invalid UTF-8 included (JavaScript writes the former).

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return json.loads(line.decode("utf-8", "surrogateescape"))
