"""A lane: one consumer's mailbox, and what happens when that consumer is slow.

| policy      | when the lane is full                                                                            |
|-------------|--------------------------------------------------------------------------------------------------|
| block       | the source waits, and with it everyone else                                                      |
| drop_deltas | deltas are dropped until there is room; a `Notice` ``deltas_dropped`` tells how many, in their place |
| disconnect  | the consumer gets a `Fault` ``disconnected`` and, from then on, end records only                 |

End records are never dropped, under any policy.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Final, Literal, NamedTuple

from lastsay.errors import UsageError
from lastsay.events import Event, Fault, Notice, ReasoningDelta, RunEnded, TextDelta
from lastsay.operators._mailbox import Mailbox

__all__ = ("Lane", "LaneStatistics", "WhenFull")

WhenFull = Literal["block", "drop_deltas", "disconnect"]
_POLICIES: Final = ("block", "drop_deltas", "disconnect")
_DELTAS: Final = (TextDelta, ReasoningDelta)


class LaneStatistics(NamedTuple):
    """What became of a consumer's events so far."""

    name: str
    policy: WhenFull
    delivered: int
    """Events put into the lane."""
    dropped: int
    """Events that this consumer will never see."""
    waiting: int
    """Events in the lane that it has not taken yet."""
    connected: bool
    """Whether it still gets events: False after it left, was disconnected, or everything was delivered."""


class Lane:
    """The way of one consumer; see the table above.

    Args:
        name: for the statistics and for what is told to the consumer.
        policy: what to do when `room` events wait.
        room: events that may wait.
    """

    __slots__ = ("_cut", "_delivered", "_dropped", "_gap", "mailbox", "name", "policy")

    def __init__(self, name: str, policy: WhenFull, room: int) -> None:
        if policy not in _POLICIES:
            raise UsageError(f"policy={policy!r}: one of {', '.join(_POLICIES)}")
        if room < 1:
            raise UsageError(f"room={room}: at least 1 event")
        self.name: str = name
        self.policy = policy
        self.mailbox: Mailbox = Mailbox(room)
        self._delivered = self._dropped = self._gap = 0
        self._cut = False

    def offer(self, batch: list[Event]) -> bool:
        """Put in what the policy allows; whether the source has to wait for this lane now."""
        box = self.mailbox
        if box.closed:
            self._dropped += len(batch)
            return False
        if self.policy == "block":
            self._delivered += len(batch)
            return box.put_nowait(batch)
        self._offer_unblocked(box, batch)
        return False

    def _offer_unblocked(self, box: Mailbox, batch: list[Event]) -> None:
        if self._cut:
            self._put([event for event in batch if type(event) is RunEnded], len(batch))
        elif box.waiting + len(batch) <= max(box.room, len(batch) if not box.waiting else 0):
            if self._gap:
                self._tell_gap()
            self._put(batch, len(batch))
        elif self.policy == "drop_deltas":
            kept = [event for event in batch if type(event) not in _DELTAS]
            self._gap += len(batch) - len(kept)
            self._put(kept, len(batch))
        else:
            self._cut = True
            full = f"{self.name}: {box.waiting} events were waiting; only end records follow"
            box.put_nowait([Fault("disconnected", full)])
            self._put([event for event in batch if type(event) is RunEnded], len(batch))

    def _put(self, kept: list[Event], offered: int) -> None:
        self._delivered += len(kept)
        self._dropped += offered - len(kept)
        self.mailbox.put_nowait(kept)

    def _tell_gap(self) -> None:
        self.mailbox.put_nowait([Notice("deltas_dropped", {"count": self._gap})])
        self._gap = 0

    def finish(self, error: BaseException | None) -> None:
        """No more will come."""
        if self._gap:
            self._tell_gap()
        self.mailbox.close(error)

    def statistics(self) -> LaneStatistics:
        """The counts as they are now."""
        connected = not (self._cut or self.mailbox.closed)
        return LaneStatistics(self.name, self.policy, self._delivered, self._dropped, self.mailbox.waiting, connected)


class LaneEntry(AbstractAsyncContextManager[AsyncIterator[list[Event]]]):
    """The one entry of a lane; leaving it early lets the others go on without it."""

    __slots__ = ("_generator", "_lane")

    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    async def __aenter__(self) -> AsyncIterator[list[Event]]:
        self._generator = self._lane.mailbox.lists()
        return self._generator

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lane.mailbox.drop()
        await self._generator.aclose()
