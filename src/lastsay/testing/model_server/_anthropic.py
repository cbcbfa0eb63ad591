"""Anthropic Messages: a turn as the events of ``POST /v1/messages``, or as one JSON object."""

from collections.abc import Iterator
from typing import Any

from lastsay.testing.model_server._render import (
    Chunk,
    Names,
    error_type,
    frame,
    input_json,
    paused,
    stop_reason,
    tokens,
)
from lastsay.testing.model_server._steps import (
    CallTool,
    Cut,
    EndBlock,
    Hang,
    HttpError,
    Say,
    Sleep,
    SseError,
    Stop,
    Think,
    Tokens,
    Turn,
)

__all__ = ("error_body", "render", "whole")


def error_body(status: int, message: str, kind: str | None = None) -> dict[str, Any]:
    """The body of an HTTP error."""
    return {"type": "error", "error": {"type": kind or error_type(status), "message": message}}


def _usage(counts: Tokens) -> dict[str, int]:
    return {
        "input_tokens": counts.input,
        "cache_creation_input_tokens": counts.cache_write,
        "cache_read_input_tokens": counts.cache_read,
        "output_tokens": counts.output,
    }


def _envelope(names: Names, counts: Tokens, content: list[Any], reason: str | None) -> dict[str, Any]:
    return {
        "id": names.message,
        "type": "message",
        "role": "assistant",
        "model": names.model,
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": _usage(counts),
    }


def whole(turn: Turn, names: Names) -> dict[str, Any]:
    """The turn as the one JSON object of a request without streaming."""
    content: list[Any] = []
    for index, step in enumerate(turn):
        if isinstance(step, Say):
            content.append({"type": "text", "text": "".join(step.pieces)})
        elif isinstance(step, Think):
            content.append({"type": "thinking", "thinking": "".join(step.pieces), "signature": step.signature})
        elif isinstance(step, CallTool):
            given = {} if step.cut else dict(step.input)
            content.append({"type": "tool_use", "id": names.call(step, index), "name": step.name, "input": given})
    return _envelope(names, tokens(turn, names), content, stop_reason(turn))


def render(turn: Turn, names: Names) -> Iterator[Chunk]:
    """The turn as server-sent events, with the pauses and faults between them."""
    return _Events(turn, names).render()


def _event(kind: str, **fields: Any) -> bytes:
    return frame({"type": kind, **fields}, kind)


class _Events:
    __slots__ = ("_names", "_next", "_open", "_turn")

    def __init__(self, turn: Turn, names: Names) -> None:
        self._turn, self._names = turn, names
        self._next = 0  # index of the next content block
        self._open = False

    def render(self) -> Iterator[Chunk]:
        counts = tokens(self._turn, self._names)
        begun = Tokens(counts.input, 1, counts.cache_read, counts.cache_write)
        yield _event("message_start", message=_envelope(self._names, begun, [], None))
        yield _event("ping")
        for number, step in enumerate(self._turn):
            if isinstance(step, Stop):
                break
            if isinstance(step, Cut):
                yield step
                return
            if isinstance(step, SseError | HttpError):
                kind = step.type if isinstance(step, SseError) else error_type(step.status)
                yield frame(error_body(0, step.message, kind), "error")
                return
            yield from self._step(number, step)
        yield from self._end_block()
        delta = {"stop_reason": stop_reason(self._turn), "stop_sequence": None}
        yield _event("message_delta", delta=delta, usage=_usage(counts))
        yield _event("message_stop")

    def _step(self, number: int, step: Any) -> Iterator[Chunk]:
        if isinstance(step, Sleep | Hang):
            yield step
        elif isinstance(step, EndBlock):
            yield from self._end_block()
        elif isinstance(step, Say):
            yield from self._start_block({"type": "text", "text": ""})
            for piece in paused(step):
                yield piece if isinstance(piece, Sleep) else self._delta({"type": "text_delta", "text": piece})
        elif isinstance(step, Think):
            yield from self._start_block({"type": "thinking", "thinking": "", "signature": ""})
            for piece in paused(step):
                yield piece if isinstance(piece, Sleep) else self._delta({"type": "thinking_delta", "thinking": piece})
            yield self._delta({"type": "signature_delta", "signature": step.signature})
        elif isinstance(step, CallTool):
            call = {"type": "tool_use", "id": self._names.call(step, number), "name": step.name, "input": {}}
            yield from self._start_block(call)
            text = input_json(step)
            for piece in (text[: len(text) // 2], text[len(text) // 2 :]):
                yield self._delta({"type": "input_json_delta", "partial_json": piece})

    def _start_block(self, block: dict[str, Any]) -> Iterator[bytes]:
        yield from self._end_block()
        self._open = True
        yield _event("content_block_start", index=self._next, content_block=block)

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return _event("content_block_delta", index=self._next, delta=delta)

    def _end_block(self) -> Iterator[bytes]:
        if self._open:
            yield _event("content_block_stop", index=self._next)
            self._next += 1
            self._open = False
