"""The backend contract, and backends that break it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from lastsay.backends import acp, claude, dsh, in_process, scripted
from lastsay.events import Event, Message, Notice, RunEnded, RunStarted, Text, TextDelta
from lastsay.operators import Stream
from lastsay.testing import _backends
from lastsay.testing._backends import BackendCheckError, check_backend
from lastsay.testing.acp_agent import command

GOOD: list[list[Event]] = [
    [RunStarted(backend="scripted")],
    [TextDelta("Hello ", "m1"), TextDelta("there.", "m1")],
    [Message((Text("Hello there."),), "m1")],
    [RunEnded("completed")],
]

FIXTURES = Path(__file__).parent.parent / "fixtures"
INITIALIZED = {"id": 1, "result": {"protocolVersion": 1, "agentInfo": {"name": "claude", "version": "1"}}}
OPENED = {"id": 2, "result": {"sessionId": "s", "models": {"currentModelId": "large"}}}
ANSWER = {
    "id": 3,
    "result": {"stopReason": "end_turn", "usage": {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}},
}


def update(kind: str, /, **fields: Any) -> dict[str, Any]:
    """An update of the session."""
    return {"method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": kind, **fields}}}


def text(content: str) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": content}


FRAMES = [
    INITIALIZED,
    OPENED,
    update("agent_thought_chunk", content=text("Hm."), messageId="t1"),
    update("agent_message_chunk", content=text("Let me look."), messageId="m0", _meta={"claudeCode": {"kind": "x"}}),
    update("tool_call", toolCallId="c1", title="List", kind="execute", status="pending", rawInput={"command": "ls"}),
    {
        "id": 9,
        "method": "session/request_permission",
        "params": {
            "sessionId": "s",
            "toolCall": {"toolCallId": "c1"},
            "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}],
        },
    },
    update(
        "tool_call_update", toolCallId="c1", status="completed", content=[{"type": "content", "content": text("a.txt")}]
    ),
    update("subagent_update", sessionId="child", title="helper", state={"state": "running"}),
    update("subagent_update", sessionId="child", state={"state": "idle", "stopReason": "end_turn"}),
    update("agent_message", messageId="m1", content=[text("Hello there.")]),
    update("agent_message_chunk", content=text("!"), messageId="m1"),
    {"method": "_session/retrying", "params": {"sessionId": "s"}},
    ANSWER,
]
LINES = [json.dumps(frame).encode() for frame in FRAMES]


@pytest.mark.asyncio
async def test_scripted_backend() -> None:
    """The shipped scripted backend keeps the contract."""
    passed = await check_backend(lambda: scripted.stream(GOOD))
    assert passed == ("complete", "speaks", "again", "kept", "unused", "left_early", "cancelled")


@pytest.mark.asyncio
@pytest.mark.parametrize("mode", ["normal", "no_ids", "children", "late_text"])
async def test_acp_backend(mode: str) -> None:
    """The ACP backend keeps the contract, with and without message ids, and with child sessions."""
    await check_backend(lambda: acp.stream(command(mode), "Hi.", linger=0.2))


async def pulled() -> AsyncIterator[Any]:
    """An agent loop of one's own."""
    yield "Hello "
    await anyio.lowlevel.checkpoint()
    yield {"role": "assistant", "content": "Hello there."}


async def pushing(handle: in_process.Handle) -> None:
    """The same with callbacks."""
    handle.push("Hello ")
    await anyio.sleep(0.01)
    handle.push({"role": "assistant", "content": "Hello there."})


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "make", [lambda: in_process.stream(pulled), lambda: in_process.pushed(pushing)], ids=["pulled", "pushed"]
)
async def test_in_process_backend(make: Callable[[], Stream]) -> None:
    """One's own loop keeps the contract."""
    await check_backend(make)


def fixture(name: str, key: str | None = None) -> list[Any]:
    """The first frames of a recording, as objects."""
    lines = (FIXTURES / name).read_bytes().splitlines()
    frames = [json.loads(line) for line in lines if len(line) < 3000]
    return [frame[key] if key else frame for frame in frames][:14]


PLAIN = ["Hello ", {"role": "assistant", "content": "x"}, {"role": "tool", "tool_call_id": "c", "content": [text("y")]}]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("normaliser", "frames"),
    [
        pytest.param(acp.Normaliser, FRAMES, id="acp"),
        pytest.param(acp.Normaliser, LINES, id="acp_lines"),
        pytest.param(claude.Normaliser, fixture("claude/child-refusal.jsonl"), id="claude"),
        pytest.param(dsh.WireNormaliser, fixture("dsh/0.1.5rc1/cut-tool.wire.jsonl", "frame"), id="dsh_wire_b"),
        pytest.param(dsh.WireNormaliser, fixture("dsh/0.2.1rc2/cut-tool.wire.jsonl", "frame"), id="dsh_wire_c"),
        pytest.param(dsh.LogNormaliser, fixture("dsh/0.1.1rc1/cut-tool.0.session.jsonl"), id="dsh_log_a"),
        pytest.param(dsh.LogNormaliser, fixture("dsh/0.2.1rc2/cut-tool.0.session.jsonl"), id="dsh_log_c"),
        pytest.param(in_process.PlainNormaliser, PLAIN, id="in_process"),
    ],
)
async def test_normalisers_are_total(normaliser: Any, frames: list[Any]) -> None:
    """No frame, bent in any place, makes one raise, or end a run twice."""
    skip = ("complete", "speaks", "again", "kept", "unused", "left_early", "cancelled")
    assert ("total",) == await check_backend(
        lambda: scripted.stream(GOOD), normaliser=normaliser, frames=frames, skip=skip
    )


def leaking() -> Stream:
    """A stream that leaves a task behind."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        leaks.append(asyncio.create_task(anyio.sleep(30)))
        async with scripted.stream(GOOD).opened() as batches:
            yield batches

    leaks: list[Any] = []
    return Stream(opened)


BROKEN: list[tuple[str, Callable[[], Stream]]] = [
    ("complete: the stream is empty", lambda: scripted.stream([])),
    ("complete: the first event must start", lambda: scripted.stream(GOOD[1:])),
    ("complete: runs without an end", lambda: scripted.stream(GOOD[:-1])),
    ("complete: outside of its run", lambda: scripted.stream([*GOOD, [Notice("late")]])),
    ("complete: outside of its run", lambda: scripted.stream([*GOOD, *GOOD[-1:]])),
    ("complete: run 'main' is started twice", lambda: scripted.stream([GOOD[0], *GOOD])),
    (
        "complete: run 'child' starts before its parent",
        lambda: scripted.stream([GOOD[0], [RunStarted(run="child", parent="other")], *GOOD[1:]]),
    ),
    ("speaks: ", lambda: scripted.stream([GOOD[0], GOOD[-1]])),
    ("complete: tasks are left behind", leaking),
]


@pytest.mark.asyncio
@pytest.mark.parametrize(("message", "make"), BROKEN)
async def test_a_backend_that_breaks_the_contract_is_told_how(
    message: str, make: Callable[[], Stream], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the check and what is wrong."""
    monkeypatch.setattr(_backends, "_SETTLE", 0.2)
    with pytest.raises(BackendCheckError, match=f"^{message}"):
        await check_backend(make)


@pytest.mark.asyncio
async def test_a_stream_that_differs_at_its_second_entry_is_found() -> None:
    """A stream is a recipe: each entry gives the same run."""
    count = iter(range(100))

    async def batches() -> AsyncIterator[list[Event]]:
        yield GOOD[0]
        yield [TextDelta("x" * (1 + next(count)), "m1")]
        yield GOOD[-1]

    with pytest.raises(BackendCheckError, match=r"^again: "):
        await check_backend(lambda: Stream.from_batches(batches))


class Raising:
    """A normaliser that raises for text."""

    def push(self, raw: Any) -> list[Event]:
        """Raise for text."""
        if isinstance(raw, str):
            raise ValueError(raw)
        return []

    def close(self) -> list[Event]:
        """End nothing."""
        return []


class EndingTwice(Raising):
    """A normaliser whose close is not idempotent."""

    def push(self, raw: Any) -> list[Event]:
        """Take anything."""
        return []

    def close(self) -> list[Event]:
        """End the run, again and again."""
        return [RunEnded("completed")]


@pytest.mark.asyncio
@pytest.mark.parametrize(("normaliser", "message"), [(Raising, "push raised"), (EndingTwice, "the second close")])
async def test_a_normaliser_that_breaks_the_contract_is_told_how(normaliser: Any, message: str) -> None:
    """The error names the input."""
    with pytest.raises(BackendCheckError, match=f"^total: {message}"):
        await check_backend(lambda: scripted.stream(GOOD), normaliser=normaliser)
