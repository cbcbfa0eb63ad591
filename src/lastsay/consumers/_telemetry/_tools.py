"""The `execute_tool` spans: one per call of the function bridge, and one per delegation around the child's own span.

| seen in a run                        | what happens                                                                 |
|--------------------------------------|------------------------------------------------------------------------------|
| `ToolCall`, `ToolUse` in a message   | name and arguments are remembered until the call is answered                 |
| a child starts with that call        | the delegation's span starts below the parent's, with the child's below it    |
| the child ends, the call is answered | once both are true the delegation ends, at the child's end                   |
| the parent ends first                | is the answer: a background child keeps its delegation open to its own end  |
| notice `function_call`               | a span starts                                                                |
| notice `function_applied`            | it ends, with the verdict; an error result makes it an error                 |
| notice `function_refused`            | it ends as an error; the `error.type` is the verdict                         |
| the run ends with calls open         | they end as errors, `no_receipt`                                             |
"""

from collections.abc import Sequence
from typing import Any, Final, cast

from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer

from lastsay.consumers._contract import RunEnd, RunStart
from lastsay.consumers._telemetry import _names as n
from lastsay.consumers._telemetry._content import clean, json_text, message, prompt_of
from lastsay.consumers._telemetry._options import Options
from lastsay.consumers._telemetry._pulse import Call, Delegation, Pulse
from lastsay.events import Event, Message, Notice, Text, ToolCall, ToolResult, ToolUse

__all__ = ("ToolSpans",)

TOOL_ERROR: Final = "tool_error"
"""The `error.type` of a tool that answered with an error: its text has no class."""

NO_RECEIPT: Final = "no_receipt"


class ToolSpans:
    """Starts and ends the spans of tools; their state is in the pulses of the runs."""

    __slots__ = ("_kinds", "_options", "_tracer")

    def __init__(self, tracer: Tracer, options: Options) -> None:
        self._tracer = tracer
        self._options = options
        self._kinds = {ToolCall: self._called, Message: self._message, ToolResult: self._answered, Notice: self._notice}

    def observe(self, pulse: Pulse, events: Sequence[Event]) -> None:
        """Events of one class that is not a delta."""
        take: Any = self._kinds.get(cast("Any", type(events[0])))
        if take is not None:
            for event in events:
                take(pulse, event)

    def _called(self, pulse: Pulse, event: ToolCall) -> None:
        self._remember(pulse, event.id, event.name, event.input)

    def _message(self, pulse: Pulse, event: Message) -> None:
        for block in event.content:
            if type(block) is ToolUse:
                self._remember(pulse, block.id, block.name, block.input)

    def _remember(self, pulse: Pulse, call: str, name: str, arguments: Any) -> None:
        if self._options.delegations:
            pulse.calls[call] = Call(name, arguments if self._options.capture.spans else None)

    def delegate(self, parent: Pulse, child: RunStart) -> Delegation | None:
        """The delegation that this child belongs to, its span started; None where no call is known."""
        if child.call is None or not self._options.delegations:
            return None
        delegation = parent.delegations.get(child.call)
        if delegation is None or delegation.child_ended_ns is not None:
            call = parent.calls.get(child.call) or Call("", None)
            span = self._start_delegation(parent, child, call)
            delegation = parent.delegations[child.call] = Delegation(span, prompt_of(call.arguments))
        return delegation

    def _start_delegation(self, parent: Pulse, child: RunStart, call: Call) -> Span:
        names, target = self._options.names, child.agent or child.run
        more: dict[str, Any] = {names.transfer_mode: "return_to_caller", names.transfer_target: clean(target)}
        told = self._attributes(parent, cast("str", child.call), call.name, more)
        self._add_arguments(told, call.arguments)
        return self._start(parent, call.name, told, child.time_ns, target if names.target_in_name else None)

    def _attributes(self, pulse: Pulse, call: str, tool: str, more: dict[str, Any]) -> dict[str, Any]:
        told: dict[str, Any] = {n.OPERATION: n.EXECUTE_TOOL, n.TOOL_CALL: clean(call), n.TOOL_TYPE: "function", **more}
        if tool:
            told[n.TOOL_NAME] = clean(tool)
        if pulse.agent is not None:
            told[n.AGENT] = clean(pulse.agent)
        if self._options.conversation_id is not None:
            told[n.CONVERSATION] = clean(self._options.conversation_id)
        if self._options.names.openinference:
            told["openinference.span.kind"] = n.OPENINFERENCE_KINDS[n.EXECUTE_TOOL]
        return told

    def _add_arguments(self, told: dict[str, Any], arguments: Any) -> None:
        if arguments is not None and self._options.capture.spans:
            told[n.TOOL_ARGUMENTS], _ = json_text(arguments, self._options.content_limit)
            if self._options.names.openinference:
                told["input.value"] = told[n.TOOL_ARGUMENTS]

    def _start(
        self, pulse: Pulse, tool: str, told: dict[str, Any], time_ns: int | None, suffix: str | None = None
    ) -> Span:
        name = " ".join([clean(part) for part in (n.EXECUTE_TOOL, tool, suffix) if part])
        return self._tracer.start_span(name, pulse.context, SpanKind.INTERNAL, told, start_time=time_ns)

    def _answered(self, pulse: Pulse, event: ToolResult) -> None:
        pulse.calls.pop(event.id, None)
        delegation = pulse.delegations.get(event.id)
        if delegation is None:
            return
        delegation.answered = True
        if event.is_error:
            delegation.error = delegation.error or TOOL_ERROR
        elif self._options.capture.spans and event.content:
            texts = [block.text for block in event.content if type(block) is Text]
            limit = self._options.content_limit
            whole = len(texts) == len(event.content)
            told = json_text("".join(texts), limit) if whole else message("tool", event.content, limit)
            delegation.result = told[0]
        _close(delegation, openinference=self._options.names.openinference)

    def child_ended(self, delegation: Delegation, end: RunEnd, error: str | None) -> None:
        """The child of a delegation ended."""
        delegation.child_ended_ns = end.time_ns
        delegation.error = error or delegation.error
        _close(delegation, openinference=self._options.names.openinference)

    def run_ended(self, pulse: Pulse) -> None:
        """The run that made the calls ended."""
        for delegation in pulse.delegations.values():
            delegation.answered = True
            _close(delegation, openinference=self._options.names.openinference)
        for span in pulse.bridged.values():
            _fail(span, NO_RECEIPT)
            span.end()
        pulse.bridged.clear()

    def _notice(self, pulse: Pulse, event: Notice) -> None:
        raw = event.raw
        if not event.kind.startswith("function_") or not isinstance(raw, dict):
            return
        call = str(raw.get("call"))
        if event.kind == "function_call":
            name = str(raw.get("function") or raw.get("tool") or "")
            told = self._attributes(pulse, call, name, {})
            self._add_arguments(told, raw.get("arguments"))
            pulse.bridged[call] = self._start(pulse, name, told, None)
        elif event.kind in ("function_applied", "function_refused"):
            span = pulse.bridged.pop(call, None)
            if span is not None:
                _settle(span, raw, applied=event.kind == "function_applied")


def _settle(span: Span, raw: dict[str, Any], *, applied: bool) -> None:
    verdict = str(raw.get("verdict"))
    told: dict[str, Any] = {"lastsay.function.verdict": verdict}
    for key in ("proof", "receipt_seconds"):
        value = raw.get(key)
        if isinstance(value, (str, float, int)):
            told["lastsay.function." + key] = value
    span.set_attributes(told)
    if not applied:
        _fail(span, verdict)
    elif raw.get("is_error"):
        _fail(span, TOOL_ERROR)
    span.end()


def _close(delegation: Delegation, *, openinference: bool) -> None:
    """End the span, once the call is answered and the child has ended."""
    if not delegation.answered or delegation.child_ended_ns is None or not delegation.span.is_recording():
        return
    if delegation.result is not None:
        delegation.span.set_attribute(n.TOOL_RESULT, delegation.result)
        if openinference:
            delegation.span.set_attribute("output.value", delegation.result)
    if delegation.error is not None:
        _fail(delegation.span, delegation.error)
    delegation.span.end(delegation.child_ended_ns)


def _fail(span: Span, error: str) -> None:
    span.set_attribute(n.ERROR_TYPE, error)
    span.set_status(Status(StatusCode.ERROR, error))
