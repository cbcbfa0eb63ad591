"""A live ACP agent: started, asked once, read to its end, and gone.

    async with acp.stream(["gemini", "--acp"], "Say hello.") as events:
        async for event in events: ...

Entering starts the agent and opens the session; a failure there is a `SourceError`, and no run has begun. From then on
nothing raises: a dead agent, a broken line, an error answer are how the run went.

| what ends the run                     | stop reason                                                     |
|---------------------------------------|-----------------------------------------------------------------|
| the answer to the prompt, or idle     | by `_recovery`, after `linger` seconds without an update        |
| the agent's output ends               | error, or aborted if a cancellation was asked for               |
| `cancel` is set                       | what the agent answers; aborted when it does not in time        |
| the consumer leaves                   | none: nobody listens; the agent is told, and ended              |
"""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec

from lastsay.backends._process import ChildProcess, open_child
from lastsay.backends.acp._client import Client
from lastsay.backends.acp._normaliser import Normaliser
from lastsay.backends.acp._permission import Permission, checked_policy
from lastsay.errors import SourceError, UsageError
from lastsay.events import MAX_LINE, Event, Fault
from lastsay.operators import Stream

__all__ = ("Cancel", "Prompt", "prompt_blocks", "stream")

Prompt = str | Sequence[Mapping[str, Any]]
"""Text, or content blocks of the protocol as objects."""
Cancel = asyncio.Event | anyio.Event

_LINGER_ROUNDS: Final = 20
"""An agent that goes on talking after its answer is heard for this many times `linger`, and no longer."""
_GOODBYE: Final = 0.5
"""Seconds that an agent gets to answer a cancellation when the consumer has left."""
_GRACE: Final = 1.0
"""Seconds that an agent gets to leave after its input was closed."""
_NAME: Final = "lastsay"


class _Options(msgspec.Struct, frozen=True, kw_only=True):
    command: tuple[str, ...]
    prompt: list[dict[str, Any]]
    cwd: str
    env: Mapping[str, str] | None
    permission: Any
    protocol: int
    mcp_servers: list[dict[str, Any]]
    config: Mapping[str, str]
    capabilities: Mapping[str, Any]
    linger: float
    start_limit: float
    cancel: Any
    cancel_limit: float
    max_line: int


def stream(
    command: Sequence[str],
    prompt: Prompt,
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    permission: Permission = "reject",
    protocol: int = 1,
    mcp_servers: Sequence[Mapping[str, Any]] = (),
    config: Mapping[str, str] | None = None,
    capabilities: Mapping[str, Any] | None = None,
    linger: float = 0.5,
    start_limit: float = 120.0,
    cancel: Cancel | None = None,
    cancel_limit: float = 10.0,
    max_line: int = MAX_LINE,
) -> Stream:
    """A stream of one turn of an ACP agent; each entry starts the agent anew.

    Args:
        command: the agent and its arguments.
        prompt: text, or content blocks of the protocol.
        cwd: the session's and the process's working directory; None for the caller's.
        env: the agent's whole environment; None for the caller's.
        permission: ``"reject"``, ``"allow"`` (each time once), or a function (it may be async) that is given a
            `PermissionRequest` and gives the id of an option, or None to leave it unanswered.
        protocol: the protocol version to offer, 1 or 2 (a draft); the agent may choose a lower one.
        mcp_servers: MCP servers for the session, as the protocol describes them.
        config: session options to set before the prompt, by their id (``session/set_config_option``).
        capabilities: client capabilities beside the defaults (child sessions and notices).
        linger: seconds without an update after which an answered turn is over; late text counts.
        start_limit: seconds for starting the agent and opening the session.
        cancel: once this event is set the agent is asked to stop, and the run ends with what it answers.
        cancel_limit: seconds that it gets to answer before it is killed.
        max_line: cap of one line of the agent, in bytes.

    Raises:
        UsageError: here, for arguments that cannot work.
        SourceError: on entry, when the agent cannot be started or refuses the session.

    Cancellation: safe at any await. The agent is asked to stop, and it and all it started are ended.
    """
    if protocol not in (1, 2):
        msg = f"protocol must be 1 or 2, not {protocol!r}"
        raise UsageError(msg)
    if isinstance(command, str) or not command:
        msg = f"command must be a list of a program and its arguments, not {command!r}"
        raise UsageError(msg)
    options = _Options(
        command=tuple(command),
        prompt=prompt_blocks(prompt),
        cwd=str(Path(cwd or Path.cwd()).absolute()),
        env=env,
        permission=checked_policy(permission),
        protocol=protocol,
        mcp_servers=[dict(server) for server in mcp_servers],
        config=config or {},
        capabilities=capabilities or {},
        linger=linger,
        start_limit=start_limit,
        cancel=cancel,
        cancel_limit=cancel_limit,
        max_line=max_line,
    )
    return Stream(lambda: _opened(options))


def prompt_blocks(prompt: Prompt) -> list[dict[str, Any]]:
    """The prompt as content blocks."""
    if isinstance(prompt, str):
        return [{"type": "text", "text": prompt}]
    return [dict(block) for block in prompt]


@asynccontextmanager
async def _opened(options: _Options) -> AsyncGenerator[AsyncIterator[list[Event]], None]:
    async with open_child(
        options.command, cwd=options.cwd, env=options.env, max_line=options.max_line, grace=_GRACE
    ) as child:
        turn = _Turn(child, options)
        try:
            await turn.start()
            async with aclosing(turn.batches()) as batches:
                yield batches
        finally:
            await turn.leave()


class _Turn:
    """One turn of one agent."""

    def __init__(self, child: ChildProcess, options: _Options) -> None:
        self._child = child
        self._options = options
        self._normaliser = Normaliser()
        self._client = Client(child, self._normaliser, options.permission)
        self._first: list[Event] = []
        self._watch: asyncio.Task[None] | None = None
        self._ignored = False

    async def start(self) -> None:
        """Open the session and send the prompt."""
        options, client, normaliser = self._options, self._client, self._normaliser
        try:
            with anyio.fail_after(options.start_limit):
                client.request("initialize", _initialize(options, await anyio.to_thread.run_sync(_version)))
                await self._answer_to("initialize", lambda: normaliser.initialized is not None)
                client.request("session/new", {"cwd": options.cwd, "mcpServers": options.mcp_servers})
                await self._answer_to("session/new", lambda: normaliser.session is not None)
                for key, value in options.config.items():
                    choice = {"sessionId": normaliser.session, "configId": key, "value": value}
                    client.request("session/set_config_option", choice)
                    await self._answer_to("session/set_config_option", lambda: not normaliser.unanswered)
        except TimeoutError:
            asked = ", ".join(normaliser.unanswered)
            msg = f"the agent did not answer {asked} within {options.start_limit} seconds{self._said()}"
            raise SourceError(msg) from None
        client.request("session/prompt", {"sessionId": normaliser.session, "prompt": options.prompt})
        if options.cancel is not None:
            self._watch = asyncio.get_running_loop().create_task(self._cancel_when(options.cancel))

    async def _answer_to(self, method: str, answered: Any) -> None:
        while not answered():
            lines = await self._child.lines()
            if not lines:
                await self._child.exited(_GRACE)
                how = "closed its output" if self._child.exit_status is None else f"exited {self._child.exit_status}"
                msg = f"the agent {how} before it answered {method}{self._said()}"
                raise SourceError(msg)
            self._first += self._normaliser.push_lines(lines)
            self._first += self._client.serve()
            if method in self._normaliser.refused:
                error = self._normaliser.refused[method]
                said = error.get("message") if isinstance(error, dict) else error
                msg = f"the agent refused {method}: {said}{self._said()}"
                raise SourceError(msg)

    def _said(self) -> str:
        lines = self._child.stderr.strip().splitlines()
        return f"; the last line on its standard error: {lines[-1][:300]}" if lines else ""

    async def batches(self) -> AsyncGenerator[list[Event], None]:
        """The events, list by list."""
        first, self._first = self._first, []
        if first:
            yield first
        child, normaliser = self._child, self._normaliser
        patience = _LINGER_ROUNDS * self._options.linger
        until: float | None = None
        while True:
            if normaliser.answered is None:
                until = None
                lines = await child.lines()
            else:
                until = anyio.current_time() + patience if until is None else until
                with anyio.move_on_at(min(until, anyio.current_time() + self._options.linger)) as silence:
                    lines = await child.lines()
                if silence.cancelled_caught:
                    break
            if not lines:
                await child.exited(_GRACE)
                normaliser.lost(exit_status=child.exit_status)
                break
            events = normaliser.push_lines(lines)
            if child.cut:
                events = [_truncated(event) for event in events]
            events += self._client.serve()
            if events:
                yield events
        yield self._last()

    def _last(self) -> list[Event]:
        events: list[Event] = self._client.serve()
        if self._ignored:
            detail = f"the agent did not end the turn within {self._options.cancel_limit} seconds and was killed"
            events.append(Fault("cancel_ignored", detail))
        return [*events, *self._normaliser.close()]

    async def _cancel_when(self, cancel: Cancel) -> None:
        await cancel.wait()
        self._client.cancel()
        await anyio.sleep(self._options.cancel_limit)
        if self._normaliser.answered is None:
            self._ignored = True
            self._child.signal(signal.SIGTERM)
            await self._child.exited(_GRACE)
            self._child.signal(signal.SIGKILL)

    async def leave(self) -> None:
        """Ask an agent that still works to stop, and wait a moment for its answer."""
        if self._watch is not None:
            self._watch.cancel()
        with anyio.move_on_after(_GOODBYE, shield=True):
            if self._normaliser.session is not None and not self._over():
                self._client.cancel()
                while not self._over() and (lines := await self._child.lines()):
                    self._normaliser.push_lines(lines)
                    self._client.serve()
        self._client.close()

    def _over(self) -> bool:
        return self._normaliser.answered is not None


def _initialize(options: _Options, our_version: str) -> dict[str, Any]:
    """Parameters in the words of both versions: an agent reads those that it knows."""
    info = {"name": _NAME, "title": _NAME, "version": our_version}
    drafts: dict[str, Any] = {"subagents": {}, "session": {"notices": {}}}
    offered = {**drafts, **options.capabilities}
    files = {"readTextFile": False, "writeTextFile": False}
    first = {"clientInfo": info, "clientCapabilities": {"fs": files, "terminal": False, **offered}}
    second = {"info": info, "capabilities": offered} if options.protocol == 2 else {}
    return {"protocolVersion": options.protocol, **first, **second}


@cache
def _version() -> str:
    try:
        return version(_NAME)
    except PackageNotFoundError:
        return "0"


def _truncated(event: Event) -> Event:
    if type(event) is Fault and event.kind == "not_json":
        return Fault("truncated_line", f"the output ends inside {event.detail}", event.line, event.raw)
    return event
