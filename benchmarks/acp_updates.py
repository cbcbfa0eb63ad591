"""How many updates of an ACP agent are taken per second, against the official Python SDK?

Usage: python -m benchmarks.acp_updates [--quick]

A child process writes `agent_message_chunk` updates as fast as it can; what counts is the CPU time of the client, from
the start of the child to the folded answer. Three parties: our `acp.stream` with the fold; the SDK with a synchronous
handler that appends the text to a list, which is the least it can do; and our `acp.events` on the SDK's connection.
The SDK opens a span per update where opentelemetry is importable; that is switched off here, in its favour.
"""

import argparse
import asyncio
import time
from collections.abc import Callable
from typing import Any

from benchmarks._measure import FULL, QUICK, Effort, Row, gain_row

from lastsay.backends import acp
from lastsay.events import TextDelta
from lastsay.fold import RunFold
from lastsay.testing.acp_agent import command

PIECE = "a piece of twenty-six char"


def ours(count: int) -> str:
    """The answer's text, by our backend and fold."""

    async def run() -> str:
        fold = RunFold()
        stream = acp.stream(command("flood", "--count", str(count)), "Go.", linger=0.01)
        async with stream.batches() as batches:
            async for batch in batches:
                if type(batch[0]) is type(batch[-1]) is TextDelta:
                    fold.push_run(batch)
                else:
                    for event in batch:
                        fold.push(event)
        output = fold.outcome().output
        assert output is not None
        return "".join([block.text for block in output])

    return asyncio.run(run())


def sdk(count: int) -> str:
    """The answer's text, by the official SDK."""
    from acp import Client, spawn_agent_process, telemetry, text_block

    telemetry.TRACER = None
    pieces: list[str] = []

    class Holder(Client):
        async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:  # noqa: ARG002  # as called
            pieces.append(update.content.text)

    async def run() -> str:
        program, *arguments = command("flood", "--count", str(count))
        async with spawn_agent_process(Holder(), program, *arguments) as (connection, _):
            await connection.initialize(protocol_version=1)
            session = await connection.new_session(cwd="/", mcp_servers=[])
            await connection.prompt(session_id=session.session_id, prompt=[text_block("Go.")])
        return "".join(pieces)

    return asyncio.run(run())


def checked(party: Callable[[int], str], count: int) -> Callable[[], None]:
    """The party as a piece of work that must give the whole answer."""

    def work() -> None:
        assert party(count) == PIECE * count

    return work


def rows(effort: Effort) -> list[Row]:
    """The row of the table; its note holds nanoseconds of CPU per update."""
    count = effort.events
    name, against = "ACP updates, pipe to answer", "agent-client-protocol, sync handler"
    try:
        import acp as _  # noqa: F401
    except ImportError:
        return [Row(name, against, 10, "at least")]
    return [gain_row(name, against, 10, checked(ours, count), checked(sdk, count), effort, count)]


def main() -> None:
    """Print the row, and updates per second of CPU."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    (row,) = rows(QUICK if options.quick else FULL)
    print(f"{row.status}: {row.measured:.1f} times the updates per second, goal {row.goal:g} ({row.note})")
    count = 100_000
    for name, party in (("ours", ours), ("sdk", sdk)):
        began, wall = time.thread_time(), time.monotonic()
        party(count)
        took = time.thread_time() - began
        print(f"{name:5} {count / took:12,.0f} updates/s of CPU, {time.monotonic() - wall:.2f} s on the clock")


if __name__ == "__main__":
    main()
