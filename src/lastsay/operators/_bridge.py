"""The function bridge: where a waiting harness, an answering host and the confirming stream meet.

    harness side   `await bridge.call(id, name, arguments)` enters the call and waits for its result
    host side      `bridge.submit(id, result)`, from anywhere in the same event loop
    stream side    `stream | confirm(bridge)` settles the verdicts as the receipts come by

One bridge serves one run. All decisions are the ledger's; this class only adds the clock and the waiting.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel

from lastsay.errors import ReceiptError, UsageError
from lastsay.receipts import (
    RECEIPT_TIMEOUT,
    CallRecord,
    FunctionResult,
    Ledger,
    Limits,
    NativeProfile,
    RefusedError,
    Submission,
    Verdict,
    admit,
    check_size,
)

__all__ = ("FunctionBridge",)


class FunctionBridge:
    """Takes function calls from a harness and results from their host, and knows what became of each.

    Args:
        profile: how the harness shows results (`lastsay.receipts.profile_for`); None for the newest Claude row,
            `lastsay.receipts.EXACT` for a harness that keeps results as they are.
        timeout: seconds to wait for a receipt after a submission.
        session: the native session whose receipts count; None takes the first one that a receipt names.
        turn: the host's turn id; a submission that names another one is refused.
        limits: what is taken in at most.
        results_root: folder below which the harness's result files must lie; None checks their place in it only.
    """

    def __init__(
        self,
        *,
        profile: NativeProfile | None = None,
        timeout: float = RECEIPT_TIMEOUT,
        session: str | None = None,
        turn: str | None = None,
        limits: Limits | None = None,
        results_root: Path | None = None,
    ) -> None:
        self.ledger: Ledger = Ledger(profile=profile, session=session, turn=turn, timeout=timeout, limits=limits)
        self.results_root = results_root
        self._answers: dict[str, anyio.Event] = {}
        self._news = anyio.Event()
        self._confirming = False

    # Harness side

    async def call(self, call: str, function: str, arguments: Any = None, *, tool: str | None = None) -> FunctionResult:
        """The result that the host submits for this call; waits for it.

        Args:
            call: the native call id; without it no receipt can be found.
            function: the name under which the host declared the function.
            arguments: what the model passed.
            tool: the native tool name, where it differs.

        Raises:
            RefusedError: the id is unusable or repeated, the run is over, or ends while waiting.

        Cancellation: safe; the call is marked as aborted and can no longer be confirmed.
        """
        self.ledger.announce(call, function, arguments, tool=tool, at=anyio.current_time())
        answered = self._answers[call] = anyio.Event()
        self.wake()
        try:
            await answered.wait()
        except BaseException:
            self.ledger.abort(call)
            raise
        finally:
            del self._answers[call]
        result = self.ledger.result(call)
        if result is None:
            raise RefusedError("conflict", f"call {call} was settled before its host answered")
        return result

    async def answer(
        self,
        call: str,
        function: str,
        arguments: Any,
        handler: Callable[[Any], Awaitable[FunctionResult | Mapping[str, Any]]],
        *,
        tool: str | None = None,
    ) -> FunctionResult:
        """The result that `handler` gives for this call, submitted; like `call`, with the host in the same place.

        An exception in the handler, and a result that is not admitted, become a failed result with its text.

        Raises:
            RefusedError: the id is unusable or repeated, or the run ended while the handler ran.

        Cancellation: safe; the handler is cancelled and the call is marked as aborted.
        """
        self.ledger.announce(call, function, arguments, tool=tool, at=anyio.current_time())
        self.wake()
        try:
            result = await self._handled(call, arguments, handler)
            await anyio.lowlevel.checkpoint_if_cancelled()
        except BaseException:
            self.ledger.abort(call)
            raise
        self.submit(call, result)
        return result

    async def _handled(
        self, call: str, arguments: Any, handler: Callable[[Any], Awaitable[FunctionResult | Mapping[str, Any]]]
    ) -> FunctionResult:
        try:
            result = await handler(arguments)
        except Exception as error:  # noqa: BLE001  # the model is told, as a harness does with its own tools
            return FunctionResult(success=False, error=str(error) or type(error).__name__)
        try:
            return self._admitted(call, result)
        except ReceiptError as error:
            return FunctionResult(success=False, error=str(error))

    def _admitted(self, call: str, result: FunctionResult | Mapping[str, Any]) -> FunctionResult:
        if isinstance(result, FunctionResult):
            check_size(result, self.ledger.limits)
            return result
        return admit({**result, "call_id": call}, limits=self.ledger.limits).result

    # Host side

    def submit(self, call: str, result: FunctionResult | Mapping[str, Any], *, turn: str | None = None) -> bool:
        """Give the result of a call.

        Args:
            call: the native call id, from the ``function_call`` notice.
            result: a `FunctionResult`, or a decoded JSON object that is admitted as one.
            turn: the host's turn id, where it names turns.

        Returns:
            True where the result is new; False for a retry of the same one, which is not delivered again.

        Raises:
            ReceiptError: the result is not admitted, the call is unknown or already has a different one, or it is too
                late. Nothing was consumed: a pending call stays pending.
        """
        new = self.ledger.submit(call, self._admitted(call, result), at=anyio.current_time(), turn=turn)
        self._answer(call)
        return new

    def submit_all(self, batch: Iterable[Submission | Mapping[str, Any]]) -> dict[str, bool]:
        """Give several results, all of them or none; see `submit`. Each names its ``call_id``."""
        limits = self.ledger.limits
        submissions = [s if isinstance(s, Submission) else admit(dict(s), limits=limits) for s in batch]
        taken = self.ledger.submit_all(submissions, at=anyio.current_time())
        for call in taken:
            self._answer(call)
        return taken

    def cancel(self) -> None:
        """Say that the run is being cancelled: calls that have no result take none any more."""
        self.ledger.abandon()

    def records(self) -> tuple[CallRecord, ...]:
        """All calls as they stand now, in the order in which the harness asked for them."""
        return self.ledger.records()

    def verdicts(self) -> Mapping[Verdict, int]:
        """How many calls have which verdict."""
        return self.ledger.verdicts()

    # Stream side, for `confirm`

    def begin(self) -> None:
        """Claim the bridge for one confirming stream.

        Raises:
            UsageError: another one has it; a bridge serves one run.
        """
        if self._confirming:
            raise UsageError("a bridge serves one run: make a new FunctionBridge for each entry of the stream")
        self._confirming = True

    def wake(self) -> None:
        """Wake the confirming stream: there is something new."""
        self._news.set()

    def arm(self) -> None:
        """Begin to listen: `news` waits for what comes after this call."""
        self._news = anyio.Event()

    async def news(self) -> None:
        """Wait until there is something new since `arm`."""
        await self._news.wait()

    def release(self, call: str) -> None:
        """Let whoever waits for the result of a settled call go on."""
        self._answer(call)

    def release_all(self) -> None:
        """Let everyone go on: the run is over."""
        for call in self._answers:
            self._answer(call)

    def _answer(self, call: str) -> None:
        waiting = self._answers.get(call)
        if waiting is not None:
            waiting.set()
        self.wake()
