"""Lines to JSON-RPC frames, with as little lost as possible.

What real agents print beside their frames (sst/opencode#13634, openclaw/acpx#160, benchflow-ai/benchflow#236) costs
itself and nothing else: every broken piece is one named `Fault`, and a frame that got glued to it is still read.

| the line                                   | what becomes of it                                             |
|--------------------------------------------|----------------------------------------------------------------|
| a frame                                    | the frame                                                      |
| text, then a frame; two frames in one line | the frames, and a Fault ``glued_text`` for the rest            |
| invalid UTF-8 inside a frame               | the frame with U+FFFD, and a Fault ``invalid_utf8``            |
| a JSON array                               | its frames (a JSON-RPC batch); none is a Fault `not_an_object` |
| another JSON value                         | a Fault ``not_an_object``                                      |
| a JSON object that is no frame (a log line)| a Fault ``not_jsonrpc``                                        |
| anything else                              | a Fault ``not_json``                                           |
"""

import json
import re
from typing import Any, Final, Literal

import msgspec

from lastsay.events import Fault

__all__ = ("ChunkFrame", "TextChunk", "ThoughtChunk", "decode_chunk", "decode_line", "is_frame")

_EXCERPT: Final = 200
"""Characters of a broken line that its Fault keeps."""
_GLUED: Final = re.compile(r'\{\s*"(?:jsonrpc|id|method|result|params)"')
_GLUED_TRIES: Final = 16
"""Places in one line that are tried as the beginning of a frame: a bound on work, far above what was seen."""


class _TextContent(msgspec.Struct, tag_field="type", tag="text"):
    text: str


class TextChunk(msgspec.Struct, tag_field="sessionUpdate", tag="agent_message_chunk", rename="camel"):
    """The update that nearly all traffic consists of: a piece of assistant text."""

    content: _TextContent
    message_id: str | None = None
    meta: msgspec.Raw | None = msgspec.field(default=None, name="_meta")


class ThoughtChunk(msgspec.Struct, tag_field="sessionUpdate", tag="agent_thought_chunk", rename="camel"):
    """The second most frequent one: a piece of reasoning."""

    content: _TextContent
    message_id: str | None = None
    meta: msgspec.Raw | None = msgspec.field(default=None, name="_meta")


class _ChunkParams(msgspec.Struct, rename="camel"):
    session_id: str
    update: TextChunk | ThoughtChunk


class ChunkFrame(msgspec.Struct):
    """A `session/update` notification that holds a piece of text."""

    method: Literal["session/update"]
    params: _ChunkParams
    id: msgspec.Raw | None = None


decode_chunk: Final = msgspec.json.Decoder(ChunkFrame).decode
"""The fast way for the frequent frame; raises for every other one."""
_decode_any: Final = msgspec.json.Decoder().decode


def is_frame(value: dict[str, Any]) -> bool:
    """Whether an object is a request, a notification or a response.

    A structured log line may have an ``id`` too; without ``result`` or ``error`` it answers nothing.
    """
    return isinstance(value.get("method"), str) or (
        value.get("id") is not None and ("result" in value or "error" in value)
    )


def decode_line(line: bytes, number: int | None) -> list[dict[str, Any] | Fault]:
    """The frames in a line, and a `Fault` for each broken piece. Never raises."""
    try:
        return _frames_of(_decode_any(line), line, number)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    text = line.decode("utf-8", "replace")
    out: list[dict[str, Any] | Fault] = []
    try:
        out = _frames_of(json.loads(text), line, number)
    except (ValueError, RecursionError):
        out = _unglue(text, number)
    if "\ufffd" in text and any(isinstance(item, dict) for item in out) and not _is_utf8(line):
        out.insert(0, _fault("invalid_utf8", "bytes that are not UTF-8 were replaced", line, number))
    return out


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _frames_of(value: Any, line: bytes, number: int | None) -> list[dict[str, Any] | Fault]:
    if isinstance(value, list) and value:
        return [part for one in value for part in _frames_of(one, line, number)] if len(value) < 1000 else []
    if not isinstance(value, dict):
        kind = type(value).__name__
        return [_fault("not_an_object", f"a JSON {kind} where a JSON-RPC frame was expected", line, number)]
    if not is_frame(value):
        return [_fault("not_jsonrpc", "a JSON object that is no JSON-RPC frame", line, number)]
    return [value]


def _unglue(text: str, number: int | None) -> list[dict[str, Any] | Fault]:
    found: list[dict[str, Any] | Fault] = []
    rest: list[str] = []
    decoder = json.JSONDecoder()
    at = 0
    for _ in range(_GLUED_TRIES):
        match = _GLUED.search(text, at)
        if match is None:
            break
        rest.append(text[at : match.start()])
        try:
            value, at = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            rest.append(text[match.start() : match.end()])
            at = match.end()
            continue
        if is_frame(value):
            found.append(value)
    rest.append(text[at:])
    broken = "".join(rest).strip()
    if not found:
        return [_fault("not_json", "a line that is not JSON", text.encode("utf-8", "replace"), number)]
    if broken:
        found.insert(0, _fault("glued_text", "text stood in one line with a frame", broken.encode(), number))
    return found


def _fault(kind: str, detail: str, raw: bytes, number: int | None) -> Fault:
    where = f"line {number}: " if number is not None else ""
    return Fault(kind, f"{where}{detail}", number, raw[: 4 * _EXCERPT].decode("utf-8", "replace")[:_EXCERPT])
