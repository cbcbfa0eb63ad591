"""Verdicts: what became of one function result.

Every call gets exactly one verdict. Three groups:

    confirmed   the native history holds the submitted result, under a rule that names how it is shown there
    refused     it does not, or nobody can tell; `rejected` is the one that a cancellation explains
    stray       about a receipt that belongs to no open submission; it never changes a call's verdict

    verdict            group      the native record
    exact              confirmed  holds what was submitted, unchanged
    placeholder        confirmed  holds the harness's own words for a result without text
    trimmed            confirmed  holds the joined error text without the white space at its ends
    truncated          confirmed  holds both ends of a long error text and the count of what was left out
    persisted          confirmed  holds a notice; the content lies in a file of the session, or in the record beside
    image              confirmed  holds an image wherever one was submitted, text and order unchanged
    outcome_only       confirmed  holds some text under the same flag; weak, and only where asked for
    mismatch           refused    holds something else
    flag_conflict      refused    says error where success was submitted, or the reverse
    rejected           refused    says that the call was cancelled or not executed
    timed_out          refused    says that the harness stopped waiting for the function
    before_submission  refused    was there before any result was submitted
    missing            refused    never came: within the time limit, or before the end of the run
    duplicate          stray      is a second receipt of a settled call
    late               stray      came after the wait for it was over
    unknown_call       stray      is for a call that never reached the host
"""

from enum import StrEnum
from typing import Final, Literal

__all__ = ("CONFIRMED", "STRAY", "Proof", "Verdict")


class Verdict(StrEnum):
    """What became of one function result; the table at the top of this module says what each word means."""

    EXACT = "exact"
    PLACEHOLDER = "placeholder"
    TRIMMED = "trimmed"
    TRUNCATED = "truncated"
    PERSISTED = "persisted"
    IMAGE = "image"
    OUTCOME_ONLY = "outcome_only"
    MISMATCH = "mismatch"
    FLAG_CONFLICT = "flag_conflict"
    REJECTED = "rejected"
    TIMED_OUT = "timed_out"
    BEFORE_SUBMISSION = "before_submission"
    MISSING = "missing"
    DUPLICATE = "duplicate"
    LATE = "late"
    UNKNOWN_CALL = "unknown_call"

    @property
    def confirmed(self) -> bool:
        """Whether the native history is known to hold the submitted result."""
        return self in CONFIRMED


CONFIRMED: Final = frozenset(
    {
        Verdict.EXACT,
        Verdict.PLACEHOLDER,
        Verdict.TRIMMED,
        Verdict.TRUNCATED,
        Verdict.PERSISTED,
        Verdict.IMAGE,
        Verdict.OUTCOME_ONLY,
    }
)

STRAY: Final = frozenset({Verdict.DUPLICATE, Verdict.LATE, Verdict.UNKNOWN_CALL})

Proof = Literal["record", "content", "file", "shape", "outcome"]
"""What a confirmation rests on, strongest first in kind: the harness's own record of the submitted parts; the content
that the model is shown; a file of the session, read and compared; the shape alone (an image that the harness may have
scaled); the flag alone."""
