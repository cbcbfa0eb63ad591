"""One span per run: parents, statuses, content, and what happens when something goes wrong."""

import json
import logging
import subprocess
import sys
import time
from typing import Any, Self

import anyio
import pytest
from opentelemetry import context, trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Decision, Sampler, SamplingResult
from opentelemetry.trace import SpanKind, StatusCode

from lastsay._traced import traced
from lastsay.backends import scripted
from lastsay.consumers import Consumer, Counters, RunEnd, RunStart, telemetry, tool_result
from lastsay.errors import UsageError
from lastsay.events import (
    EpochStarted,
    Image,
    Message,
    MessageRetracted,
    Notice,
    Opaque,
    Reasoning,
    ReasoningDelta,
    RunEnded,
    RunStarted,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    ToolUse,
    Usage,
    UsageReported,
)
from lastsay.fold import ANSWER, RunFold
from lastsay.run import open_run

ANSWERED = Message((Text("yes"),), "m1")
DONE = RunEnded("completed", raw="end_turn")


def told(kept: Any, **options: Any) -> Any:
    """Telemetry into the kept SDK, without metrics."""
    return telemetry(tracer_provider=kept.provider, metrics=False, **options)


class TestStatus:
    """The fold decides, not what ended the reading."""

    @pytest.mark.parametrize(
        ("end", "status", "error", "finish"),
        [
            (RunEnded("completed", raw="end_turn"), StatusCode.UNSET, None, "stop"),
            (RunEnded("max-tokens", raw="max_tokens"), StatusCode.UNSET, None, "length"),
            (RunEnded("refusal"), StatusCode.UNSET, None, "content_filter"),
            (RunEnded("aborted", raw="cancelled"), StatusCode.ERROR, "aborted", "error"),
            (RunEnded("error", raw="execution_failed"), StatusCode.ERROR, "execution_failed", "error"),
            (RunEnded("error"), StatusCode.ERROR, "_OTHER", "error"),
            (RunEnded("error", raw="a whole sentence"), StatusCode.ERROR, "_OTHER", "error"),
            (RunEnded("max_turns"), StatusCode.ERROR, "max_turns", "max_turns"),
            (RunEnded("tool_use"), StatusCode.ERROR, "tool_use", "tool_call"),
        ],
        ids=lambda value: getattr(value, "raw", None) or getattr(value, "stop_reason", ""),
    )
    def test_by_stop_reason(
        self, kept: Any, play: Any, end: RunEnded, status: StatusCode, error: str | None, finish: str
    ) -> None:
        """Each stop reason has its status, its error type and its finish reason."""
        play([ANSWERED, end], told(kept))
        span = kept.spans["invoke_agent"]
        assert (status, error, (finish,)) == (
            span.status.status_code,
            span.attributes.get("error.type"),
            span.attributes["gen_ai.response.finish_reasons"],
        )

    def test_a_length_stop_can_be_an_error(self, kept: Any, play: Any) -> None:
        """Which stop reasons are tolerated is the caller's choice."""
        outcome = play([ANSWERED, RunEnded("max-tokens")], told(kept, tolerated=()))
        assert StatusCode.ERROR is kept.spans["invoke_agent"].status.status_code
        assert tool_result(outcome).is_error

    def test_no_end_record(self, kept: Any, play: Any) -> None:
        """A stream that runs out without an end record is an error, though something was said."""
        play([ANSWERED], told(kept))
        span = kept.spans["invoke_agent"]
        assert ("no_end_record", "drained", "unknown") == tuple(
            span.attributes[key] for key in ("error.type", "lastsay.stream.end", "lastsay.stop_reason.provenance")
        )

    def test_the_diagnostic_describes_the_error(self, kept: Any, play: Any) -> None:
        """The diagnostic is the status description, cut and without surrogates."""
        play([RunEnded("error", diagnostic="quota \ud800" + "x" * 2000)], told(kept))
        description = kept.spans["invoke_agent"].status.description
        assert description.startswith("quota ?x")
        assert 1024 == len(description)

    def test_a_contradicted_success(self, kept: Any, play: Any) -> None:
        """A claimed success that the evidence contradicts keeps its status and names the evidence."""
        play([Message((ToolUse("t1", "grep"),), "m1"), DONE], told(kept))
        told_of = kept.attributes("invoke_agent")
        assert StatusCode.UNSET is kept.spans["invoke_agent"].status.status_code
        assert "incomplete" == told_of["lastsay.stop_reason.effective"]
        assert told_of["lastsay.evidence"]

    def test_the_policy_is_named(self, kept: Any) -> None:
        """The span carries the policy and the digest of the outcome that everybody else is handed."""

        async def read() -> str:
            stream = scripted.stream([ANSWERED, DONE])
            async with open_run(stream, policy=ANSWER, consumers=[told(kept)]) as run:
                async for _ in run:
                    pass
            return run.outcome.digest

        digest = anyio.run(read)
        told_of = kept.attributes("invoke_agent")
        assert (ANSWER.name, digest) == (told_of["lastsay.output.policy"], told_of["lastsay.output.digest"])


class TestTree:
    """Parents are given explicitly, by the ids of the stream."""

    def parent(self, kept: Any, name: str) -> str | None:
        span = kept.spans[name]
        names = {other.context.span_id: other.name for other in kept.spans.values()}
        return names.get(span.parent.span_id) if span.parent else None

    def test_children_side_by_side(self, kept: Any, play: Any) -> None:
        """Interleaved children and a grandchild hang below the run that started them, and nowhere else."""
        play(
            [
                RunStarted(agent="root"),
                RunStarted(run="a", parent="main", agent="a"),
                RunStarted(run="b", parent="main", agent="b"),
                TextDelta("x", run="a"),
                RunStarted(run="c", parent="a", agent="c"),
                TextDelta("x", run="b"),
                RunEnded("completed", run="b"),
                RunEnded("completed", run="c"),
                RunEnded("completed", run="a"),
                DONE,
            ],
            told(kept),
        )
        tree = {name: self.parent(kept, name) for name in kept.spans}
        root = "invoke_agent root"
        assert {
            root: None,
            "invoke_agent a": root,
            "invoke_agent b": root,
            "invoke_agent c": "invoke_agent a",
        } == tree

    def test_a_child_of_an_ended_parent(self, kept: Any, play: Any) -> None:
        """A child that starts after its parent ended still hangs below it."""
        play(
            [
                RunStarted(agent="root"),
                RunStarted(run="a", parent="main", agent="a"),
                RunEnded("completed", run="a"),
                RunStarted(run="b", parent="a", agent="b", call="t1"),
                RunEnded("completed", run="b"),
                DONE,
            ],
            told(kept),
        )
        assert "invoke_agent a" == self.parent(kept, "invoke_agent b")

    def test_many_ended_parents_are_not_kept(self, kept: Any, play: Any) -> None:
        """What is remembered of ended runs is bounded, and holds no span."""
        steps: list[Any] = [RunStarted()]
        for at in range(300):
            steps += [RunStarted(run=f"r{at}", parent="main"), RunEnded("completed", run=f"r{at}")]
        consumer = told(kept)
        play([*steps, DONE], consumer)
        assert 256 == len(consumer._ended)
        assert not any(trace.get_current_span(kept_of).is_recording() for kept_of in consumer._ended.values())
        assert {} == consumer._pulses

    def test_the_given_parent(self, kept: Any, play: Any) -> None:
        """A root hangs below the context that was given, fixed or asked for."""
        outer = kept.provider.get_tracer("t").start_span("outer")
        given = trace.set_span_in_context(outer, context.Context())
        for parent in (given, lambda: given):
            kept.exporter.clear()
            play([DONE], told(kept, parent=parent))
            assert outer.get_span_context().span_id == kept.spans["invoke_agent"].parent.span_id

    def test_a_remote_child_is_a_client(self, kept: Any, play: Any) -> None:
        """A child elsewhere is a CLIENT span, and names its provider in every profile."""
        for profile in ("genai-1.41", "genai-next"):
            kept.exporter.clear()
            play([RunStarted(local=False, backend="claude"), DONE], told(kept, profile=profile))
            assert SpanKind.CLIENT is kept.spans["invoke_agent"].kind
            assert "anthropic" == kept.attributes("invoke_agent")["gen_ai.provider.name"]

    def test_a_child_is_driven_by_its_parents_backend(self, kept: Any, play: Any) -> None:
        """A child that names no backend has its parent's provider."""
        child = RunStarted(run="c", parent="main", agent="c")
        play([RunStarted(backend="claude"), child, RunEnded("completed", run="c"), DONE], told(kept))
        told_of = kept.attributes("invoke_agent c")
        assert ("anthropic", "claude") == (told_of["gen_ai.provider.name"], told_of["lastsay.backend"])

    def test_epochs_are_runs(self, kept: Any, play: Any) -> None:
        """A continued child has one span per epoch."""
        play([RunStarted(), ANSWERED, DONE, EpochStarted(1), ANSWERED, DONE], told(kept))
        spans = [span for span in kept.exporter.get_finished_spans() if span.name == "invoke_agent"]
        assert [None, 1] == [span.attributes.get("lastsay.run.epoch") for span in spans]

    def test_a_sampler_sees_what_it_decides_by(self, kept: Any, play: Any) -> None:
        """Operation, agent, model and provider are there when the span starts."""
        seen: list[Any] = []

        class Spy(Sampler):
            def should_sample(self, parent_context: Any, trace_id: int, name: str, *args: Any, **kw: Any) -> Any:
                seen.append(dict(args[1] if len(args) > 1 else kw["attributes"]))
                return SamplingResult(Decision.DROP)

            def get_description(self) -> str:
                return "spy"

        kept.provider.sampler = Spy()
        play([RunStarted(agent="a", model="m", backend="claude"), DONE], told(kept))
        wanted = ("gen_ai.operation.name", "gen_ai.agent.name", "gen_ai.request.model", "gen_ai.provider.name")
        assert ["invoke_agent", "a", "m", "anthropic"] == [seen[0][key] for key in wanted]


class TestDelegation:
    """The parent's call that runs a child is one span around the child's."""

    CALL = ToolCall("t1", "Agent", {"prompt": "go"})
    CHILD = RunStarted(run="c", parent="main", agent="kid", call="t1")

    def test_a_background_child(self, kept: Any, play: Any) -> None:
        """A call answered at once stays open until its child has ended."""
        play(
            [self.CALL, self.CHILD, ToolResult("t1", (Text("launched"),)), RunEnded("error", raw="x", run="c"), DONE],
            told(kept, content=True),
        )
        call, child = kept.spans["execute_tool Agent"], kept.spans["invoke_agent kid"]
        assert call.end_time == child.end_time
        assert ("x", "launched") == (call.attributes["error.type"], call.attributes["gen_ai.tool.call.result"])

    def test_a_parent_that_ends_first(self, kept: Any, play: Any) -> None:
        """A child that outlives its parent keeps the delegation open to its own end."""
        play(
            [
                RunStarted(),
                RunStarted(run="p", parent="main"),
                ToolCall("t1", "Agent", None, run="p"),
                RunStarted(run="c", parent="p", agent="kid", call="t1"),
                RunEnded("completed", run="p"),
                RunEnded("completed", run="c"),
                DONE,
            ],
            told(kept),
        )
        names = [span.name for span in kept.exporter.get_finished_spans()]
        assert ["invoke_agent", "invoke_agent kid", "execute_tool Agent", "invoke_agent"] == names

    def test_two_children_of_one_call(self, kept: Any, play: Any) -> None:
        """Children of the same call share its span while it is open."""
        other = RunStarted(run="d", parent="main", agent="two", call="t1")
        ends = [RunEnded("completed", run=run) for run in "cd"]
        play([self.CALL, self.CHILD, other, *ends, ToolResult("t1"), DONE], told(kept))
        assert 1 == [span.name for span in kept.exporter.get_finished_spans()].count("execute_tool Agent")

    def test_an_unknown_call(self, kept: Any, play: Any) -> None:
        """A call that was never seen gives a delegation without a tool's name."""
        play([RunStarted(), self.CHILD, RunEnded("completed", run="c"), DONE], told(kept))
        assert "gen_ai.tool.name" not in kept.attributes("execute_tool")

    def test_switched_off(self, kept: Any, play: Any) -> None:
        """Without delegations the child hangs directly below its parent."""
        play([self.CALL, self.CHILD, RunEnded("completed", run="c"), DONE], told(kept, delegations=False))
        assert {"invoke_agent", "invoke_agent kid"} == set(kept.spans)


class TestBridge:
    """One span per bridged call, with its verdict."""

    def test_verdicts(self, kept: Any, play: Any) -> None:
        """Applied is fine, an error result or a refusal is an error, and an open call is one without a receipt."""
        steps: list[Any] = [
            Notice("function_call", {"call": name, "function": name, "arguments": {"k": 1}})
            for name in ("ok", "bad", "no", "open")
        ]
        steps += [
            Notice("function_applied", {"call": "ok", "verdict": "trimmed", "receipt_seconds": 0.25}),
            Notice("function_applied", {"call": "bad", "verdict": "exact", "is_error": True}),
            Notice("function_refused", {"call": "no", "verdict": "timed_out"}),
            Notice("function_applied", {"call": "never asked", "verdict": "exact"}),
            Notice("function_stray", {"call": "ok", "verdict": "duplicate"}),
            Notice("function_call", "odd"),
        ]
        consumer = told(kept)
        play([*steps, DONE], consumer)
        errors = {
            name: kept.attributes(f"execute_tool {name}").get("error.type") for name in ("ok", "bad", "no", "open")
        }
        assert {"ok": None, "bad": "tool_error", "no": "timed_out", "open": "no_receipt"} == errors
        ok = kept.attributes("execute_tool ok")
        assert ("trimmed", 0.25) == (ok["lastsay.function.verdict"], ok["lastsay.function.receipt_seconds"])
        assert "gen_ai.tool.call.arguments" not in ok
        assert 0 == consumer.failures


class TestModelCalls:
    """With spans for model calls, tokens stand there and nowhere else."""

    def calls(self, kept: Any) -> list[tuple[Any, Any, Any]]:
        spans = [span for span in kept.exporter.get_finished_spans() if span.name.startswith("chat")]
        keys = ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.response.finish_reasons")
        return [tuple(span.attributes.get(key) for key in keys) for span in spans]

    def test_one_span_per_call(self, kept: Any, play: Any) -> None:
        """Each message is a call with its last usage and its own stop; retracted and synthetic ones are none."""
        play(
            [
                RunStarted(model="m", backend="claude"),
                Message((ToolUse("t1", "x"),), "m1", "tool_use", Usage(10, 1)),
                UsageReported(Usage(10, 2), "m1"),
                UsageReported(Usage(99, 99), "never heard of"),
                ToolResult("t1"),
                Message((Text("a"),), "m2", usage=Usage(20, 3)),
                Message((Text("ab"),), "m2", "end_turn"),
                Message((Text("oops"),), "m3", usage=Usage(7, 7)),
                MessageRetracted("m3"),
                Message((Text("api error"),), "m4", usage=Usage(9, 9), origin="synthetic"),
                Message((Text("cut"),), interrupted=True),
                DONE,
            ],
            told(kept, model_calls=True),
        )
        assert [(10, 2, ("tool_call",)), (20, 3, ("stop",)), (None, None, ("error",))] == self.calls(kept)
        root = kept.spans["invoke_agent"]
        assert "gen_ai.usage.input_tokens" not in root.attributes
        assert kept.spans["chat m"].parent.span_id == root.context.span_id
        assert root.start_time <= kept.spans["chat m"].start_time <= kept.spans["chat m"].end_time <= root.end_time

    def test_a_replay_keeps_its_own_times(self, kept: Any, play: Any) -> None:
        """The calls of a recording stay inside their run."""
        play([RunStarted(time=1000.0), ANSWERED, RunEnded("completed", time=1002.5)], told(kept))
        chat = kept.spans["chat"]
        assert (1_000_000_000_000, 1_002_500_000_000) == (chat.start_time, chat.end_time)

    def test_a_total_for_one_call(self, kept: Any, play: Any) -> None:
        """A harness that only reports a total has it on the call, if there is one call."""
        play([ANSWERED, UsageReported(Usage(5, 6)), DONE], told(kept, model_calls=True))
        assert [(5, 6, None)] == self.calls(kept)
        assert 5 == kept.attributes("invoke_agent")["lastsay.usage.input_tokens"]

    def test_a_total_for_several(self, kept: Any, play: Any) -> None:
        """A total of several calls belongs to none of them, and stays with the run."""
        other = Message((Text("x"),), "m2")
        play([ANSWERED, other, UsageReported(Usage(5, 6)), DONE], told(kept, model_calls=True))
        assert [(None, None, None)] * 2 == self.calls(kept)
        assert 5 == kept.attributes("invoke_agent")["gen_ai.usage.input_tokens"]

    def test_too_many(self, kept: Any, play: Any) -> None:
        """A run with very many calls is told of as a whole."""
        many = [Message((Text("x"),), f"m{at}", usage=Usage(1, 1)) for at in range(1_100)]
        play([many, DONE], told(kept, model_calls=True))
        assert [] == self.calls(kept)
        assert 1_100 == kept.attributes("invoke_agent")["gen_ai.usage.input_tokens"]


class TestContent:
    """Nothing is told unless it was asked for, and then in the one form that travels."""

    STEPS = (Notice("user_message", {"message": {"content": [{"type": "text", "text": "hi"}]}}), ANSWERED, DONE)
    KEYS = ("gen_ai.input.messages", "gen_ai.output.messages")

    @pytest.mark.parametrize(
        ("word", "spans"),
        [
            (None, 0),
            ("NO_CONTENT", 0),
            ("false", 0),
            ("EVENT_ONLY", 0),
            ("SPAN_ONLY", 2),
            ("span_and_event", 2),
            ("1", 2),
        ],
    )
    def test_the_variable(
        self, kept: Any, play: Any, monkeypatch: pytest.MonkeyPatch, word: str | None, spans: int
    ) -> None:
        """The common variable decides where the caller did not."""
        name = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
        monkeypatch.delenv(name, raising=False)
        if word is not None:
            monkeypatch.setenv(name, word)
        play(self.STEPS, told(kept))
        assert spans == sum(key in kept.attributes("invoke_agent") for key in self.KEYS)

    def test_an_unknown_word_is_no(
        self, kept: Any, play: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A word that is not known is logged and tells nothing."""
        monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPANS")
        play(self.STEPS, told(kept))
        assert not any(key in kept.attributes("invoke_agent") for key in self.KEYS)
        assert "SPAN_AND_EVENT" in caplog.text

    def test_the_caller_decides(self, kept: Any, play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """What the caller says wins over the environment."""
        monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
        play(self.STEPS, told(kept, content=False))
        assert not any(key in kept.attributes("invoke_agent") for key in self.KEYS)

    @pytest.mark.parametrize(
        ("raw", "prompt"),
        [
            ("plain", "plain"),
            ({"text": "a"}, "a"),
            ({"role": "user", "content": "b"}, "b"),
            ({"message": {"content": [{"type": "text", "text": "c"}, {"type": "image"}, 1]}}, "c"),
            ({"content": "injected", "meta": True}, None),
            ({"content": 7}, None),
            (7, None),
        ],
    )
    def test_the_users_prompt(self, kept: Any, play: Any, raw: Any, prompt: str | None) -> None:
        """The user's message before the first content is the input; what the harness injects is not."""
        late = Notice("user_message", "too late")
        play([Notice("ping"), Notice("user_message", raw), ANSWERED, late, DONE], told(kept, content=True))
        told_of = kept.attributes("invoke_agent").get("gen_ai.input.messages")
        assert prompt == (told_of and json.loads(told_of)[0]["parts"][0]["content"])

    def test_every_block_has_a_part(self, kept: Any, play: Any) -> None:
        """Each kind of block has its part; images that do not fit are named, not halved."""
        blocks = (
            Reasoning("hm"),
            Text("x" * 50),
            ToolUse("t", "grep", {"q": ["y" * 50], "n": 1}),
            Image(url="u"),
            Image("aGk=", "image/png"),
            Image("a" * 50, "image/png"),
            Opaque("thing", {"secret": 1}),
        )
        play([Message(blocks, "m"), ToolResult("t"), DONE], told(kept, content=True, content_limit=20))
        told_of = kept.attributes("invoke_agent")
        (message,) = json.loads(told_of["gen_ai.output.messages"])
        assert ("assistant", "stop") == (message["role"], message["finish_reason"])
        kinds = ["reasoning", "text", "tool_call", "uri", "blob", "blob", "generic"]
        assert kinds == [part["type"] for part in message["parts"]]
        assert {"q": ["y" * 20], "n": 1} == message["parts"][2]["arguments"]
        assert ("aGk=", "", 50) == (
            message["parts"][4]["content"], message["parts"][5]["content"], message["parts"][5]["omitted_characters"]
        )  # fmt: skip
        assert told_of["lastsay.content.truncated"] is True
        assert 50 == told_of["lastsay.output.characters"]

    def test_surrogates(self, kept: Any, play: Any, caplog: pytest.LogCaptureFixture) -> None:
        """A lone surrogate is replaced everywhere, and a pair is its character: exporters choke on both."""
        steps = [
            RunStarted(agent="a\ud800", model="m\udfff"),
            Message((Text("\ud83d\ude00 and \ud83d"),), "m"),
            RunEnded("odd\ud800", raw="raw\ud800"),
        ]
        consumer = told(kept, content=True, profile="genai-1.41+openinference", prompt="p\ud800")
        play(steps, consumer)
        told_of = kept.attributes("invoke_agent a�")
        assert "\U0001f600 and �" == told_of["output.value"]
        for value in told_of.values():
            str(value).encode()
        assert 0 == consumer.failures

    def test_no_output(self, kept: Any, play: Any) -> None:
        """Without output there is no output attribute, and the reason is named."""
        play([Message((), "m"), RunEnded("max-tokens")], told(kept, content=True, profile="genai-1.41+openinference"))
        told_of = kept.attributes("invoke_agent")
        assert "empty_final" == told_of["lastsay.output.none_reason"]
        assert not {"gen_ai.output.messages", "output.value", "lastsay.output.characters"} & set(told_of)

    def test_few_attributes(self, kept: Any, play: Any) -> None:
        """A full span stays far from the limit of 128, at which the SDK drops the oldest attribute."""
        usage = Usage(1, 2, 3, 4, 5)
        steps = [
            RunStarted(agent="a", model="m", backend="b", call="t"),
            TextDelta("x"), ReasoningDelta("y"), Message((Text("z"),), "m1", usage=usage), Message((Text("z"),), "m2"),
            ToolCall("t1", "x"), RunEnded("error", raw="why"),
        ]  # fmt: skip
        play(steps, told(kept, content=True, profile="genai-1.41+openinference", prompt="p", conversation_id="c"))
        assert 32 < len(kept.attributes("invoke_agent a")) <= 50


class TestTiming:
    """Times are told where they mean something."""

    def test_a_replay_has_no_first_piece(self, kept: Any, play: Any) -> None:
        """A recording's own times are the span's; our clock has nothing to add."""
        play([RunStarted(time=1000.0), TextDelta("x"), RunEnded("completed", time=1002.5)], told(kept))
        span = kept.spans["invoke_agent"]
        assert 2_500_000_000 == span.end_time - span.start_time
        assert not {"lastsay.time_to_first_delta", "lastsay.largest_gap"} & set(span.attributes)

    def test_a_clock_that_runs_backwards(self, kept: Any, play: Any) -> None:
        """An end before the start gives an empty span, not a negative one."""
        play([RunStarted(time=1000.0), RunEnded("completed", time=900.0)], told(kept))
        span = kept.spans["invoke_agent"]
        assert span.start_time == span.end_time

    def test_notices_are_no_content(self, kept: Any, play: Any) -> None:
        """A run with nothing but notices has no first piece."""
        play([RunStarted(), Notice("ping"), DONE], told(kept))
        assert "lastsay.time_to_first_delta" not in kept.attributes("invoke_agent")

    def test_the_largest_gap(self, kept: Any, play: Any) -> None:
        """The gap is the longest silence after the first piece."""
        steps = [TextDelta("a"), scripted.Pause(0.03), TextDelta("b"), scripted.Pause(0.001), TextDelta("c"), DONE]
        play(steps, told(kept))
        assert 0.02 < kept.attributes("invoke_agent")["lastsay.largest_gap"] < 5


class TestContained:
    """Telemetry never harms what it tells about."""

    def test_an_own_error_costs_only_itself(
        self, kept: Any, play: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An error inside telemetry is logged and counted; the span still ends, and so do the next ones."""

        def broken(*_: Any, **__: Any) -> Any:
            raise RuntimeError("broken")

        consumer = told(kept)
        monkeypatch.setattr("lastsay.consumers._telemetry._consumer.end_attributes", broken)
        play([ANSWERED, RunEnded("error")], consumer)
        assert StatusCode.ERROR is kept.spans["invoke_agent"].status.status_code
        monkeypatch.undo()
        play([ANSWERED, DONE], consumer)
        names = [span.name for span in kept.exporter.get_finished_spans()]
        assert (2, 1) == (names.count("invoke_agent"), consumer.failures)
        assert "RuntimeError: broken" in caplog.text

    def test_a_broken_start(self, kept: Any, play: Any, caplog: pytest.LogCaptureFixture) -> None:
        """A parent that cannot be had costs the span, not the run."""
        consumer = told(kept, parent=lambda: 1 / 0)
        assert play([ANSWERED, DONE], consumer).succeeded
        assert ({}, 1) == (kept.spans, consumer.failures)

    def test_beside_one_that_fails(self, kept: Any, play: Any, caplog: pytest.LogCaptureFixture) -> None:
        """A consumer that fails beside telemetry is dropped, and telemetry goes on with every event."""

        class Failing(Consumer):
            def observe(self, start: RunStart, events: Any) -> None:
                raise RuntimeError("no")

        play([TextDelta("a"), ToolCall("t", "x"), scripted.Pause(0.02), TextDelta("b"), DONE], Failing(), told(kept))
        assert 0.01 < kept.attributes("invoke_agent")["lastsay.largest_gap"]
        assert "Failing failed and was dropped" in caplog.text

    def test_spans_end_before_the_end_event(self, kept: Any, play: Any) -> None:
        """Whoever is told of an end can already see its span ended."""
        seen: list[bool] = []

        class After(Consumer):
            def end(self, end: RunEnd) -> None:
                seen.append("invoke_agent" in kept.spans)

        play([ANSWERED, DONE], After(), told(kept))
        assert [True] == seen

    def test_an_unknown_profile(self) -> None:
        """A profile that is not known is refused, with the known ones."""
        with pytest.raises(UsageError, match=r"genai-1\.41, genai-next"):
            telemetry(profile="genai-2")

    def test_the_provider_can_be_named(self, kept: Any, play: Any) -> None:
        """The caller's provider wins over the backend's."""
        play([RunStarted(backend="claude"), DONE], told(kept, provider="aws.bedrock"))
        assert "aws.bedrock" == kept.attributes("invoke_agent")["gen_ai.provider.name"]


IDLE = """
import anyio
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from lastsay.backends import scripted
from lastsay.consumers import telemetry
from lastsay.events import RunEnded
from lastsay.run import collect

consumer = telemetry()
stream = scripted.stream([RunEnded("completed")])
anyio.run(lambda: collect(stream, consumers=[consumer]))
print(consumer._idle, len(consumer._ended))
exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
anyio.run(lambda: collect(stream, consumers=[consumer]))
print(consumer._idle, len(exporter.get_finished_spans()))
metrics.set_meter_provider(MeterProvider([reader]))
anyio.run(lambda: collect(stream, consumers=[consumer]))
data = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
print(consumer._idle, len(exporter.get_finished_spans()), len(data))
"""


def test_an_sdk_that_comes_later() -> None:
    """Without an SDK nothing is done; one that is set up later is told from then on."""
    done = subprocess.run([sys.executable, "-c", IDLE], capture_output=True, text=True, check=True, timeout=20)
    assert "True 0\nFalse 1\nFalse 2 3\n" == done.stdout
    assert "" == done.stderr


class Calls:
    """Counts the calls into OpenTelemetry, as the interpreter sees them."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Self:
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _profile(self, frame: Any, event: str, _: Any) -> None:
        if event == "call" and "/opentelemetry/" in frame.f_code.co_filename:
            self.count += 1


@pytest.mark.parametrize("sampler", [ALWAYS_ON, ALWAYS_OFF], ids=["recording", "sampled out"])
def test_calls_do_not_grow_with_deltas(kept: Any, sampler: Sampler) -> None:
    """A hundred thousand deltas cost as many calls into OpenTelemetry as ten do."""
    kept.provider.sampler = sampler
    facts: dict[str, Any] = dict.fromkeys(("parent_id", "parent", "agent", "provider", "model", "call"))
    counts = []
    for deltas in (10, 100_000):
        consumer, fold, delta = told(kept, content=True, content_limit=9), RunFold(), [TextDelta("word ", "m")]
        start = RunStart(run_id=f"r{deltas}", run="main", local=True, epoch=0, time_ns=time.time_ns(), **facts)
        fold.push_run(delta * deltas)
        outcome = fold.outcome()
        with Calls() as calls:
            consumer.start(start)
            for _ in range(deltas):
                consumer.observe(start, delta)
            consumer.end(RunEnd(start=start, outcome=outcome, how="drained", time_ns=time.time_ns()))
        counts.append(calls.count)
    assert 0 < counts[0] == counts[1]


def test_calls_do_not_grow_in_a_run(kept: Any) -> None:
    """Nor does the run scope around it add any."""

    async def read(deltas: int) -> int:
        stream = scripted.stream([*[TextDelta("word ", "m")] * deltas, DONE])
        async with open_run(stream, consumers=[told(kept)]) as run:
            with Calls() as calls:
                async for _ in run:
                    pass
        return calls.count

    assert 0 < anyio.run(read, 10) == anyio.run(read, 1_000)


def test_counters(play: Any) -> None:
    """The counters in the process need no SDK, and agree with the outcomes."""
    counters = Counters()
    consumer = telemetry(counters=counters)
    play([RunStarted(), TextDelta("hello"), Message((Text("hello"),), "m", usage=Usage(1, 2, 3, 4)), DONE], consumer)
    play([ToolCall("t", "x"), RunEnded("max-tokens")], consumer)
    got = counters.snapshot()
    assert got.pop("seconds") > 0
    assert {
        "started": 2, "ended": 2, "attempts": 1, "tool_calls": 1, "deltas": 1, "characters": 5, "input_tokens": 8,
        "output_tokens": 2, "partial": 0, "no_output": 1, "stop_reasons": {"completed": 1, "max-tokens": 1},
        "stream_ends": {"ended": 2}, "sources": {"message": 1, "none": 1},
    } == got  # fmt: skip
    assert 0 == counters.open


@pytest.mark.parametrize(("word", "told_of"), [("EVENT_ONLY", True), ("SPAN_ONLY", False)])
def test_content_in_the_log(play: Any, monkeypatch: pytest.MonkeyPatch, word: str, told_of: bool) -> None:
    """The log record has content where events may tell it, and is a warning where the run is an error."""
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", word)
    exporter, provider = InMemoryLogRecordExporter(), LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    play([ANSWERED, RunEnded("error")], telemetry(log=True, logger_provider=provider, metrics=False))
    (row,) = exporter.get_finished_logs()
    assert told_of is ("gen_ai.output.messages" in row.log_record.attributes)
    assert ("lastsay.subagent.end", "WARN") == (row.log_record.event_name, row.log_record.severity_text)


def test_metrics_without_names(play: Any) -> None:
    """A run that says nothing of itself has metrics without attributes, and none for what it does not know."""
    reader = InMemoryMetricReader()
    play([RunEnded("aborted")], telemetry(meter_provider=MeterProvider([reader], shutdown_on_exit=False)))
    data: Any = reader.get_metrics_data()
    metrics = {m.name: m.data.data_points for m in data.resource_metrics[0].scope_metrics[0].metrics}
    names = ["duration", "inference_calls", "tool_calls"]
    assert {f"gen_ai.invoke_agent.{name}" for name in names} == set(metrics)
    assert {"error.type": "aborted"} == dict(metrics["gen_ai.invoke_agent.duration"][0].attributes)


def test_traced_takes_one_of_two(kept: Any) -> None:
    """A tracer and a consumer together are refused."""
    with pytest.raises(UsageError, match="not both"):
        traced(tracer=kept.provider.get_tracer("t"), using=telemetry())


def test_traced_passes_a_failing_teardown(kept: Any) -> None:
    """A source that fails while it is closed fails where the traced stream is left; the span has ended before."""
    stream = scripted.stream([ANSWERED, DONE], closing=[scripted.Raise(OSError("gone"))])

    async def read() -> None:
        async with traced(stream, tracer=kept.provider.get_tracer("t")) as events:
            async for _ in events:
                pass

    with pytest.raises(OSError, match="gone"):
        anyio.run(read)
    assert StatusCode.UNSET is kept.spans["invoke_agent"].status.status_code


def test_start_without_end_is_open() -> None:
    """A run that has not ended counts as open."""
    counters = Counters()
    facts: dict[str, Any] = dict.fromkeys(("parent_id", "parent", "agent", "provider", "model", "call"))
    telemetry(counters=counters).start(RunStart(run_id="r", run="main", local=True, epoch=0, time_ns=1, **facts))
    assert 1 == counters.open


def test_no_log_of_opentelemetry(kept: Any, play: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Odd values, from a surrogate to None, make no line in OpenTelemetry's log."""
    with caplog.at_level(logging.DEBUG):
        play(
            [RunStarted(agent="\udcff"), Message((Opaque("k\ud800", {"k": float("nan")}),), "m"), RunEnded("\udcff")],
            told(kept),
        )
    assert [] == [record for record in caplog.records if record.name.startswith("opentelemetry")]
