"""A child process that speaks lines: the plumbing that backends over standard input and output share.

Four rules, each against a fault that real harnesses show:

* The pipe is the backpressure. What the child writes is held up to `HIGH_WATER` bytes, then reading stops, and the
  child blocks in its own write until the consumer has taken what is there.
* Standard error is always drained, into a ring: a child that writes more than a pipe holds would block for good
  (anthropics/claude-agent-sdk-python#103, modelcontextprotocol/typescript-sdk#2776).
* The end of the child is the exit of its process, not the end of its output: a grandchild can own the pipe and outlive
  it (google-gemini/gemini-cli#25590). After the exit, output is awaited for a bounded time only.
* Closing leaves nobody behind: the child leads a session of its own, its whole process group is ended, and so are
  descendants that had moved to a group of their own. Each step has a bound, and cancellation does not interrupt it.

asyncio's protocol interface is used, not its streams: its `readline` loses a line over the limit, its `Process.wait`
hangs while a paused pipe has data (seen with CPython 3.11 and 3.13), and a stream costs a task per pipe.
"""

import asyncio
import codecs
import os
import signal
import time
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import anyio

from lastsay.errors import SourceError, UsageError
from lastsay.events import MAX_LINE, Fault, LineFramer

__all__ = ("HIGH_WATER", "ChildProcess", "open_child")

HIGH_WATER: Final = 1024 * 1024
"""Bytes of output that are held for a slow consumer before the pipe is left to fill up."""
_STDERR_LIMIT: Final = 64 * 1024
"""Bytes of standard error that are kept: the newest."""
_TERM_BOUND: Final = 2.0
"""Seconds between SIGTERM and SIGKILL."""
_KILL_BOUND: Final = 5.0
"""Seconds to wait for the exit after SIGKILL: only a process stuck in the kernel needs longer."""
_ORPHAN_BOUND: Final = 2.0
"""Seconds without output after which the pipe of a child that has exited is given up."""
_LEFTOVER_ROUNDS: Final = 100
_LEFTOVER_PAUSE: Final = 0.01
"""Seconds between two looks at descendants that were sent SIGKILL, and how often they are looked at."""

Lines = list[tuple[int, bytes] | Fault]
"""Numbered lines in order; a `Fault` stands where a line was lost."""


class ChildProcess(asyncio.SubprocessProtocol):
    """A running child; made by `open_child`, which also closes it.

    Attributes:
        exit_status: the exit status, negative for a signal's number; None while it runs.
        cut: the output ended inside a line, which `lines` has handed over last.
    """

    exit_status: int | None = None
    cut: bool = False

    def __init__(self, max_line: int = MAX_LINE, stderr_limit: int = _STDERR_LIMIT) -> None:
        self._framer = LineFramer(max_line)
        self._plain: bool | None = None
        self._blocks: list[bytes] = []
        self._held = 0
        self._received = 0
        self._ended = False
        self._discarding = False
        self._stderr: deque[bytes] = deque()
        self._stderr_held = 0
        self._stderr_limit = stderr_limit
        self._transport: asyncio.SubprocessTransport | None = None
        self._group: int | None = None
        self._stdin_open = True
        self._waiters: set[asyncio.Future[None]] = set()
        self._orphan_timer: asyncio.TimerHandle | None = None

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop when the child runs."""
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport
        self._group = transport.get_pid()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Called by the event loop with what the child wrote."""
        if fd == 2:
            self._keep_stderr(data)
        elif not self._discarding and not self._ended:
            self._blocks.append(data)
            self._held += len(data)
            self._received += len(data)
            if self._held >= HIGH_WATER:
                self._stdout().pause_reading()
            self._wake()

    def pipe_connection_lost(self, fd: int, _exc: Exception | None) -> None:
        """Called by the event loop when a pipe of the child is closed."""
        if fd == 0:
            self._stdin_open = False
        elif fd == 1:
            self._end_output()

    def process_exited(self) -> None:
        """Called by the event loop when the child has exited."""
        self.exit_status = self._running().get_returncode()
        self._stdin_open = False
        if self._group is not None and not _group_exists(self._group):
            self._group = None  # the number is free for others now: it must not be signalled again
        if not self._ended:
            self._watch_orphan()
        self._wake()

    def connection_lost(self, _exc: Exception | None) -> None:
        """Called by the event loop when the child has exited and its pipes are closed."""
        self._running().close()
        self._transport = None
        self._end_output()

    # What a backend calls.

    @property
    def pid(self) -> int | None:
        """The process id, or None after the end."""
        return None if self._transport is None else self._transport.get_pid()

    @property
    def stderr(self) -> str:
        """The newest part of what the child wrote to standard error."""
        return b"".join(self._stderr)[-self._stderr_limit :].decode("utf-8", "replace")

    async def lines(self) -> Lines:
        """All lines that are ready, at least one; an empty list at the end of the child's output.

        Cancellation: safe at any time, nothing is lost.
        """
        while True:
            taken, self._blocks, self._held = self._blocks, [], 0
            ready: Lines = []
            for block in taken:
                if self._plain is None:
                    self._plain = not block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
                ready += _framed(self._framer, block) if self._plain else self._framer.push(block)
            if not ready and self._ended and not self._blocks:
                ready = self._framer.close()
                self.cut = bool(ready)
                return ready
            if ready:
                return ready
            if not self._ended:
                self._stdout().resume_reading()
                await self._changed()

    def send(self, data: bytes) -> bool:
        """Hand bytes to the child's standard input, without waiting; False if it is closed.

        What the child does not read yet is held in memory, so that a child which writes before it reads cannot lock up.
        """
        if not self._stdin_open or self._transport is None:
            return False
        pipe = self._transport.get_pipe_transport(0)
        assert isinstance(pipe, asyncio.WriteTransport)
        if pipe.is_closing():
            return False
        pipe.write(data)
        return True

    def close_stdin(self) -> None:
        """End the child's standard input, after what was sent is read."""
        pipe = None if self._transport is None else self._transport.get_pipe_transport(0)
        if pipe is not None and self._stdin_open:
            self._stdin_open = False
            pipe.close()

    def signal(self, number: int) -> None:
        """Send a signal to the child's whole process group; nothing happens if it is gone."""
        if self._group is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._group, number)

    async def exited(self, within: float) -> bool:
        """Whether the process has exited, waiting for at most `within` seconds."""
        with anyio.move_on_after(within):
            while self.exit_status is None:
                await self._changed()
        return self.exit_status is not None

    async def close(self, grace: float = 0.0) -> None:
        """End the child, its group and its descendants; returns when they are gone or were sent SIGKILL.

        Args:
            grace: seconds that the child gets to leave by itself after its standard input was closed, before SIGTERM.

        Cancellation: held off until that is done, also one by ``Task.cancel``, which anyio's shields do not stop. It is
        bounded by `grace` plus about ten seconds in the worst case.
        """
        closing = asyncio.get_running_loop().create_task(self._close(grace))
        cancelled: asyncio.CancelledError | None = None
        with anyio.CancelScope(shield=True):
            while not closing.done():
                try:
                    await asyncio.shield(closing)
                except asyncio.CancelledError as error:
                    cancelled = error
        closing.result()
        if cancelled is not None:
            raise cancelled

    async def _close(self, grace: float) -> None:
        self._drop_output()
        self.close_stdin()
        family = await self._family()
        if not await self.exited(grace):
            family |= await self._family()
            self.signal(signal.SIGTERM)
            await self.exited(_TERM_BOUND)
        self.signal(signal.SIGKILL)
        await anyio.to_thread.run_sync(_kill_leftovers, family)
        await self.exited(_KILL_BOUND)
        self._group = None
        if self._transport is not None:
            self._transport.close()
        with anyio.move_on_after(1.0):
            while self._transport is not None:
                await self._changed()

    # Inside.

    def _running(self) -> asyncio.SubprocessTransport:
        assert self._transport is not None, "the child is not running"
        return self._transport

    def _stdout(self) -> asyncio.ReadTransport:
        pipe = self._running().get_pipe_transport(1)
        assert isinstance(pipe, asyncio.ReadTransport)
        return pipe

    def _keep_stderr(self, data: bytes) -> None:
        self._stderr.append(data)
        self._stderr_held += len(data)
        while self._stderr_held - len(self._stderr[0]) >= self._stderr_limit:
            self._stderr_held -= len(self._stderr.popleft())

    async def _family(self) -> set[tuple[int, int]]:
        if self._group is None:
            return set()
        return await anyio.to_thread.run_sync(_relatives, self._group)

    def _drop_output(self) -> None:
        self._discarding = True
        if not self._ended and self._transport is not None:
            self._stdout().resume_reading()

    def _end_output(self) -> None:
        self._ended = True
        if self._orphan_timer is not None:
            self._orphan_timer.cancel()
        self._wake()

    def _watch_orphan(self, seen: int = -1) -> None:
        """Give the pipe up once nothing came for a while and nothing waits to be taken."""
        if self._transport is None or self._ended:
            return
        if seen == self._received and not self._blocks:
            self.signal(signal.SIGKILL)
            self._end_output()
            return
        loop = asyncio.get_running_loop()
        self._orphan_timer = loop.call_later(_ORPHAN_BOUND, self._watch_orphan, self._received)

    async def _changed(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)


@asynccontextmanager
async def open_child(
    command: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    max_line: int = MAX_LINE,
    stderr_limit: int = _STDERR_LIMIT,
    grace: float = 0.0,
) -> AsyncGenerator[ChildProcess, None]:
    """A child process for the time of the block; it and all it started are gone afterwards.

    Args:
        command: the program and its arguments.
        cwd: its working directory; None for the caller's.
        env: its whole environment; None for the caller's.
        max_line: cap of one line of its output, in bytes; a longer one is skipped and reported as a `Fault`.
        stderr_limit: how much of its standard error is kept, in bytes.
        grace: seconds that it gets at the end to leave by itself, see `ChildProcess.close`.

    Raises:
        SourceError: it could not be started.
        UsageError: the command is empty.

    Cancellation: safe at any await; the child is ended either way.
    """
    if not command:
        msg = "command must name a program, as in ['my-agent', '--acp']"
        raise UsageError(msg)
    loop = asyncio.get_running_loop()
    child = ChildProcess(max_line, stderr_limit)
    try:
        await loop.subprocess_exec(lambda: child, *command, cwd=cwd, env=env, start_new_session=True)
    except (OSError, ValueError) as error:
        msg = f"the child process could not be started: {error} (command: {command[0]!r})"
        raise SourceError(msg) from error
    try:
        yield child
    finally:
        await child.close(grace)


def _framed(framer: LineFramer, block: bytes) -> Lines:
    """What `framer.push(block)` gives; plain lines inside the block are split in one go, at a third of the cost."""
    first, last = block.find(b"\n"), block.rfind(b"\n")
    if last - first > framer.max_line or first < 0 or b"\0" in block or b"\r" in block:
        return framer.push(block)
    ready = framer.push(block[: first + 1])
    if last > first:
        inner = block[first + 1 : last].split(b"\n")
        number = framer.line + 1
        framer.line += len(inner)
        ready += [(at, line) for at, line in enumerate(inner, number) if line and not line.isspace()]
    return ready + framer.push(block[last + 1 :])


def _group_exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


class _Stat(NamedTuple):
    """What proc(5) says about a process; `started` is in clock ticks since the boot."""

    state: str
    parent: int
    group: int
    started: int


def _stat(pid: str) -> _Stat | None:
    """None if the process is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return _Stat(fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[19]))
    except (OSError, ValueError, IndexError):
        return None


def _relatives(group: int) -> set[tuple[int, int]]:
    """Process id and start time of the group's members and of the leader's descendants in other groups.

    Empty where there is no /proc: signals to the group must do there.
    """
    try:
        pids = [entry.name for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    except OSError:
        return set()
    found = {int(pid): stat for pid in pids if (stat := _stat(pid)) is not None}
    children: dict[int, list[int]] = {}
    for pid, stat in found.items():
        children.setdefault(stat.parent, []).append(pid)
    todo = [group, *[pid for pid, stat in found.items() if stat.group == group]]
    family: set[int] = set()
    while todo:
        pid = todo.pop()
        if pid not in family:
            family.add(pid)
            todo += children.get(pid, ())
    return {(pid, found[pid].started) for pid in family - {group} if pid in found}


def _lives(pid: int, started: int) -> bool:
    """The start time tells a process from a later one with its number; one that waits to be reaped is dead."""
    stat = _stat(str(pid))
    return stat is not None and stat.started == started and stat.state != "Z"


def _kill_leftovers(family: set[tuple[int, int]]) -> None:
    """SIGKILL to those that still live, and a short wait until they do not."""
    for pid, started in family:
        if _lives(pid, started):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    patience = _LEFTOVER_ROUNDS
    while patience and any(_lives(pid, started) for pid, started in family):
        time.sleep(_LEFTOVER_PAUSE)
        patience -= 1
