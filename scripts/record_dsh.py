"""Record frames and logs of the real DeepSeek Harness into tests/fixtures/dsh.

Usage: python scripts/loopback_only.py python scripts/record_dsh.py [--only NAME...] [VERSION...]

The harness runs in its side environment (scripts/install_dsh.py) against the scripted model server, in a folder of its
own, with its telemetry off. Of what it writes, its prompts and tool schemas are left out, and so are the folders of
this machine; all model text is ours. Per scenario there is one file of frames (rows of time, direction and frame) and
one log per session. The harness's own answer stands in `subagent.finished`: it is the oracle of the tests.
"""

import argparse
import asyncio
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lastsay.backends._process import ChildProcess, open_child
from lastsay.backends.dsh import WireNormaliser
from lastsay.backends.dsh._session import BULK
from lastsay.backends.dsh._zstd import PlainBytes
from lastsay.events import Fault
from lastsay.testing.model_server import CallTool, ModelServer, Say, Scenario, Sleep, Turn, marker, model_server

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "tests" / "fixtures" / "dsh"
VERSIONS = ("0.2.1rc2", "0.1.5rc1", "0.1.1rc1")
Turns = tuple[Turn, ...]


@dataclass(frozen=True)
class Recording:
    """One scenario: the prompts' markers, and what to do on the way."""

    name: str
    prompts: tuple[str, ...]
    cancel: bool = False
    kill: bool = False
    turns: Callable[[str], Turns] | None = None
    """The parent's turns under the scenario name `parent`, given the id of its first child ("" before it is known)."""
    versions: tuple[str, ...] = VERSIONS


def _delegate(child: str, *, background: bool = False, tool: str = "subagent", **arguments: str) -> CallTool:
    prompt = f"Do the work of the child. {marker(child, **arguments)}"
    options = {} if tool == "subagent_fork" else {"run_in_background": background}
    return CallTool(tool, {"description": "a child", "prompt": prompt, **options})


def _parent(*children: CallTool) -> Callable[[str], Turns]:
    return lambda _child: ((Say("I hand this over."), *children), (Say("The children have reported."),))


def _follow_up(child: str) -> Turns:
    again = CallTool("send_message", {"agent_id": child, "message": marker("max-tokens-in-tool")})
    first = _delegate("text", background=True, text="First answer.")
    waits = (Say("I wait."),)
    return (Say("I hand this over."), first), waits, (Say("Once more."), again), waits, (Say("Both have come."),)


def _interrupt(child: str) -> Turns:
    stop = CallTool("interrupt_agent", {"agent_id": child})
    return (_delegate("hang", background=True),), (Sleep(1.5), stop), (Say("I stopped it."),)


def _reported(_child: str) -> Turns:
    waits = (Say("I wait."),)
    return (
        (Say("I hand this over."), _delegate("report", background=True)),
        waits,
        waits,
        (Say("The report has come."),),
    )


def _report(arguments: Mapping[str, str]) -> Turns:  # noqa: ARG001 - what a scenario is called with
    send = CallTool("send_message", {"agent_id": "root", "message": "It opens at six."})
    return (Sleep(1.0), Say("I report."), send), (Say("I have reported."),)


DELEGATING = VERSIONS[:2]
RECORDINGS = (
    Recording("text", (marker("text"),)),
    Recording("two-epochs", (marker("thinking-then-text"), marker("max-tokens"))),
    Recording("tool-then-empty", (marker("tool-then-empty"),)),
    Recording("cut-tool", (marker("max-tokens-in-tool-always"),)),
    Recording("empty", (marker("empty"),), versions=VERSIONS[1:]),
    Recording("refusal", (marker("refusal-after-text"),)),
    Recording("http-400", (marker("http-400"),)),
    Recording("dropped", (marker("cut-always"),)),
    Recording("cancelled", (marker("hang"),), cancel=True),
    Recording("killed", (marker("hang"),), kill=True),
    Recording("follow-up", (marker("parent"),), turns=_follow_up, versions=DELEGATING),
    Recording("report", (marker("parent"),), turns=_reported, versions=DELEGATING),
    Recording("interrupted-child", (marker("parent"),), turns=_interrupt, versions=DELEGATING),
    Recording("fork", (marker("text"), marker("parent")), versions=DELEGATING,
              turns=_parent(_delegate("text", tool="subagent_fork", text="The fork's answer."))),
    Recording("retried-child", (marker("parent"),), turns=_parent(_delegate("cut-always")), versions=DELEGATING),
    Recording("parallel", (marker("parent"),), versions=DELEGATING,
              turns=_parent(_delegate("tool-then-text"), _delegate("max-tokens-in-tool"), _delegate("whitespace"),
                            _delegate("cut-always"))),
)  # fmt: skip


def command_of(version: str) -> tuple[list[str], dict[str, str]]:
    """How that version's SDK server is started, and what its environment needs."""
    folder = ROOT / f".venv-dsh-{version}"
    if (folder / "bin" / "dsh").is_file():
        return [str(folder / "bin" / "dsh"), "--profile", "sdk"], {}
    runtime = next(folder.glob("lib/*/site-packages/deepseek_harness_runtime/runtime"))
    agent = next(path for path in runtime.glob("dsh-jsonrpc-agent-pkg-*") if not path.name.endswith("-rg"))
    return [str(agent), str(runtime / "cordis.yml")], {"DSH_CORDIS_CONFIG": str(runtime / "cordis.yml")}


@dataclass
class Recorder:
    """Speaks the protocol and keeps what was said."""

    child: ChildProcess
    recording: Recording
    server: ModelServer
    rows: list[dict[str, Any]] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    wire: WireNormaliser = field(default_factory=WireNormaliser)
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)

    def keep(self, direction: str, frame: dict[str, Any]) -> None:
        """Keep one frame."""
        self.rows.append({"t": round(time.monotonic() - self.started, 3), "dir": direction, "frame": frame})
        self.wire.push(frame)

    def ask(self, method: str, params: dict[str, Any] | None = None) -> str:
        """Send a request; returns its id."""
        frame: dict[str, Any] = {"jsonrpc": "2.0", "id": f"r{len(self.answers) + 1}", "method": method}
        if params is not None:
            frame["params"] = params
        self.answers[frame["id"]] = {}
        self.keep("out", frame)
        self.child.send(json.dumps(frame).encode() + b"\n")
        return frame["id"]

    async def read(self, within: float) -> bool:
        """Take what comes; False if nothing came in time, or nothing will."""
        try:
            async with asyncio.timeout(within):
                lines = await self.child.lines()
        except TimeoutError:
            return False
        for line in lines:
            assert not isinstance(line, Fault), line
            frame = json.loads(line[1])
            self.keep("in", frame)
            if "id" in frame:
                self.answers[frame["id"]] = frame
            if frame.get("method") == "subagent.started" and self.recording.turns is not None:
                turns = self.recording.turns(frame["params"]["childSessionId"])
                self.server.register(Scenario("parent", "", turns))
        return bool(lines)

    async def until(self, request: str, within: float = 60) -> dict[str, Any]:
        """The answer to a request."""
        while not self.answers[request] and await self.read(within):
            pass
        return self.answers[request]

    async def prompt(self, text: str) -> None:
        """Send a prompt and wait until all is quiet."""
        await self.until(
            self.ask("session/prompt", {"sessionId": "root", "contentBlocks": [{"type": "text", "text": text}]})
        )
        wait = self.ask("session/wait", {"sessionId": "root"})
        if self.recording.cancel or self.recording.kill:
            while not self.server.requests:
                await self.read(0.1)
            while await self.read(1.0):
                pass
            return
        if "error" in await self.until(wait):
            while not self.wire.quiet("root") or await self.read(1.0):
                await self.read(1.0)


async def record(recording: Recording, version: str, base: Path) -> None:
    """Run one scenario and write its files."""
    command, extra = command_of(version)
    home, work = base / "dsh", base / "work"
    for folder in (home, work, base.parent / "home"):
        folder.mkdir(parents=True, exist_ok=True)
    scenarios = [Scenario("report", "", _report)]
    if recording.turns is not None:
        scenarios.append(Scenario("parent", "", recording.turns("")))
    async with model_server(scenarios=scenarios) as server:
        env = {
            **os.environ, **extra, "HOME": str(base.parent / "home"), "DSH_HOME": str(home), "DEEPSEEK_API_KEY": "none",
            "DEEPSEEK_BASE_URL": server.url, "DEEPSEEK_SEARCH_BASE_URL": server.url, "DSH_TELEMETRY_MODE": "DISABLED",
            "DSH_TELEMETRY_OTLP_URL": server.url,
        }  # fmt: skip
        async with open_child(command, cwd=work, env=env) as child:
            recorder = Recorder(child, recording, server)
            model = {"provider": "deepseek-official", "model": "deepseek-v4-flash", "maxTokens": 4096}
            await recorder.until(recorder.ask("initialize", {"cwd": str(work), **model}))
            for text in recording.prompts:
                await recorder.prompt(f"Please do it. {text}")
            if recording.kill:
                child.signal(9)
            else:
                await recorder.until(recorder.ask("shutdown"), 5)
            while await recorder.read(1.0):
                pass
            await child.close(2.0)
    write(recording, version, recorder.rows, [home / "sessions", work / ".sessions"], str(base))


def write(recording: Recording, version: str, rows: list[dict[str, Any]], roots: list[Path], place: str) -> None:
    """Write what was recorded, without what is not ours."""
    folder = FIXTURES / version
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"{recording.name}.*"):
        old.unlink()
    for row in rows:
        event = row["frame"].get("params", {}).get("event")
        if event is not None:
            strip(event)
    target = folder / f"{recording.name}.wire.jsonl"
    target.write_text(lines_of(rows, place))
    logs = sorted(path for root in roots for path in root.glob("*/*/session*.jsonl*"))
    for number, path in enumerate(sorted(logs, key=lambda path: (path.parent.name != "root", path.parent.name))):
        log = folder / f"{recording.name}.{number}.session.jsonl"
        log.write_text(lines_of(list(records(path)), place))
    print(f"{version} {recording.name}: {len(rows)} frames, {len(logs)} logs", flush=True)


def records(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a log, stripped."""
    plain = PlainBytes()
    for line in (plain.push(path.read_bytes()) + plain.close()).splitlines():
        record = json.loads(line)
        strip(record)
        yield record


def strip(event: dict[str, Any]) -> None:
    """Take out of an event what is the product's: prompts, tool schemas, notices."""
    data = event.get("data")
    if event.get("type") in BULK:
        event["data"] = {"stripped": True}
    elif isinstance(data, dict):
        for message in [data, *data.get("inserted", ())]:
            if isinstance(message.get("source"), dict) and message.get("role") == "user":
                strip_message(message)
        stream = data.get("stream", ())
        for holder in (
            data.get("message", {}).get("source", {}),
            *(r.get("chunk", {}) for r in stream),
            data.get("chunk", {}),
        ):
            holder.pop("replayState", None)


def strip_message(message: dict[str, Any]) -> None:
    """Keep of a user message what we wrote, and of others who wrote it."""
    source = message["source"]
    if source.get("kind") == "user":
        del message["content"][1:]
    elif source.get("kind") != "tool":
        message["content"] = [{"type": "text", "text": "stripped"}]
        for key in ("sections", "summary"):
            source.pop(key, None)


def lines_of(values: list[dict[str, Any]], place: str) -> str:
    """The values as lines, with the folders of this machine taken out."""
    text = "".join(json.dumps(value, separators=(",", ":"), ensure_ascii=False) + "\n" for value in values)
    return text.replace(place, "/x").replace(str(ROOT), "/lastsay").replace(place.strip("/").replace("/", "-"), "x")


async def main() -> None:
    """Record what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", default=list(VERSIONS))
    parser.add_argument("--only", nargs="*")
    options = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="record-dsh-"))
    try:
        for version in options.versions:
            for recording in RECORDINGS:
                if version in recording.versions and (not options.only or recording.name in options.only):
                    await record(recording, version, base / f"{version}-{recording.name}")
    finally:
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    asyncio.run(main())
