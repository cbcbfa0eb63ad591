"""What does telemetry cost: per delta, per run, and without an SDK?

    python -m benchmarks.telemetry [--quick]

Per delta: the run scope with the consumer against the same scope without, over a source that does nothing; the promise
is 0.4 us, which is a fifth of what the scope takes for a delta that comes alone. Per run: start and end of the consumer
with 8 kB of output, against a span with 18 attributes made by hand; the promise is 120 us where that span takes 33, so
3.6 times, the span of the model call included. Without an SDK it is 2 us, so 0.06 times.
"""

import argparse
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from benchmarks._measure import FULL, LOOP, QUICK, Effort, Row, cost_row, pin

from lastsay.consumers import Consumer, Counters, RunEnd, RunStart, telemetry
from lastsay.events import Event, Message, RunEnded, RunStarted, Text, TextDelta, Usage
from lastsay.fold import RunFold
from lastsay.operators import Stream
from lastsay.run import open_run

CONTENT = "All good things come to those who wait. " * 205  # 8.2 kB
RUNS = 1_000


def source(deltas: int, size: int) -> Stream:
    batch: list[Event] = [TextDelta("word ", "m")] * size

    async def batches() -> AsyncIterator[list[Event]]:
        yield [RunStarted(agent="child", backend="bench", model="none")]
        for _ in range(deltas // size):
            yield batch
        yield [RunEnded("completed")]

    return Stream.from_batches(batches)


def reading(consumers: list[Consumer], deltas: int, size: int) -> Callable[[], Any]:
    stream = source(deltas, size)

    async def read() -> None:
        async with open_run(stream, consumers=consumers) as run:
            async for _ in run.batches():
                pass

    return lambda: LOOP.run(read())


def an_end() -> RunEnd:
    fold = RunFold()
    fold.push(Message((Text(CONTENT),), "m", usage=Usage(1200, 300, 4000, 200), stop_reason="end_turn"))
    fold.push(RunEnded("completed", raw="end_turn"))
    now = time.time_ns()
    facts: dict[str, Any] = {"agent": "child", "provider": "bench", "model": "none", "local": True, "time_ns": now}
    start = RunStart(run_id="r1", run="main", parent_id=None, parent=None, call=None, epoch=0, **facts)
    return RunEnd(start=start, outcome=fold.outcome(), how="ended", time_ns=now + 10**9)


def whole_runs(consumer: Consumer) -> Callable[[], Any]:
    end = an_end()
    message = [Message((Text("x"),), "m")]

    def work() -> None:
        for _ in range(RUNS):
            consumer.start(end.start)
            consumer.observe(end.start, message)
            consumer.end(end)

    return work


def by_hand(tracer: Any) -> Callable[[], Any]:
    """Six attributes at the start, twelve later, of which one is a string of 8 kB."""
    first = {f"key.{i}": "value" for i in range(6)}

    def work() -> None:
        for _ in range(RUNS):
            span = tracer.start_span("invoke_agent child", attributes=first)
            for at in range(11):
                span.set_attribute(f"more.{at}", at)
            span.set_attribute("content", CONTENT)
            span.end()

    return work


def rows(effort: Effort) -> list[Row]:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

    provider, off = TracerProvider(), TracerProvider(sampler=ALWAYS_OFF)
    provider.add_span_processor(SpanProcessor())
    meters = MeterProvider([InMemoryMetricReader()])
    recording = telemetry(tracer_provider=provider, metrics=False)
    out = [
        cost_row(
            f"telemetry, lists of {size}", "the run scope without", goal,
            reading([recording], effort.events, size), reading([], effort.events, size), effort, effort.events,
        )
        for size, goal in ((1, 1.25), (16, 1.2), (64, 1.2))
    ]  # fmt: skip
    hand = by_hand(provider.get_tracer("bench"))
    for name, goal, consumer in (
        ("a run without an SDK", 0.06, telemetry()),
        ("the same, with counters", 0.12, telemetry(counters=Counters())),
        ("a run that is sampled out", 0.8, telemetry(tracer_provider=off, metrics=False)),
        ("a run without content", 3.3, telemetry(tracer_provider=provider, content=False, metrics=False)),
        ("a run with 8 kB of content", 3.6, telemetry(tracer_provider=provider, content=True, metrics=False)),
        ("the same, and six metrics", 6.5, telemetry(tracer_provider=provider, content=True, meter_provider=meters)),
    ):
        out.append(cost_row(name, "a span made by hand", goal, whole_runs(consumer), hand, effort, RUNS))
    return out


def main() -> int:
    from benchmarks.run import line

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    effort = QUICK if parser.parse_args().quick else FULL
    pin()
    table = rows(effort)
    for row in table:
        print(line(row), flush=True)
    return int(any(row.status == "missed" for row in table))


if __name__ == "__main__":
    sys.exit(main())
