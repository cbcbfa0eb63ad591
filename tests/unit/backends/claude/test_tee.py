"""The tee between the CLI and the SDK: who gets what, and when reading stops."""

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

import pytest

from lastsay.backends.claude._tee import Tee
from lastsay.events import Fault

if TYPE_CHECKING:
    from lastsay.backends._process import ChildProcess

pytestmark = pytest.mark.asyncio

ANSWER = {"type": "control_response", "response": {"subtype": "success", "request_id": "r1"}}
DELTA = {"type": "stream_event", "event": {"type": "ping"}, "parent_tool_use_id": None}
CHILD = {"type": "assistant", "message": {}, "parent_tool_use_id": "t1"}
RESULT = {"type": "result", "subtype": "success", "is_error": True, "result": "long"}


class Lines:
    """Stands for a child process: gives batches of lines, and keeps what it is sent."""

    exit_status = None

    def __init__(self, *batches: list[Any]) -> None:
        self.batches = [[self.encoded(item) for item in batch] for batch in batches]
        self.sent: list[bytes] = []
        self.read = 0

    @staticmethod
    def encoded(item: Any) -> Any:
        if isinstance(item, Fault):
            return item
        return 1, item if isinstance(item, bytes) else json.dumps(item).encode()

    async def lines(self) -> list[Any]:
        self.read += 1
        await asyncio.sleep(0)
        return self.batches.pop(0) if self.batches else []

    def send(self, data: bytes) -> bool:
        self.sent.append(data)
        return True

    def close_stdin(self) -> None:
        self.sent.append(b"")


def tee_of(*batches: list[Any]) -> Tee:
    """A tee over these batches of lines."""
    return Tee(cast("ChildProcess", Lines(*batches)))


async def test_control_frames_are_the_sdks_alone() -> None:
    """Control frames go to the SDK as they are, and never to the normaliser; the first answer is announced."""
    tee = tee_of([ANSWER, DELTA])
    frames = [frame async for frame in tee.read_messages()]
    assert ANSWER == frames[0]
    assert tee.answered
    assert [DELTA] == tee.take()
    assert [] == tee.take()


async def test_one_tick_for_what_came_together() -> None:
    """Content is not handed through the SDK record by record."""
    tee = tee_of([ANSWER], [DELTA] * 50 + [CHILD])
    frames = [frame async for frame in tee.read_messages()]
    assert 4 >= len(frames)
    assert 51 == len(tee.take())


async def test_the_sdk_sees_the_order_that_it_counts_by() -> None:
    """A turn that precedes a result is shown before it, and nothing of a turn after it."""
    tee = tee_of([ANSWER], [DELTA, RESULT, {"type": "system", "subtype": "session_state_changed", "state": "idle"}])
    kinds = [(frame["type"], frame.get("subtype")) async for frame in tee.read_messages()]
    assert [("stream_event", None), ("result", "success"), ("system", "session_state_changed")] == kinds[2:5]
    assert "stream_event" not in [kind for kind, _ in kinds[3:]]


async def test_records_are_whole_and_stubs_are_small() -> None:
    """The normaliser gets the record as it came; the SDK only what its bookkeeping reads."""
    tee = tee_of([ANSWER], [RESULT])
    frames = [frame async for frame in tee.read_messages()]
    assert [RESULT] == tee.take()
    (stub,) = [frame for frame in frames if frame["type"] == "result"]
    assert "result" not in stub
    assert stub["is_error"]


async def test_broken_lines_are_faults() -> None:
    """A line that is no record reaches the normaliser as a fault, in its place."""
    lost = Fault("line_too_long", "line 2 was too long", 2)
    tee = tee_of([ANSWER], [DELTA, b"[SandboxDebug] x", lost, DELTA])
    _ = [frame async for frame in tee.read_messages()]
    first, fault, *rest = tee.take()
    assert (DELTA, "invalid_json", [lost, DELTA]) == (first, cast("Fault", fault).kind, rest)


async def test_a_cli_that_never_answers() -> None:
    """The SDK's first request is answered with an error when the CLI ends before it."""
    tee = tee_of()
    await tee.write(json.dumps({"type": "control_request", "request_id": "r7"}))
    (frame,) = [frame async for frame in tee.read_messages()]
    assert ("error", "r7") == (frame["response"]["subtype"], frame["response"]["request_id"])
    assert not tee.answered


async def test_reading_stops_for_a_slow_consumer() -> None:
    """Nothing more is read while records wait, and reading goes on when they are taken."""
    tee = tee_of([ANSWER], *[[DELTA] * 300] * 3)
    child = cast("Lines", tee._child)

    async def pump() -> int:
        return len([frame async for frame in tee.read_messages()])

    task = asyncio.create_task(pump())
    for _ in range(20):
        await asyncio.sleep(0)
    assert (2, 300) == (child.read, len(tee.take()))
    while not task.done():
        tee.take()
        await asyncio.sleep(0)
    assert 5 == child.read


async def test_what_the_sdk_writes_goes_to_the_cli() -> None:
    """Frames and the end of the input are passed on."""
    tee = tee_of()
    await tee.connect()
    await tee.write('{"request_id": "r1"}\n')
    await tee.end_input()
    await tee.close()
    assert tee.is_ready()
    assert [b'{"request_id": "r1"}\n', b""] == cast("Lines", tee._child).sent
