"""epochs: mark where a continuable child goes on.

A child that is continued works again after its end. Some harnesses say so, others just send the next turn. The rule:
when a run that has ended shows work of a new turn (a user's message, a message or a piece of one, a tool call, a new
start), an `EpochStarted` is put before it, with the next number of that run. What merely trickles in late (usage,
notices, a tool's late result, a replayed or synthetic message) starts nothing. A source that sends its own
`EpochStarted` is taken at its word.
"""

from collections.abc import Sequence

from lastsay.events import (
    EpochStarted,
    Event,
    Message,
    MessageStarted,
    Notice,
    ReasoningDelta,
    RunEnded,
    RunStarted,
    TextDelta,
    ToolCall,
)
from lastsay.operators._fused import Operator, through
from lastsay.operators._stage import Handlers, Stage

__all__ = ("epochs",)


def epochs() -> Operator:
    """Puts an `EpochStarted` where a run goes on after its end, so that each epoch gets a start, an end and an output.

    The first epoch has the number 0 and is not announced.
    """
    return through(_Epochs)


class _Epochs(Stage):
    kind = "flat"

    def __init__(self) -> None:
        self._ended: set[str] = set()
        self._number: dict[str, int] = {}

    def handlers(self) -> Handlers:
        return {
            RunEnded: self._end,
            EpochStarted: self._epoch,
            **dict.fromkeys((TextDelta, ReasoningDelta), (self._work, self._works)),
            **dict.fromkeys((RunStarted, MessageStarted, ToolCall), self._work),
            Message: self._message,
            Notice: self._notice,
        }

    def _end(self, event: RunEnded) -> Sequence[Event]:
        self._ended.add(event.run)
        return (event,)

    def _epoch(self, event: EpochStarted) -> Sequence[Event]:
        self._ended.discard(event.run)
        self._number[event.run] = event.epoch
        return (event,)

    def _work(self, event: Event) -> Sequence[Event]:
        run = event.run
        if run not in self._ended:
            return (event,)
        self._ended.discard(run)
        self._number[run] = number = self._number.get(run, 0) + 1
        return EpochStarted(number, run=run), event

    def _works(self, events: Sequence[Event]) -> Sequence[Event]:
        if not self._ended:
            return events
        return [passed for event in events for passed in self._work(event)]

    def _message(self, event: Message) -> Sequence[Event]:
        return self._work(event) if event.origin == "model" else (event,)

    def _notice(self, event: Notice) -> Sequence[Event]:
        return self._work(event) if event.kind == "user_message" else (event,)
