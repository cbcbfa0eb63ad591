"""`confirm`: settle the verdicts of function calls while their receipts pass.

Every event passes, in order. Added are, in the run that made the call:

    Notice("function_call")      the harness asks; after its `ToolCall` event, and before any verdict on this call
    Notice("function_applied")   confirmed: the native history holds the submitted result
    Notice("function_refused")   not confirmed, with the verdict and what was found
    Notice("function_stray")     a second or late receipt; it changes nothing

A fatal verdict (`CallRecord.fatal`) ends the stream with ``RunEnded("error", raw="execution_failed")`` and closes the
source: what the harness goes on with rests on a result that nobody gave. The same replaces the root's own end where a
call is still unconfirmed there, unless the run was aborted.

The source runs in a task of its own, because the stream must wake without it: the harness says nothing while it waits
for a result, and a receipt that never comes is an event too.
"""

import os
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import anyio
import anyio.to_thread

from lastsay.events import ABORTED, COMPLETED, ERROR, MAIN, Event, Notice, RunEnded, RunStarted, ToolCall, ToolResult
from lastsay.operators._bridge import FunctionBridge
from lastsay.operators._fused import Operator
from lastsay.operators._mailbox import Mailbox
from lastsay.operators._own_task import Pump
from lastsay.operators._stream import Stream, as_stream
from lastsay.receipts import Called, CallRecord, ReadFiles, Settled, Stray, Verdict

__all__ = ("EXECUTION_FAILED", "confirm")

EXECUTION_FAILED: Final = "execution_failed"
"""The raw stop reason of a run that was ended because a function result could not be confirmed."""

CALL_WAIT: Final = 0.1
"""Seconds that a call waits for its `ToolCall` event, which says what run made it, before it is told without. The
harness writes the event first, but the request may be quicker through this process."""

_WATCHED: Final = frozenset({RunStarted, RunEnded, ToolCall, ToolResult, Notice})
"""Events that are looked at; all others pass at the cost of this question."""

_RESULT_FILE: Final = 64 * 1024 * 1024
"""Bytes of the largest result file that is read."""


def confirm(bridge: FunctionBridge) -> Operator:
    """An operator that confirms the function results of one run; see the top of this module for what it adds.

    Args:
        bridge: the bridge through which the harness calls and the host answers; it serves one entry of the stream.

    Cancellation: safe at every await; the source is closed in the task that opened it, and calls without a result are
    released.
    """

    def operator(source: Stream | AsyncIterable[Event]) -> Stream:
        stream = as_stream(source)
        return Stream(lambda: _Confirming(stream, bridge))

    return operator


class _Confirming(AbstractAsyncContextManager[AsyncIterator[list[Event]]]):
    """One entry: a task that owns the source, and the loop that settles what comes out of it."""

    def __init__(self, stream: Stream, bridge: FunctionBridge) -> None:
        self._bridge = bridge
        self._mailbox = Mailbox()
        self._pump = Pump(stream, self._deliver, self._finish)
        self._error: BaseException | None = None
        self._root: str | None = None
        self._begun = False
        self._held: dict[str, float] = {}  # calls that are not told yet, and when they will be
        self._output: AsyncGenerator[list[Event], None] | None = None

    async def __aenter__(self) -> AsyncIterator[list[Event]]:
        self._bridge.begin()
        await self._pump.start()
        self._output = self._confirmed()
        return self._output

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._output is not None
        self._mailbox.drop()
        try:
            await self._output.aclose()
        finally:
            self._bridge.ledger.close(at=anyio.current_time(), cancelled=True)
            self._bridge.release_all()
            await self._pump.stop()

    def _deliver(self, batch: list[Event]) -> Awaitable[None] | None:
        full = self._mailbox.put(batch)
        self._bridge.wake()
        return full

    def _finish(self, error: BaseException | None) -> None:
        self._error = error
        self._mailbox.close(error)
        self._bridge.wake()

    async def _confirmed(self) -> AsyncGenerator[list[Event], None]:
        ledger, fatal, ended = self._bridge.ledger, False, False
        while not fatal and not ended:
            self._bridge.arm()
            # Asked before the mailbox is emptied: what comes in between wakes the wait below.
            ended = self._mailbox.closed
            out: list[Event] = []
            fatal = await self._pass(self._mailbox.take_nowait(), out)
            # A notice never comes before the start of its run.
            if not fatal and self._error is None and (self._begun or ended):
                ledger.expire(at=anyio.current_time())
                if ended:
                    ledger.close(at=anyio.current_time())
                fatal = await self._settle(out)
            if out:
                yield out
            elif not ended:
                await self._wait()
        if not fatal and self._error is not None:
            raise self._error

    async def _wait(self) -> None:
        deadlines = [self._bridge.ledger.deadline(), *self._held.values()]
        due = min((deadline for deadline in deadlines if deadline is not None), default=None)
        with anyio.move_on_after(None if due is None else max(0.0, due - anyio.current_time())):
            await self._bridge.news()

    async def _pass(self, batch: list[Event], out: list[Event]) -> bool:
        """Let a batch through; True where the run was ended in it."""
        for event in batch:
            kind = type(event)
            if kind not in _WATCHED:
                out.append(event)
                continue
            if kind is RunStarted and self._root is None:
                self._root = event.run
            elif kind is RunEnded and event.run == (self._root or MAIN):
                assert isinstance(event, RunEnded)
                if await self._end(event, out):
                    return True
            if kind is not ToolResult:
                self._bridge.ledger.push(event, at=anyio.current_time())
                out.append(event)
            elif await self._receive(event, out):
                return True
        self._begun = self._begun or bool(batch)
        return False

    async def _receive(self, event: Event, out: list[Event]) -> bool:
        """Let a tool result through, what was asked before it first; True where it ended the run."""
        fatal = await self._settle(out)
        self._bridge.ledger.push(event, at=anyio.current_time())
        out.append(event)
        return fatal or await self._settle(out)

    async def _end(self, end: RunEnded, out: list[Event]) -> bool:
        """Close the ledger before the root's own end; True where that end is replaced."""
        ledger = self._bridge.ledger
        ledger.close(at=anyio.current_time(), cancelled=end.stop_reason == ABORTED)
        if await self._settle(out):
            return True
        overtaken = [r for r in ledger.records() if r.verdict is Verdict.REJECTED and r.submitted_at is not None]
        if overtaken and end.stop_reason == COMPLETED:
            out.append(self._failed(overtaken[0]))
            return True
        return False

    async def _settle(self, out: list[Event]) -> bool:
        """Turn the ledger's effects into notices; True where one of them ended the run."""
        fatal: CallRecord | None = None
        while effects := self._bridge.ledger.take():
            for effect in effects:
                if type(effect) is ReadFiles:
                    await self._read(effect)
                elif type(effect) is Called:
                    self._held[effect.record.call] = anyio.current_time() + CALL_WAIT
                elif type(effect) is Settled:
                    out.extend(self._settled(effect.record))
                    fatal = fatal or (effect.record if effect.record.fatal else None)
                elif type(effect) is Stray and effect.verdict is not Verdict.UNKNOWN_CALL:
                    raw = {"call": effect.call, "verdict": effect.verdict.value}
                    out.append(Notice("function_stray", raw, run=effect.run))
        out.extend(self._called())
        if fatal is not None:
            out.append(self._failed(fatal))
        return fatal is not None

    def _called(self) -> Iterator[Notice]:
        """Tell the calls whose tool call has come by, and those that waited for it long enough."""
        ledger, now = self._bridge.ledger, anyio.current_time()
        for call in [call for call, due in self._held.items() if due <= now or ledger.seen(call)]:
            yield self._tell(call)

    def _tell(self, call: str) -> Notice:
        del self._held[call]
        record = self._bridge.ledger.record(call)
        assert record is not None
        raw = {"call": call, "function": record.function, "tool": record.tool, "arguments": record.arguments}
        return Notice("function_call", raw, run=record.run)

    def _settled(self, record: CallRecord) -> Iterator[Notice]:
        self._bridge.release(record.call)
        if record.call in self._held:
            yield self._tell(record.call)
        yield Notice("function_applied" if record.applied else "function_refused", _told(record), run=record.run)

    async def _read(self, effect: ReadFiles) -> None:
        root, folder = self._bridge.results_root, self._bridge.ledger.profile.folder
        contents = await anyio.to_thread.run_sync(_read_files, effect, root, folder)
        self._bridge.ledger.supply(effect.call, contents, at=anyio.current_time())

    def _failed(self, record: CallRecord) -> RunEnded:
        what = f"function result of {record.call} ({record.function})"
        diagnostic = f"{what} not confirmed: {record.verdict}: {record.detail}"
        return RunEnded(ERROR, diagnostic=diagnostic, raw=EXECUTION_FAILED, run=self._root or MAIN)


def _told(record: CallRecord) -> dict[str, Any]:
    settled = record.settled_at
    assert settled is not None and record.verdict is not None
    submitted = record.submitted_at
    return {
        "call": record.call,
        "function": record.function,
        "tool": record.tool,
        "verdict": record.verdict.value,
        "proof": record.proof,
        "is_error": record.is_error,
        "detail": record.detail,
        "seconds": settled - record.announced_at,
        "receipt_seconds": None if submitted is None else settled - submitted,
    }


def _read_files(effect: ReadFiles, root: Path | None, folder: tuple[str, str] | None) -> tuple[bytes | None, ...]:
    return tuple(_read_file(path, effect.session, root, folder) for path in effect.paths)


def _read_file(path: str, session: str | None, root: Path | None, folder: tuple[str, str] | None) -> bytes | None:
    """The bytes of a result file; None where it cannot be read, is too large, or its links lead elsewhere."""
    try:
        real = Path(os.path.realpath(path, strict=True))
        if folder is None or real.parts[-3:-1] != (session, folder[1]) or real.parts[-5:-4] != (folder[0],):
            return None
        if root is not None and not real.is_relative_to(os.path.realpath(root)):
            return None
        return real.read_bytes() if real.stat().st_size <= _RESULT_FILE else None
    except OSError:
        return None
