"""`claude.events` and `claude.stream` as far as neither the SDK nor the CLI is needed."""

import sys
from collections.abc import AsyncGenerator
from typing import Any

import pytest

import lastsay
from lastsay.backends import claude
from lastsay.errors import MissingExtraError
from lastsay.events import RunEnded

pytestmark = pytest.mark.asyncio

INIT: dict[str, Any] = {"type": "system", "subtype": "init", "model": "m"}
SAID: dict[str, Any] = {"type": "assistant", "message": {"id": "m1", "content": [{"type": "text", "text": "Hi"}]}}
DONE: dict[str, Any] = {"type": "result", "subtype": "success", "is_error": False, "result": "Hi"}


class Source:
    """Messages that somebody else receives."""

    def __init__(self, *messages: Any) -> None:
        self.messages = messages
        self.closed = 0

    async def receive(self) -> AsyncGenerator[Any, None]:
        try:
            for message in self.messages:
                if isinstance(message, Exception):
                    raise message
                yield message
        finally:
            self.closed += 1


async def test_messages_of_a_client() -> None:
    """A stream around a function can be entered again, and closes what it iterates."""
    source = Source(INIT, SAID, DONE)
    stream = claude.events(source.receive)
    outcomes = [await lastsay.collect(stream) for _ in range(2)]
    assert [("completed", "Hi")] * 2 == [(outcome.stop_reason, outcome.text) for outcome in outcomes]
    assert 2 == source.closed


async def test_an_iterator_can_be_given_itself() -> None:
    """The iterator that a client's method returns is taken as it is."""
    outcome = await lastsay.collect(claude.events(Source(INIT, SAID, DONE).receive(), run="r"))
    assert "Hi" == outcome.text


async def test_a_failing_client_is_an_outcome() -> None:
    """What the client raises ends the run as an error, with the text so far."""
    outcome = await lastsay.collect(claude.events(Source(INIT, SAID, RuntimeError("gone")).receive))
    assert ("error", "Hi") == (outcome.stop_reason, outcome.text)
    assert "RuntimeError: gone" in (outcome.diagnostic or "")


async def test_an_error_after_the_result_is_not_the_end() -> None:
    """The SDK raises after an error result; the result stands."""
    failed = {**DONE, "is_error": True, "terminal_reason": "max_turns", "subtype": "error_max_turns"}
    outcome = await lastsay.collect(claude.events(Source(INIT, SAID, failed, RuntimeError("exit code 1")).receive))
    assert ("max-turns", "Hi") == (outcome.stop_reason, outcome.text)


async def test_leaving_early_closes_the_iterator() -> None:
    """A break closes what is iterated, at once."""
    source = Source(INIT, SAID, DONE)
    async with claude.events(source.receive) as events:
        async for _ in events:
            break
    assert 1 == source.closed


async def test_a_client_that_ends_without_a_result() -> None:
    """An iterator that runs out is a run whose end never came."""
    async with claude.events(Source(INIT, SAID).receive) as events:
        last = [event async for event in events][-1]
    assert isinstance(last, RunEnded)
    assert ("error", "unknown") == (last.stop_reason, last.provenance)


async def test_without_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The missing extra is named when a stream is entered, and not before."""
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", None)
    stream = claude.stream("Hello")
    with pytest.raises(MissingExtraError, match=r"lastsay\[claude\]"):
        async with stream:
            pass
