"""Events for those who hold a connection of the official Python SDK (agent-client-protocol) already.

The SDK's own callbacks lose what its schema does not know, and finish out of order when they await (seen with 0.12.1).
Its observers see every frame as it came, in order, so those are listened to:

    async with acp.events(connection, "Say hello.", session_id=session.session_id) as events:
        async for event in events: ...

The SDK has no backpressure: what a slow consumer has not taken is held in memory, here and there. Where that matters,
`stream` reads the pipe itself.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, Final, Protocol

import anyio

from lastsay.backends.acp._live import Cancel, Prompt, prompt_blocks
from lastsay.backends.acp._normaliser import Normaliser
from lastsay.errors import MissingExtraError, UsageError
from lastsay.events import Event
from lastsay.operators import Stream

__all__ = ("Connection", "Tap", "events")

_GOODBYE: Final = 0.5
"""Seconds that an agent gets to answer a cancellation when the consumer has left."""
_LINGER_ROUNDS: Final = 20


class Connection(Protocol):
    """What is needed of the SDK's ``ClientSideConnection``."""

    async def prompt(self, *, session_id: str, prompt: list[Any]) -> Any:
        """Send a prompt and wait for its answer."""

    async def cancel(self, *, session_id: str) -> None:
        """Ask the agent to end the turn."""


class Tap:
    """An observer of an SDK connection: give it to ``spawn_agent_process(..., observers=[tap])`` and to `events`."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[bool, dict[str, Any]], None]] = []

    def __call__(self, event: Any) -> None:
        """Take one frame of the connection (the SDK's ``StreamEvent``)."""
        outgoing = getattr(event.direction, "value", event.direction) == "outgoing"
        for listener in list(self._listeners):
            listener(outgoing, event.message)

    def listen(self, listener: Callable[[bool, dict[str, Any]], None]) -> Callable[[], None]:
        """Hand every frame to `listener`, and whether it is outgoing; calling the result ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)


def events(
    connection: Connection,
    prompt: Prompt,
    *,
    session_id: str,
    agent: str | None = None,
    tap: Tap | None = None,
    linger: float = 0.5,
    cancel: Cancel | None = None,
) -> Stream:
    """A stream of one turn on a connection that is open already; each entry sends the prompt anew.

    Args:
        connection: the SDK's ``ClientSideConnection``, initialized.
        prompt: text, or content blocks of the protocol as objects.
        session_id: the session, as ``new_session`` gave it.
        agent: the agent's name, as ``initialize`` gave it: known agents' wrong stop reasons are put right.
        tap: an observer that the connection was made with; None attaches one to it (works with SDK 0.12).
        linger: seconds without an update after which an answered turn is over; late text counts.
        cancel: once this event is set the agent is asked to stop, and the run ends with what it answers.

    Raises:
        MissingExtraError: the SDK is not installed.
        UsageError: the connection takes no observers.

    Cancellation: safe at any await. The agent is asked to stop; the connection stays open.
    """
    blocks = _sdk_blocks(prompt)
    attached = tap if tap is not None else _attached_tap(connection)

    def turn() -> _Held:
        return _Held(connection, blocks, session=session_id, agent=agent, linger=linger, cancel=cancel)

    return Stream(lambda: _opened(turn(), attached))


def _sdk_blocks(prompt: Prompt) -> list[Any]:
    try:
        from acp import PromptRequest  # noqa: PLC0415  # optional
    except ImportError:
        raise MissingExtraError("acp", "events of a connection of the ACP SDK") from None
    request = PromptRequest.model_validate({"sessionId": "", "prompt": prompt_blocks(prompt)})
    return list(request.prompt)


def _attached_tap(connection: Any) -> Tap:
    inner: Any = connection if hasattr(connection, "add_observer") else getattr(connection, "_conn", None)
    if not hasattr(inner, "add_observer"):
        msg = "this connection takes no observers: make a Tap, and open the connection with observers=[tap]"
        raise UsageError(msg)
    tap = Tap()
    inner.add_observer(tap)
    return tap


@asynccontextmanager
async def _opened(turn: "_Held", tap: Tap) -> AsyncGenerator[AsyncIterator[list[Event]], None]:
    unlisten = tap.listen(turn.take)
    try:
        turn.start()
        async with aclosing(turn.batches()) as batches:
            yield batches
    finally:
        unlisten()
        await turn.leave()


class _Held:
    """One turn on a connection that somebody else holds."""

    def __init__(
        self,
        connection: Connection,
        prompt: list[Any],
        *,
        session: str,
        agent: str | None,
        linger: float,
        cancel: Cancel | None,
    ) -> None:
        self._connection = connection
        self._blocks = prompt
        self._session = session
        self._linger = linger
        self._cancel = cancel
        self._normaliser = Normaliser(session=session, agent=agent)
        self._ready: list[Event] = []
        self._news = asyncio.Event()
        self._prompts: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Send the prompt."""
        loop = asyncio.get_running_loop()
        self._tasks.append(loop.create_task(self._prompt()))
        if self._cancel is not None:
            self._tasks.append(loop.create_task(self._cancel_when(self._cancel)))

    def take(self, outgoing: bool, frame: dict[str, Any]) -> None:  # noqa: FBT001  # a callback's signature
        """Take a frame of the connection, if it is about this session."""
        params = frame.get("params")
        session = params.get("sessionId") if isinstance(params, dict) else None
        identity = str(frame.get("id"))
        if outgoing:
            if session == self._session and frame.get("method") in ("session/prompt", "session/cancel"):
                self._prompts.add(identity)
                self._normaliser.sent(frame)
            return
        if session == self._session or ("method" not in frame and identity in self._prompts):
            self._ready += self._normaliser.push(frame)
            self._normaliser.inbox.clear()  # the connection's holder answers
            self._news.set()

    async def batches(self) -> AsyncGenerator[list[Event], None]:
        """The events, list by list."""
        until: float | None = None
        while True:
            ready, self._ready = self._ready, []
            if ready:
                yield ready
                continue
            self._news.clear()
            if self._over():
                until = anyio.current_time() + _LINGER_ROUNDS * self._linger if until is None else until
                with anyio.move_on_at(min(until, anyio.current_time() + self._linger)) as silence:
                    await self._news.wait()
                if silence.cancelled_caught:
                    break
            else:
                await self._news.wait()
        yield self._normaliser.close()

    async def _prompt(self) -> None:
        with suppress(Exception):  # an error answer was told by its frame; a connection that broke is told below
            await self._connection.prompt(session_id=self._session, prompt=self._blocks)
        if not self._over():
            self._normaliser.lost()
        self._news.set()

    async def _cancel_when(self, cancel: Cancel) -> None:
        await cancel.wait()
        await self._ask_to_stop()

    async def _ask_to_stop(self) -> None:
        try:
            await self._connection.cancel(session_id=self._session)
        except Exception:  # noqa: BLE001  # a broken connection has nothing to cancel
            self._news.set()

    def _over(self) -> bool:
        return self._normaliser.answered is not None

    async def leave(self) -> None:
        """Ask an agent that still works to stop, and wait a moment for its answer."""
        with anyio.move_on_after(_GOODBYE, shield=True):
            if not self._tasks[0].done():
                await self._ask_to_stop()
                await asyncio.wait(self._tasks[:1])
        for task in self._tasks:
            task.cancel()
