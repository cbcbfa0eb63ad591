"""The `chat` spans: one per model call of a run, made at the run's end from the few numbers kept of each.

A call is a message of the model. It begins where the model could be asked: at the run's start, after the message before
it, or after the last tool result; it ends with its message. Token counts may come later, under the message's id, so
that nothing is made before the run ends. A back end that adds tokens up must find them once: where the calls carry
them, the run's own span does not.
"""

import time
from collections.abc import Sequence
from typing import Any, Final, cast

from opentelemetry.trace import SpanKind, Tracer

from lastsay.consumers._contract import RunEnd
from lastsay.consumers._telemetry import _names as n
from lastsay.consumers._telemetry._content import clean
from lastsay.consumers._telemetry._options import Options
from lastsay.consumers._telemetry._pulse import ModelCall, Pulse
from lastsay.consumers._telemetry._spans import token_attributes
from lastsay.events import ERROR, Event, Message, MessageRetracted, ToolResult, Usage, UsageReported, known_stop_reason

__all__ = ("ModelCalls",)

CALLS_KEPT: Final = 1_000
"""Model calls of one run that get a span; a run with more is told of as a whole."""


class ModelCalls:
    """Keeps the numbers of model calls, and makes their spans."""

    __slots__ = ("_options", "_tracer")

    def __init__(self, tracer: Tracer, options: Options) -> None:
        self._tracer = tracer
        self._options = options

    def observe(self, pulse: Pulse, events: Sequence[Event]) -> None:
        """Events of one class that is not a delta."""
        kind = type(events[0])
        if kind is Message:
            for event in events:
                self._message(pulse, cast("Message", event))
        elif kind is ToolResult:
            pulse.asked_ns = time.time_ns()
        elif kind is UsageReported:
            for event in events:
                self._usage(pulse, cast("UsageReported", event))
        elif kind is MessageRetracted:
            for event in events:
                pulse.model_calls.pop(cast("MessageRetracted", event).message, None)

    def _message(self, pulse: Pulse, event: Message) -> None:
        if event.origin != "model":
            return
        key = event.message if event.message is not None else f"\0{len(pulse.model_calls)}"
        call = pulse.model_calls.get(key)
        now = time.time_ns()
        if call is None:
            if len(pulse.model_calls) > CALLS_KEPT:
                return
            call = pulse.model_calls[key] = ModelCall(pulse.asked_ns)
        call.ended_ns = pulse.asked_ns = now
        call.finish = ERROR if event.interrupted else event.stop_reason
        call.usage = event.usage or call.usage

    def _usage(self, pulse: Pulse, event: UsageReported) -> None:
        call = pulse.model_calls.get(event.message) if event.message is not None else None
        if call is not None:
            call.usage = event.usage

    def usage_told(self, end: RunEnd, pulse: Pulse) -> bool:
        """Whether the spans of the calls carry the run's tokens, so that the run's own span must not."""
        calls = pulse.model_calls
        if len(calls) > CALLS_KEPT:
            calls.clear()
        if len(calls) == 1 and end.outcome.usage is not None:
            next(iter(calls.values())).usage = end.outcome.usage  # a total for one call is that call's
        return any(call.usage is not None for call in calls.values())

    def emit(self, end: RunEnd, pulse: Pulse) -> None:
        """Make the spans of the calls, below the run's."""
        model = end.start.model
        name = f"chat {clean(model)}" if model else "chat"
        base: dict[str, Any] = {n.OPERATION: "chat"}
        if model:
            base[n.MODEL] = clean(model)
        provider = self._options.provider_of(pulse.backend)
        if provider is not None:
            base[n.PROVIDER] = clean(provider)
        if self._options.names.openinference:
            base["openinference.span.kind"] = "LLM"
        for key, call in pulse.model_calls.items():
            told = {**base, **self._tokens(call.usage)}
            if call.finish is not None:
                told[n.FINISH_REASONS] = (clean(n.finish_reason(known_stop_reason(call.finish))),)
            if not key.startswith("\0"):
                told["gen_ai.response.id"] = clean(key)
            # In a replay the run's times are the source's, and ours would stand far outside of them.
            began, ended = min(call.began_ns, end.time_ns), min(call.ended_ns, end.time_ns)
            span = self._tracer.start_span(name, pulse.context, SpanKind.CLIENT, told, start_time=began)
            span.end(max(began, ended))

    def _tokens(self, usage: Usage | None) -> dict[str, Any]:
        return token_attributes(usage, self._options.names, local=False)
