"""Content blocks and usage of DeepSeek Harness, as blocks and usage of lastsay."""

import json
from typing import Any, Final

from lastsay.events import Block, Image, Opaque, Reasoning, Text, ToolUse, Usage

__all__ = ("blocks_of", "result_of", "tool_input", "usage_of")

_COUNTS: Final = (
    ("input_tokens", "inputTokens"),
    ("output_tokens", "outputTokens"),
    ("cache_read_tokens", "cacheReadTokens"),
    ("cache_write_tokens", "cacheWriteTokens"),
    ("reasoning_tokens", "reasoningTokens"),
)
"""DeepSeek Harness 0.2.1rc2 keeps its counts disjoint: cache reads are not inside `inputTokens`."""


def blocks_of(content: Any) -> tuple[Block, ...]:
    """The blocks of a content list, in order. An empty text block stays: the harness's own rule counts it."""
    if isinstance(content, str):
        return (Text(content),)
    if not isinstance(content, list):
        return ()
    return tuple([_block_of(part) for part in content])


def _block_of(part: Any) -> Block:
    if not isinstance(part, dict):
        return Opaque("untyped", part)
    kind = part.get("type")
    text = part.get("text")
    if kind == "text" and isinstance(text, str):
        return Text(text)
    if kind == "reasoning" and isinstance(text, str):
        return Reasoning(text)
    if kind == "tool-call":
        return ToolUse(str(part.get("id")), str(part.get("name")), tool_input(part.get("arguments")))
    if kind == "image":
        return Image(_string(part, "data"), _string(part, "mimeType"), _string(part, "url"))
    return Opaque(str(kind), part)


def _string(part: dict[str, Any], key: str) -> str | None:
    value = part.get(key)
    return value if isinstance(value, str) else None


def tool_input(arguments: Any) -> Any:
    """The decoded arguments of a tool call, or their raw text where they do not decode (a call that was cut)."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def result_of(message: dict[str, Any]) -> tuple[str, tuple[Block, ...], bool]:
    """A tool result's call id, content and error flag.

    Generations A and B wrap it in one `tool-result` block of a user message; C has the fields on the message itself.
    """
    content = message.get("content")
    first = content[0] if isinstance(content, list) and content else None
    wrapped = isinstance(first, dict) and first.get("type") == "tool-result"
    holder: dict[str, Any] = first if wrapped and isinstance(first, dict) else message
    return str(holder.get("toolCallId")), blocks_of(holder.get("content")), bool(holder.get("isError"))


def usage_of(usage: Any) -> Usage | None:
    """The token counts, or None where the harness gave none (interrupted messages)."""
    if not isinstance(usage, dict) or not usage:
        return None
    return Usage(**{ours: value for ours, theirs in _COUNTS if isinstance(value := usage.get(theirs), int)})
