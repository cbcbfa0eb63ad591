"""The canonical rule against the fold that it was taken from, on 20,000 random sequences.

The published fold (0.1.0-rc.8) reads one event for each streamed chunk, the first generation of the harness's shapes;
embedded streams and attempts came later, and reach our fold as the same deltas.
"""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lastsay.events import (
    AttemptAborted,
    Block,
    Event,
    Image,
    Message,
    Reasoning,
    ReasoningDelta,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    ToolUse,
)
from lastsay.fold import OutputFold, final_output

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / ".venv-origin-fold" / "node_modules" / "@deepseek-ai" / "dsh-subagent"
SEQUENCES = 20_000
TEXTS = ("", " ", "\n", "A", "The answer.", "é你🙂", "\ud800", "\u2028", "\x00")

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]


def blocks(source: random.Random) -> tuple[Block, ...]:
    """Up to three content blocks of any kind, none at all in a third of the cases."""
    kinds = (
        lambda: Text(source.choice(TEXTS)),
        lambda: Reasoning(source.choice(TEXTS)),
        lambda: ToolUse(f"call-{source.randrange(3)}", "tool", {"a": source.choice(TEXTS)}),
        lambda: Image(data="aGk=", media_type="image/png"),
    )
    return tuple(source.choice(kinds)() for _ in range(source.choice((0, 0, 1, 1, 2, 3))))


def sequence(source: random.Random) -> list[Event]:
    """Events of one run, of the kinds that the origin has too: its messages have no ids and are never taken back."""
    kinds = (
        lambda: TextDelta(source.choice(TEXTS)),
        lambda: TextDelta(source.choice(TEXTS)),
        lambda: ReasoningDelta(source.choice(TEXTS)),
        lambda: Message(blocks(source), message=source.choice((None, "m1", "m2"))),
        lambda: ToolCall("call-1", "tool", {}),
        lambda: ToolResult("call-1", blocks(source)),
        lambda: AttemptAborted(reason="retry"),
    )
    weights = [source.random() for _ in kinds]  # some sequences have no messages, some nothing but messages
    return [kind() for kind in source.choices(kinds, weights, k=source.randrange(20))]


def content(shown: tuple[Block, ...]) -> list[dict[str, Any]]:
    """Content blocks as the harness writes them."""
    rows: list[dict[str, Any]] = []
    for block in shown:
        match block:
            case Text(text=text):
                rows.append({"type": "text", "text": text})
            case Reasoning(text=text):
                rows.append({"type": "reasoning", "text": text})
            case ToolUse(id=call, name=name, input=given):
                rows.append({"type": "tool-call", "id": call, "name": name, "input": given})
            case Image(data=data):
                rows.append({"type": "image", "data": data})
    return rows


def chunk(kind: str, text: str) -> dict[str, Any]:
    """One streamed chunk."""
    return {
        "type": "assistant/chunk",
        "data": {"turn": 1, "step": 1, "chunk": {"type": kind, "index": 0, "text": text}},
    }


def in_their_words(event: Event) -> dict[str, Any]:
    """The event as the harness would have sent it."""
    match event:
        case TextDelta(text=text):
            return chunk("text-delta", text)
        case ReasoningDelta(text=text):
            return chunk("reasoning-delta", text)
        case Message(content=shown):
            message = {"role": "assistant", "content": content(shown), "source": {"kind": "model"}}
            return {"type": "assistant/message", "data": {"turn": 1, "step": 1, "message": message}}
        case ToolCall(id=call, name=name):
            return {"type": "tool/call", "data": {"toolCallId": call, "name": name}}
        case ToolResult(id=call, content=shown):
            return {
                "type": "tool/result",
                "data": {"message": {"role": "tool", "toolCallId": call, "content": content(shown)}},
            }
        case _:
            return {"type": "assistant/attempt", "data": {"turn": 1, "step": 1}}


def ours(output: tuple[Block, ...] | None) -> list[dict[str, Any]] | None:
    """Our output in their words."""
    return None if output is None else content(output)


@pytest.fixture(scope="module")
def judged() -> list[tuple[list[Event], list[str | None], dict[str, Any]]]:
    """The sequences, the raw texts pushed between their events, and what the origin selects from each."""
    source = random.Random(20260810)
    rows = []
    for _ in range(SEQUENCES):
        events = sequence(source)
        rows.append((events, [source.choice((None, None, *TEXTS)) for _ in events]))
    lines = [json.dumps({"events": [in_their_words(e) for e in events], "texts": texts}) for events, texts in rows]
    assert PACKAGE.is_dir(), f"run {Path(sys.executable).name} scripts/install_origin_fold.py first"
    answer = subprocess.run(
        ["node", Path(__file__).with_name("origin_fold.mjs"), PACKAGE],
        input="\n".join(lines),
        capture_output=True,
        check=True,
        text=True,
        encoding="utf-8",
    )
    answers = [json.loads(line) for line in answer.stdout.split("\n") if line]
    assert len(answers) == SEQUENCES
    return [(events, texts, found) for (events, texts), found in zip(rows, answers, strict=True)]


def test_the_sequences_reach_every_source(judged: list[tuple[list[Event], list[str | None], dict[str, Any]]]) -> None:
    """Some select a message, some streamed text and some nothing: the comparison compares something."""
    found = [answer["whole"] for _, _, answer in judged]
    streamed = [row for row, (events, _, _) in zip(found, judged, strict=True) if row and not messages(events)]
    assert min(found.count(None), len(streamed), len(found) - found.count(None) - len(streamed)) > SEQUENCES // 50


def messages(events: list[Event]) -> bool:
    """Whether some message has content."""
    return any(type(event) is Message and event.content for event in events)


def test_a_whole_sequence_selects_what_the_origin_selects(
    judged: list[tuple[list[Event], list[str | None], dict[str, Any]]],
) -> None:
    """`final_output` agrees with the origin's function over a complete suffix."""
    differing = [events for events, _, answer in judged if answer["whole"] != ours(final_output(events))]
    assert [] == differing


def test_pushing_selects_what_the_origin_selects(
    judged: list[tuple[list[Event], list[str | None], dict[str, Any]]],
) -> None:
    """An `OutputFold` fed with events and raw texts agrees with the origin's incremental fold."""
    differing = []
    for events, texts, answer in judged:
        fold = OutputFold()
        for event, text in zip(events, texts, strict=True):
            fold.push(event)
            if text is not None:
                fold.push_text(text)
        if answer["pushed"] != ours(fold.collect()):
            differing.append((events, texts))
    assert [] == differing
