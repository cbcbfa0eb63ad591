"""A log's runs: one fold per run id, and per epoch of a continuable run one outcome."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from lastsay.events import EpochStarted, Event, Fault, RunStarted, stretches
from lastsay.fold import CANONICAL, Outcome, Policy, RunFold
from lastsay.logs._find import Log

__all__ = ("FoldedRun", "Runs", "fold_log")


@dataclass(frozen=True, slots=True)
class FoldedRun:
    """One run of a log, and what it came to."""

    run: str
    parent: str | None
    agent: str | None
    outcome: Outcome

    def as_json(self) -> dict[str, Any]:
        """The run as plain data: its name, its parent, its agent, and the outcome's fields."""
        return {"run": self.run, "parent": self.parent, "agent": self.agent, **self.outcome.model_dump(mode="json")}


class Runs:
    """Folds interleaved events of any number of runs.

    Args:
        policy: the selection rule.
    """

    __slots__ = ("_done", "_folds", "_policy")

    def __init__(self, policy: Policy = CANONICAL) -> None:
        self._policy = policy
        self._folds: dict[str, RunFold] = {}
        self._done: dict[str, list[Outcome]] = {}

    def push(self, batch: list[Event]) -> None:
        """Take the next events, of whatever runs."""
        for events in stretches(batch):
            run, kind = events[0].run, type(events[0])
            fold = self._folds.get(run)
            if fold is None:
                if kind is Fault:
                    continue  # a broken line belongs to the file: it must not make a run of its own
                fold = self._folds[run] = RunFold(self._policy)
            if kind is RunStarted or kind is EpochStarted:
                for event in events:
                    self._begin(run, fold, event)
            else:
                fold.push_run(events)

    def _begin(self, run: str, fold: RunFold, event: Event) -> None:
        before, epoch = fold.outcome(), fold.epoch
        fold.push(event)
        if fold.epoch != epoch:
            self._done.setdefault(run, []).append(before)

    def results(self) -> list[FoldedRun]:
        """The runs in the order in which they began, every epoch of its own."""
        return list(self._results())

    def _results(self) -> Iterator[FoldedRun]:
        for run, fold in self._folds.items():
            begun = fold.started
            parent, agent = (begun.parent, begun.agent) if begun is not None else (None, None)
            for outcome in (*self._done.get(run, ()), fold.outcome()):
                yield FoldedRun(run, parent, agent, outcome)


def fold_log(
    log: Log,
    policy: Policy = CANONICAL,
    *,
    on_fault: Callable[[Fault], None] | None = None,
    on_read: Callable[[int], None] | None = None,
) -> list[FoldedRun]:
    """The runs of a log, in the order in which they began.

    Args:
        log: what to read.
        policy: the selection rule.
        on_fault: told of everything broken.
        on_read: told now and then how many more bytes were read.

    Raises:
        SourceError: a file cannot be read.
    """
    runs = Runs(policy)
    for batch in log.batches(on_read):
        runs.push(batch)
        if on_fault is not None:
            for event in batch:
                if type(event) is Fault:
                    on_fault(event)
    return runs.results()
