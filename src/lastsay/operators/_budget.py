"""budget: stop a stream that costs too much.

What counts is everything on the stream, all runs together. The budget is spent when a count goes *over* its limit, so
a child that needs exactly its budget is not touched. The event that goes over is passed on (it has been paid for),
except for the limit of events, where it is the one too many. Then every open run gets its end record, and the source
is closed.
"""

from collections.abc import Sequence

from lastsay.errors import UsageError
from lastsay.events import (
    EVENT_TYPES,
    Deltas,
    Event,
    Message,
    ReasoningDelta,
    RunEnded,
    TextDelta,
    ToolCall,
    Usage,
    UsageReported,
)
from lastsay.operators._fused import Operator, through
from lastsay.operators._runs import OpenRuns
from lastsay.operators._stage import Handlers, Stage

__all__ = ("budget",)


def budget(
    *,
    events: int | None = None,
    characters: int | None = None,
    tokens: int | None = None,
    tool_calls: int | None = None,
) -> Operator:
    """Ends the stream when it goes over a limit; everything received until then is kept.

    The runs still open end with the stop reason ``budget-events``, ``budget-characters``, ``budget-tokens`` or
    ``budget-tool-calls`` (raw: the same in snake case), which every consumer treats as a failure with partial output.

    Args:
        events: events, end records not counted.
        characters: characters of streamed text and reasoning.
        tokens: input and output tokens as the source reports them (of messages by id, or of whole runs, whichever is
            more); cached input is not counted.
        tool_calls: tool calls that the harness runs.
    """
    limits = {"events": events, "characters": characters, "tokens": tokens, "tool_calls": tool_calls}
    given = {name: limit for name, limit in limits.items() if limit is not None}
    for name, limit in given.items():
        if limit < 0:
            raise UsageError(f"budget({name}={limit}): a limit is 0 or more")
    if not given:
        raise UsageError(f"budget() needs a limit: {', '.join(limits)}")
    return through(lambda: _Budget(given))


class _Budget(Stage):
    kind = "flat"
    may_end = True

    def __init__(self, limits: dict[str, int]) -> None:
        self._limits = limits
        self._spent = dict.fromkeys(("events", "characters", "tokens", "tool_calls"), 0)
        self._usage: dict[tuple[str, str | None], int] = {}
        self._runs = OpenRuns()

    def handlers(self) -> Handlers:
        deltas: Handlers = dict.fromkeys((TextDelta, ReasoningDelta), (self._one, self._deltas))
        return {**dict.fromkeys(EVENT_TYPES, self._one), **deltas}

    def _one(self, event: Event) -> Sequence[Event]:
        if self.ended:
            return ()
        if type(event) is not RunEnded:
            self._spent["events"] += 1
            if self._over("events"):
                return self._end("events")
        self._runs.see(event)
        self._count(event)
        over = next((name for name in self._limits if name != "events" and self._over(name)), None)
        return (event,) if over is None else (event, *self._end(over))

    def _deltas(self, events: Deltas) -> Sequence[Event]:
        """A whole run at once, if it stays within the limits; else one by one, to find where it goes over."""
        spent = self._spent
        before = spent["events"], spent["characters"]
        spent["events"] += len(events)
        spent["characters"] += len(events.text)
        if self.ended or self._over("events") or self._over("characters"):
            spent["events"], spent["characters"] = before
            return [passed for event in events for passed in self._one(event)]
        self._runs.see(events[0])
        return events

    def _over(self, name: str) -> bool:
        limit = self._limits.get(name)
        return limit is not None and self._spent[name] > limit

    def _count(self, event: Event) -> None:
        kind = type(event)
        if kind is TextDelta or kind is ReasoningDelta:
            self._spent["characters"] += len(event.text)  # type: ignore[union-attr]  # checked by identity of class
        elif kind is ToolCall:
            self._spent["tool_calls"] += 1
        elif isinstance(event, (Message, UsageReported)) and event.usage is not None:
            self._usage[event.run, event.message] = _total(event.usage)
            messages = sum(count for (_, message), count in self._usage.items() if message is not None)
            runs = sum(count for (_, message), count in self._usage.items() if message is None)
            self._spent["tokens"] = max(messages, runs)

    def _end(self, name: str) -> list[Event]:
        self.ended = True
        what = name.replace("_", " ")
        return self._runs.end(f"budget_{name}", f"stopped: more than the budget of {self._limits[name]} {what}")


def _total(usage: Usage) -> int:
    return (usage.input_tokens or 0) + (usage.output_tokens or 0)
