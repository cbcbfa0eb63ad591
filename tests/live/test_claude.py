"""The Claude backend on the real native CLI, against the scripted model server. Run inside a loopback namespace."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import lastsay
from lastsay.backends import claude
from lastsay.errors import SourceError, UsageError
from lastsay.events import Event, Message, Notice, RunEnded, TextDelta, ToolResult
from lastsay.fold import Outcome, RunFold
from lastsay.testing import claude_offline_options as offline_options
from lastsay.testing.model_server import CallTool, EndBlock, Hang, ModelServer, Say, Scenario, marker, model_server

sdk = pytest.importorskip("claude_agent_sdk", reason="the claude extra is not installed")

pytestmark = [pytest.mark.live, pytest.mark.asyncio, pytest.mark.timeout(60)]

TEXT = "The harbour opens at six and the ferry leaves at seven."
DELEGATE = {"tools": ["Agent"]}


def _agent(child: str, *, background: bool = False) -> CallTool:
    given = {"description": "A child", "subagent_type": "general-purpose", "run_in_background": background}
    return CallTool("Agent", {**given, "prompt": f"Work. {child}"})


PARALLEL = Scenario(
    "two-children",
    "two children in the foreground in one message",
    (
        (Say("Two at once."), _agent(marker("text", text="From one.")), _agent(marker("text", text="From two."))),
        (Say("Both are back."),),
    ),
)
BACKGROUND = Scenario(
    "background",
    "a child in the background, and an answer after its notification",
    (
        (Say("I send it off."), _agent(marker("text", text="From afar.", delay="0.1"), background=True)),
        (Say("It is on its way."),),
        (Say("It has come."),),
    ),
)
CUT_IN_TOOL = Scenario(
    "hang-in-tool", "a finished text block, and then silence", ((Say("Finished block."), EndBlock(), Hang()),)
)


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    """A model server for all tests: it keeps no state that a conversation could see of another."""
    with model_server(scenarios=(PARALLEL, BACKGROUND, CUT_IN_TOOL)) as running:
        yield running


OTHER_CLI = os.environ.get("LASTSAY_CLAUDE_CLI")
"""Path of another version of the CLI to run all of this on, to see drift."""


def claude_offline_options(url: str, home: Path, **fields: Any) -> Any:
    """Offline options, for the CLI under test."""
    return offline_options(url, home, **{**({"cli_path": OTHER_CLI} if OTHER_CLI else {}), **fields})


def processes(home: Path) -> list[int]:
    """Processes that were started with this HOME."""
    wanted = f"HOME={home}\0".encode()
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal() and wanted in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found


class Folded:
    """All events of a run, and the outcome of each run in them."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.folds: dict[str, RunFold] = {}

    def push(self, batch: list[Event]) -> None:
        self.events += batch
        for event in batch:
            self.folds.setdefault(event.run, RunFold()).push(event)

    @property
    def outcomes(self) -> list[Outcome]:
        """The root's outcome first."""
        return [fold.outcome() for fold in self.folds.values()]

    @property
    def outcome(self) -> Outcome:
        return self.outcomes[0]

    def of(self, kind: type[Any], run: str = "main") -> list[Any]:
        return [event for event in self.events if type(event) is kind and event.run == run]


async def played(server: ModelServer, home: Path, prompt: str, **fields: Any) -> Folded:
    """The prompt's run, to its end."""
    folded = Folded()
    options = claude_offline_options(server.url, home, **fields)
    async with claude.stream(f"Go on. {prompt}", options).batches() as batches:
        async for batch in batches:
            folded.push(batch)
    assert [] == processes(home)
    return folded


def on_disk(home: Path) -> Folded:
    """The one session below the home, read from its files."""
    (path,) = (home / "config" / "projects").glob("*/*.jsonl")
    assert claude.looks_like(path.read_bytes()[:65536])
    folded = Folded()
    for batch in claude.events_of(path):
        folded.push(batch)
    return folded


def digests(folded: Folded) -> list[str]:
    """The digest of each run's outcome, in the order in which they began."""
    return [outcome.digest for outcome in folded.outcomes]


@pytest.mark.parametrize(
    ("prompt", "fields", "stop", "raw", "text"),
    [
        (marker("text"), {}, "completed", "end_turn", TEXT),
        (marker("two-blocks"), {}, "completed", "end_turn", "First block.Second block."),
        (marker("thinking-then-text"), {}, "completed", "end_turn", TEXT),
        (marker("max-tokens"), {}, "max-tokens", "max_tokens", "Fourth piece. "),
        (marker("max-tokens-once"), {}, "completed", "end_turn", "The rest."),
        (marker("http-error-after-text"), {}, "error", "server_error", "I look it up."),
        (marker("http-error-after-text", status="400"), {}, "error", "unknown", "I look it up."),
        (marker("refusal-after-text"), {}, "refusal", "refusal", "I look it up."),
        (marker("cut-once"), {"max_retries": 2}, "completed", "end_turn", TEXT),
    ],
    ids=lambda value: value.split(":")[-1][:28] if isinstance(value, str) and "[[" in value else "",
)
async def test_live_and_disk_agree(
    server: ModelServer, tmp_path: Path, prompt: str, fields: dict[str, Any], stop: str, raw: str, text: str
) -> None:
    """Stop reason, raw word and text are the expected ones, and the session file gives the same digest."""
    live = await played(server, tmp_path, prompt, **fields)
    assert (stop, raw, text) == (live.outcome.stop_reason, live.outcome.raw_stop_reason, live.outcome.text)
    assert digests(live) == digests(on_disk(tmp_path))


@pytest.mark.parametrize(
    ("prompt", "fields", "stop", "text"),
    [
        (marker("tool-then-empty"), {}, "completed", "I look it up."),
        (marker("max-tokens-in-tool"), {}, "completed", "I write the report now."),
        (marker("max-tokens-in-tool-always"), {"max_turns": 3}, "max-turns", "I write the report now."),
        (marker("empty"), {}, "completed", None),
    ],
    ids=["tool-then-empty", "max-tokens-in-tool", "max-turns", "empty"],
)
async def test_text_outlives_what_follows(
    server: ModelServer, tmp_path: Path, prompt: str, fields: dict[str, Any], stop: str, text: str | None
) -> None:
    """An empty turn and a cut tool call do not replace earlier text; the disk keeps the text, but not the end."""
    live = await played(server, tmp_path, prompt, **fields)
    assert (stop, text) == (live.outcome.stop_reason, live.outcome.text)
    assert text == on_disk(tmp_path).outcome.text


async def test_the_harness_own_result_is_beside(server: ModelServer, tmp_path: Path) -> None:
    """After an empty turn the CLI's result is empty; it stands in the end record, beside the agreed text."""
    live = await played(server, tmp_path, marker("tool-then-empty"))
    (ended,) = live.of(RunEnded)
    assert ("", "I look it up.") == (ended.terminal, live.outcome.text)


async def test_api_error_text_is_diagnostic_only(server: ModelServer, tmp_path: Path) -> None:
    """The synthetic API-error message is in the stream, and in the diagnostic, and nowhere in the output."""
    live = await played(server, tmp_path, marker("http-error-after-text"))
    assert ["synthetic"] == [m.origin for m in live.of(Message) if m.origin != "model"]
    assert "scripted failure" in (live.outcome.diagnostic or "")
    assert None is live.of(RunEnded)[0].terminal


async def test_sigkill_keeps_the_deltas(server: ModelServer, tmp_path: Path) -> None:
    """A CLI killed in mid-stream ends its run as an error of unknown provenance, with the streamed text."""
    folded = Folded()
    options = claude_offline_options(server.url, tmp_path)
    async with claude.stream(marker("slow"), options).batches() as batches:
        async for batch in batches:
            folded.push(batch)
            if any(type(event) is TextDelta for event in batch):
                for pid in processes(tmp_path):
                    os.kill(pid, signal.SIGKILL)
    (ended,) = folded.of(RunEnded)
    assert ("error", "SIGKILL", "unknown", -9) == (ended.stop_reason, ended.raw, ended.provenance, ended.exit_status)
    assert "streamed" == folded.outcome.source
    assert TEXT.startswith(folded.outcome.text or "-")


async def test_sigkill_keeps_a_finished_block(server: ModelServer, tmp_path: Path) -> None:
    """A block that was finished when the CLI was killed is a message, marked as interrupted."""
    folded = Folded()
    options = claude_offline_options(server.url, tmp_path)
    async with claude.stream(marker("hang-in-tool"), options).batches() as batches:
        async for batch in batches:
            folded.push(batch)
            if any(type(event) is TextDelta for event in batch):
                await asyncio.sleep(0.5)
                for pid in processes(tmp_path):
                    os.kill(pid, signal.SIGKILL)
    assert "Finished block." == folded.outcome.text
    assert "error" == folded.outcome.stop_reason


async def test_cancelled_in_mid_stream(server: ModelServer, tmp_path: Path) -> None:
    """Our own cancellation gives an aborted outcome with the text so far, and leaves no process behind."""
    started = asyncio.Event()
    runs: list[lastsay.run.Run] = []

    async def consume() -> None:
        stream = claude.stream(marker("hang"), claude_offline_options(server.url, tmp_path))
        async with lastsay.open_run(stream) as run:
            runs.append(run)
            async for event in run:
                if type(event) is TextDelta and run.snapshot().text == "So far I know that the harbour":
                    started.set()

    task = asyncio.create_task(consume())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    outcome = runs[0].outcome
    assert ("aborted", "So far I know that the harbour") == (outcome.stop_reason, outcome.text)
    assert [] == processes(tmp_path)


async def test_left_early(server: ModelServer, tmp_path: Path) -> None:
    """Leaving at the first event ends the CLI, though its request hangs."""
    async with claude.stream(marker("hang-first"), claude_offline_options(server.url, tmp_path)) as events:
        async for _ in events:
            assert [] != processes(tmp_path)
            break
    assert [] == processes(tmp_path)


async def test_entered_twice(server: ModelServer, tmp_path: Path) -> None:
    """A stream is a recipe: each entry is a new run."""
    stream = claude.stream(marker("text"), claude_offline_options(server.url, tmp_path))
    assert [TEXT, TEXT] == [(await lastsay.collect(stream)).text for _ in range(2)]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"cli_path": "/nowhere/claude"}, "options.cli_path"),
        ({"cwd": "/nowhere"}, "working directory"),
        ({"extra_args": {"no-such-flag": None}}, "no-such-flag"),
        ({"resume": "12345678-1234-1234-1234-123456789012"}, "No conversation found"),
        ({"cli_path": "/bin/false"}, "exit status 1"),
    ],
    ids=["no-cli", "no-directory", "bad-flag", "bad-session", "no-claude"],
)
async def test_cannot_start(server: ModelServer, tmp_path: Path, fields: dict[str, Any], words: str) -> None:
    """A CLI that cannot start raises on entry, and the message says why."""
    with pytest.raises(SourceError, match=words):
        async with claude.stream("Hello.", claude_offline_options(server.url, tmp_path, **fields)):
            pass
    assert [] == processes(tmp_path)


async def test_child_cut_by_max_tokens(server: ModelServer, tmp_path: Path) -> None:
    """The native tool result of a child cut at the limit is an error text; its last piece is the agreed output."""
    live = await played(server, tmp_path, marker("delegate", child="max-tokens"), **DELEGATE)
    root, child = live.outcomes
    assert ("completed", "The child has reported.") == (root.stop_reason, root.text)
    assert ("max-tokens", "Fourth piece. ") == (child.stop_reason, child.text)
    (result,) = live.of(ToolResult)
    assert result.is_error
    assert "Fourth" not in str(result.content)
    assert digests(live) == digests(on_disk(tmp_path))


@pytest.mark.parametrize(
    ("child", "status", "stop", "text"),
    [
        ("http-error-after-text", "500", "error", "I look it up."),
        ("http-error-after-text", "400", "error", "I look it up."),
        ("refusal-after-text", "", "refusal", "I look it up."),
        ("tool-then-empty", "", "completed", "I look it up."),
        ("empty", "", "error", None),
    ],
)
async def test_child_endings(
    server: ModelServer, tmp_path: Path, child: str, status: str, stop: str, text: str | None
) -> None:
    """However a child ends, its last text and its own stop reason are kept, live and on disk."""
    prompt = marker("delegate", child=child, **({"child.status": status} if status else {}))
    live = await played(server, tmp_path, prompt, **DELEGATE)
    assert (stop, text) == (live.outcomes[1].stop_reason, live.outcomes[1].text)
    assert digests(live) == digests(on_disk(tmp_path))


async def test_child_at_its_turn_limit(server: ModelServer, tmp_path: Path) -> None:
    """The CLI calls a child completed that met its limit of turns; the stream shows that it was not."""
    given = json.dumps({"description": "A child", "subagent_type": "worker", "run_in_background": False})
    worker = sdk.AgentDefinition(description="A worker", prompt="Work.", maxTurns=2)
    prompt = marker("delegate", child="max-tokens-in-tool-always", input=given)
    live = await played(server, tmp_path, prompt, tools=["Agent"], agents={"worker": worker})
    child = live.outcomes[1]
    assert ("max-turns", "completed", "recovered") == (child.stop_reason, child.raw_stop_reason, child.provenance)
    assert digests(live) == digests(on_disk(tmp_path))


async def test_parallel_children(server: ModelServer, tmp_path: Path) -> None:
    """Two children at once are two runs with one parent, each with its own answer."""
    live = await played(server, tmp_path, marker("two-children"), **DELEGATE)
    root, *children = live.outcomes
    assert "Both are back." == root.text
    assert ["From one.", "From two."] == sorted(child.text or "" for child in children)
    starts = [fold.started for fold in live.folds.values() if fold.started is not None][1:]
    assert [("main", "general-purpose")] * 2 == [(start.parent, start.agent) for start in starts]
    assert sorted(digests(live)) == sorted(digests(on_disk(tmp_path)))


async def test_background_child(server: ModelServer, tmp_path: Path) -> None:
    """The root ends once, after the answer to the child's notification."""
    live = await played(server, tmp_path, marker("background"), **DELEGATE)
    root, child = live.outcomes
    assert ("completed", "It has come.") == (root.stop_reason, root.text)
    assert ("completed", "From afar.") == (child.stop_reason, child.text)
    assert 1 == len(live.of(RunEnded))
    assert type(live.events[-1]) is RunEnded
    assert digests(live) == digests(on_disk(tmp_path))


async def test_nested_children(server: ModelServer, tmp_path: Path) -> None:
    """A child's child has the child as its parent, live and on disk."""
    prompt = marker("delegate", child="delegate", **{"child.child": "text"})
    live = await played(server, tmp_path, prompt, **DELEGATE)
    names = list(live.folds)
    assert [None, names[0], names[1]] == [fold.started and fold.started.parent for fold in live.folds.values()]
    assert digests(live) == digests(on_disk(tmp_path))


async def test_without_partial_messages(server: ModelServer, tmp_path: Path) -> None:
    """Without deltas the outcome is the same."""
    options = claude_offline_options(server.url, tmp_path)
    outcome = await lastsay.collect(claude.stream(marker("two-blocks"), options, partial_messages=False))
    assert ("completed", "First block.Second block.") == (outcome.stop_reason, outcome.text)


class Client:
    """A client of the SDK that the caller owns, interrupted once something has come."""

    def __init__(self, options: Any, prompt: str, when: type[Any]) -> None:
        self.options, self.prompt, self.when = options, prompt, when

    async def messages(self) -> AsyncIterator[Any]:
        async with sdk.ClaudeSDKClient(self.options) as client:
            await client.query(self.prompt)
            pending = True
            async for message in client.receive_response():
                yield message
                if pending and type(message) is self.when:
                    pending = False
                    await asyncio.sleep(0.3)
                    await client.interrupt()


@pytest.mark.parametrize(
    ("prompt", "when", "raw", "text"),
    [
        (marker("hang"), "StreamEvent", "aborted_streaming", "So far I know that the harbour"),
        (marker("delegate", child="hang"), "TaskStartedMessage", "aborted_tools", "I hand this over."),
    ],
    ids=["text", "child"],
)
async def test_interrupt(server: ModelServer, tmp_path: Path, prompt: str, when: str, raw: str, text: str) -> None:
    """An interrupt is aborted whatever the stale stop reason says, with the text so far; children end aborted too."""
    options = claude_offline_options(server.url, tmp_path, include_partial_messages=True, **DELEGATE)
    client = Client(options, prompt, getattr(sdk, when))
    folded = Folded()
    async with claude.events(client.messages).batches() as batches:
        async for batch in batches:
            folded.push(batch)
    assert ("aborted", raw, text) == (
        folded.outcome.stop_reason,
        folded.outcome.raw_stop_reason,
        folded.outcome.text,
    )
    assert {"aborted"} == {outcome.stop_reason for outcome in folded.outcomes}
    assert digests(folded) == digests(on_disk(tmp_path))


async def test_sdk_messages_give_the_same(server: ModelServer, tmp_path: Path) -> None:
    """The SDK's own messages, around which `events` is wrapped, fold to the same outcomes as the raw records."""
    prompt = f"Go on. {marker('delegate', child='max-tokens')}"
    live = await played(server, tmp_path / "a", prompt, **DELEGATE)
    flags = {"include_partial_messages": True, "forward_subagent_text": True}
    options = claude_offline_options(server.url, tmp_path / "b", **flags, **DELEGATE)
    folded = Folded()
    async with claude.events(lambda: sdk.query(prompt=prompt, options=options)).batches() as batches:
        async for batch in batches:
            folded.push(batch)
    assert digests(live) == digests(folded)


async def test_error_results_do_not_raise(server: ModelServer, tmp_path: Path) -> None:
    """The SDK raises after an error result; around its messages too that is an outcome."""
    options = claude_offline_options(server.url, tmp_path, max_turns=1)
    messages = sdk.query(prompt=marker("tool-then-text"), options=options)
    outcome = await lastsay.collect(claude.events(messages))
    assert ("max-turns", "I look it up.") == (outcome.stop_reason, outcome.text)


async def test_in_process_tools_and_native_receipts(server: ModelServer, tmp_path: Path) -> None:
    """An in-process MCP tool is served, and its result carries what the CLI recorded of it."""

    @sdk.tool("lookup", "Looks up", {"query": str})
    async def lookup(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": f"about {arguments['query']}"}]}

    mcp = sdk.create_sdk_mcp_server("functions", tools=[lookup])
    name = "mcp__functions__lookup"
    prompt = marker("tool-then-text", tool=name, input='{"query": "tides"}')
    fields = {"mcp_servers": {"functions": mcp}, "allowed_tools": [name]}
    live = await played(server, tmp_path, prompt, **fields)
    (result,) = live.of(ToolResult)
    assert [{"type": "text", "text": "about tides"}] == result.native["tool_use_result"]
    assert (False, False, None) == tuple(
        result.native[key] for key in ("isSynthetic", "isReplay", "parent_tool_use_id")
    )
    assert result.native["session_id"]
    assert ("completed", TEXT) == (live.outcome.stop_reason, live.outcome.text)


async def test_standard_error_is_handed_on(server: ModelServer, tmp_path: Path) -> None:
    """The caller's stderr callback gets the CLI's lines; nothing is printed."""
    lines: list[str] = []
    await played(server, tmp_path, marker("text"), stderr=lines.append)
    assert any("unrecognized_model" in line for line in lines)


async def test_injected_prompts_are_marked(server: ModelServer, tmp_path: Path) -> None:
    """What the CLI tells the model in the user's name is no user message."""
    live = await played(server, tmp_path, marker("max-tokens"))
    notices = [n for n in live.of(Notice) if n.kind == "user_message"]
    assert [True] * 3 == [n.raw["meta"] for n in notices]


async def test_permissions_are_asked(server: ModelServer, tmp_path: Path) -> None:
    """The caller's permission callback is asked through the control protocol, and its refusal is an error result."""
    asked: list[str] = []

    @sdk.tool("lookup", "Looks up", {"query": str})
    async def lookup(_: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": "never"}]}

    async def refuse(name: str, _input: dict[str, Any], _context: Any) -> Any:
        asked.append(name)
        return sdk.PermissionResultDeny(message="not today")

    name = "mcp__functions__lookup"
    mcp = sdk.create_sdk_mcp_server("functions", tools=[lookup])
    prompt = marker("tool-then-text", tool=name, input='{"query": "tides"}')
    live = await played(server, tmp_path, prompt, mcp_servers={"functions": mcp}, can_use_tool=refuse)
    (result,) = live.of(ToolResult)
    assert ([name], True) == (asked, result.is_error)
    assert "not today" in str(result.content)
    assert ("completed", TEXT) == (live.outcome.stop_reason, live.outcome.text)


async def test_each_prompt_of_a_conversation_is_an_epoch(server: ModelServer, tmp_path: Path) -> None:
    """Prompts that come one after the other on one CLI: one start, and per prompt one end and one outcome."""
    answered = asyncio.Event()

    async def prompts() -> AsyncIterator[dict[str, Any]]:
        for text in ("First.", "Second."):
            answered.clear()
            content = f"Go on. {marker('text', text=text)}"
            yield {"type": "user", "message": {"role": "user", "content": content}, "parent_tool_use_id": None}
            await answered.wait()

    texts = []
    options = claude_offline_options(server.url, tmp_path)
    async with lastsay.open_run(claude.stream(prompts(), options)) as run:
        async for event in run:
            if type(event) is RunEnded:
                texts.append(run.snapshot().text)
                answered.set()
    assert ["First.", "Second."] == texts
    assert [0, 1] == [activation.start.epoch for activation in run.activations]
    assert [] == processes(tmp_path)


@pytest.mark.parametrize(
    "fields", [{"user": "nobody"}, {"session_store": object(), "resume": "x"}], ids=["user", "session-store"]
)
async def test_options_that_cannot_be_honoured(server: ModelServer, tmp_path: Path, fields: dict[str, Any]) -> None:
    """An option that would be lost is refused, and the message names it."""
    with pytest.raises(UsageError, match=f"options.{next(iter(fields))}"):
        async with claude.stream("Hello.", claude_offline_options(server.url, tmp_path, **fields)):
            pass
