"""How the public names type, as a user writes them. Never run: the checkers read it."""

from collections.abc import AsyncGenerator
from typing import Any, assert_type

import lastsay
from lastsay.consumers import Consumer, DelegationResult, RunEnd, RunStart
from lastsay.events import Block, Event, Message, Text, TextDelta
from lastsay.run import Run


async def child() -> AsyncGenerator[Event, None]:
    """A loop of the user's own."""
    yield TextDelta("hi")
    yield Message((Text("hi"),))


class Mine(Consumer):
    """A consumer of the user's own."""

    def start(self, start: RunStart) -> None:
        """Sync."""

    async def end(self, end: RunEnd) -> None:
        """Or async."""


async def main() -> None:
    """The whole path from a source to the tool result."""
    stream = lastsay.Stream.from_events(child) | lastsay.coalesce(0.05) | lastsay.deadline(total=60)
    assert_type(stream, lastsay.Stream)
    events: list[dict[str, Any]] = []
    consumers: list[Consumer] = [lastsay.lifecycle(on_end=events.append), lastsay.telemetry(), Mine()]
    async with lastsay.open_run(stream, policy=lastsay.ANSWER, consumers=consumers) as run:
        assert_type(run, Run)
        async for event in run:
            assert_type(event, Event)
    assert_type(run.outcome, lastsay.Outcome)
    assert_type(run.outcome.output, tuple[Block, ...] | None)
    assert_type(run.outcome.text, str | None)
    assert_type(lastsay.tool_result(run.outcome), DelegationResult)
    assert_type(await lastsay.collect(child()), lastsay.Outcome)
    assert_type(await (stream | lastsay.collect), lastsay.Outcome)
    assert_type(lastsay.final_output([TextDelta("hi")]), tuple[Block, ...] | None)
