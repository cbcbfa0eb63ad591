"""The tally: what is counted of a run, and what contradicts its end record.

All of it can be merged: a later part's counts are added, and its last words win over an earlier part's.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from lastsay.events import (
    AttemptAborted,
    Event,
    Fault,
    Message,
    Notice,
    Reasoning,
    ReasoningDelta,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    ToolUse,
    Usage,
    UsageReported,
    known_stop_reason,
)
from lastsay.fold._journal import has_substance

__all__ = ("Counts", "Tally")

_LIMITS: Final = {
    "max_turns": "max_turns", "max_iterations": "max_turns", "max_steps": "max_turns", "turn_limit": "max_turns",
    "timeout": "timeout", "deadline": "timeout", "budget_exhausted": "budget", "max_budget": "budget",
}  # fmt: skip
"""Words in an error event that name a limit; a turn that follows is a recovery turn and does not change the cause."""


class Counts(msgspec.Struct, kw_only=True):
    """How much of what a run had. All are numbers of events, but for `characters`."""

    messages: int = 0
    """Messages of the model, by id where they have one."""
    empty: int = 0
    """Messages of the model that came without content, by id where they have one."""
    deltas: int = 0
    characters: int = 0
    """Streamed characters of text."""
    reasoning: int = 0
    """Reasoning deltas, and messages that hold reasoning, by id where they have one."""
    tool_calls: int = 0
    tool_results: int = 0
    aborted_attempts: int = 0
    synthetic: int = 0
    """Messages that the harness wrote."""
    faults: int = 0
    late: int = 0
    """Events that came after the end and were set aside."""


class Tally(msgspec.Struct, kw_only=True):
    """See the module."""

    counts: Counts = msgspec.field(default_factory=Counts)
    usage: dict[str, Usage] = msgspec.field(default_factory=dict)
    """By message id, the last report."""
    anonymous: list[Usage] = msgspec.field(default_factory=list)
    total: Usage | None = None
    """The last report about the whole run."""
    open_calls: list[str] = msgspec.field(default_factory=list)
    settled: bool = False
    """A message with content came, so that calls open before it were dealt with."""
    closed: set[str] = msgspec.field(default_factory=set)
    called: set[str] = msgspec.field(default_factory=set)
    ids: set[str] = msgspec.field(default_factory=set)
    empties: set[str] = msgspec.field(default_factory=set)
    """Ids of messages that were once sent without content."""
    reasoned: set[str] = msgspec.field(default_factory=set)
    """Ids of messages that hold reasoning."""
    blank: bool = False
    """Some message had text, and it was blank."""
    failure: str | None = None
    """The last attempt or step failed, and nothing was said since."""
    limit: str | None = None
    last_stop: str | None = None
    """The stop reason of the last message, where it had one."""
    last_told: bool = False
    """The last message had something to read and no tool call, was not interrupted, and no text was streamed after it:
    it ended its turn."""
    synthetic_last: bool = False
    spoke: bool = False
    """Something that the model said stands in this part."""
    tasks: list[str] = msgspec.field(default_factory=list)
    """Background tasks that were opened and not closed."""
    tasks_ended: set[str] = msgspec.field(default_factory=set)

    def push(self, event: Event) -> None:
        """Count one event."""
        take = _TAKERS.get(type(event))
        if take is not None:
            take(self, event)

    def push_text(self, deltas: int, characters: int) -> None:
        """Count text deltas."""
        self.counts.deltas += deltas
        self.counts.characters += characters
        self.spoke = True
        self.failure = None
        self.synthetic_last = False
        self.last_told = False

    def _text_delta(self, event: TextDelta) -> None:
        self.push_text(1, len(event.text))

    def _reasoning_delta(self, _: ReasoningDelta) -> None:
        self.counts.reasoning += 1

    def _message(self, message: Message) -> None:
        if message.origin != "model":
            if message.origin == "synthetic":
                self.counts.synthetic += 1
                self.synthetic_last = True
            return
        self.synthetic_last = False
        self.counts.messages += _first(self.ids, message.message)
        self.counts.empty += not message.content and _first(self.empties, message.message)
        calls = any(type(block) is ToolUse for block in message.content)
        self.last_told = has_substance(message) and not calls and not message.interrupted
        self.last_stop = message.stop_reason
        if message.usage is not None:
            self._usage(message.usage, message.message)
        if message.content:
            self.spoke = True
            self.failure = None
            self._content(message)

    def _content(self, message: Message) -> None:
        kinds = {type(block) for block in message.content}
        self.counts.reasoning += Reasoning in kinds and _first(self.reasoned, message.message)
        if Text in kinds and not has_substance(message):
            self.blank = True
        calls = list(dict.fromkeys([block.id for block in message.content if type(block) is ToolUse]))
        self._called(calls)
        self.settled = True
        self.open_calls = [call for call in calls if call not in self.closed]

    def _called(self, calls: list[str]) -> None:
        fresh = {call for call in calls if call not in self.called}
        self.called.update(fresh)
        self.counts.tool_calls += len(fresh)

    def _tool_call(self, event: ToolCall) -> None:
        self._called([event.id])
        if event.id not in self.open_calls and event.id not in self.closed:
            self.open_calls.append(event.id)

    def _tool_result(self, event: ToolResult) -> None:
        self.counts.tool_results += 1
        self.closed.add(event.id)
        if event.id in self.open_calls:
            self.open_calls.remove(event.id)

    def _attempt_aborted(self, event: AttemptAborted) -> None:
        self.counts.aborted_attempts += 1
        self.failure = event.reason or "attempt aborted"

    def _usage_reported(self, event: UsageReported) -> None:
        if event.message is None:
            self.total = event.usage
        else:
            self._usage(event.usage, event.message)

    def _usage(self, usage: Usage, message_id: str | None) -> None:
        if message_id is None:
            self.anonymous.append(usage)
        else:
            self.usage[message_id] = usage

    def _fault(self, event: Fault) -> None:
        if event.kind == "error":
            self._error(event.detail)
        else:
            self.counts.faults += 1

    def _notice(self, event: Notice) -> None:
        raw: Any = event.raw
        if event.kind == "error":
            self._error(str(raw.get("message", raw)) if isinstance(raw, dict) else str(raw))
        elif event.kind in ("task_started", "task_ended") and isinstance(raw, dict) and "id" in raw:
            self._task(str(raw["id"]), started=event.kind == "task_started")

    def _task(self, task: str, *, started: bool) -> None:
        if not started:
            self.tasks_ended.add(task)
            if task in self.tasks:
                self.tasks.remove(task)
        elif task not in self.tasks and task not in self.tasks_ended:
            self.tasks.append(task)

    def _error(self, text: str) -> None:
        self.failure = text or "error"
        word = text.strip().lower().replace("-", "_").replace(" ", "_")
        if self.limit is None:
            self.limit = _LIMITS.get(word)

    def merge(self, later: "Tally") -> None:
        """Add the tally of the events that follow; `later` is not changed."""
        mine, theirs = self.counts, later.counts
        for name in Counts.__struct_fields__:
            setattr(mine, name, getattr(mine, name) + getattr(theirs, name))
        mine.messages -= len(later.ids & self.ids)
        mine.empty -= len(later.empties & self.empties)
        mine.reasoning -= len(later.reasoned & self.reasoned)
        mine.tool_calls -= len(later.called & self.called)
        self.usage.update(later.usage)
        self.anonymous += later.anonymous
        self.total = later.total or self.total
        if later.settled:
            self.open_calls, self.settled = [], True
        still = [call for call in self.open_calls if call not in later.closed]
        self.open_calls = still + [c for c in later.open_calls if c not in self.closed and c not in still]
        self.tasks = [t for t in self.tasks if t not in later.tasks_ended]
        self.tasks += [t for t in later.tasks if t not in self.tasks and t not in self.tasks_ended]
        self.closed |= later.closed
        self.called |= later.called
        self.ids |= later.ids
        self.empties |= later.empties
        self.reasoned |= later.reasoned
        self.tasks_ended |= later.tasks_ended
        self._merge_last(later)

    def _merge_last(self, later: "Tally") -> None:
        self.blank = self.blank or later.blank
        self.limit = self.limit or later.limit
        if later.failure is not None or later.spoke:
            self.failure = later.failure
        if later.counts.messages:
            self.last_stop, self.last_told = later.last_stop, later.last_told
        elif later.counts.deltas:
            self.last_told = False
        if later.synthetic_last or later.spoke or later.counts.messages:
            self.synthetic_last = later.synthetic_last
        self.spoke = self.spoke or later.spoke

    def summed_usage(self) -> Usage | None:
        """The messages' last reports added up; without any, the run's own report, or None."""
        rows = [*self.usage.values(), *self.anonymous]
        if not rows:
            return self.total
        return Usage(**{name: _added([getattr(row, name) for row in rows]) for name in Usage.__struct_fields__})

    def mapped_last_stop(self) -> str | None:
        """The last message's stop reason in the known vocabulary."""
        return known_stop_reason(self.last_stop) if self.last_stop is not None else None


def _first(seen: set[str], message_id: str | None) -> bool:
    """Whether a message of that id has not been seen; without an id each is a new one."""
    if message_id is None:
        return True
    new = message_id not in seen
    seen.add(message_id)
    return new


def _added(numbers: list[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


_TAKERS: Final[dict[type, Callable[[Tally, Any], None]]] = {
    TextDelta: Tally._text_delta,
    ReasoningDelta: Tally._reasoning_delta,
    Message: Tally._message,
    ToolCall: Tally._tool_call,
    ToolResult: Tally._tool_result,
    AttemptAborted: Tally._attempt_aborted,
    UsageReported: Tally._usage_reported,
    Fault: Tally._fault,
    Notice: Tally._notice,
}
