"""Content of Claude messages as blocks, and token counts as usage. Odd shapes are kept, never refused."""

from typing import Any

from lastsay.events import Block, Image, Opaque, Reasoning, Text, ToolUse, Usage

__all__ = ("blocks_of", "join_text", "summed", "text_of", "usage_of")


def blocks_of(content: Any) -> tuple[Block, ...]:
    """The blocks of a content value: a string, or a list whose members may be strings too. Empty texts are left out."""
    if isinstance(content, str):
        return (Text(content),) if content else ()
    if not isinstance(content, list):
        return ()
    blocks = [_block(part) for part in content]
    return tuple([block for block in blocks if block is not None])


def _block(part: Any) -> Block | None:
    if isinstance(part, str):
        return Text(part) if part else None
    if not isinstance(part, dict):
        return Opaque(type(part).__name__, part)
    kind = part.get("type")
    if kind == "text":
        text = part.get("text")
        return (Text(text) if text else None) if isinstance(text, str) else Opaque("text", part)
    if kind == "thinking":
        thought = part.get("thinking")
        return (Reasoning(thought) if thought else None) if isinstance(thought, str) else Opaque("thinking", part)
    if kind == "tool_use":
        return ToolUse(str(part.get("id", "")), str(part.get("name", "")), _input(part.get("input")))
    if kind == "image":
        return _image(part)
    return Opaque(str(kind or "untyped"), part)


def _input(value: Any) -> Any:
    """The input of a call; the raw text of one whose JSON was cut (Claude Code 2.1.332 wraps it)."""
    if isinstance(value, dict) and len(value) == 1:
        cut = value.get("__unparsedToolInput")
        if isinstance(cut, dict) and isinstance(cut.get("raw"), str):
            return cut["raw"]
    return value


def _image(part: dict[str, Any]) -> Block:
    source = part.get("source")
    if isinstance(source, dict):
        data, media, url = source.get("data"), source.get("media_type"), source.get("url")
        if isinstance(data, str) or isinstance(url, str):
            return Image(
                data if isinstance(data, str) else None,
                media if isinstance(media, str) else None,
                url if isinstance(url, str) else None,
            )
    return Opaque("image", part)


def join_text(blocks: tuple[Block, ...]) -> str:
    """The texts of the blocks, one under the other."""
    return "\n".join([block.text for block in blocks if type(block) is Text])


def text_of(content: Any) -> str:
    """The text of a content value; empty where it has none."""
    return join_text(blocks_of(content))


def _count(usage: dict[str, Any], key: str) -> int | None:
    value = usage.get(key)
    return value if type(value) is int and value >= 0 else None


def usage_of(usage: Any, *, begun_only: bool = False) -> Usage | None:
    """Token counts in the form of the API, or None where there are none.

    Args:
        usage: the value of a ``usage`` field.
        begun_only: the counts were taken when the message began: its output tokens are not known yet.
    """
    if not isinstance(usage, dict):
        return None
    counts = Usage(
        input_tokens=_count(usage, "input_tokens"),
        output_tokens=None if begun_only else _count(usage, "output_tokens"),
        cache_read_tokens=_count(usage, "cache_read_input_tokens"),
        cache_write_tokens=_count(usage, "cache_creation_input_tokens"),
    )
    return None if counts == Usage() else counts


def summed(one: Usage, other: Usage) -> Usage:
    """Both counts added up; what only one of them says is taken from it."""

    def add(a: int | None, b: int | None) -> int | None:
        return b if a is None else a if b is None else a + b

    return Usage(
        input_tokens=add(one.input_tokens, other.input_tokens),
        output_tokens=add(one.output_tokens, other.output_tokens),
        cache_read_tokens=add(one.cache_read_tokens, other.cache_read_tokens),
        cache_write_tokens=add(one.cache_write_tokens, other.cache_write_tokens),
    )
