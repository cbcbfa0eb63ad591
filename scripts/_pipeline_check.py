"""What the checks against real back ends share: a nested run to send, a server to wait for, a picture to take."""

import base64
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
from collections.abc import Callable, Iterator, Mapping, Sequence
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


class _Browser:
    """A headless Chromium, spoken to over two pipes: no port, and no library."""

    def __init__(self, binary: str, profile: str) -> None:
        (theirs_in, self._out), (self._in, theirs_out) = os.pipe(), os.pipe()
        options = f"--headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir={profile}"
        command = (
            f"exec {binary} {options} --window-size=1500,900 --remote-debugging-pipe 3<&{theirs_in} 4>&{theirs_out}"
        )
        self._process = subprocess.Popen(
            ["bash", "-c", command], pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env={**os.environ, "HOME": profile}, start_new_session=True,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._rest = b""
        self._number = 0
        self._session: str | None = None

    def call(self, method: str, **params: Any) -> Any:
        """What the browser answers."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            head, found, tail = self._rest.partition(b"\0")
            if not found:
                chunk = os.read(self._in, 65536)
                if not chunk:
                    raise SystemExit("the browser is gone")
                self._rest += chunk
                continue
            self._rest = tail
            answer = json.loads(head)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise SystemExit(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, url: str) -> None:
        """Go to the page."""
        target = self.call("Target.createTarget", url=url)["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def close(self) -> None:
        """End the browser."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._in)
        os.close(self._out)


def screenshot(url: str, path: Path, *, wait_seconds: int = 30, scripts: Sequence[str] = ()) -> bool:
    """A picture of the page, taken with Chromium after each script ran and had its time; False where there is none."""
    binary = shutil.which("chromium") or shutil.which("google-chrome")
    if binary is None:
        print("no Chromium: no picture")
        return False
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = _Browser(binary, profile)
        try:
            browser.open(url)
            time.sleep(wait_seconds)
            for script in scripts:
                browser.call("Runtime.evaluate", expression=script)
                time.sleep(3)
            path.write_bytes(base64.b64decode(browser.call("Page.captureScreenshot", format="png")["data"]))
        finally:
            browser.close()
    return True


def check(what: str, expected: Any, got: Any) -> None:
    """One line of the report; stops at the first that differs."""
    if expected != got:
        raise SystemExit(f"FAILED {what}: expected {expected!r}, got {got!r}")
    print(f"ok     {what}: {got!r}")
