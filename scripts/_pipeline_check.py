"""What the checks against real back ends share: a nested run to send, a server to wait for, a picture to take."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import venv
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from lastsay.backends import scripted
from lastsay.consumers import telemetry
from lastsay.events import Message, Notice, RunEnded, RunStarted, Text, TextDelta, ToolCall, ToolResult, Usage
from lastsay.run import open_run

ROOT = Path(__file__).parent.parent
PROMPT = "How many boats are in the harbour?"
ANSWER = "Twelve boats, as far as the counter got."
TASK = "Count the boats."
PARTIAL = "There are twelve"

PLANNER_TOKENS = (155, 17)
COUNTER_TOKENS = (52, 6)

NESTED = [
    RunStarted(agent="planner", backend="claude", model="large"),
    ToolCall("t1", "Agent", {"prompt": TASK}),
    scripted.Pause(0.05),
    RunStarted(run="child", parent="main", agent="counter", backend="claude", model="small", call="t1"),
    TextDelta("There are ", "c1", run="child"),
    scripted.Pause(0.05),
    TextDelta("twelve", "c1", run="child"),
    Message((Text(PARTIAL),), "c1", "max_tokens", Usage(20, 6, 30, 2), run="child"),
    RunEnded("max-tokens", raw="max_tokens", run="child"),
    ToolResult("t1", (Text(PARTIAL),)),
    Notice("function_call", {"call": "f1", "function": "add", "arguments": {"a": 5, "b": 7}}),
    scripted.Pause(0.02),
    Notice("function_applied", {"call": "f1", "verdict": "exact", "is_error": False}),
    Message((Text(ANSWER),), "m2", "end_turn", Usage(50, 17, 100, 5)),
    RunEnded("completed", raw="end_turn"),
]


def send_nested_run(endpoint: str, headers: Mapping[str, str], profile: str) -> None:
    """Play the nested run and send its spans to the endpoint, with content."""
    provider = TracerProvider(resource=Resource({"service.name": "lastsay-check"}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint, headers=dict(headers), timeout=30)))

    async def read() -> None:
        consumer = telemetry(profile=profile, content=True, prompt=PROMPT, metrics=False, tracer_provider=provider)
        async with open_run(scripted.stream(NESTED), consumers=[consumer]) as run:
            async for _ in run:
                pass

    anyio.run(read)
    provider.shutdown()  # not on the event loop: it blocks


def side_environment(name: str, package: str, *, install: bool) -> Path:
    """The folder of programs of the side environment; made and filled where that was asked for."""
    folder = ROOT / name
    programs = folder / "bin"
    if not programs.exists():
        if not install:
            raise SystemExit(f"{name} is missing; run this with --install, which downloads about 850 MB")
        venv.create(folder, with_pip=True)
        subprocess.run([programs / "python", "-m", "pip", "install", "-q", package], check=True)
    return programs


@contextmanager
def server(command: list[str | Path], ready: str, variables: Mapping[str, str], log: Path) -> Iterator[None]:
    """A server on loopback, from when it answers until the block is left."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(log.parent), **variables}
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment, start_new_session=True)
        try:
            wait_for(lambda: urllib.request.urlopen(ready, timeout=5).status == 200, seconds=180)
            yield
        except BaseException:
            print(log.read_text(errors="replace")[-2000:], file=sys.stderr)
            raise
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def wait_for(condition: Callable[[], Any], seconds: float) -> Any:
    """What the condition gives, once it is true; it may fail as often as it likes before."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            value = condition()
        except (OSError, urllib.error.URLError, KeyError, IndexError):
            value = None
        if value:
            return value
        if time.monotonic() > deadline:
            raise SystemExit(f"nothing within {seconds} seconds")
        time.sleep(0.5)


def post(url: str, body: Any, headers: Mapping[str, str] | None = None) -> Any:
    """The JSON that the address answers."""
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"content-type": "application/json", **(headers or {})}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def screenshot(url: str, path: Path, *, wait_seconds: int = 20) -> bool:
    """A picture of the page, taken with Chromium; False where there is none."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("no Chromium: no picture")
        return False
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}",
             "--window-size=1500,900", f"--virtual-time-budget={wait_seconds * 1000}", f"--screenshot={path}", url],
            check=True, timeout=180, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": profile},
        )  # fmt: skip
    return True


def check(what: str, expected: Any, got: Any) -> None:
    """One line of the report; stops at the first that differs."""
    if expected != got:
        raise SystemExit(f"FAILED {what}: expected {expected!r}, got {got!r}")
    print(f"ok     {what}: {got!r}")
