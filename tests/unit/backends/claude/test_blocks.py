"""Content values to blocks, and usage fields to counts."""

from typing import Any

import pytest

from lastsay.backends.claude._blocks import blocks_of, summed, text_of, usage_of
from lastsay.events import Block, Image, Opaque, Reasoning, Text, ToolUse, Usage


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, ()),
        (5, ()),
        ("", ()),
        ("a", (Text("a"),)),
        (["a", ""], (Text("a"),)),
        ([5], (Opaque("int", 5),)),
        ([{"type": "thinking", "thinking": "hm"}], (Reasoning("hm"),)),
        ([{"type": "thinking", "thinking": ""}], ()),
        ([{"type": "tool_use"}], (ToolUse("", ""),)),
        ([{"no": "type"}], (Opaque("untyped", {"no": "type"}),)),
        (
            [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}],
            (Image("aGk=", "image/png"),),
        ),
        ([{"type": "image", "source": {"type": "url", "url": "file:a"}}], (Image(url="file:a"),)),
        ([{"type": "image"}], (Opaque("image", {"type": "image"}),)),
        ([{"type": "image", "source": {"data": 5}}], (Opaque("image", {"type": "image", "source": {"data": 5}}),)),
    ],
)
def test_blocks(content: Any, expected: tuple[Block, ...]) -> None:
    """Every shape gives blocks; what is not known is kept, what is empty is left out."""
    assert expected == blocks_of(content)


def test_text_is_one_under_the_other() -> None:
    """The text of a content value is its text blocks, line by line."""
    assert "a\nb" == text_of(["a", {"type": "thinking", "thinking": "x"}, "b"])


@pytest.mark.parametrize("usage", [None, 5, {}, {"input_tokens": "7"}, {"output_tokens": -1}, {"input_tokens": True}])
def test_odd_usage(usage: Any) -> None:
    """What holds no count is no usage."""
    assert None is usage_of(usage)


def test_usage_is_added_up() -> None:
    """What only one side says is taken from it."""
    assert Usage(input_tokens=3, output_tokens=5) == summed(
        Usage(input_tokens=1), Usage(input_tokens=2, output_tokens=5)
    )
