"""A run of the real harness: its process, its JSON-RPC requests, and what happens when it is cut.

One prompt is one epoch. After the harness has taken it, `session/wait` is asked for: its answer comes when the session
and all its managed children are quiet. A harness that does not know this request (0.1.5rc1 and before) is watched
instead, see `WireNormaliser.quiet`, and gets a moment more.

The protocol has no cancel request, and from 0.1.5rc1 on the text that a model is streaming is not on the wire until its
step has settled. So a cancelled run goes: `shutdown`, a bounded wait, kill; then the durable logs of its sessions are
read, and what the wire did not show is given: the interrupted message and the end of the turn (seen with 0.2.1rc2). A
process that ended by itself is treated alike, but it is not excused: its open runs end in error, with the exit status.
"""

import importlib
import json
import os
import shutil
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
import msgspec

from lastsay.backends._process import ChildProcess, Lines, open_child
from lastsay.backends.dsh._shapes import RowEnvelope, SessionHeader, decoded, typed
from lastsay.backends.dsh._wire import WireNormaliser
from lastsay.backends.dsh._zstd import PlainBytes
from lastsay.errors import MissingExtraError, SourceError, UsageError
from lastsay.events import Event, Fault, LineFramer, Notice
from lastsay.operators import Stream

__all__ = ("stream",)

_READY_WITHIN: Final = 60.0
"""Seconds for the answer to `initialize`: 2 to 9 were seen, on a busy machine."""
_LINGER: Final = 0.3
"""Seconds without a frame after which a quiet session of a harness without `session/wait` is at rest."""
_SHUTDOWN_WITHIN: Final = 3.0
"""Seconds for the answer to `shutdown`: 0.1 to 0.9 were seen."""
_GRACE: Final = 1.0
"""Seconds between the end of its standard input and SIGTERM."""
_NO_SUCH_METHOD: Final = -32601

Prompt = str | Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class _Options:
    prompts: tuple[Prompt, ...]
    command: tuple[str, ...]
    cwd: Path
    home: Path
    env: dict[str, str]
    session: str
    resume: bool
    initialize: dict[str, Any]
    cancel: anyio.Event | None


def stream(
    prompt: Prompt,
    *follow_ups: Prompt,
    home: str | os.PathLike[str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    command: Sequence[str] | None = None,
    profile: str = "sdk",
    provider: str = "deepseek-official",
    model: str = "deepseek-v4-flash",
    max_tokens: int | None = None,
    reasoning_effort: str | None = None,
    env: Mapping[str, str] | None = None,
    session: str | None = None,
    resume: bool = False,
    cancel: anyio.Event | None = None,
) -> Stream:
    """The events of a run of DeepSeek Harness, ``main``, and of its children, each under the id of its session.

    Args:
        prompt: a text, or content blocks in the harness's own form.
        follow_ups: further prompts of the same session; each is sent when all is quiet, and is an epoch of its own.
        home: the harness's home folder; None takes ``DSH_HOME`` from the environment.
        cwd: the folder that it works in; None for the current one.
        command: how to start its SDK server; None takes the ``dsh`` of the installed SDK, or the one on the path.
        profile: the profile that it is started with, where `command` is None.
        provider: its name for the model's provider.
        model: the model's name.
        max_tokens: output tokens of one model call; None for the harness's own limit.
        reasoning_effort: see the harness; None for its own choice.
        env: variables to set beside the caller's own.
        session: id of the session; None makes one up.
        resume: whether the session exists already and is to be gone on with.
        cancel: set it to cancel the run: what was streamed so far is then given, and the runs end as aborted. Leaving
            the stream, or cancelling the task, ends the harness at once, and what it had not sent is not given.

    Raises (on entry):
        SourceError: the harness could not be started, or did not take `initialize`.
        UsageError: there is no home folder.
        MissingExtraError: there is no ``dsh`` (the extra is ``dsh``).
    """

    def opened() -> Any:
        variables = {**os.environ, **(env or {})}
        place = home if home is not None else variables.get("DSH_HOME")
        if not place:
            raise UsageError("home must name the harness's home folder (or set DSH_HOME): it has no default of its own")
        work = Path(cwd).absolute() if cwd is not None else Path.cwd()
        initialize = {"cwd": str(work), "provider": provider, "model": model, "maxTokens": max_tokens}
        initialize["reasoningEffort"] = reasoning_effort
        options = _Options(
            prompts=(prompt, *follow_ups),
            command=tuple(command) if command is not None else _command(profile),
            cwd=work,
            home=Path(place).absolute(),
            env={**variables, "DSH_HOME": str(Path(place).absolute())},
            session=session or f"lastsay-{uuid.uuid4().hex}",
            resume=resume,
            initialize={key: value for key, value in initialize.items() if value is not None},
            cancel=cancel,
        )
        return _opened(options)

    return Stream(opened)


def _command(profile: str) -> tuple[str, ...]:
    try:
        runtime = importlib.import_module("deepseek_harness_runtime")
    except ImportError:
        found = shutil.which("dsh")
        if found is None:
            raise MissingExtraError("dsh", "running DeepSeek Harness") from None
        return (found, "--profile", profile)
    return (*runtime.resolve_bundled_launch_args(), "--profile", profile)


@asynccontextmanager
async def _opened(options: _Options) -> AsyncGenerator[AsyncIterator[list[Event]], None]:
    async with open_child(options.command, cwd=options.cwd, env=options.env, grace=_GRACE) as child:
        driver = _Driver(child, options)
        await driver.start()
        async with aclosing(driver.batches()) as batches:
            yield batches


class _Driver:
    """Speaks the protocol with one process."""

    def __init__(self, child: ChildProcess, options: _Options) -> None:
        self._child = child
        self._options = options
        self._normaliser = WireNormaliser()
        self._requests = 0
        self._answers: dict[str, dict[str, Any]] = {}
        self._waits = True
        self._broken = False

    async def start(self) -> None:
        """Initialize the harness, and restore the session where that is wanted."""
        await self._settled("initialize", self._options.initialize)
        if self._options.resume:
            await self._settled("session/resume", {"sessionId": self._options.session})

    async def _settled(self, method: str, params: dict[str, Any]) -> None:
        request, _ = self._ask(method, params)
        with anyio.move_on_after(_READY_WITHIN):
            while request not in self._answers:
                lines = await self._child.lines()
                if not lines:
                    await self._child.exited(1.0)
                    raise SourceError(f"dsh ended with status {self._child.exit_status}{self._said()}")
                self._push(lines)
        answer = self._answers.pop(request, None)
        if answer is None:
            raise SourceError(f"dsh did not answer {method} within {_READY_WITHIN:g} s{self._said()}")
        if "error" in answer:
            raise SourceError(f"dsh refused {method}: {answer['error']}{self._said()}")

    def _said(self) -> str:
        said = self._child.stderr.strip()
        return f"; it said: {said[-500:]}" if said else ""

    async def batches(self) -> AsyncGenerator[list[Event], None]:
        """The events of all prompts, in lists of what came together."""
        name = self._options.session
        for prompt in self._options.prompts:
            blocks = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else [dict(part) for part in prompt]
            request, events = self._ask("session/prompt", {"sessionId": name, "contentBlocks": blocks})
            if events:
                yield events
            async with aclosing(self._epoch(name, request)) as epoch:
                async for events in epoch:
                    yield events
            if self._cancelled or self._broken:
                break
        if events := await self._end():
            yield events

    async def _epoch(self, name: str, request: str) -> AsyncGenerator[list[Event], None]:
        """The events from a prompt until all is quiet, the process is gone, or the run is cancelled."""
        wait = None
        while not self._normaliser.sessions[name].ended:
            at_rest = not self._waits and self._normaliser.quiet(name)
            lines = await self._next(_LINGER if at_rest else None)
            if lines is None:
                if at_rest and not self._cancelled:
                    yield self._normaliser.settle(name)
                return
            if not lines:
                self._broken = True
                await self._child.exited(1.0)
                return
            if events := self._push(lines):
                yield events
            if wait is None and request in self._answers:
                wait, _ = self._ask("session/wait", {"sessionId": name})
            elif wait is not None and "error" in self._answers.get(wait, ()):
                self._waits = False

    @property
    def _cancelled(self) -> bool:
        return self._options.cancel is not None and self._options.cancel.is_set()

    async def _next(self, within: float | None) -> Lines | None:
        """All lines that are ready; empty at the end of the output, None when cancelled or when the time is over."""
        cancel = self._options.cancel
        lines: Lines | None = None
        with anyio.move_on_after(within):
            if cancel is None:
                return await self._child.lines()
            async with anyio.create_task_group() as both:

                async def watch() -> None:
                    await cancel.wait()
                    both.cancel_scope.cancel()

                both.start_soon(watch)
                lines = await self._child.lines()
                both.cancel_scope.cancel()
        return lines

    async def _end(self) -> list[Event]:
        """Shut the harness down; the last events, those of its logs included where the wire was cut."""
        events: list[Event] = []
        if not self._broken:
            request, _ = self._ask("shutdown", None)
            with anyio.move_on_after(_SHUTDOWN_WITHIN):
                while request not in self._answers and (lines := await self._child.lines()):
                    events += self._push(lines)
            if not self._cancelled:
                return events + self._normaliser.close()
        status = self._child.exit_status  # before we end it
        await self._child.close(_GRACE)
        events += await anyio.to_thread.run_sync(self._from_logs)
        if not self._broken:
            return events + self._normaliser.close(cancelled=True)
        how = f"ended with status {status}" if status is not None else "closed its output"
        events.append(Fault("process_exited", f"dsh {how} in the middle of the run"))
        if said := self._child.stderr.strip():
            events.append(Notice("stderr", said))
        return events + self._normaliser.close(exit_status=status)

    # Frames.

    def _ask(self, method: str, params: dict[str, Any] | None) -> tuple[str, list[Event]]:
        self._requests += 1
        frame: dict[str, Any] = {"jsonrpc": "2.0", "id": f"r{self._requests}", "method": method}
        if params is not None:
            frame["params"] = params
        self._child.send(json.dumps(frame).encode() + b"\n")
        return frame["id"], self._normaliser.push(frame)

    def _push(self, lines: Lines) -> list[Event]:
        out: list[Event] = []
        for item in lines:
            if isinstance(item, Fault):
                out.append(item)
                continue
            number, line = item
            try:
                frame = decoded(line)
            except (ValueError, RecursionError):
                text = line[:200].decode("utf-8", "replace")
                out.append(Fault("invalid_json", f"line {number} of the output is not JSON", number, text))
                continue
            if isinstance(frame, dict) and "id" in frame:
                self._answer(frame)
            out += self._normaliser.push(frame)
        return out

    def _answer(self, frame: dict[str, Any]) -> None:
        if "method" not in frame:
            self._answers[str(frame["id"])] = frame
            return
        error = {"code": _NO_SUCH_METHOD, "message": "this client answers no requests"}
        self._child.send(json.dumps({"jsonrpc": "2.0", "id": frame["id"], "error": error}).encode() + b"\n")

    # Logs.

    def _from_logs(self) -> list[Event]:
        out: list[Event] = []
        for name, session in list(self._normaliser.sessions.items()):
            if self._options.resume and session.last_seq is None and name == self._options.session:
                continue  # its log is history: nothing was begun
            for path in _logs_of(name, self._options):
                out += self._from_log(name, path, session.run)
        return out

    def _from_log(self, name: str, path: Path, run: str) -> list[Event]:
        plain, framer = PlainBytes(), LineFramer()
        try:
            data = plain.push(path.read_bytes()) + plain.close()
        except MissingExtraError as error:
            return [Fault("unread_log", str(error), run=run)]
        except OSError as error:
            return [Fault("unread_log", f"{path.name}: {error.strerror}", run=run)]
        out: list[Event] = []
        for row in _own_records([item[1] for item in [*framer.push(data), *framer.close()] if isinstance(item, tuple)]):
            seq = row.seq if row.seq0 is None else row.seq0
            if seq is not None:
                out += self._normaliser.push_record(name, row.type, row.data, seq, row.time)
        return out


def _own_records(lines: list[bytes]) -> Iterator[RowEnvelope]:
    """The records of a log without the copied history of a fork, and without lines that the end of the process cut."""
    seeded, seed_length = False, 0
    for line in lines:
        try:
            row = typed(line, RowEnvelope)
            if row.type == "session":
                header = typed(line, SessionHeader)
                seeded, seed_length = header.is_seeded, header.seed_length or 0
                continue
        except (ValueError, msgspec.MsgspecError, RecursionError):
            continue
        if row.type == "session/end-seed":
            seeded = False
        if not seeded and (row.seq is None or row.seq >= seed_length):
            yield row


def _logs_of(session: str, options: _Options) -> list[Path]:
    """Where the harness keeps a session's log: below its home, or in generation A below its working folder."""
    roots = (options.home / "sessions", options.cwd / ".sessions")
    return [path for root in roots for path in root.glob(f"*/{session}/session*.jsonl*")]
