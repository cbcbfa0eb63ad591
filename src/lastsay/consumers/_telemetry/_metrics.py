"""The metrics: one record of each per run, never one per delta."""

from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.metrics import Counter, Histogram, Meter

from lastsay.consumers._contract import RunEnd
from lastsay.consumers._telemetry import _names as n
from lastsay.consumers._telemetry._content import clean
from lastsay.consumers._telemetry._options import Options
from lastsay.consumers._telemetry._pulse import Pulse
from lastsay.consumers._telemetry._spans import Totals, first_chunk_seconds, totals

__all__ = ("Instruments",)

# The conventions' advice for each instrument.
_AGENT_SECONDS: Final = tuple([0.1 * 2**power for power in range(13)])
_CHUNK_SECONDS: Final = tuple([0.01 * 2**power for power in range(14)])
_CALLS: Final = (0, 1, 2, 4, 8, 16, 32, 64, 128)
_TOKENS: Final = tuple([4**power for power in range(14)])


class Instruments:
    """The instruments of one profile, made once per consumer."""

    __slots__ = ("_calls", "_counters", "_duration", "_first", "_options", "_tokens", "_tools")

    def __init__(self, meter: Meter, options: Options) -> None:
        def histogram(name: str, unit: str, told: str, buckets: tuple[float, ...]) -> Histogram:
            return meter.create_histogram(name, unit, told, explicit_bucket_boundaries_advisory=list(buckets))

        self._options = options
        self._duration = histogram(n.AGENT_DURATION, "s", "How long an agent's run took.", _AGENT_SECONDS)
        self._first = histogram(n.FIRST_CHUNK, "s", "Time to the first piece of content.", _CHUNK_SECONDS)
        self._calls = histogram(n.INFERENCE_CALLS, "{call}", "Model calls of an agent's run.", _CALLS)
        self._tools = histogram(n.TOOL_CALLS, "{call}", "Tool calls of an agent's run.", _CALLS)
        rows = options.names.token_counters
        self._tokens: Histogram | None = None
        self._counters: tuple[tuple[str, Counter], ...] = ()
        if rows is None:
            self._tokens = histogram(n.TOKEN_USAGE, "{token}", "Tokens used.", _TOKENS)
        else:
            self._counters = tuple([(f, meter.create_counter(name, "{token}", "Tokens used.")) for f, name in rows])

    @property
    def idle(self) -> bool:
        """Whether records surely go nowhere: no meter provider has been set."""
        # Asking the API for its provider costs 1.7 us; its proxies know by themselves.
        return getattr(self._duration, "_real_instrument", self._duration) is None

    def record(self, end: RunEnd, pulse: Pulse, error: str | None) -> None:
        """Record a run that ended."""
        start, outcome, context = end.start, end.outcome, pulse.context
        base: dict[str, Any] = {}
        if start.agent is not None:
            base[n.AGENT] = clean(start.agent)
        if start.model is not None:
            base[n.MODEL] = clean(start.model)
        ended = {**base, n.ERROR_TYPE: error} if error is not None else base
        self._duration.record(max(0, end.time_ns - start.time_ns) / 1e9, ended, context)
        self._calls.record(outcome.attempts, base, context)
        self._tools.record(outcome.counts.tool_calls, base, context)
        inference = {n.OPERATION: n.INVOKE_AGENT, **base}
        provider = self._options.agent_provider(start, pulse.backend)
        if provider is not None:
            inference[n.PROVIDER] = clean(provider)
        seconds = first_chunk_seconds(end, pulse)
        if seconds is not None:
            self._first.record(seconds, inference, context)
        if outcome.usage is not None:
            self._record_tokens(totals(outcome.usage), inference, context)

    def _record_tokens(self, tokens: Totals, attributes: dict[str, Any], context: Context) -> None:
        if self._tokens is not None:
            for kind, number in (("input", tokens.input), ("output", tokens.output)):
                if number is not None:
                    self._tokens.record(number, {**attributes, n.TOKEN_TYPE: kind}, context)
        for field, counter in self._counters:
            number = getattr(tokens, field)
            if number:
                counter.add(number, attributes, context)
