"""What a consumer is: a synchronous observer of runs, called in the one loop that reads the stream.

Every run gives exactly one `start` and one `end`, whatever happens between them; `observe` is called with the events of
a run in order, all of one class at a time. A consumer that raises is logged once and dropped; the others, and the run,
go on. A method may return an awaitable: it is awaited before the stream is read on, for at most `AWAIT_LIMIT` seconds.
"""

from collections.abc import Awaitable, Sequence
from typing import Final, Literal

import msgspec

from lastsay.events import Event
from lastsay.fold import Outcome

__all__ = ("AWAIT_LIMIT", "Consumer", "RunEnd", "RunStart", "StreamEnd")

AWAIT_LIMIT: Final = 5.0
"""Seconds that an awaitable returned by a consumer may take."""

StreamEnd = Literal["ended", "drained", "closed_early", "cancelled", "consumer_failed", "source_failed"]
"""How the stream of a run ended for us, which is another matter than what the child said: its end record came; the
stream ran out without one; the reader left, was cancelled, or raised; the source raised."""


class RunStart(msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """The facts about a run that are known when it starts."""

    run_id: str
    """Unique to this activation: a child that is continued has a new one for each epoch."""
    run: str
    """The run id that the events carry."""
    parent_id: str | None
    """`run_id` of the parent's activation, or None for the root and for orphans."""
    parent: str | None
    """The parent's run id as the events carry it."""
    agent: str | None
    provider: str | None
    """The backend's name."""
    model: str | None
    local: bool
    call: str | None
    """The tool call of the parent that caused the run, where known."""
    epoch: int
    time_ns: int
    """When the run started, in nanoseconds since the epoch: the source's own time where it gives one."""


class RunEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run: the one outcome that every consumer is handed."""

    start: RunStart
    outcome: Outcome
    how: StreamEnd
    time_ns: int


class Consumer:
    """Base of all consumers: override what is needed. `rank` orders them at an end; lower is told first."""

    rank: int = 0

    contained: bool = False
    """Whether `observe` neither raises nor returns anything: then it may be called without a guard, for speed."""

    def start(self, start: RunStart) -> Awaitable[None] | None:
        """A run started. Called before its first event is handed on."""

    def observe(self, start: RunStart, events: Sequence[Event]) -> Awaitable[None] | None:
        """Consecutive events of one class of a run."""

    def end(self, end: RunEnd) -> Awaitable[None] | None:
        """A run ended; the outcome is frozen. Called exactly once per `start`."""
