"""Every way to leave a run, with every kind of SDK: one ended span with the right status, and nothing left behind."""

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON
from opentelemetry.trace import StatusCode

from lastsay._traced import traced
from lastsay.backends import scripted
from lastsay.consumers import Telemetry, telemetry
from lastsay.events import RunEnded, RunStarted, TextDelta
from lastsay.run import open_run

SDKS = ("no SDK", "sampled out", "recording")


@dataclass
class Bench:
    """Telemetry under test, below a span of the caller's own."""

    exporter: InMemorySpanExporter
    provider: TracerProvider | None
    consumer: Telemetry
    outer: trace.Span
    scripts: list[scripted.Script] = field(default_factory=list)

    def script(self, *steps: scripted.Step) -> scripted.Script:
        script = scripted.stream(steps)
        self.scripts.append(script)
        return script

    def check_current(self) -> None:
        """The caller's span is still current."""
        assert self.outer is trace.get_current_span()

    @property
    def ended(self) -> list[ReadableSpan]:
        """The ended spans of runs."""
        return [s for s in self.exporter.get_finished_spans() if s.name.startswith("invoke_agent")]


@pytest.fixture(params=SDKS)
def bench(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[Bench]:
    """One kind of SDK."""
    exporter = InMemorySpanExporter()
    provider = None
    if request.param != "no SDK":
        provider = TracerProvider(sampler=ALWAYS_ON if request.param == "recording" else ALWAYS_OFF)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = trace.get_tracer("test", tracer_provider=provider)
    with caplog.at_level(logging.DEBUG), tracer.start_as_current_span("caller") as outer:
        yield Bench(exporter, provider, telemetry(tracer_provider=provider, metrics=False), outer)
        bench_outer_is_current = trace.get_current_span() is outer
    assert bench_outer_is_current
    noise = [r for r in caplog.records if r.name.startswith(("opentelemetry", "lastsay.telemetry"))]
    assert [] == noise


DELTAS = [TextDelta("so ", "m"), TextDelta("far", "m")]
HEAD = RunStarted(agent="child", backend="scripted")


async def drained(bench: Bench) -> None:
    """The stream ends by itself."""
    script = bench.script(HEAD, *DELTAS, RunEnded("completed", raw="end_turn"))
    async with open_run(script, consumers=[bench.consumer]) as run:
        async for _ in run:
            bench.check_current()


async def left_by_break(bench: Bench) -> None:
    """The reader has enough."""
    script = bench.script(HEAD, *DELTAS, scripted.Hang())
    async with open_run(script, consumers=[bench.consumer]) as run:
        async for event in run:
            bench.check_current()
            if event is DELTAS[1]:
                break


async def consumer_raises(bench: Bench) -> None:
    """The reader fails."""
    script = bench.script(HEAD, *DELTAS, scripted.Hang())
    with suppress(ZeroDivisionError):
        async with open_run(script, consumers=[bench.consumer]) as run:
            async for _ in run:
                raise ZeroDivisionError


async def source_raises(bench: Bench) -> None:
    """The source fails."""
    script = bench.script(HEAD, *DELTAS, scripted.Raise(ConnectionError("gone")))
    async with open_run(script, consumers=[bench.consumer]) as run:
        async for _ in run:
            bench.check_current()


async def cancelled_in_source(bench: Bench) -> None:
    """The cancellation strikes while the source is waited for."""
    with anyio.CancelScope() as scope:
        script = bench.script(HEAD, *DELTAS, scripted.Do(scope.cancel), scripted.Hang())
        async with open_run(script, consumers=[bench.consumer]) as run:
            async for _ in run:
                bench.check_current()
    assert scope.cancelled_caught


async def cancelled_in_consumer(bench: Bench) -> None:
    """The cancellation strikes while the reader does something else."""
    script = bench.script(HEAD, *DELTAS, scripted.Hang())
    with anyio.CancelScope() as scope:
        async with open_run(script, consumers=[bench.consumer]) as run:
            async for event in run:
                bench.check_current()
                if event is DELTAS[1]:
                    scope.cancel()
                    await anyio.sleep_forever()
    assert scope.cancelled_caught


async def closed_from_another_task(bench: Bench) -> None:
    """The iterator is closed by a task that did not make it."""
    script = bench.script(HEAD, *DELTAS, scripted.Hang())
    async with open_run(script, consumers=[bench.consumer]) as run:
        events: Any = aiter(run)
        await anext(events)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(events.aclose)
        bench.check_current()


async def interleaved(bench: Bench) -> None:
    """Two runs, entered and left crosswise."""
    scripts = [bench.script(HEAD, *DELTAS, RunEnded("completed")) for _ in range(2)]
    stacks = [AsyncExitStack(), AsyncExitStack()]
    # Scopes of one task must nest, so that the two live in tasks of their own, step by step in turn.
    turns = [anyio.Event() for _ in range(4)]

    async def read(at: int) -> None:
        async with stacks[at]:
            run = await stacks[at].enter_async_context(open_run(scripts[at], consumers=[bench.consumer]))
            events = aiter(run)
            await anext(events)
            turns[at].set()
            await turns[1 - at].wait()
            async for _ in events:
                bench.check_current()
                await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read, 0)
        tasks.start_soon(read, 1)


PATHS: dict[Callable[[Bench], Awaitable[None]], tuple[StatusCode, str | None, str]] = {
    drained: (StatusCode.UNSET, None, "ended"),
    left_by_break: (StatusCode.ERROR, "closed_early", "closed_early"),
    consumer_raises: (StatusCode.ERROR, "consumer_failed", "consumer_failed"),
    source_raises: (StatusCode.ERROR, "source_failed", "source_failed"),
    cancelled_in_source: (StatusCode.ERROR, "cancelled", "cancelled"),
    cancelled_in_consumer: (StatusCode.ERROR, "cancelled", "cancelled"),
    closed_from_another_task: (StatusCode.ERROR, "closed_early", "closed_early"),
    interleaved: (StatusCode.UNSET, None, "ended"),
}


def check(bench: Bench, status: StatusCode, error: str | None, how: str | None) -> None:
    """One ended span per run, a child of the caller's, with that end."""
    assert all(entry.closed for script in bench.scripts for entry in script.entries)
    recording = bench.outer.is_recording()
    assert (len(bench.scripts) if recording else 0) == len(bench.ended)
    for span in bench.ended:
        assert span.parent is not None and span.attributes is not None
        assert bench.outer.get_span_context().span_id == span.parent.span_id
        assert (status, error, how) == (
            span.status.status_code,
            span.attributes.get("error.type"),
            span.attributes.get("lastsay.stream.end"),
        )
        assert span.end_time is not None
    assert {} == bench.consumer._pulses
    assert 0 == bench.consumer.failures


@pytest.mark.anyio
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.__name__)
async def test_every_exit_ends_one_span(bench: Bench, path: Callable[[Bench], Awaitable[None]]) -> None:
    """Whatever ends a run ends its span with the right status, and changes nothing around it."""
    await path(bench)
    bench.check_current()
    check(bench, *PATHS[path])


@pytest.mark.asyncio
async def test_a_dropped_scope_ends_its_span(bench: Bench) -> None:
    """A scope that is entered, never left and collected ends its span as abandoned."""
    script = bench.script(HEAD, *DELTAS, scripted.Hang())

    async def forget() -> None:
        run = await open_run(script, consumers=[bench.consumer]).__aenter__()
        async for event in run:
            if event is DELTAS[1]:
                return

    await asyncio.create_task(forget())
    for _ in range(3):
        gc.collect()
        await asyncio.sleep(0)
    bench.check_current()
    check(bench, StatusCode.ERROR, "abandoned", None)


@pytest.mark.anyio
async def test_a_run_that_is_never_read_has_a_span(bench: Bench) -> None:
    """A stream that is opened and left unread has one span, closed early."""
    async with open_run(bench.script(HEAD, *DELTAS), consumers=[bench.consumer]):
        bench.check_current()
    check(bench, StatusCode.ERROR, "closed_early", "closed_early")


TRACED = {
    "drained": (StatusCode.UNSET, None, "ended"),
    "broken": (StatusCode.ERROR, "closed_early", "closed_early"),
    "raised": (StatusCode.ERROR, "consumer_failed", "consumer_failed"),
    "failed": (StatusCode.ERROR, "source_failed", "source_failed"),
    "cancelled in the source": (StatusCode.ERROR, "cancelled", "cancelled"),
    "cancelled in the consumer": (StatusCode.ERROR, "cancelled", "cancelled"),
}


async def _leave(bench: Bench, path: str, *, inside: bool) -> None:
    """Read a traced stream and leave it that way; `inside` another run scope, which closes it without a word."""
    last: dict[str, scripted.Step] = {
        "drained": RunEnded("completed"),
        "failed": scripted.Raise(ConnectionError("gone")),
    }
    with anyio.CancelScope() as scope:
        steps: list[scripted.Step] = [HEAD, *DELTAS]
        if path == "cancelled in the source":
            steps.append(scripted.Do(scope.cancel))
        stream = bench.script(*steps, last.get(path, scripted.Hang())) | traced(using=bench.consumer)
        async with open_run(stream) if inside else stream as events:
            async for event in events:
                bench.check_current()
                if event is DELTAS[1]:
                    if path == "broken":
                        break
                    if path == "raised":
                        raise ZeroDivisionError
                    if path == "cancelled in the consumer":
                        scope.cancel()
                        await anyio.sleep_forever()


@pytest.mark.anyio
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "inside a run"])
@pytest.mark.parametrize("path", TRACED)
async def test_the_operator_ends_its_span(bench: Bench, path: str, inside: bool) -> None:
    """`traced` alone keeps the same promises, also below those who close it without saying why."""
    raises: Any = {"raised": ZeroDivisionError, "failed": ConnectionError}.get(path)
    with suppress(ZeroDivisionError) if inside or raises is None else pytest.raises(raises):
        await _leave(bench, path, inside=inside)
    check(bench, *TRACED[path])
