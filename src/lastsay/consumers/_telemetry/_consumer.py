"""The telemetry consumer: one span per run, opened and closed with the run, and nothing but numbers in between.

A span is never made current: whatever runs between two events sees the context that it had before. Parents are given
explicitly, by the run ids of the stream: children that run side by side never take each other for parents.

While a run goes on, the cost of an event is a clock and a comparison; everything that OpenTelemetry charges for is done
once, at the end. Nothing here flushes or shuts down a provider: both block, ignore their time limits, and belong to
whoever made the provider. Nothing here raises, either: an error of telemetry's own is logged and counted, and the span
that it happened in still ends.
"""

import logging
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from time import perf_counter
from typing import Any, Final

from opentelemetry.context import Context, get_current
from opentelemetry.metrics import Meter, MeterProvider, get_meter
from opentelemetry.trace import (
    NonRecordingSpan,
    NoOpTracer,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    TracerProvider,
    get_tracer,
    set_span_in_context,
)

from lastsay.consumers._contract import Consumer, RunEnd, RunStart
from lastsay.consumers._panel import rendered
from lastsay.consumers._telemetry._calls import ModelCalls
from lastsay.consumers._telemetry._content import CONTENT_LIMIT, capture_of, prompt_in
from lastsay.consumers._telemetry._counters import Counters
from lastsay.consumers._telemetry._log import EndLog
from lastsay.consumers._telemetry._metrics import Instruments
from lastsay.consumers._telemetry._names import DEFAULT_PROFILE, ERROR_TYPE, names_of
from lastsay.consumers._telemetry._options import Options
from lastsay.consumers._telemetry._pulse import Pulse
from lastsay.consumers._telemetry._spans import (
    ABANDONED,
    end_attributes,
    error_type,
    span_name,
    start_attributes,
    status,
)
from lastsay.consumers._telemetry._tools import ToolSpans
from lastsay.events import MAX_TOKENS, REFUSAL, Event, Message, Notice, ReasoningDelta, TextDelta, ToolCall

__all__ = ("Telemetry", "telemetry")

_LOG: Final = logging.getLogger("lastsay.telemetry")
_CONTENT: Final = frozenset((TextDelta, ReasoningDelta, Message, ToolCall))
"""What counts as a first chunk: whatever the model generated, but no service notice. The conventions lean that way
(https://github.com/open-telemetry/semantic-conventions-genai/issues/306)."""

_DELTAS: Final = frozenset((TextDelta, ReasoningDelta))

_ENDED_KEPT: Final = 256
"""Runs whose span is remembered after their end, as the parent of children that start later."""


class Telemetry(Consumer):
    """Tells OpenTelemetry about runs; made by `telemetry`. One object serves any number of runs at a time."""

    rank = -1  # spans end before the end events are published
    contained = True

    def __init__(
        self, options: Options, tracer: Tracer, meter: Meter | None, log: EndLog | None, counters: Counters | None
    ) -> None:
        self.counters = counters
        self.failures: int = 0
        """Errors of this consumer's own that were contained."""
        self._options = options
        self._tracer = tracer
        self._instruments = Instruments(meter, options) if meter is not None else None
        self._log = log
        self._tools = ToolSpans(tracer, options)
        self._calls = ModelCalls(tracer, options) if options.model_calls else None
        self._pulses: dict[str, Pulse] = {}
        self._ended: OrderedDict[str, Context] = OrderedDict()

    @property
    def _idle(self) -> bool:
        """Whether nobody listens: no SDK is set up, and no log was asked for."""
        # Asking the API for its provider costs 2 us; its proxies know by themselves. An API whose proxies are made
        # differently is only worked for in vain.
        if type(getattr(self._tracer, "_tracer", self._tracer)) is not NoOpTracer or self._log is not None:
            return False
        return self._instruments is None or self._instruments.idle

    def start(self, start: RunStart) -> None:
        """Start the run's span."""
        if self.counters is not None:
            self.counters.start()
        if not self._idle:
            self._contain(self._begin, start)

    def observe(self, start: RunStart, events: Sequence[Event]) -> None:
        """Take the pulse."""
        pulse = self._pulses.get(start.run_id)
        if pulse is None:
            return
        now = perf_counter()
        gap = now - pulse.last
        pulse.last = now
        if gap > pulse.gap:  # noqa: PLR1730  # max() would be a call per event
            pulse.gap = gap
        kind = type(events[0])
        if kind is not TextDelta or pulse.first_ns is None:
            self._contain(self._observe_rare, pulse, kind, events)

    def end(self, end: RunEnd) -> None:
        """End the run's span, and tell metrics and log."""
        if self.counters is not None:
            self.counters.end(end)
        pulse = self._pulses.pop(end.start.run_id, None)
        if pulse is None:
            return
        if pulse.net is not None:
            pulse.net.detach()
        error = error_type(end.outcome, self._options.tolerated)
        self._contain(self._tools.run_ended, pulse)
        if pulse.span.is_recording():
            if error is not None:
                pulse.span.set_status(status(end.outcome, error))
            self._contain(self._describe, end, pulse, error)
            pulse.span.end(max(end.time_ns, end.start.time_ns))
        if pulse.delegation is not None:
            self._contain(self._tools.child_ended, pulse.delegation, end, error)
        if self._instruments is not None and not self._instruments.idle:
            self._contain(self._instruments.record, end, pulse, error)
        if self._log is not None:
            self._contain(self._log.emit, end, error, pulse.context)
        self._remember(end.start.run_id, pulse)

    def _begin(self, start: RunStart) -> None:
        parent = self._pulses.get(start.parent_id) if start.parent_id is not None else None
        context = self._context_of(start, parent)
        delegation = self._tools.delegate(parent, start) if parent is not None else None
        prompt = self._options.prompt if start.parent is None else None
        if delegation is not None:
            context, prompt = set_span_in_context(delegation.span, context), delegation.prompt
        backend = start.provider or (parent.backend if parent is not None else None)
        span = self._tracer.start_span(
            span_name(start),
            context,
            SpanKind.INTERNAL if start.local else SpanKind.CLIENT,
            start_attributes(start, backend, self._options),
            start_time=start.time_ns,
        )
        own = set_span_in_context(span, context)
        pulse = Pulse(span, own, agent=start.agent, backend=backend, asked_ns=start.time_ns, last=perf_counter())
        pulse.prompt = prompt
        pulse.delegation = delegation
        self._pulses[start.run_id] = pulse
        # The last net, for a scope that is dropped without being left.
        pulse.net = weakref.finalize(start, _abandon, self._pulses, start.run_id)

    def _context_of(self, start: RunStart, parent: Pulse | None) -> Context:
        if parent is not None:
            return parent.context
        if start.parent_id is not None and start.parent_id in self._ended:
            return self._ended[start.parent_id]
        given = self._options.parent
        if given is None:
            return get_current()
        return given() if callable(given) else given

    def _observe_rare(self, pulse: Pulse, kind: type[Event], events: Sequence[Event]) -> None:
        if pulse.first_ns is None and kind in _CONTENT:
            pulse.first_ns = time.time_ns()
            pulse.gap = 0.0  # what came before is the time to the first piece
        if kind not in _DELTAS:
            self._tools.observe(pulse, events)
            if self._calls is not None:
                self._calls.observe(pulse, events)
        if kind is Notice and pulse.prompt is None and pulse.first_ns is None and self._options.capture.spans:
            pulse.prompt = next(filter(None, [prompt_in(event) for event in events]), None)

    def _describe(self, end: RunEnd, pulse: Pulse, error: str | None) -> None:
        calls = self._calls
        told = calls is not None and calls.usage_told(end, pulse)
        pulse.span.set_attributes(end_attributes(end, pulse, error, self._options, usage_told=told))
        if calls is not None:
            calls.emit(end, pulse)

    def _remember(self, run_id: str, pulse: Pulse) -> None:
        """Keep the context of an ended run, without what its span holds."""
        bare = NonRecordingSpan(pulse.span.get_span_context())
        self._ended[run_id] = set_span_in_context(bare, pulse.context)
        if len(self._ended) > _ENDED_KEPT:
            self._ended.popitem(last=False)

    def _contain(self, step: Callable[..., None], *args: Any) -> None:
        try:
            step(*args)
        except Exception as error:  # noqa: BLE001  # telemetry must not touch what it tells about
            self.failures += 1
            _LOG.warning("telemetry: %s failed: %s", getattr(step, "__name__", "a step"), rendered(error))


def _abandon(pulses: dict[str, Pulse], run_id: str) -> None:
    """End the span of a run whose scope was dropped without being left."""
    pulse = pulses.pop(run_id, None)
    if pulse is not None:
        for span in (*pulse.bridged.values(), *[d.span for d in pulse.delegations.values()], pulse.span):
            if span.is_recording():
                span.set_attribute(ERROR_TYPE, ABANDONED)
                span.set_status(Status(StatusCode.ERROR, ABANDONED))
                span.end()


def telemetry(
    *,
    profile: str = DEFAULT_PROFILE,
    content: bool | None = None,
    content_limit: int = CONTENT_LIMIT,
    prompt: str | None = None,
    tolerated: Collection[str] = (MAX_TOKENS, REFUSAL),
    delegations: bool = True,
    model_calls: bool = True,
    metrics: bool = True,
    log: bool = False,
    counters: Counters | None = None,
    conversation_id: str | None = None,
    provider: str | None = None,
    parent: Context | Callable[[], Context] | None = None,
    tracer: Tracer | None = None,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    logger_provider: Any = None,
) -> Telemetry:
    """A consumer that tells OpenTelemetry about every run: one ``invoke_agent`` span, and one record per metric.

    Make one and share it between runs. Without an SDK it costs next to nothing.

    Args:
        profile: the names to use: ``genai-1.41`` or ``genai-next``, each also with ``+openinference``.
        content: whether input and output are told. None: as ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT``
            says, which is not at all unless it is set.
        content_limit: characters of one text part; longer ones are cut, and ``lastsay.content.truncated`` says so.
        prompt: what the root was asked, for the span's input. Children's prompts are taken from the stream.
        tolerated: stop reasons besides ``completed`` that are no error of the span. The tool result that the parent
            gets for them is an error all the same.
        delegations: whether a parent's tool call that runs a child gets an ``execute_tool`` span around the child's.
        model_calls: whether each model call gets a ``chat`` span, made at the end of the run. Then those carry the
            tokens, and the run's span has the totals under ``lastsay.usage`` only. On runs' own spans the tokens of
            nested runs go wrong: Phoenix counts none, MLflow only the outermost, and who adds up counts some twice.
        metrics: whether metrics are recorded.
        log: whether each end is a log record too; needs ``opentelemetry-api`` 1.38 or newer.
        counters: counters in the process to keep as well.
        conversation_id: the application's id of the conversation. None is the right value where it has none.
        provider: the model provider's name, where it does not follow from the backend.
        parent: the context of the parent of root runs, or what gives it. None: the one that is current when the first
            event is read.
        tracer: the tracer to use. None: one named ``lastsay``, of `tracer_provider`.
        tracer_provider: None: the global one, also when it is set later.
        meter_provider: None: the global one, also when it is set later.
        logger_provider: None: the global one.

    Raises:
        UsageError: the profile is not known.
    """
    names = names_of(profile)
    options = Options(
        names=names,
        capture=capture_of(content=content),
        content_limit=content_limit,
        tolerated=frozenset(tolerated),
        delegations=delegations,
        model_calls=model_calls,
        prompt=prompt,
        conversation_id=conversation_id,
        provider=provider,
        parent=parent,
    )
    if tracer is None:
        tracer = get_tracer("lastsay", None, tracer_provider, names.schema_url)
    meter = get_meter("lastsay", "", meter_provider, names.schema_url) if metrics else None
    return Telemetry(options, tracer, meter, EndLog(logger_provider, options) if log else None, counters)
