"""Events of a connection that the official Python SDK holds."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lastsay.backends import acp
from lastsay.errors import UsageError
from lastsay.events import Event, Message, RunEnded, RunStarted, Text, TextDelta
from lastsay.testing.acp_agent import command

sdk = pytest.importorskip("acp", reason="the acp extra is not installed")


class Holder(sdk.Client):  # type: ignore[misc]  # known at run time only
    """The least client that the SDK accepts."""

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        """Ignore it: the tap sees it."""


@asynccontextmanager
async def connected(mode: str, **options: Any) -> AsyncIterator[tuple[Any, str]]:
    """An initialized connection to the scripted agent, and its session."""
    program, *arguments = command(mode)
    async with sdk.spawn_agent_process(Holder(), program, *arguments, **options) as (connection, _):
        await connection.initialize(protocol_version=1)
        session = await connection.new_session(cwd="/", mcp_servers=[])
        yield connection, session.session_id


@pytest.mark.asyncio
@pytest.mark.parametrize("tapped", [True, False])
async def test_a_held_connection_gives_the_same_run(*, tapped: bool) -> None:
    """Two turns on one connection, each with a start, its text and its end."""
    tap = acp.Tap()
    options: dict[str, Any] = {"observers": [tap]} if tapped else {}
    async with connected("normal", **options) as (connection, session):
        stream = acp.events(
            connection, "Hi.", session_id=session, agent="scripted", tap=tap if tapped else None, linger=0.03
        )
        for _ in range(2):
            async with stream as events:
                seen = [event async for event in events]
            assert RunStarted(agent="scripted", backend="acp") == seen[0]
            assert Message((Text("Hello there."),), "msg-1") in seen
            assert RunEnded("completed", raw="end_turn") == seen[-1]


@pytest.mark.asyncio
async def test_updates_that_the_sdk_drops_are_kept() -> None:
    """An unknown kind of update is a notice, and an unknown stop reason is the end's own word."""
    async with connected("unknown_stop_reason") as (connection, session):
        async with acp.events(connection, "Hi.", session_id=session, linger=0.03) as events:
            seen = [event async for event in events]
        assert RunEnded("out_of_coffee", raw="out_of_coffee") == seen[-1]


@pytest.mark.asyncio
async def test_a_connection_that_breaks_ends_the_run() -> None:
    """The text so far is there, and the end is an error."""
    async with connected("exit_zero") as (connection, session):
        async with acp.events(connection, "Hi.", session_id=session, linger=0.03) as events:
            seen = [event async for event in events]
        assert isinstance(seen[-1], RunEnded)
        assert (seen[-1].stop_reason, seen[-1].provenance) == ("error", "unknown")
        assert Message((Text("Hello there."),), "msg-1") in seen


@pytest.mark.asyncio
async def test_cancellation_and_leaving_ask_the_agent_to_stop() -> None:
    """The run ends as aborted; a consumer that leaves finds the connection usable."""
    async with connected("slow") as (connection, session):
        cancel = asyncio.Event()
        seen: list[Event] = []
        async with acp.events(connection, "Hi.", session_id=session, linger=0.03, cancel=cancel) as events:
            async for event in events:
                seen.append(event)
                if isinstance(event, TextDelta):
                    cancel.set()
        assert RunEnded("aborted", raw="cancelled") == seen[-1]
        async with acp.events(connection, "Hi.", session_id=session, linger=0.03) as events:
            async for event in events:
                if isinstance(event, RunStarted):
                    break


def test_a_connection_without_observers_is_refused() -> None:
    """The message says what to do instead."""
    with pytest.raises(UsageError, match="observers="):
        acp.events(object(), "Hi.", session_id="s")  # type: ignore[arg-type]  # that is the mistake
