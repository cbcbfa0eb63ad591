"""A child's standard output to the selected output: blocks and runs against lines, pydantic models and aiostream.

The child is a real process that writes a prepared file. Only the CPU of this process counts.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
import pydantic
from benchmarks._events import conversation
from benchmarks._measure import LOOP, Effort, Row, gain_row
from benchmarks.pipelines import Counts, Folding, Lifecycle, Sequence, Telemetry

from lastsay.events import Event, EventDecoder, encode_many
from lastsay.operators import Stream, through

BLOCK = 65_536
STAGES = (Sequence, Counts, Folding, Telemetry, Lifecycle)
CHILD = "import shutil, sys; shutil.copyfileobj(open(sys.argv[1], 'rb'), sys.stdout.buffer, 1 << 20)"


def ours(path: Path) -> Any:
    """Block reads, msgspec, five fused stages."""
    folding = Folding()

    async def give() -> AsyncIterator[list[Event]]:
        decoder = EventDecoder()
        process = await anyio.open_process([sys.executable, "-c", CHILD, str(path)])
        async with process:
            assert process.stdout is not None
            async for data in process.stdout:
                yield decoder.push(data)
        rest = decoder.close()
        if rest:
            yield rest

    async def main() -> Any:
        makers = [(lambda: folding) if make is Folding else make for make in STAGES]
        async with (Stream.from_batches(give) | through(*makers)).batches() as out:
            async for _ in out:
                pass
        blocks = folding.fold.collect() or ()
        return "".join(block.text for block in blocks if hasattr(block, "text"))

    return LOOP.run(main())


class Base(pydantic.BaseModel):
    run: str = "main"
    seq: int | None = None


class PText(pydantic.BaseModel):
    type: Literal["text"]
    text: str


class PDelta(Base):
    type: Literal["text_delta"]
    text: str
    message: str | None = None


class PReasoning(Base):
    type: Literal["reasoning_delta"]
    text: str
    message: str | None = None


class PMessage(Base):
    type: Literal["message"]
    content: list[PText] = []
    message: str | None = None
    stop_reason: str | None = None


class POther(Base):
    model_config = pydantic.ConfigDict(extra="allow")
    type: Literal[
        "run_started", "run_ended", "message_started", "usage_reported", "tool_call", "tool_result", "notice", "fault"
    ]


PEvent = Annotated[PDelta | PReasoning | PMessage | POther, pydantic.Field(discriminator="type")]


def usual(path: Path) -> str:
    """Line reads, json, a union of pydantic models, five aiostream operators."""
    from aiostream import operator, pipable_operator, streamcontext

    adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(PEvent)
    state: dict[str, Any] = {"last": -1, "gaps": 0, "counts": {}, "text": 0, "ended": 0, "pieces": [], "selected": None}

    def sequence(event: Any) -> None:
        state["gaps"] += event.seq != state["last"] + 1
        state["last"] = event.seq

    def count(event: Any) -> None:
        state["counts"][event.type] = state["counts"].get(event.type, 0) + 1

    def fold(event: Any) -> None:
        if isinstance(event, PDelta):
            if state["selected"] is None:
                state["pieces"].append(event.text)
        elif isinstance(event, PMessage) and event.content:
            state["selected"] = event.content

    def telemetry(event: Any) -> None:
        if isinstance(event, PDelta):
            state["text"] += len(event.text)

    def lifecycle(event: Any) -> None:
        state["ended"] += event.type == "run_ended"

    @pipable_operator
    async def observe(source, push):
        async with streamcontext(source) as streamer:
            async for item in streamer:
                push(item)
                yield item

    @operator
    async def give():
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CHILD, str(path), stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        while line := await process.stdout.readline():
            yield adapter.validate_python(json.loads(line))
        await process.wait()

    async def main() -> str:
        stream = give()
        for push in (sequence, count, fold, telemetry, lifecycle):
            stream = stream | observe.pipe(push)
        async with stream.stream() as out:
            async for _ in out:
                pass
        if state["selected"] is not None:
            return "".join(block.text for block in state["selected"])
        return "".join(state["pieces"])

    return LOOP.run(main())


def rows(effort: Effort) -> Iterator[Row]:
    """The row about bytes."""
    name, against = "child's stdout to output", "lines + pydantic + aiostream"
    try:
        import aiostream  # noqa: F401  # its absence is a result
    except ImportError:
        yield Row(name, against, 15, "at least", note="aiostream is not installed")
        return
    events = conversation(60_000 if effort.quick else 200_000)  # starting the child costs milliseconds: let them be few
    few = replace(effort, rounds=9)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "child.ndjson"
        path.write_bytes(encode_many(events))
        assert ours(path) == usual(path), "the outputs disagree"
        yield gain_row(name, against, 15, lambda: ours(path), lambda: usual(path), few, len(events))
