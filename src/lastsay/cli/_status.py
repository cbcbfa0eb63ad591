"""Exit statuses: one number for each way a run can end, so that a shell can tell them apart."""

from collections.abc import Iterable
from typing import Final

from lastsay.events import ABORTED, COMPLETED, MAX_TOKENS, REFUSAL

__all__ = ("BROKEN_PIPE", "FAILED", "INTERRUPTED", "USAGE", "status_of", "worst")

USAGE: Final = 2
"""The command was used wrongly."""
FAILED: Final = 6
"""Stop reason ``error`` or one that is not known; also: nothing could be read."""
INTERRUPTED: Final = 130
"""Ctrl-C: 128 + SIGINT."""
BROKEN_PIPE: Final = 141
"""The reader of our output went away: 128 + SIGPIPE."""

_BY_REASON: Final = {COMPLETED: 0, MAX_TOKENS: 3, REFUSAL: 4, ABORTED: 5}


def status_of(stop_reason: str) -> int:
    """The exit status for a stop reason; an unknown one is a failure."""
    return _BY_REASON.get(stop_reason, FAILED)


def worst(stop_reasons: Iterable[str]) -> int:
    """The largest exit status of several runs; a failure where there are none."""
    return max((status_of(reason) for reason in stop_reasons), default=FAILED)
