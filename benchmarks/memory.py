"""What the fold holds: a million deltas of 20 characters, and after a message was selected."""

import gc
import tracemalloc
from collections.abc import Iterator

from benchmarks._measure import Effort, Row

from lastsay.events import Message, Text, TextDelta
from lastsay.fold import OutputFold

SIZE = 20


def held(deltas: int) -> tuple[float, int]:
    """Bytes that the fold holds per delta beyond the text, and bytes that it holds after a message came."""
    gc.collect()
    tracemalloc.start()
    try:
        fold = OutputFold()
        before = tracemalloc.get_traced_memory()[0]
        for i in range(deltas):
            fold.push(TextDelta(f"{i:020d}", "m"))
        during = tracemalloc.get_traced_memory()[0] - before
        fold.push(Message((Text("done"),), "m"))
        gc.collect()
        after = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    return during / deltas - SIZE, after


def rows(effort: Effort) -> Iterator[Row]:
    """The rows about memory."""
    deltas = 100_000 if effort.quick else 1_000_000
    beyond, after = held(deltas)
    name = f"fold, {deltas:,} deltas of {SIZE}"
    yield Row(name, "bytes per delta beyond the text", 8, "at most", unit=" B", measured=beyond)
    yield Row(name, "bytes held after a message", 4096, "at most", unit=" B", measured=float(after))
