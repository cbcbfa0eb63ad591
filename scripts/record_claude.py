"""Record what the real Claude Code CLI writes, for the unit tests of the Claude backend.

Usage: python scripts/loopback_only.py python scripts/record_claude.py [NAME...]

Each scenario is played on the native CLI against the scripted model server. Its output goes to
tests/fixtures/claude/NAME.jsonl, one record a line, and its session files to tests/fixtures/claude/NAME.session/.
What the harness itself says is replaced by HARNESS, ids are numbered, and fields that no rule reads are left out: what
stays is ours, small, and the same in every recording of one version.
"""

import asyncio
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from claude_agent_sdk import AgentDefinition, ClaudeSDKClient, query
from claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport

from lastsay.testing import claude_offline_options
from lastsay.testing.model_server import CallTool, Hang, Say, Scenario, marker, model_server

FOLDER = Path(__file__).parent.parent / "tests" / "fixtures" / "claude"
HARNESS = "(words of the harness)"
WORKER = {"description": "A child", "subagent_type": "worker", "run_in_background": False}


def agent(child: str, *, background: bool = False) -> CallTool:
    """A call of the delegation tool."""
    given = {"description": "A child", "subagent_type": "general-purpose", "run_in_background": background}
    return CallTool("Agent", {**given, "prompt": f"Work. {child}"})


SCENARIOS = (
    Scenario(
        "two-children",
        "two children in the foreground in one message",
        (
            (Say("Two at once."), agent(marker("text", text="From one.")), agent(marker("text", text="From two."))),
            (Say("Both are back."),),
        ),
    ),
    Scenario(
        "background",
        "a child in the background, and an answer after its notification",
        (
            (Say("I send it off."), agent(marker("text", text="From afar.", delay="0.1"), background=True)),
            (Say("It is on its way."),),
            (Say("It has come."),),
        ),
    ),
    Scenario("silence", "one delta, and then silence", ((Say(("So far I know", "")), Hang()),)),
)


@dataclass
class Recording:
    """One scenario to play: its prompt, the CLI's options, and what is done to it on the way."""

    prompt: str
    options: dict[str, Any] = field(default_factory=dict)
    interrupt_at: str | None = None
    kill_at: str | None = None


def delegate(**arguments: str) -> Recording:
    """A recording of a parent with one child."""
    return Recording(marker("delegate", **arguments), {"tools": ["Agent"]})


RECORDINGS = {
    "text": Recording(marker("text")),
    "two-blocks": Recording(marker("two-blocks")),
    "thinking-then-text": Recording(marker("thinking-then-text")),
    "empty": Recording(marker("empty")),
    "whitespace": Recording(marker("whitespace")),
    "tool-then-empty": Recording(marker("tool-then-empty")),
    "parallel-tools": Recording(marker("parallel-tools")),
    "max-tokens": Recording(marker("max-tokens")),
    "max-tokens-once": Recording(marker("max-tokens-once")),
    "max-tokens-in-tool": Recording(marker("max-tokens-in-tool")),
    "max-turns": Recording(marker("tool-then-text"), {"max_turns": 1}),
    "http-500": Recording(marker("http-error-after-text")),
    "http-400": Recording(marker("http-error-after-text", status="400")),
    "refusal": Recording(marker("refusal-after-text")),
    "interrupted": Recording(marker("silence"), interrupt_at="StreamEvent"),
    "killed": Recording(marker("silence"), kill_at="text_delta"),
    "child": delegate(child="two-blocks"),
    "child-max-tokens": delegate(child="max-tokens"),
    "child-http-500": delegate(child="http-error-after-text"),
    "child-http-400": delegate(child="http-error-after-text", **{"child.status": "400"}),
    "child-refusal": delegate(child="refusal-after-text"),
    "child-empty": delegate(child="empty"),
    "child-interrupted": Recording(
        marker("delegate", child="silence"), {"tools": ["Agent"]}, interrupt_at="TaskStartedMessage"
    ),
    "child-max-turns": Recording(
        marker("delegate", child="max-tokens-in-tool-always", input=json.dumps(WORKER)),
        {
            "tools": ["Agent"],
            "agents": {"worker": AgentDefinition(description="A worker", prompt="Work.", maxTurns=2)},
        },
    ),
    "child-of-child": delegate(child="delegate", **{"child.child": "text"}),
    "two-children": Recording(marker("two-children"), {"tools": ["Agent"]}),
    "background": Recording(marker("background"), {"tools": ["Agent"]}),
}


class Tee(SubprocessCLITransport):
    """The SDK's transport, with all that the CLI wrote kept."""

    records: list[dict[str, Any]]

    async def _read_messages_impl(self) -> AsyncIterator[dict[str, Any]]:
        async for record in super()._read_messages_impl():
            self.records.append(record)
            yield record


async def play(recording: Recording, home: Path, url: str) -> list[dict[str, Any]]:
    """The records of one run."""
    flags = {"include_partial_messages": True, "forward_subagent_text": True, "max_buffer_size": 1 << 24}
    options = claude_offline_options(url, home, stderr=lambda _: None, **flags, **recording.options)
    transport = Tee(prompt="", options=options)
    transport.records = []
    prompt = f"Go on. {recording.prompt}"
    if recording.interrupt_at is not None:
        async with ClaudeSDKClient(options, transport=transport) as client:
            await client.query(prompt)
            await interrupt(client, recording.interrupt_at)
        return transport.records
    try:
        async for message in query(prompt=prompt, options=options, transport=transport):
            if recording.kill_at is not None and recording.kill_at in str(message):
                process = transport._process  # noqa: SLF001 - nothing else knows it
                assert process is not None
                os.kill(process.pid, signal.SIGKILL)
    except Exception as error:  # noqa: BLE001 - the SDK raises after every error result
        sys.stderr.write(f"  {type(error).__name__}\n")
    return transport.records


async def interrupt(client: ClaudeSDKClient, when: str) -> None:
    """Read until a message of that class, interrupt, and read the rest."""
    pending = True
    async for message in client.receive_response():
        if pending and type(message).__name__ == when:
            pending = False
            await asyncio.sleep(0.3)
            await client.interrupt()


# What is kept of a record.

# fmt: off
DROPPED = frozenset({
    "agents", "apiKeySource", "api_message_id", "attributionAgent", "begun_message_ids", "cache_creation",
    "context_management", "cwd", "diagnostics", "display_name", "duration_api_ms", "duration_ms", "effort",
    "entrypoint", "fallback_credit", "fast_mode_disabled_reason", "fast_mode_state", "first_content_frame_ms",
    "gitBranch", "harnessSectionHash", "inference_geo", "iterations", "madeBy", "mcp_servers", "memory_paths",
    "modelUsage", "model_usage_since_last_result", "outputFile", "output_file", "output_style",
    "output_tokens_details", "ownNote", "permissionMode", "plugins", "promptCacheRequested", "promptId",
    "promptSource", "prompt_id", "queued_turn_count", "requestId", "requestRef", "request_id", "requestedModel",
    "resolvedModel", "rowNumber", "runId", "run_id", "safety_stops", "sentAtMs", "server_tool_use", "service_tier",
    "skills", "slash_commands", "slug", "speed", "subagent_stats", "terminal_slash_commands", "thinking_display",
    "thinking_duration_ms", "time_to_request_ms", "toolInputStreamMs", "toolStats", "tools", "totalDurationMs",
    "total_cost_usd", "ttft_ms", "ttft_stream_ms", "turnCompanion", "turnOrigin", "turnPosition", "userType",
    "version",
})
# fmt: on
INIT = ("type", "subtype", "session_id", "uuid", "model", "claude_code_version")
TEXTS = frozenset({"text", "content", "result", "summary", "error", "errors", "tool_use_result", "toolUseResult"})
IDS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\ba[0-9a-f]{16}\b")
KEPT_LINES = frozenset({"assistant", "system", "user"})


class Reduction:
    """Takes out what is not ours or differs from run to run."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}
        self.said: set[str] = set()
        self.streaming = False  # what streams is the scripted model's

    def learn(self, records: list[dict[str, Any]]) -> None:
        """Note what the scripted model said, to tell it from what the harness says."""
        for record in records:
            message = record.get("message")
            if record.get("type") != "assistant" or not isinstance(message, dict):
                continue
            if message.get("model") != "<synthetic>":
                self.said |= {p["text"] for p in message.get("content", ()) if p.get("type") == "text"}

    def record(self, record: dict[str, Any]) -> dict[str, Any]:
        """The record, reduced."""
        self.streaming = record.get("type") == "stream_event"
        if record.get("subtype") == "init":
            record = {key: record[key] for key in INIT if key in record}
        if record.get("type") not in ("control_response", *KEPT_LINES) and "sessionId" in record:
            record = {key: record[key] for key in ("type", "sessionId") if key in record}
        return self.value(record, None)

    def value(self, value: Any, key: str | None) -> Any:
        """Any value, reduced; `key` is the field that it stands under."""
        if isinstance(value, dict):
            kept = {k: v for k, v in value.items() if k not in DROPPED and v is not None}
            return {k: self.value(v, k) for k, v in kept.items() if v not in ({}, []) or k == "content"}
        if isinstance(value, list):
            return [self.value(item, key) for item in value]
        return self.text(value, key) if isinstance(value, str) else value

    def text(self, text: str, key: str | None) -> str:
        """A string, without the harness's words and with numbered ids."""
        if key in TEXTS and not self.streaming and " " in text and not self.ours(text):
            within = [said for said in sorted(self.said) if said in text]
            return " ".join([HARNESS, *within])
        return IDS.sub(lambda match: self.ids.setdefault(match[0], f"id-{len(self.ids) + 1}"), text)

    def ours(self, text: str) -> bool:
        """Whether the scripted model or this script said it."""
        return text in self.said or "[[scenario:" in text or text.startswith("[Request interrupted")


def write(name: str, records: list[dict[str, Any]], projects: Path) -> None:
    """Write one recording's files."""
    reduction = Reduction()
    reduction.learn(records)
    wire = [record for record in records if not str(record.get("type")).startswith("control_")]
    dump(FOLDER / f"{name}.jsonl", [reduction.record(record) for record in wire])
    folder = FOLDER / f"{name}.session"
    shutil.rmtree(folder, ignore_errors=True)
    for path in sorted(projects.rglob("*.json*")):
        relative = path.relative_to(projects)
        parts = [reduction.text(part, None) for part in relative.parts[1:]]  # the first is the working directory
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        target = folder.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        dump(target, [reduction.record(line) for line in lines])


def dump(path: Path, records: list[dict[str, Any]]) -> None:
    """Write records, one a line."""
    path.write_text("".join(json.dumps(record, sort_keys=True) + "\n" for record in records))


def main(names: list[str]) -> None:
    """Record the scenarios named, or all."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    chosen: Callable[[str], bool] = lambda name: not names or name in names  # noqa: E731
    for name, recording in RECORDINGS.items():
        if not chosen(name):
            continue
        with tempfile.TemporaryDirectory() as home, model_server(scenarios=SCENARIOS) as server:
            records = asyncio.run(play(recording, Path(home), server.url))
            write(name, records, Path(home) / "config" / "projects")
        sys.stderr.write(f"{name}: {len(records)} records\n")


if __name__ == "__main__":
    main(sys.argv[1:])
