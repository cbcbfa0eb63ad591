"""A loop's plain items as the events of one run; see the table of the package. Without I/O."""

import json
from contextlib import suppress
from typing import Any, Final

import msgspec

from lastsay.events import (
    COMPLETED,
    ERROR,
    EVENT_TYPES,
    MAIN,
    MAX_TOKENS,
    REFUSAL,
    Block,
    EpochStarted,
    Event,
    Image,
    Message,
    Notice,
    Opaque,
    Reasoning,
    ReasoningDelta,
    RunEnded,
    RunStarted,
    Text,
    TextDelta,
    ToolResult,
    ToolUse,
    Usage,
    decode_event,
    known_stop_reason,
)

__all__ = ("Item", "PlainNormaliser")

BACKEND: Final = "in_process"
_TAGS: Final = frozenset(str(kind.__struct_config__.tag) for kind in EVENT_TYPES)

Item = Any
"""An event, a text, a plain dict or None."""


class PlainNormaliser:
    """Turns a loop's items into the events of one run: `push` each one, `close` at the end. Without I/O.

    Args:
        run: the run's id.
        parent: id of the run that this one works for, or None.
        agent: the agent's name, or None.
        model: the model's name, or None.
    """

    def __init__(
        self, run: str = MAIN, *, parent: str | None = None, agent: str | None = None, model: str | None = None
    ) -> None:
        self._run = run
        self._start = RunStarted(parent=parent, agent=agent, backend=BACKEND, model=model, run=run)
        self._started = self._ended = self._closed = False
        self._epoch = 0
        self._last: str | None = None

    def begin(self) -> list[Event]:
        """The start of the run, if it has not been given."""
        if self._started:
            return []
        self._started = True
        return [self._start]

    def push(self, item: Item) -> list[Event]:
        """The events that an item stands for. Never raises."""
        event = self._event_of(item)
        if event is None:
            return []
        kind = type(event)
        if event.run != self._run:
            return [*self.begin(), event]  # of a child: its start and end are its own
        if kind is RunStarted:
            if self._started:
                return []
            self._started = True
            return [event]
        out = self.begin()
        if kind is EpochStarted:
            return [*out, *self.begin_epoch()]
        if self._ended:
            return out  # what is said after the end is dropped
        if type(event) is RunEnded:
            self._ended = True
        elif type(event) is Message and event.origin == "model":
            self._last = event.stop_reason
        return [*out, event]

    def begin_epoch(self) -> list[Event]:
        """The end of the epoch so far, and the start of the next; nothing if the run has not begun."""
        if not self._started:
            return []
        ends = self._end(None)
        self._epoch += 1
        self._ended, self._last = False, None
        return [*ends, EpochStarted(self._epoch, run=self._run)]

    def end(self, error: Exception | None = None) -> list[Event]:
        """The start and the end of the epoch, where they were not given.

        Args:
            error: what the loop raised, or None if it returned.
        """
        return [*self.begin(), *self._end(error)]

    def close(self) -> list[Event]:
        """As `end`, for a loop that returned. A second call gives nothing, and so does one without any input."""
        if self._closed or not self._started:
            return []
        self._closed = True
        return self.end()

    def _end(self, error: Exception | None) -> list[Event]:
        if self._ended:
            return []
        self._ended = True
        if error is not None:
            name = type(error).__name__
            return [RunEnded(ERROR, diagnostic=f"{name}: {_rendered(error)}", raw=name, run=self._run)]
        mapped = known_stop_reason(self._last) if self._last is not None else COMPLETED
        if mapped in (MAX_TOKENS, REFUSAL):
            return [RunEnded(mapped, raw=self._last, provenance="recovered", run=self._run)]
        return [RunEnded(COMPLETED, run=self._run)]

    def _event_of(self, item: Item) -> Event | None:
        if item is None:
            return None
        if isinstance(item, str):
            return TextDelta(str(item), run=self._run)
        if type(item) in EVENT_TYPES:
            return self._mine(item)
        if isinstance(item, dict):
            try:
                return self._from_dict(item)
            except (TypeError, ValueError, AttributeError, RecursionError, msgspec.MsgspecError):
                return Notice("unreadable_item", item, run=self._run)
        return Notice(type(item).__name__, item, run=self._run)

    def _mine(self, event: Event) -> Event:
        return msgspec.structs.replace(event, run=self._run) if event.run == MAIN != self._run else event

    def _from_dict(self, item: dict[Any, Any]) -> Event:
        tag, role, run = item.get("type"), item.get("role"), self._run
        if isinstance(tag, str) and tag in _TAGS and role is None:
            return self._mine(decode_event(json.dumps(item, default=repr).encode()))
        if role == "assistant":
            return _message_of(item, run)
        if role == "tool":
            call = item.get("tool_call_id", item.get("id"))
            return ToolResult(
                str(call), _blocks_of(item.get("content")), bool(item.get("is_error", False)), item, run=run
            )
        if role == "user":
            return Notice("user_message", item, run=run)
        if isinstance(item.get("text"), str) and tag in (None, "text"):
            return TextDelta(item["text"], run=run)
        if isinstance(item.get("reasoning"), str):
            return ReasoningDelta(item["reasoning"], run=run)
        return Notice(str(tag) if tag is not None else "untyped", item, run=run)


def _rendered(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  (somebody else's __str__)
        return "(cannot be rendered)"


def _message_of(item: dict[Any, Any], run: str) -> Message:
    blocks = _blocks_of(item.get("content"))
    calls = item.get("tool_calls")
    blocks += tuple(_call_of(call) for call in calls) if isinstance(calls, list) else ()
    name = item.get("id")
    stop = item.get("stop_reason", item.get("finish_reason"))
    return Message(
        blocks,
        str(name) if name is not None else None,
        str(stop) if stop is not None else None,
        _usage_of(item.get("usage")),
        interrupted=bool(item.get("interrupted", False)),
        run=run,
    )


def _blocks_of(content: Any) -> tuple[Block, ...]:
    # A zero-length text carries nothing: it is left out at the border, as in every backend.
    if isinstance(content, str):
        return (Text(content),) if content else ()
    if not isinstance(content, (list, tuple)):
        return ()
    return tuple(block for part in content if (block := _block_of(part)) != Text(""))


def _block_of(part: Any) -> Block:
    if isinstance(part, (Text, Reasoning, ToolUse, Image, Opaque)):
        return part
    if isinstance(part, str):
        return Text(part)
    if not isinstance(part, dict):
        return Opaque(type(part).__name__, part)
    kind = part.get("type")
    if kind in ("text", "output_text") and isinstance(part.get("text"), str):
        return Text(part["text"])
    if kind in ("thinking", "reasoning"):
        return Reasoning(str(part.get("thinking", part.get("text", ""))))
    if kind in ("tool_use", "tool_call", "tool-call"):
        return _call_of(part)
    return Opaque(str(kind), part)


def _call_of(call: Any) -> ToolUse:
    """A tool call in the forms of Anthropic Messages and of OpenAI chat."""
    inner = call.get("function", call)
    given = inner.get("input", inner.get("arguments"))
    if isinstance(given, str):
        with suppress(ValueError):  # a call that was cut stays text
            given = json.loads(given)
    return ToolUse(str(call.get("id")), str(inner.get("name")), given)


_USAGE_KEYS: Final = {
    "input_tokens": ("input_tokens", "prompt_tokens"),
    "output_tokens": ("output_tokens", "completion_tokens"),
    "cache_read_tokens": ("cache_read_tokens", "cache_read_input_tokens"),
    "cache_write_tokens": ("cache_write_tokens", "cache_creation_input_tokens"),
    "reasoning_tokens": ("reasoning_tokens",),
}


def _usage_of(usage: Any) -> Usage | None:
    if isinstance(usage, Usage) or not isinstance(usage, dict):
        return usage if isinstance(usage, Usage) else None
    found = {
        ours: usage[key] for ours, keys in _USAGE_KEYS.items() for key in keys if type(usage.get(key)) is int
    }  # fmt: skip
    return Usage(**found)
