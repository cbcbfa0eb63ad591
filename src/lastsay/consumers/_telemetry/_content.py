"""Content on spans: when it may be told, in which form, and how much of it.

Content is off unless the application or the environment turns it on. It travels as a JSON string, because nested values
are dropped by most SDKs in use and by Phoenix. Each text is cut *before* it is serialised (the SDK's own limit cuts
JSON in the middle), and lone surrogates are replaced: exporters drop the whole attribute for one.
"""

import json
import logging
import os
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from lastsay.events import Block, Event, Image, Notice, Opaque, Reasoning, Text, ToolUse

__all__ = (
    "CAPTURE_VARIABLE",
    "CONTENT_LIMIT",
    "Capture",
    "capture_of",
    "clean",
    "json_text",
    "message",
    "prompt_in",
    "prompt_of",
)

CAPTURE_VARIABLE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
CONTENT_LIMIT: Final = 32_768
"""Characters of one text part."""

_ENCODER: Final = msgspec.json.Encoder(enc_hook=repr)

_SPANS: Final = ("span_only", "span_and_event", "true", "1", "on", "yes")
_EVENTS: Final = ("event_only", "span_and_event")
_NONE: Final = ("", "no_content", "false", "0", "off", "no")


class Capture(msgspec.Struct, frozen=True):
    """Where content may be told."""

    spans: bool = False
    events: bool = False


def capture_of(*, content: bool | None) -> Capture:
    """Where content may be told: as asked for, or with None as the environment says (`CAPTURE_VARIABLE`).

    An unknown word there is logged and means no: a guess could publish what was to stay private.
    """
    if content is not None:
        return Capture(content, content)
    word = os.environ.get(CAPTURE_VARIABLE, "").strip().lower()
    if word not in _NONE and word not in _SPANS and word not in _EVENTS:
        accepted = "NO_CONTENT, SPAN_ONLY, EVENT_ONLY or SPAN_AND_EVENT"
        logging.getLogger("lastsay.telemetry").warning("%s=%r is not %s: no content", CAPTURE_VARIABLE, word, accepted)
    return Capture(word in _SPANS, word in _EVENTS)


def clean(text: str) -> str:
    """The text without lone surrogates; a pair of them is the character it stands for."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class _Cutter:
    """Cuts texts and remembers whether it had to."""

    __slots__ = ("cut", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.cut = False

    def __call__(self, text: str) -> str:
        if len(text) > self.limit:
            self.cut = True
            text = text[: self.limit]
        return clean(text)


def json_text(value: Any, limit: int) -> tuple[str, bool]:
    """The value as JSON, its strings cut at `limit` characters, and whether one was cut."""
    if isinstance(value, str):
        cutter = _Cutter(limit)
        return cutter(value), cutter.cut
    cutter = _Cutter(limit)
    return _json(_cut(value, cutter)), cutter.cut


def _json(value: Any) -> str:
    # 3 us for 8 kB, where the standard library takes 25.
    try:
        return _ENCODER.encode(value).decode()
    except (UnicodeEncodeError, TypeError, ValueError, msgspec.MsgspecError):
        return clean(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=repr))


def _cut(value: Any, cutter: _Cutter) -> Any:
    if isinstance(value, str):
        return cutter(value)
    if isinstance(value, dict):
        return {cutter(str(key)): _cut(item, cutter) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cut(item, cutter) for item in value]
    return value


def message(role: str, content: Sequence[Block], limit: int, finish: str | None = None) -> tuple[str, bool]:
    """One message in the conventions' form, as a JSON array, and whether a text in it was cut.

    Args:
        role: ``user`` or ``assistant``.
        content: the blocks.
        limit: characters of one text part.
        finish: the finish reason. Every output message has one: Phoenix 20.26 drops the whole payload without it.
    """
    cutter = _Cutter(limit)
    body: dict[str, Any] = {"role": role, "parts": [_part(block, cutter) for block in content]}
    if finish is not None:
        body["finish_reason"] = finish
    return _json([body]), cutter.cut


def _part(block: Block, cutter: _Cutter) -> dict[str, Any]:
    match block:
        case Text(text):
            return {"type": "text", "content": cutter(text)}
        case Reasoning(text):
            return {"type": "reasoning", "content": cutter(text)}
        case ToolUse(call, name, arguments):
            return {"type": "tool_call", "id": cutter(call), "name": cutter(name), "arguments": _cut(arguments, cutter)}
        case Image():
            return _image(block, cutter)
        case Opaque(kind, _):
            return {"type": "generic", "kind": cutter(kind)}


def _image(image: Image, cutter: _Cutter) -> dict[str, Any]:
    """An image, with its data only where they fit: half of an image is of no use."""
    part: dict[str, Any] = {"type": "blob", "modality": "image", "mime_type": image.media_type}
    if image.data is None:
        return {**part, "type": "uri", "uri": cutter(image.url or "")}
    if len(image.data) > cutter.limit:
        cutter.cut = True
        return {**part, "content": "", "omitted_characters": len(image.data)}
    return {**part, "content": image.data}


def prompt_of(arguments: Any) -> str | None:
    """The prompt in the arguments of a delegating call, where it is recognised."""
    if isinstance(arguments, dict):
        for key in ("prompt", "task", "message", "input"):
            value = arguments.get(key)
            if isinstance(value, str) and value:
                return value
    return arguments if isinstance(arguments, str) and arguments else None


def prompt_in(event: Event) -> str | None:
    """The text of a user's message, in the shapes that harnesses give it; None for anything else.

    What the harness injected as a user's message (``meta``) is no prompt.
    """
    if type(event) is not Notice or event.kind != "user_message":
        return None
    raw = event.raw
    if isinstance(raw, dict):
        inner = raw.get("message", raw) if not raw.get("meta") else None
        if isinstance(inner, dict):
            inner = inner.get("content", inner.get("text"))
        if isinstance(inner, list):
            parts = [part.get("text") for part in inner if isinstance(part, dict)]
            inner = "".join([part for part in parts if isinstance(part, str)])
        raw = inner
    return raw if isinstance(raw, str) and raw else None
