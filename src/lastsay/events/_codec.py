"""The codec: one event is one line of NDJSON.

The tag stands under ``type`` and is the class name in snake case. What cannot be decoded is never fatal: an unknown
tag becomes a `Notice` that keeps the object; a broken line becomes a `Fault` that names its number, and costs that one
line. Shapes that are near enough are mended instead: a plain string as content is one text block, an unknown block is
`Opaque`, a lone surrogate and an invalid UTF-8 byte survive.
"""

import json
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from lastsay.events._blocks import Block, Image, Opaque, Reasoning, Text, ToolUse
from lastsay.events._events import EVENT_TYPES, MAIN, Event, Fault, Notice
from lastsay.events._lines import MAX_LINE, LineFramer

__all__ = ("EventDecoder", "decode_block", "decode_event", "encode", "encode_many")

_DECODER: Final = msgspec.json.Decoder(Event)
_ENCODER: Final = msgspec.json.Encoder()
_TAGS: Final[dict[str, type[Event]]] = {str(c.__struct_config__.tag): c for c in EVENT_TYPES}
_BLOCKS: Final[dict[str, type[Block]]] = {
    str(c.__struct_config__.tag): c for c in (Text, Reasoning, ToolUse, Image, Opaque)
}
_BLOCK: Final = 512
"""Bytes of whole lines from which on decoding them in one call pays (a fifth of the cost, line by line)."""
_EXCERPT: Final = 200
"""Characters of a broken line that its Fault keeps."""


def encode(event: Event) -> bytes:
    """The event as one line of NDJSON, its LF included.

    Lone surrogates are written as escapes, and values inside `raw` and `input` that JSON has no form for as their text.
    """
    try:
        return _ENCODER.encode(event) + b"\n"
    except (UnicodeEncodeError, TypeError, ValueError, msgspec.MsgspecError):
        plain = msgspec.to_builtins(event, enc_hook=repr, str_keys=True)
        return json.dumps(plain, default=repr).encode() + b"\n"


def encode_many(events: Iterable[Event]) -> bytes:
    """The events as lines of NDJSON, in order."""
    return b"".join([encode(event) for event in events])


def decode_event(line: bytes, number: int | None = None) -> Event:
    """The event that a line holds; a `Notice` for an unknown one, a `Fault` for a broken one. Never raises.

    Args:
        line: the line without its LF.
        number: the line's number, from 1, for the `Fault`.
    """
    try:
        return _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _decode_loosely(line, number)


def _decode_loosely(line: bytes, number: int | None) -> Event:
    text = line.decode("utf-8", "surrogateescape")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        return _fault("invalid_json", f"not JSON: {error}", text, number)
    if not isinstance(value, dict):
        kind = type(value).__name__
        return _fault("not_an_object", f"a JSON {kind} where an object was expected", text, number)
    return _event_from(value, text, number)


def _event_from(value: dict[str, Any], text: str, number: int | None) -> Event:
    tag, run = value.get("type"), value.get("run")
    kind = _TAGS.get(tag) if isinstance(tag, str) else None
    if kind is None:
        return Notice(str(tag) if tag is not None else "untyped", value, run=run if isinstance(run, str) else MAIN)
    if isinstance(value.get("content"), (str, list)):
        value = {**value, "content": _blocks_from(value["content"])}
    try:
        return msgspec.convert(value, kind)
    except (msgspec.MsgspecError, UnicodeEncodeError) as error:
        return _fault("invalid_event", f"{tag}: {error}", text, number)


def _blocks_from(content: str | list[Any]) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [_block_from(part) for part in content]


def _block_from(part: Any) -> Any:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    kind = part.get("type") if isinstance(part, dict) else None
    known = _BLOCKS.get(kind) if isinstance(kind, str) else None
    if known is not None:
        try:
            msgspec.convert(part, known)
        except (msgspec.MsgspecError, UnicodeEncodeError):
            pass
        else:
            return part
    return {"type": "opaque", "kind": str(kind or "untyped"), "raw": part}


def _fault(kind: str, detail: str, text: str, number: int | None) -> Fault:
    where = f"line {number}: " if number is not None else ""
    excerpt = text[:_EXCERPT].encode("utf-8", "replace").decode()
    return Fault(kind, f"{where}{detail}"[:600], number, excerpt)


def decode_block(block: bytes) -> list[Event]:
    """The events of a block of whole lines that are known to be well formed, in one call.

    Raises:
        msgspec.MsgspecError: some line is not; read the block with `EventDecoder` instead, which names it.
    """
    return _DECODER.decode_lines(block)


class EventDecoder:
    """Decodes pushed bytes into events, block by block; it never raises, whatever the bytes are.

    Args:
        max_line: cap of one line, in bytes; see `LineFramer`.
    """

    __slots__ = ("_framer",)

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._framer = LineFramer(max_line)

    @property
    def line(self) -> int:
        """The number of lines begun so far."""
        return self._framer.line

    def push(self, data: bytes) -> list[Event]:
        """The events completed by `data`, in order."""
        framer = self._framer
        first, last = data.find(b"\n") + 1, data.rfind(b"\n") + 1
        if last - first < _BLOCK:
            return self._events(framer.push(data))
        out = self._events(framer.push(data[:first]))
        if not framer.can_skip(last - first):
            return out + self._events(framer.push(data[first:]))
        out += self._block(data[first:last])
        out += self._events(framer.push(data[last:]))
        return out

    def _block(self, block: bytes) -> list[Event]:
        """The events of whole lines: in one call if every line is one plain event, else line by line."""
        lines = block.count(b"\n")
        try:
            events = _DECODER.decode_lines(block)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            events = []
        if len(events) != lines:
            return self._events(self._framer.push(block))
        self._framer.skip(lines)
        return events

    def close(self) -> list[Event]:
        """The event held back at the end of the input, if it did not end with LF. A cut line becomes a `Fault`."""
        events = self._events(self._framer.close())
        return [
            Fault("truncated_line", f"the input ends inside {e.detail}", e.line, e.raw)
            if type(e) is Fault and e.kind == "invalid_json"
            else e
            for e in events
        ]

    @staticmethod
    def _events(lines: list[tuple[int, bytes] | Fault]) -> list[Event]:
        decode = _DECODER.decode
        out: list[Event] = []
        for item in lines:
            if isinstance(item, Fault):
                out.append(item)
                continue
            number, line = item
            try:
                out.append(decode(line))
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                out.append(_decode_loosely(line, number))
        return out
