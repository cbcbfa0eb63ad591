"""What a ledger tells: the record of a call, and the effects that its owner takes out."""

from enum import StrEnum
from typing import Any, Final, Literal

import msgspec

from lastsay.errors import ReceiptError
from lastsay.events import MAIN
from lastsay.receipts._admission import Part
from lastsay.receipts._verdicts import Proof, Verdict

__all__ = ("CallRecord", "Called", "Effect", "ReadFiles", "RefusedError", "Settled", "State", "Stray")

Reason = Literal["invalid", "unknown_call", "foreign_turn", "conflict", "repeated_call"]


class RefusedError(ReceiptError):
    """A call or a result was refused; nothing was consumed.

    Args:
        reason: ``invalid``, ``unknown_call``, ``foreign_turn``, ``conflict`` or ``repeated_call``.
        message: what is wrong with it.
    """

    def __init__(self, reason: Reason, message: str) -> None:
        self.reason = reason
        super().__init__(message)


class State(StrEnum):
    """Where a call stands; the table at the top of this module says how it moves."""

    OPEN = "open"
    ABANDONED = "abandoned"
    SENT = "sent"
    VOID = "void"
    CHECKING = "checking"
    SETTLED = "settled"


class CallRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One call as it stands, for whoever reports about it. Times are in the clock of the caller, in seconds."""

    call: str
    function: str
    arguments: Any
    tool: str
    run: str
    state: State
    announced_at: float
    submitted_at: float | None = None
    settled_at: float | None = None
    is_error: bool | None = None
    content: tuple[Part, ...] | None = None
    """The submitted parts; None where nothing was submitted."""
    verdict: Verdict | None = None
    proof: Proof | None = None
    detail: str | None = None

    @property
    def applied(self) -> bool:
        """Whether the native history is known to hold the result."""
        return self.verdict is not None and self.verdict.confirmed

    @property
    def fatal(self) -> bool:
        """Whether the run cannot be trusted any more: what the harness holds is wrong or unknown.

        An unanswered call that was cancelled or timed out is not fatal, nor is a result that a cancellation overtook.
        """
        if self.verdict is Verdict.TIMED_OUT:
            return self.submitted_at is not None
        return self.verdict in _FATAL


_FATAL: Final = frozenset({Verdict.MISMATCH, Verdict.FLAG_CONFLICT, Verdict.BEFORE_SUBMISSION, Verdict.MISSING})


class Called(msgspec.Struct, frozen=True):
    """The harness asked for a call: its host may answer now."""

    record: CallRecord


class Settled(msgspec.Struct, frozen=True):
    """A call has its verdict."""

    record: CallRecord


class Stray(msgspec.Struct, frozen=True):
    """A receipt that belongs to no open submission. It changes nothing."""

    call: str
    verdict: Verdict
    run: str = MAIN


class ReadFiles(msgspec.Struct, frozen=True):
    """Files to be read for a verdict; answer with `Ledger.supply`.

    The paths were checked by name alone. Whoever reads them resolves links first and refuses what leaves the folder.
    """

    call: str
    paths: tuple[str, ...]
    session: str | None
    run: str = MAIN


Effect = Called | Settled | Stray | ReadFiles
