"""What both protocols share when a turn becomes bytes.

A renderer is sans-IO: it yields the bytes to send and, in between, the steps that only the server can carry out
(`Sleep`, `Hang`, `Cut`). A renderer never yields anything after `Cut`, or after an error event.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from lastsay.testing.model_server._steps import CallTool, Cut, Hang, Say, Sleep, Stop, Think, Tokens, Turn

__all__ = ("Chunk", "Names", "error_status", "error_type", "frame", "input_json", "paused", "stop_reason", "tokens")

Chunk: TypeAlias = bytes | Sleep | Hang | Cut

CHARACTERS_PER_TOKEN: Final = 4

_STATUS: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "overloaded_error": 529,
}
_TYPE: Final = {status: name for name, status in _STATUS.items()}


def error_type(status: int) -> str:
    """The error type of the Messages protocol that goes with an HTTP status."""
    return _TYPE.get(status, "api_error" if status >= 500 else "invalid_request_error")


def error_status(kind: str) -> int:
    """The HTTP status that goes with an error type of the Messages protocol."""
    return _STATUS.get(kind, 500)


@dataclass(frozen=True, slots=True)
class Names:
    """What one answer is called: ids are unique within a server, because `number` is."""

    number: int
    model: str
    input_tokens: int

    @property
    def message(self) -> str:
        """The id of the message."""
        return f"msg_{self.number:06d}"

    def call(self, step: CallTool, index: int) -> str:
        """The id of a tool call: the scripted one, or one made from the position in the turn."""
        return step.id or f"toolu_{self.number:06d}_{index}"


def stop_reason(turn: Turn) -> str | None:
    """The stop reason of a turn, in the words of the Messages protocol."""
    for step in turn:
        if isinstance(step, Stop):
            return step.reason
    calls = [step for step in turn if isinstance(step, CallTool)]
    if not calls:
        return "end_turn"
    return "max_tokens" if calls[-1].cut else "tool_use"


def tokens(turn: Turn, names: Names) -> Tokens:
    """The token counts of a turn: the scripted ones, or an estimate."""
    for step in turn:
        if isinstance(step, Tokens):
            return step
    characters = sum(len(piece) for step in turn if isinstance(step, Say | Think) for piece in step.pieces)
    characters += sum(len(input_json(step)) for step in turn if isinstance(step, CallTool))
    return Tokens(input=names.input_tokens, output=max(1, characters // CHARACTERS_PER_TOKEN))


def input_json(step: CallTool) -> str:
    """The JSON of a tool call's input; cut in the middle where the step says so."""
    text = msgspec.json.encode(dict(step.input)).decode()
    return text[: max(1, len(text) // 2)] if step.cut else text


def paused(step: Say | Think) -> Iterator[Sleep | str]:
    """The pieces of a step with the pauses between them."""
    for piece in step.pieces:
        if step.delay:
            yield Sleep(step.delay)
        yield piece


def frame(data: Any, event: str | None = None) -> bytes:
    """One server-sent event."""
    head = b"event: " + event.encode() + b"\n" if event else b""
    return head + b"data: " + msgspec.json.encode(data) + b"\n\n"
