"""The ledger: every function call of one run, from the harness's request to exactly one verdict.

A call is known by its native id alone; request ids, names and the order of arrival mean nothing. The ledger does no
I/O and has no clock: times are arguments, and files to read are effects that its owner takes and answers.

    state      announce  submit    abort      receipt                        files    expire   close
    (unknown)  open      unknown   -          stray unknown_call             -        -        -
    open       refused   sent      abandoned  settled: rejected, timed_out   -        -        settled: missing, or
                                              or before_submission                             rejected if cancelled
    abandoned  refused   conflict  -          settled: rejected, timed_out   -        -        settled: rejected
                                              or before_submission
    sent       refused   again     void       settled, or checking           -        missing  settled: missing
    void       refused   again     -          settled: rejected, timed_out   -        missing  settled: rejected
    checking   refused   again     -          stray duplicate                settled  -        settled: missing
    settled    refused   again     -          stray duplicate, late          -        -        -

`again`: the same result is accepted once more and delivered to nobody; a different one is a conflict. Where nothing was
submitted, a first result for a settled call is a conflict as well. A batch of submissions is taken whole or not at all.

A receipt counts when it is live (no replay, nothing synthetic), of the ledger's session, and from the run that made the
call: the run of the `ToolCall` event with this id, or the root where no such event was seen. Anything else is ignored.

A call that was aborted is never confirmed, even if a matching receipt comes later: whoever waited for its result is
gone. A result is handed over once; nothing is ever sent again.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from lastsay.errors import ReceiptError
from lastsay.events import MAIN, Event, Notice, ToolCall, ToolResult
from lastsay.receipts._admission import FunctionResult, Limits, Submission, check_call_id, check_size
from lastsay.receipts._evidence import Receipt, receipt_of
from lastsay.receipts._judging import FileCheck, Judgement, is_rejection, judge, judge_files, stopped_waiting
from lastsay.receipts._profiles import NativeProfile, profile_for
from lastsay.receipts._records import Called, CallRecord, Effect, ReadFiles, RefusedError, Settled, State, Stray
from lastsay.receipts._verdicts import Verdict

__all__ = ("RECEIPT_TIMEOUT", "Ledger")

RECEIPT_TIMEOUT: Final = 10.0
"""Seconds to wait for a receipt. Claude Code 2.1.332 needs 8 ms in the median and 112 ms at most."""


class _Call:
    __slots__ = (
        "announced_at", "arguments", "check", "function", "id", "judgement", "result", "run", "settled_at", "state",
        "submitted_at", "tool",
    )  # fmt: skip

    def __init__(self, call: str, function: str, arguments: Any, *, tool: str, run: str, at: float) -> None:
        self.id, self.function, self.arguments, self.tool, self.run = call, function, arguments, tool, run
        self.state = State.OPEN
        self.announced_at = at
        self.submitted_at: float | None = None
        self.settled_at: float | None = None
        self.result: FunctionResult | None = None
        self.check: FileCheck | None = None
        self.judgement: Judgement | None = None

    def record(self) -> CallRecord:
        result, judgement = self.result, self.judgement
        return CallRecord(
            call=self.id,
            function=self.function,
            arguments=self.arguments,
            tool=self.tool,
            run=self.run,
            state=self.state,
            announced_at=self.announced_at,
            submitted_at=self.submitted_at,
            settled_at=self.settled_at,
            is_error=result.is_error if result else None,
            content=result.parts if result else None,
            verdict=judgement.verdict if judgement else None,
            proof=judgement.proof if judgement else None,
            detail=judgement.detail if judgement else None,
        )


class Ledger:
    """The function calls of one run. Push what happened in, take effects out.

    Args:
        profile: how the harness shows results. None takes the row for the version that a Claude CLI reports in its
            ``init`` notice, and the newest one until then.
        session: the native session whose receipts count. None takes the one that the ``init`` notice names, or else
            the first receipt.
        turn: the host's turn id; a submission that names another one is refused.
        timeout: seconds to wait for a receipt after a submission.
        limits: what is taken in at most.
    """

    def __init__(
        self,
        *,
        profile: NativeProfile | None = None,
        session: str | None = None,
        turn: str | None = None,
        timeout: float = RECEIPT_TIMEOUT,
        limits: Limits | None = None,
    ) -> None:
        self.profile: NativeProfile = profile if profile is not None else profile_for(None)
        self.session = session
        self._learns = (profile is None, session is None)
        self.turn = turn
        self.timeout = timeout
        self.limits: Limits = limits or Limits()
        self._calls: dict[str, _Call] = {}
        self._unsettled: dict[str, _Call] = {}
        self._seen: dict[str, ToolCall] = {}
        self._outbox: list[Effect] = []
        self._closed = False

    # What the harness and the host do

    def announce(self, call: str, function: str, arguments: Any = None, *, tool: str | None = None, at: float) -> None:
        """Enter a call that the harness asked its host for.

        Args:
            call: the native call id.
            function: the name under which the host declared it.
            arguments: what the model passed.
            tool: the native tool name, where it differs; a `ToolCall` event with this id says it as well.
            at: the time, in seconds of any steady clock.

        Raises:
            RefusedError: the id is unusable or was used before in this run, or the run is over.
        """
        try:
            check_call_id(call)
        except ValueError as error:
            raise RefusedError("invalid", f"function call refused: {error}") from None
        if call in self._calls:
            raise RefusedError("repeated_call", f"function call refused: {call} was already used in this run")
        if self._closed:
            raise RefusedError("conflict", f"function call refused: the run of {call} is over")
        seen = self._seen.get(call)
        name = seen.name if seen else tool or function
        entry = _Call(call, function, arguments, tool=name, run=seen.run if seen else MAIN, at=at)
        self._calls[call] = self._unsettled[call] = entry
        self._outbox.append(Called(entry.record()))

    def submit(self, call: str, result: FunctionResult, *, at: float, turn: str | None = None) -> bool:
        """Take in the result of a call.

        Returns:
            True where it is new and must be handed to the harness now; False for a retry of the same result.

        Raises:
            RefusedError: unknown call, foreign turn, a different result than before, or too late.
        """
        new = self._admits(call, result, turn)
        if new:
            self._send(call, result, at)
        return new

    def submit_all(self, batch: Iterable[Submission], *, at: float) -> dict[str, bool]:
        """Take in several results, all of them or none.

        Returns:
            For each call id, whether its result is new.

        Raises:
            RefusedError: one of them is refused, or two of them contradict each other; none was taken.
        """
        submissions = list(batch)
        if len(submissions) > self.limits.batch:
            raise RefusedError("invalid", f"batch refused: {len(submissions)} results, over {self.limits.batch}")
        results: dict[str, FunctionResult] = {}
        new: dict[str, bool] = {}
        for submission in submissions:
            call, result = submission.call_id, submission.result
            new[call] = self._admits(call, result, submission.turn_id)
            if results.setdefault(call, result).identity != result.identity:
                raise RefusedError("conflict", f"batch refused: two different results for {call}")
        for call, result in results.items():
            if new[call]:
                self._send(call, result, at)
        return new

    def _admits(self, call: str, result: FunctionResult, turn: str | None) -> bool:
        entry = self._calls.get(call)
        if entry is None:
            raise RefusedError("unknown_call", f"function result refused: no call {call} in this run")
        if turn is not None and self.turn is not None and turn != self.turn:
            raise RefusedError("foreign_turn", f"function result refused: call {call} belongs to turn {self.turn}")
        try:
            check_size(result, self.limits)
        except ReceiptError as error:
            raise RefusedError("invalid", str(error)) from None
        if entry.result is not None:
            if entry.result.identity == result.identity:
                return False
            raise RefusedError("conflict", f"function result refused: call {call} has a different one already")
        if entry.state is not State.OPEN:
            raise RefusedError("conflict", f"function result refused: call {call} is {entry.state}")
        return True

    def _send(self, call: str, result: FunctionResult, at: float) -> None:
        entry = self._calls[call]
        entry.result, entry.submitted_at, entry.state = result, at, State.SENT

    def abort(self, call: str) -> None:
        """Note that whoever waited for the call's result is gone: it can no longer be confirmed."""
        entry = self._calls.get(call)
        if entry is not None:
            entry.state = _ABORTED.get(entry.state, entry.state)

    def abandon(self) -> None:
        """Note that the run is being cancelled: calls without a result take none any more."""
        for entry in self._unsettled.values():
            if entry.state is State.OPEN:
                entry.state = State.ABANDONED

    # What the stream says

    def push(self, event: Event, *, at: float) -> None:
        """Read one event of the stream: tool calls, tool results and the harness's ``init`` notice."""
        kind = type(event)
        if kind is ToolCall:
            assert isinstance(event, ToolCall)
            self._saw(event)
        elif kind is ToolResult:
            assert isinstance(event, ToolResult)
            self._receive(receipt_of(event), at)
        elif kind is Notice:
            assert isinstance(event, Notice)
            if event.kind == "init" and isinstance(event.raw, dict):
                self._learn(event.raw.get("claude_code_version"), event.raw.get("session_id"))

    def _learn(self, version: Any, session: Any) -> None:
        learns_profile, learns_session = self._learns
        if learns_profile and isinstance(version, str):
            self.profile = profile_for(version)
        if learns_session and isinstance(session, str):
            self.session = session

    def _saw(self, event: ToolCall) -> None:
        self._seen[event.id] = event
        entry = self._calls.get(event.id)
        if entry is not None:
            entry.tool, entry.run = event.name, event.run

    def _receive(self, receipt: Receipt, at: float) -> None:
        if not self._counts(receipt):
            return
        if receipt.session is None:
            receipt = msgspec.structs.replace(receipt, session=self.session)
        entry = self._calls.get(receipt.call)
        if entry is None:
            self._outbox.append(Stray(receipt.call, Verdict.UNKNOWN_CALL, receipt.run))
        elif entry.state is State.SETTLED or entry.state is State.CHECKING:
            late = entry.judgement is not None and entry.judgement.verdict is Verdict.MISSING
            self._outbox.append(Stray(receipt.call, Verdict.LATE if late else Verdict.DUPLICATE, receipt.run))
        elif entry.state is State.SENT:
            assert entry.result is not None
            found = judge(entry.result, receipt, entry.tool, self.profile)
            self._judged(entry, found, at)
        else:
            self._settle(entry, self._unanswered(entry, receipt), at)

    def _counts(self, receipt: Receipt) -> bool:
        if not receipt.live:
            return False
        seen = self._seen.get(receipt.call)
        if seen.run != receipt.run if seen else not receipt.root:
            return False
        if receipt.session is not None and self.session is None and receipt.call in self._calls:
            self.session = receipt.session
        return receipt.session is None or self.session in (None, receipt.session)

    def _judged(self, entry: _Call, found: Judgement | FileCheck, at: float) -> None:
        if isinstance(found, Judgement):
            self._settle(entry, found, at)
            return
        entry.check, entry.state = found, State.CHECKING
        self._outbox.append(ReadFiles(entry.id, found.paths, found.session, entry.run))

    def _unanswered(self, entry: _Call, receipt: Receipt) -> Judgement:
        """The verdict on a receipt for a call that has no result, or whose result was overtaken by an abort."""
        cancelled = entry.state is not State.OPEN
        if stopped_waiting(receipt, self.profile):
            return Judgement(Verdict.TIMED_OUT, detail="the harness stopped waiting for the function")
        rejected = receipt.not_executed or is_rejection(receipt, self.profile)
        if rejected or entry.state is State.VOID or (cancelled and receipt.is_error):
            return Judgement(Verdict.REJECTED, detail="the call was cancelled")
        return Judgement(Verdict.BEFORE_SUBMISSION, detail="the history holds a result that its host never gave")

    def supply(self, call: str, contents: tuple[bytes | None, ...], *, at: float) -> None:
        """Answer a `ReadFiles` effect: the bytes of each file, None where it could not or must not be read."""
        entry = self._calls.get(call)
        if entry is not None and entry.state is State.CHECKING:
            assert entry.check is not None
            self._settle(entry, judge_files(entry.check, contents), at)

    # Time and the end

    def deadline(self) -> float | None:
        """When the next receipt is overdue, in seconds of the caller's clock; None where none is awaited."""
        waiting = [
            e.submitted_at for e in self._unsettled.values() if e.state in _WAITING and e.submitted_at is not None
        ]
        return min(waiting) + self.timeout if waiting else None

    def expire(self, *, at: float) -> None:
        """Settle as missing what has waited longer than the time limit."""
        for entry in tuple(self._unsettled.values()):
            if entry.state in _WAITING and entry.submitted_at is not None and at - entry.submitted_at >= self.timeout:
                detail = f"no receipt within {self.timeout:g} seconds"
                self._settle(entry, Judgement(Verdict.MISSING, detail=detail), at)

    def close(self, *, at: float, cancelled: bool = False) -> None:
        """End the run: whatever is open gets its verdict. May be called again, without effect.

        Args:
            at: the time, in seconds of the caller's clock.
            cancelled: whether the run is known to have been cancelled; only then may an unanswered call be dropped.
        """
        self._closed = True
        for entry in tuple(self._unsettled.values()):
            dropped = entry.state in _CANCELLED or (cancelled and entry.state is State.OPEN)
            verdict = Verdict.REJECTED if dropped else Verdict.MISSING
            self._settle(entry, Judgement(verdict, detail="the run ended before its receipt"), at)

    def _settle(self, entry: _Call, judgement: Judgement, at: float) -> None:
        entry.judgement, entry.settled_at, entry.state = judgement, at, State.SETTLED
        del self._unsettled[entry.id]
        self._outbox.append(Settled(entry.record()))

    # What comes out

    def take(self) -> list[Effect]:
        """The effects since the last time, in order."""
        effects, self._outbox = self._outbox, []
        return effects

    def seen(self, call: str) -> bool:
        """Whether a `ToolCall` event with this id has come by."""
        return call in self._seen

    def record(self, call: str) -> CallRecord | None:
        """The call as it stands now; None for an unknown id."""
        entry = self._calls.get(call)
        return entry.record() if entry is not None else None

    def result(self, call: str) -> FunctionResult | None:
        """The result that was submitted for a call; None where there is none."""
        entry = self._calls.get(call)
        return entry.result if entry is not None else None

    def records(self) -> tuple[CallRecord, ...]:
        """All calls as they stand now, in the order in which they were announced."""
        return tuple(entry.record() for entry in self._calls.values())

    def verdicts(self) -> Mapping[Verdict, int]:
        """How many calls have which verdict."""
        counts: dict[Verdict, int] = {}
        for entry in self._calls.values():
            if entry.judgement is not None:
                verdict = entry.judgement.verdict
                counts[verdict] = counts.get(verdict, 0) + 1
        return counts


_ABORTED: Final[Mapping[State, State]] = {State.OPEN: State.ABANDONED, State.SENT: State.VOID}
_WAITING: Final = frozenset({State.SENT, State.VOID})
_CANCELLED: Final = frozenset({State.ABANDONED, State.VOID})
