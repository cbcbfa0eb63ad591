"""redact: take secrets out of a stream, also where they straddle deltas.

Text is held back until it cannot be part of a match any more. With `hold` characters in hand, every match of at most
that length is seen whole, wherever the deltas were cut; so the last `hold - 1` characters of a message are always on
their way. A match that touches the end of what is known may go on: it is held, beyond `hold` if need be, up to `_MOST`
characters. The text of a message is released whole when the message is over (its `Message`, the next one's start, a
tool call, the end). Usage and notices in between release nothing: that would be a hole.

The result does not depend on how the text was cut: it is what `re.sub` makes of the whole text.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from lastsay.errors import UsageError
from lastsay.events import (
    AttemptAborted,
    Deltas,
    EpochStarted,
    Event,
    Fault,
    Message,
    MessageRetracted,
    MessageStarted,
    Notice,
    ReasoningDelta,
    RunEnded,
    TextDelta,
    ToolCall,
    ToolResult,
)
from lastsay.operators._fused import Operator, through
from lastsay.operators._stage import Handlers, Stage

__all__ = ("redact",)

Delta = TextDelta | ReasoningDelta

_MOST: Final = 65_536
"""Characters that an unfinished match may hold back. Longer ones are cut there, and both parts are judged alone."""
_CONTEXT: Final = 256
"""Characters of released text that stay visible to look-behinds and word boundaries."""


def redact(*patterns: str | re.Pattern[str], replacement: str = "[redacted]", hold: int = 256) -> Operator:
    """Replaces every match in text, reasoning, messages, tool inputs and results, diagnostics and notices.

    Deltas are delayed by up to `hold` characters, and never by time. Tool inputs and other structures are searched
    value by value; keys are left alone.

    Args:
        patterns: regular expressions, tried together; the leftmost match wins.
        replacement: what stands in a match's place, literally.
        hold: the length in characters of the longest match that is found wherever the deltas were cut.
    """
    if not patterns:
        raise UsageError("redact() needs at least one pattern")
    if hold < 1:
        raise UsageError(f"redact(hold={hold}): at least 1 character")
    compiled = [pattern if isinstance(pattern, re.Pattern) else re.compile(pattern) for pattern in patterns]
    finder = _Finder(compiled, replacement)
    return through(lambda: _Redact(finder, hold))


class _Finder:
    """All patterns as one: what matches where, and what stands there instead."""

    __slots__ = ("_patterns", "replacement")

    def __init__(self, patterns: Sequence[re.Pattern[str]], replacement: str) -> None:
        self._patterns = patterns
        self.replacement = replacement

    def matches(self, text: str, start: int = 0) -> Iterable[tuple[int, int]]:
        """The spans of the matches from `start` on, leftmost first, never overlapping, never empty."""
        position = start
        while True:
            spans = [m.span() for p in self._patterns if (m := self._search(p, text, position)) is not None]
            if not spans:
                return
            first, end = min(spans, key=lambda span: (span[0], -span[1]))
            yield first, end
            position = end

    @staticmethod
    def _search(pattern: re.Pattern[str], text: str, position: int) -> re.Match[str] | None:
        # An empty match hides nothing; a real one may stand further on.
        for match in pattern.finditer(text, position):
            if match.end() > match.start():
                return match
        return None

    def clean(self, text: str) -> str:
        """The text with every match replaced; the same object if there is none."""
        parts: list[str] = []
        position = 0
        for first, end in self.matches(text):
            parts += (text[position:first], self.replacement)
            position = end
        return "".join((*parts, text[position:])) if parts else text

    def clean_value(self, value: Any) -> Any:
        """A structure of lists, dicts, tuples and event parts with every string in it cleaned."""
        if isinstance(value, str):
            return self.clean(value)
        if isinstance(value, dict):
            return {key: self.clean_value(part) for key, part in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)([self.clean_value(part) for part in value])
        if isinstance(value, msgspec.Struct):
            fields = {name: self.clean_value(getattr(value, name)) for name in _CLEANED if hasattr(value, name)}
            return msgspec.structs.replace(value, **fields) if fields else value
        return value


_CLEANED: Final = (
    "text",
    "input",
    "raw",
    "content",
    "diagnostic",
    "terminal",
    "structured",
    "native",
    "detail",
    "reason",
)
"""The fields of events and blocks that may hold what a model or a tool wrote. Ids and names are left alone."""


class _Tail:
    """The text of one message that is not released yet."""

    __slots__ = ("context", "last", "text")

    def __init__(self, last: Delta) -> None:
        self.last = last
        self.context = ""
        self.text = ""


class _Redact(Stage):
    kind = "flat"

    def __init__(self, finder: _Finder, hold: int) -> None:
        self._finder = finder
        self._hold = hold
        self._tails: dict[tuple[str, type, str | None], _Tail] = {}

    def handlers(self) -> Handlers:
        over = (MessageStarted, Message, MessageRetracted, AttemptAborted, ToolCall, ToolResult, RunEnded, EpochStarted)
        return {
            **dict.fromkeys((TextDelta, ReasoningDelta), (self._one, self._run)),
            **dict.fromkeys(over, self._over),
            **dict.fromkeys((Notice, Fault), self._aside),
        }

    def _one(self, event: Delta) -> Sequence[Event]:
        return self._take(event, event.text)

    def _run(self, events: Deltas) -> Sequence[Event]:
        return self._take(events[-1], events.text)

    def _take(self, last: Delta, text: str) -> Sequence[Event]:
        key = (last.run, type(last), last.message)
        tail = self._tails.get(key)
        if tail is None:
            tail = self._tails[key] = _Tail(last)
        tail.last = last
        released = self._release(tail, text)
        return (_delta(last, released),) if released else ()

    def _release(self, tail: _Tail, new: str) -> str:
        """Take in more text; what can go on now, already clean."""
        text = tail.context + tail.text + new
        start, length = len(tail.context), len(tail.context) + len(tail.text) + len(new)
        safe = max(start, length - self._hold + 1)
        parts: list[str] = []
        position = start
        for first, end in self._finder.matches(text, start):
            if first >= safe or (end == length and length - first <= _MOST):
                safe = min(safe, first)
                break
            parts += (text[position:first], self._finder.replacement)
            position = end
        safe = max(safe, position)
        parts.append(text[position:safe])
        tail.context = text[max(0, safe - _CONTEXT) : safe]
        tail.text = text[safe:]
        return "".join(parts)

    def _finish(self, tail: _Tail) -> Event | None:
        text = tail.context + tail.text
        parts: list[str] = []
        position = len(tail.context)
        for first, end in self._finder.matches(text, position):
            parts += (text[position:first], self._finder.replacement)
            position = end
        rest = "".join((*parts, text[position:]))
        return _delta(tail.last, rest) if rest else None

    def _over(self, event: Event) -> Sequence[Event]:
        out: list[Event] = []
        for key in [key for key in self._tails if key[0] == event.run]:
            rest = self._finish(self._tails.pop(key))
            if rest is not None:
                out.append(rest)
        out.append(self._finder.clean_value(event))
        return out

    def _aside(self, event: Event) -> Sequence[Event]:
        return (self._finder.clean_value(event),)

    def flush(self) -> Sequence[Event]:
        rests = [self._finish(tail) for tail in self._tails.values()]
        self._tails.clear()
        return [rest for rest in rests if rest is not None]


def _delta(last: Delta, text: str) -> Delta:
    return type(last)(text, last.message, run=last.run, seq=last.seq)
