"""The protocol's content blocks, in our words."""

from collections.abc import Mapping
from typing import Any

from lastsay.events import Block, Image, Opaque, Text, Usage

__all__ = ("block_of", "blocks_of", "tool_blocks_of", "usage_of")


def block_of(content: Any) -> Block | None:
    """A content block; None for a text without a character, which carries nothing."""
    if isinstance(content, str):
        return Text(content) if content else None
    if not isinstance(content, Mapping):
        return Opaque("untyped", content)
    kind, text = content.get("type"), content.get("text")
    if kind == "text" and isinstance(text, str):
        return Text(text) if text else None
    if kind == "image":
        fields = [content.get(key) for key in ("data", "mimeType", "uri")]
        data, media_type, url = [field if isinstance(field, str) else None for field in fields]
        return Image(data, media_type, url)
    return Opaque(kind if isinstance(kind, str) else "untyped", content)


def blocks_of(content: Any) -> list[Block]:
    """The blocks of a content field: one block, a list of them, or nothing. A list where one was due is taken too."""
    if content is None:
        return []
    parts = content if isinstance(content, list) else [content]
    return [block for part in parts if (block := block_of(part)) is not None]


def tool_blocks_of(content: Any) -> list[Block]:
    """The blocks of a tool call's content: content is unwrapped, diffs and terminals are kept as they came."""
    out: list[Block] = []
    for part in content if isinstance(content, list) else []:
        if isinstance(part, Mapping) and part.get("type") == "content":
            out += blocks_of(part.get("content"))
        else:
            block = block_of(part)
            out += [] if block is None else [block]
    return out


def usage_of(raw: Any) -> Usage | None:
    """Token counts from an answer's ``usage``; None if it has none.

    The protocol does not say whether input tokens include cached ones. Where the total proves that they do, the cached
    ones are taken out.
    """
    if not isinstance(raw, Mapping):
        return None

    def count(key: str) -> int | None:
        value = raw.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None

    fresh, output, total = count("inputTokens"), count("outputTokens"), count("totalTokens")
    read, write, thought = count("cachedReadTokens"), count("cachedWriteTokens"), count("thoughtTokens")
    if fresh is not None and output is not None and read and total in (fresh + output, fresh + output + (thought or 0)):
        fresh = max(0, fresh - read)
    usage = Usage(fresh, output, read, write, thought)
    return None if usage == Usage() else usage
