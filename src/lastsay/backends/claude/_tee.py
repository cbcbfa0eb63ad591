"""The transport between the native CLI and the SDK's control protocol: content never passes through the SDK.

The SDK answers what the CLI asks for (hooks, permissions, in-process MCP servers), so it must see control frames, and
enough of the rest to know when its work is done. The records themselves go to the normaliser as they came: the SDK's
parser drops fields (`isSynthetic`, `isReplay`, `tool_result_meta`, `aborted`, `agent_id` and more), refuses a content
list with a bare string in it, and hands every delta over through a memory stream.

    from the CLI                        to the SDK                          to the normaliser
    control_*, transcript_mirror        as it came                          nothing
    result, task and state records      the fields its bookkeeping reads    the record
    everything else                     one tick for all that came together the record

Ticks wake the consumer. Reading stops when `_PENDING` records wait for it: then the pipe fills, and the CLI waits.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

from lastsay.backends._process import ChildProcess, Lines
from lastsay.backends.claude._lines import decode_line
from lastsay.backends.claude._wire import word_of
from lastsay.events import Fault

__all__ = ("Tee",)

_PENDING: Final = 256
"""Records that are read ahead of the consumer: control frames behind them are answered meanwhile."""
_SDK_ONLY: Final = frozenset({"control_request", "control_response", "control_cancel_request", "transcript_mirror"})
_KEPT_SYSTEM: Final = frozenset({"task_started", "task_updated", "task_notification", "session_state_changed"})
_IDS: Final[dict[str, Any]] = {"uuid": "", "session_id": ""}
_TICK: Final[dict[str, Any]] = {"type": "system", "subtype": "lastsay_tick"}
_TURN: Final[dict[str, Any]] = {"type": "stream_event", "event": {}, "parent_tool_use_id": None, **_IDS}
_FILLED: Final[dict[str, Any]] = {**_IDS, "description": "", "output_file": "", "status": "", "summary": ""}


class Tee:
    """The SDK's `Transport` over a running CLI.

    Args:
        child: the CLI's process; who opened it closes it.
    """

    def __init__(self, child: ChildProcess) -> None:
        self._child = child
        self._records: list[dict[str, Any] | Fault] = []
        self._taken = asyncio.Event()
        self._initialize: str | None = None  # id of the first request of the SDK
        self.answered = False  # the CLI has answered it: it runs and speaks the protocol

    def take(self) -> list[dict[str, Any] | Fault]:
        """The records that came since the last call."""
        taken, self._records = self._records, []
        self._taken.set()
        return taken

    # What the SDK calls.

    async def connect(self) -> None:
        """Nothing to do: the CLI runs already."""

    async def write(self, data: str) -> None:
        """Send a frame. What a dead CLI does not take is dropped: its end is seen where it is read."""
        if self._initialize is None:
            request = json.loads(data)
            self._initialize = str(request.get("request_id", "")) if isinstance(request, dict) else ""
        self._child.send(data.encode("utf-8", "surrogatepass"))

    async def end_input(self) -> None:
        """Close the CLI's standard input: no prompt and no answer will follow."""
        self._child.close_stdin()

    def is_ready(self) -> bool:
        """Whether the CLI runs."""
        return self._child.exit_status is None

    async def close(self) -> None:
        """Nothing to do: who opened the CLI closes it."""

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        """The frames for the SDK."""
        while lines := await self._child.lines():
            for frame in self._frames(lines):
                yield frame
            await self._wait_for_room()
        if not self.answered:
            # The SDK would wait a minute for the answer to its first request.
            failed = {"subtype": "error", "request_id": self._initialize, "error": "Claude Code ended at its start"}
            yield {"type": "control_response", "response": failed}

    def _frames(self, lines: Lines) -> Iterator[dict[str, Any]]:
        tick: dict[str, Any] | None = None
        for item in lines:
            record = item if isinstance(item, Fault) else decode_line(*item)
            kind = "" if isinstance(record, Fault) else word_of(record, "type")
            if not isinstance(record, Fault) and kind in _SDK_ONLY:
                if kind == "control_response" and not self.answered:
                    self.answered, tick = True, tick or _TICK
                yield record
                continue
            self._records.append(record)
            stub = None if isinstance(record, Fault) else _stub(kind, record)
            if stub is _TURN:
                tick = _TURN
                continue
            if stub is not None:
                if tick is _TURN:
                    yield _TURN
                yield stub
            tick = _TICK
        if tick is not None:
            yield tick

    async def _wait_for_room(self) -> None:
        while len(self._records) >= _PENDING:
            self._taken.clear()
            await self._taken.wait()


def _stub(kind: str, record: dict[str, Any]) -> dict[str, Any] | None:
    """What the SDK's bookkeeping reads of a record; None where it reads nothing."""
    if kind in ("assistant", "stream_event") and record.get("parent_tool_use_id") is None:
        return _TURN
    if kind == "system" and word_of(record, "subtype") in _KEPT_SYSTEM:
        return {**_FILLED, "task_id": "", **record}
    if kind == "result":
        counts = {"duration_ms": 0, "duration_api_ms": 0, "num_turns": 0}
        fields = {"subtype": str(record.get("subtype")), "is_error": record.get("is_error") is True}
        return {"type": "result", **counts, **fields, **_IDS}
    return None
