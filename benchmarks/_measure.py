"""How the benchmarks measure.

Everything is a ratio taken in one process: the parties run in turn (A B A B ...), each round gives one ratio, and the
median of the rounds counts. Rounds are short and many, so that what else the machine does hits both parties alike. CPU
time of this thread, not the clock on the wall; one core; the garbage collector rests while a party works. Absolute
figures depend on the machine and are printed for orientation.
"""

import asyncio
import gc
import os
import statistics
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Literal

Direction = Literal["at most", "at least"]


@dataclass
class Row:
    """One line of the table. `measured` is None where a peer is not installed."""

    name: str
    against: str
    goal: float
    direction: Direction
    unit: str = "x"
    measured: float | None = None
    note: str = ""
    rounds: list[float] = field(default_factory=list)

    @property
    def status(self) -> str:
        """ok, watch (within 15 % of the goal), missed or absent."""
        if self.measured is None:
            return "absent"
        return "missed" if self.share > 1 else "watch" if self.share > 0.85 else "ok"

    @property
    def share(self) -> float:
        """What was measured as a share of the goal: over 1 misses it; 0 where nothing was measured."""
        if self.measured is None:
            return 0.0
        return self.measured / self.goal if self.direction == "at most" else self.goal / self.measured


@dataclass(frozen=True)
class Effort:
    """How much work a run may do."""

    quick: bool
    rounds: int
    events: int


QUICK = Effort(quick=True, rounds=15, events=50_000)
FULL = Effort(quick=False, rounds=41, events=50_000)


def pin() -> int | None:
    """Keep this process on one core, where the system lets it."""
    try:
        core = min(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {core})
    except (AttributeError, OSError):
        return None
    return core


class Loop:
    """One event loop for all parties: making one is no part of what is measured."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """The result of the coroutine."""
        return self._runner.run(work)


LOOP = Loop()


def cpu(work: Callable[[], Any]) -> float:
    """Seconds of CPU that one call takes."""
    gc.disable()
    try:
        began = time.thread_time()
        work()
        return time.thread_time() - began
    finally:
        gc.enable()


def ratio(ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int) -> tuple[float, float, float, list[float]]:
    """(median of ours / theirs, best of ours, best of theirs, all ratios), in seconds, after one warm-up each."""
    ours()
    theirs()
    pairs = []
    for i in range(rounds):
        if i % 2:
            b = cpu(theirs)
            a = cpu(ours)
        else:
            a = cpu(ours)
            b = cpu(theirs)
        pairs.append((a, b))
    ratios = [a / b for a, b in pairs]
    return statistics.median(ratios), min(a for a, _ in pairs), min(b for _, b in pairs), ratios


def cost_row(
    name: str,
    against: str,
    goal: float,
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    effort: Effort,
    events: int,
) -> Row:
    """A row that says what ours costs at most, as a multiple of theirs."""
    median, a, b, ratios = ratio(ours, theirs, effort.rounds)
    note = f"{a / events * 1e9:,.0f} against {b / events * 1e9:,.0f} ns/event"
    return Row(name, against, goal, "at most", measured=median, note=note, rounds=ratios)


def gain_row(
    name: str,
    against: str,
    goal: float,
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    effort: Effort,
    events: int,
) -> Row:
    """A row that says how many times cheaper ours is, at least. Slow parties get fewer rounds."""
    median, a, b, ratios = ratio(ours, theirs, max(5, effort.rounds // 3))
    note = f"{a / events * 1e9:,.0f} against {b / events * 1e9:,.0f} ns/event"
    return Row(name, against, goal, "at least", measured=1 / median, note=note, rounds=[1 / r for r in ratios])
