"""Counters in the process: the same numbers for people without OpenTelemetry."""

from typing import Any

from lastsay.consumers._contract import RunEnd
from lastsay.consumers._telemetry._spans import totals

__all__ = ("Counters",)


class Counters:
    """Plain numbers over all runs of the consumers that were given it.

    `stop_reasons`, `stream_ends` and `sources` count the ended runs by word. The token counts follow the conventions:
    cached input is part of `input_tokens`. One object serves one event loop; add up `snapshot` of several.

    Example:
        >>> counters = Counters()
        >>> counters.started, counters.open
        (0, 0)
    """

    __slots__ = (
        "attempts",
        "characters",
        "deltas",
        "ended",
        "input_tokens",
        "no_output",
        "output_tokens",
        "partial",
        "seconds",
        "sources",
        "started",
        "stop_reasons",
        "stream_ends",
        "tool_calls",
    )

    def __init__(self) -> None:
        self.started: int = 0
        self.ended: int = 0
        self.attempts: int = 0
        self.tool_calls: int = 0
        self.deltas: int = 0
        self.characters: int = 0
        self.input_tokens: int = 0
        self.output_tokens: int = 0
        self.partial: int = 0
        self.no_output: int = 0
        self.seconds: float = 0.0
        """Run time of the ended runs, added up."""
        self.stop_reasons: dict[str, int] = {}
        self.stream_ends: dict[str, int] = {}
        self.sources: dict[str, int] = {}

    @property
    def open(self) -> int:
        """Runs that started and have not ended."""
        return self.started - self.ended

    def start(self) -> None:
        """Count a start."""
        self.started += 1

    def end(self, end: RunEnd) -> None:
        """Count an end."""
        outcome, tokens = end.outcome, totals(end.outcome.usage)
        self.ended += 1
        self.attempts += outcome.attempts
        self.tool_calls += outcome.counts.tool_calls
        self.deltas += outcome.counts.deltas
        self.characters += outcome.counts.characters
        self.input_tokens += tokens.input or 0
        self.output_tokens += tokens.output or 0
        self.partial += outcome.partial
        self.no_output += outcome.output is None
        self.seconds += max(0, end.time_ns - end.start.time_ns) / 1e9
        for table, word in (
            (self.stop_reasons, outcome.stop_reason),
            (self.stream_ends, end.how),
            (self.sources, outcome.source),
        ):
            table[word] = table.get(word, 0) + 1

    def snapshot(self) -> dict[str, Any]:
        """All of it as plain data, a copy."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {name: dict(value) if isinstance(value, dict) else value for name, value in values.items()}
