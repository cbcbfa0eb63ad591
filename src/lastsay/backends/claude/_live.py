"""Live Claude runs: a new query on the native CLI, or the messages of a client that the caller already has."""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import anyio

from lastsay.backends._process import ChildProcess, open_child
from lastsay.backends.claude._launch import launch_of, prepared, sdk
from lastsay.backends.claude._normaliser import Normaliser
from lastsay.backends.claude._tee import Tee
from lastsay.errors import SourceError
from lastsay.events import MAIN, Event, Fault
from lastsay.operators import Stream

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeAgentOptions

__all__ = ("events", "stream")

_LEAVING: Final = 2.0
"""Seconds that a CLI which has given its result gets to write its session file and leave by itself."""
_EXIT: Final = 2.0
"""Seconds between the end of the CLI's output and its exit."""
_TAIL: Final = 2000
"""Characters of standard error that go into a diagnostic."""


def stream(
    prompt: str | AsyncIterable[dict[str, Any]],
    options: "ClaudeAgentOptions | None" = None,
    *,
    run: str = MAIN,
    partial_messages: bool = True,
    subagent_text: bool = True,
) -> Stream:
    """The events of a new query on Claude Code; each entry starts the CLI anew.

    Args:
        prompt: the prompt, or user messages in the form of the SDK (such a stream can be entered once only).
        options: the SDK's options; hooks, permissions and in-process MCP servers work as in its `query`.
        run: run id of the root.
        partial_messages: ask for deltas. Without them, a killed child leaves nothing of its last message.
        subagent_text: ask for the text of subagents. Without it, only their tool calls are seen.

    Entering raises:
        SourceError: the CLI is not there, cannot be started, or ended before it was ready; the message says what to do.
        MissingExtraError: claude-agent-sdk is not installed.
        UsageError: an option cannot be honoured.

    What happens after that is an outcome and never an exception: an error result, a killed CLI.

    Cancellation: leaving early ends the CLI's whole process group at once.
    """
    return Stream(lambda: _open(prompt, options, run, partial_messages=partial_messages, subagent_text=subagent_text))


@asynccontextmanager
async def _open(
    prompt: str | AsyncIterable[dict[str, Any]],
    options: "ClaudeAgentOptions | None",
    run: str,
    *,
    partial_messages: bool,
    subagent_text: bool,
) -> AsyncGenerator[AsyncIterator[list[Event]], None]:
    claude_agent_sdk = await anyio.to_thread.run_sync(sdk)  # its import takes more than a second
    chosen = prepared(options, partial_messages=partial_messages, subagent_text=subagent_text)
    launch = await launch_of(chosen)
    normaliser = Normaliser(run)
    async with open_child(
        launch.command, cwd=launch.directory, env=launch.environment, max_line=chosen.max_buffer_size or 0
    ) as child:
        tee = Tee(child)
        transport: Any = tee
        frames = claude_agent_sdk.query(prompt=prompt, options=chosen, transport=transport)
        batches = _batches(frames, tee, child, normaliser)
        try:
            await _until_ready(frames, tee, child)
            yield batches
        finally:
            # The CLI first: the SDK's own closing waits for tools that are still running.
            await child.close(_LEAVING if normaliser.ended else 0.0)
            await batches.aclose()
            await frames.aclose()
            _report_stderr(chosen, child)


async def _until_ready(frames: AsyncGenerator[Any, None], tee: Tee, child: ChildProcess) -> None:
    """Wait until the CLI has answered its first request."""
    failure: Exception | None = None
    try:
        await anext(frames)
    except StopAsyncIteration:
        pass
    except Exception as error:  # noqa: BLE001 - whatever the SDK raises here, the child could not be started
        failure = error
    if tee.answered and failure is None:
        return
    await child.exited(_EXIT)
    status = "" if child.exit_status is None else f" (exit status {child.exit_status})"
    said = _tail(child) or (str(failure) if tee.answered else "it wrote nothing to standard error")
    raise SourceError(f"Claude Code could not be started{status}: {said}") from failure


async def _batches(
    frames: AsyncGenerator[Any, None], tee: Tee, child: ChildProcess, normaliser: Normaliser
) -> AsyncGenerator[list[Event], None]:
    detail: str | None = None
    try:
        async for _ in frames:
            if batch := _normalised(tee, normaliser):
                yield batch
    except Exception as error:  # noqa: BLE001 - a child that fails is an outcome
        detail = f"{type(error).__name__}: {error}"
    await child.exited(_EXIT)
    tail = _tail(child)
    rest = _normalised(tee, normaliser)
    rest += normaliser.close(exit_status=child.exit_status, detail="\n".join([t for t in (detail, tail) if t]))
    if rest:
        yield rest


def _normalised(tee: Tee, normaliser: Normaliser) -> list[Event]:
    out: list[Event] = []
    for record in tee.take():
        out += normaliser.fault(record) if isinstance(record, Fault) else normaliser.push(record)
    return out


def _tail(child: ChildProcess) -> str:
    return child.stderr[-_TAIL:].strip()


def _report_stderr(options: "ClaudeAgentOptions", child: ChildProcess) -> None:
    if options.stderr is not None:
        for line in child.stderr.splitlines():
            with suppress(Exception):
                options.stderr(line)


def events(messages: AsyncIterable[Any] | Callable[[], AsyncIterable[Any]], *, run: str = MAIN) -> Stream:
    """The events of messages that the caller receives already, e.g. ``client.receive_response()``.

    The stream does not own the client: leaving closes the iterator, and the client stays connected. The SDK's parser
    has dropped fields by then (see `Normaliser`): an injected user message cannot always be told from a real one.

    Args:
        messages: SDK messages or raw records, or a function that gives them (then the stream can be entered again).
            With a background child, ``receive_response()`` ends too early: use ``receive_messages()``.
        run: run id of the root.
    """
    make: Callable[[], AsyncIterable[Any]] = messages if callable(messages) else lambda: messages

    async def batches() -> AsyncGenerator[list[Event], None]:
        normaliser = Normaliser(run)
        source = aiter(make())
        detail: str | None = None
        try:
            try:
                async for message in source:
                    if batch := normaliser.push(message):
                        yield batch
            except Exception as error:  # noqa: BLE001 - a child that fails is an outcome
                detail = f"{type(error).__name__}: {error}"
            if batch := normaliser.close(detail=detail):
                yield batch
        finally:
            close = getattr(source, "aclose", None)
            if close is not None:
                await close()

    return Stream.from_batches(batches)
