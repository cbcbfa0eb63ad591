"""OpenAI chat completions: a turn as the chunks of ``POST .../chat/completions``, or as one JSON object.

Reasoning goes out as ``reasoning_content``, as several vendors of this protocol do. Token counts stand in the chunk
that carries the finish reason and, where the request asked for it, again in a last chunk of their own.
"""

from collections.abc import Iterator
from typing import Any, Final

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

_FINISH: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


def error_body(status: int, message: str, kind: str | None = None) -> dict[str, Any]:
    """The body of an HTTP error."""
    return {"error": {"message": message, "type": kind or error_type(status), "param": None, "code": None}}


def _usage(counts: Tokens) -> dict[str, Any]:
    prompt = counts.input + counts.cache_read + counts.cache_write
    return {
        "prompt_tokens": prompt,
        "completion_tokens": counts.output,
        "total_tokens": prompt + counts.output,
        "prompt_tokens_details": {"cached_tokens": counts.cache_read},
    }


def _finish(turn: Turn) -> str | None:
    reason = stop_reason(turn)
    return _FINISH.get(reason, reason) if reason is not None else None


def _joined(turn: Turn, kind: type[Say] | type[Think]) -> str | None:
    return "".join(piece for step in turn if isinstance(step, kind) for piece in step.pieces) or None


def _call(step: CallTool, names: Names, number: int, arguments: str) -> dict[str, Any]:
    function = {"name": step.name, "arguments": arguments}
    return {"id": names.call(step, number), "type": "function", "function": function}


def whole(turn: Turn, names: Names) -> dict[str, Any]:
    """The turn as the one JSON object of a request without streaming."""
    message: dict[str, Any] = {"role": "assistant", "content": _joined(turn, Say)}
    if reasoning := _joined(turn, Think):
        message["reasoning_content"] = reasoning
    calls = [_call(s, names, n, input_json(s)) for n, s in enumerate(turn) if isinstance(s, CallTool)]
    if calls:
        message["tool_calls"] = calls
    return {
        "id": names.message,
        "object": "chat.completion",
        "created": 0,
        "model": names.model,
        "choices": [{"index": 0, "message": message, "finish_reason": _finish(turn), "logprobs": None}],
        "usage": _usage(tokens(turn, names)),
    }


def _chunk(names: Names, delta: dict[str, Any] | None, finish: str | None = None, **more: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]
    head = {"id": names.message, "object": "chat.completion.chunk", "created": 0, "model": names.model}
    return frame({**head, "choices": choices, **more})


def render(turn: Turn, names: Names, *, usage_chunk: bool = False) -> Iterator[Chunk]:
    """The turn as server-sent events, with the pauses and faults between them.

    Args:
        turn: what to send.
        names: what it is called.
        usage_chunk: send the token counts once more in a chunk without choices, as ``stream_options`` asks.
    """
    yield _chunk(names, {"role": "assistant", "content": ""})
    calls = 0
    for number, step in enumerate(turn):
        if isinstance(step, Stop):
            break
        if isinstance(step, Cut):
            yield step
            return
        if isinstance(step, SseError | HttpError):
            kind = step.type if isinstance(step, SseError) else error_type(step.status)
            yield frame(error_body(0, step.message, kind))
            return
        yield from _step(step, names, number, calls)
        calls += isinstance(step, CallTool)
    usage = _usage(tokens(turn, names))
    yield _chunk(names, {}, _finish(turn), usage=usage)
    if usage_chunk:
        yield _chunk(names, None, usage=usage)
    yield b"data: [DONE]\n\n"


def _step(step: Any, names: Names, number: int, index: int) -> Iterator[Chunk]:
    if isinstance(step, Sleep | Hang):
        yield step
    elif isinstance(step, Say | Think):
        key = "content" if isinstance(step, Say) else "reasoning_content"
        for piece in paused(step):
            yield piece if isinstance(piece, Sleep) else _chunk(names, {key: piece})
    elif isinstance(step, CallTool):
        text = input_json(step)
        half = len(text) // 2
        yield _chunk(names, {"tool_calls": [{"index": index, **_call(step, names, number, text[:half])}]})
        yield _chunk(names, {"tool_calls": [{"index": index, "function": {"arguments": text[half:]}}]})
