"""What does telemetry cost: per delta, per run, and without an SDK?

Usage: python benchmarks/telemetry.py [--deltas N] [--repeat R]

Per delta: the run scope with the consumer against the same scope without, over a source that does nothing, for several
sizes of a list; the promise is 0.4 us a delta. Per run: start and end of the consumer with 8 kB of output, as a ratio
to a span with the same number of attributes made by hand; the promise is 120 us where a hand-made span of 18 attributes
takes 33 us, so a ratio of 3.6. Without an SDK: 2 us. Times are the thread's own, the least of R rounds.
"""

import argparse
import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from lastsay.consumers import Consumer, Counters, RunEnd, RunStart, telemetry
from lastsay.events import Event, Message, RunEnded, RunStarted, Text, TextDelta, Usage
from lastsay.fold import RunFold
from lastsay.operators import Stream
from lastsay.run import open_run

CONTENT = "All good things come to those who wait. " * 205  # 8.2 kB


def least(repeat: int, work: Callable[[], Any], per: int) -> float:
    """Microseconds of thread time for one of `per`, the least of the rounds."""
    times = []
    for _ in range(repeat):
        began = time.thread_time()
        work()
        times.append(time.thread_time() - began)
    return min(times) / per * 1e6


def source(deltas: int, size: int) -> Stream:
    batch: list[Event] = [TextDelta("word ", "m")] * size

    async def batches() -> AsyncIterator[list[Event]]:
        yield [RunStarted(agent="child", backend="bench", model="none")]
        for _ in range(deltas // size):
            yield batch
        yield [RunEnded("completed")]

    return Stream.from_batches(batches)


def per_delta(consumer: Consumer, deltas: int, size: int, repeat: int) -> tuple[float, float]:
    """Without the consumer and with it, in turn: on a shared machine the two see the same weather."""
    stream = source(deltas, size)

    async def read(consumers: list[Consumer]) -> None:
        async with open_run(stream, consumers=consumers) as run:
            async for _ in run.batches():
                pass

    rounds = [
        [least(1, lambda: asyncio.run(read(consumers)), deltas) for consumers in ([], [consumer])]  # noqa: B023
        for _ in range(repeat)
    ]
    return min([plain for plain, _ in rounds]), min([told for _, told in rounds])


def a_run() -> tuple[Any, RunEnd]:
    fold = RunFold()
    fold.push(Message((Text(CONTENT),), "m", usage=Usage(1200, 300, 4000, 200), stop_reason="end_turn"))
    fold.push(RunEnded("completed", raw="end_turn"))
    outcome = fold.outcome()

    def start() -> RunStart:
        now = time.time_ns()
        facts: dict[str, Any] = {"agent": "child", "provider": "bench", "model": "none", "local": True}
        return RunStart(run_id="r1", run="main", parent_id=None, parent=None, call=None, epoch=0, time_ns=now, **facts)

    return start, RunEnd(start=start(), outcome=outcome, how="ended", time_ns=time.time_ns() + 10**9)


def per_run(consumer: Consumer, runs: int, repeat: int) -> float:
    make, end = a_run()
    message = [Message((Text("x"),), "m")]

    def work() -> None:
        for _ in range(runs):
            start = end.start
            consumer.start(start)
            consumer.observe(start, message)
            consumer.end(end)

    return least(repeat, work, runs)


def by_hand(tracer: trace.Tracer, runs: int, repeat: int) -> float:
    """The span of facts: six attributes at the start, twelve later, of which one is a string of 8 kB."""
    first = {f"key.{i}": "value" for i in range(6)}

    def work() -> None:
        for _ in range(runs):
            span = tracer.start_span("invoke_agent child", attributes=first)
            for at in range(11):
                span.set_attribute(f"more.{at}", at)
            span.set_attribute("content", CONTENT)
            span.end()

    return least(repeat, work, runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deltas", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=7)
    options = parser.parse_args()
    provider = TracerProvider()
    provider.add_span_processor(SpanProcessor())
    recording = telemetry(tracer_provider=provider, metrics=False)
    print("per delta, us       plain   with telemetry   difference")
    for size in (1, 16, 64):
        plain, told = per_delta(recording, options.deltas, size, options.repeat)
        print(f"  lists of {size:<4}{plain:12.3f}{told:15.3f}{told - plain:14.3f}", flush=True)

    runs, repeat = 2_000, options.repeat
    meters = MeterProvider([InMemoryMetricReader()])
    hand = by_hand(provider.get_tracer("bench"), runs, repeat)
    print(f"per run, us: a span made by hand {hand:.1f}")
    off = TracerProvider(sampler=ALWAYS_OFF)
    for name, consumer in (
        ("no SDK", telemetry()),
        ("no SDK, counters kept", telemetry(counters=Counters())),
        ("sampled out", telemetry(tracer_provider=off, metrics=False)),
        ("span, no content", telemetry(tracer_provider=provider, content=False, metrics=False)),
        ("span, 8 kB of content", telemetry(tracer_provider=provider, content=True, metrics=False)),
        ("sampled out, six metrics", telemetry(tracer_provider=off, meter_provider=meters)),
        ("span, 8 kB, six metrics", telemetry(tracer_provider=provider, content=True, meter_provider=meters)),
    ):
        took = per_run(consumer, runs, repeat)
        print(f"  {name:28}{took:8.2f}{took / hand:8.2f} x a span by hand", flush=True)


if __name__ == "__main__":
    main()
