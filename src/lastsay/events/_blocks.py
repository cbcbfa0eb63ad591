"""Content blocks: what a message is made of."""

from typing import Any

import msgspec

__all__ = ("Block", "Image", "Opaque", "Reasoning", "Text", "ToolUse")


class Text(msgspec.Struct, frozen=True, gc=False, tag="text"):
    """Text that the assistant wrote for its reader."""

    text: str


class Reasoning(msgspec.Struct, frozen=True, gc=False, tag="reasoning"):
    """Text that the assistant wrote for itself. Never output, under any policy."""

    text: str


class ToolUse(msgspec.Struct, frozen=True, tag="tool_use"):
    """A tool call inside a message.

    `input` is the decoded argument object, or the raw text where the harness could not decode it (a call that was cut).
    """

    id: str
    name: str
    input: Any = None


class Image(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="image"):
    """An image: `data` is base64 text, or None where only a `url` is known."""

    data: str | None = None
    media_type: str | None = None
    url: str | None = None


class Opaque(msgspec.Struct, frozen=True, tag="opaque"):
    """A block of a kind that lastsay does not know, kept as it came. `kind` is the harness's own name for it."""

    kind: str
    raw: Any = None


Block = Text | Reasoning | ToolUse | Image | Opaque
