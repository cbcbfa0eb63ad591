"""``lastsay explain``: why a run's output is what it is.

Every run is folded twice, by the policy asked for and by the other shipped one, with nothing left out. Both folds see
the same candidates under the same numbers; what is shown is what each made of them.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from lastsay.cli._explain_show import Verdict, show
from lastsay.cli._status import FAILED
from lastsay.errors import SourceError, UsageError
from lastsay.events import EpochStarted, Event, Fault, RunStarted, stretches
from lastsay.fold import POLICIES, RunFold, policy_named
from lastsay.logs import FORMATS, Log, find_logs, format_named

__all__ = ("Explained", "command", "explain")

_SHOWN_FAULTS: Final = 5
"""Faults that are told one by one; the rest is counted."""


@click.command("explain")
@click.argument("path", type=click.Path(path_type=Path, exists=True))
@click.option("--run", "run_id", help="Only the run of that id.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["auto", *(f.name for f in FORMATS)]),
    default="auto",
    help="What the log is; by default it is looked into.",
)
@click.option(
    "--policy",
    "policy_name",
    type=click.Choice(sorted(POLICIES)),
    default="canonical",
    help="The rule to explain; the other one is shown beside it.",
)
@click.option("--all", "show_all", is_flag=True, help="Every candidate, also where many in a row fare alike.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each run, one a line.")
def command(
    path: Path, run_id: str | None, format_name: str, policy_name: str, *, show_all: bool, as_json: bool
) -> int:
    """Show why an agent's output is what it is: every text it could have been, and the rule that chose or rejected it.

    PATH is a log, or a folder that is searched for logs. For each run: why it stopped, as received and as the evidence
    says; what the policy selects, what the other one would, and where they differ; then the candidates in order.

    Exit status: 0; 6 for a file that cannot be read.
    """
    logs, complaints = find_logs([path], None if format_name == "auto" else format_named(format_name))
    names = [policy_named(policy_name).name, *(name for name in POLICIES if name != policy_name)]
    seen: list[str] = []
    for log in logs:
        told = _Faults(log)
        try:
            runs = explain(log, names, told)
        except SourceError as error:
            complaints.append(str(error))
            continue
        told.close()
        seen += [run.run for run in runs]
        wanted = [run for run in runs if run_id is None or run.run == run_id]
        if len(logs) > 1 and wanted and not as_json:
            click.echo(click.style(str(log.path), underline=True) + "\n")
        for run in wanted:
            click.echo(json.dumps(run.as_json()) if as_json else run.shown(everything=show_all))
    for complaint in complaints:
        click.echo(f"lastsay: {complaint}", err=True)
    if run_id is not None and run_id not in seen and not complaints:
        raise UsageError(f"no run {run_id!r} in {path}; there are {', '.join(dict.fromkeys(seen)) or 'none'}")
    return FAILED if complaints else 0


@dataclass(frozen=True, slots=True)
class Explained:
    """One run, or one epoch of it, as each policy sees it; the policy that was asked for comes first."""

    run: str
    parent: str | None
    agent: str | None
    verdicts: tuple[Verdict, ...]

    def as_json(self) -> dict[str, Any]:
        """The run as plain data: outcomes by policy, and the candidates with each policy's rule."""
        rows = []
        for same in zip(*[verdict.candidates for verdict in self.verdicts], strict=True):
            first = same[0]
            rows.append(
                {
                    "ordinal": first.ordinal,
                    "kind": first.kind,
                    "message": first.message,
                    "stop_reason": first.stop_reason,
                    "text": first.text,
                    "rules": {
                        verdict.outcome.policy: {"chosen": row.chosen, "why": row.why}
                        for verdict, row in zip(self.verdicts, same, strict=True)
                    },
                }
            )
        return {
            "run": self.run,
            "parent": self.parent,
            "agent": self.agent,
            "epoch": self.verdicts[0].outcome.epoch,
            "policy": self.verdicts[0].outcome.policy,
            "differs": len({verdict.outcome.digest for verdict in self.verdicts}) > 1,
            "outcomes": {v.outcome.policy: v.outcome.model_dump(mode="json") for v in self.verdicts},
            "candidates": rows,
        }

    def shown(self, *, everything: bool) -> str:
        """The run for people, with a line end after it."""
        name = self.run if self.agent is None else f"{self.run} ({self.agent})"
        return show(name, self.parent, self.verdicts, everything=everything)


class _Faults:
    """Tells the first faults of a log on standard error, and counts the rest."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._count = 0

    def take(self, fault: Fault) -> None:
        """One more fault."""
        self._count += 1
        if self._count <= _SHOWN_FAULTS:
            click.echo(f"lastsay: {self._log.path}: {fault.kind}: {fault.detail}", err=True)

    def close(self) -> None:
        """No more will come."""
        if self._count > _SHOWN_FAULTS:
            click.echo(f"lastsay: {self._log.path}: {self._count} faults in all; the rest was read", err=True)


def explain(log: Log, policies: Iterable[str], faults: _Faults) -> list[Explained]:
    """The runs of the log in the order in which they began, every epoch of its own.

    Args:
        log: what to read.
        policies: the names of the policies, the one to be explained first.
        faults: told of everything broken.

    Raises:
        SourceError: a file cannot be read.
    """
    runs: dict[str, _Run] = {}
    names = list(policies)
    for batch in log.batches():
        for same in stretches(batch):
            run_id, kind = same[0].run, type(same[0])
            if kind is Fault:
                for event in same:
                    assert isinstance(event, Fault)
                    faults.take(event)
            run = runs.get(run_id)
            if run is None:
                if kind is Fault:
                    continue  # a broken line belongs to the file: it must not make a run of its own
                run = runs[run_id] = _Run(names)
            run.push(same)
    return [explained for run_id, run in runs.items() for explained in run.explained(run_id)]


class _Run:
    """The folds of one run, one for each policy, and what they made of its earlier epochs."""

    def __init__(self, policies: list[str]) -> None:
        self._folds = [RunFold(policy_named(name), everything=True) for name in policies]
        self._done: list[tuple[Verdict, ...]] = []

    def push(self, events: Sequence[Event]) -> None:
        """Take consecutive events of one class."""
        if type(events[0]) not in (RunStarted, EpochStarted):
            for fold in self._folds:
                fold.push_run(events)
            return
        for event in events:
            before, epoch = self._verdicts(), self._folds[0].epoch
            for fold in self._folds:
                fold.push(event)
            if self._folds[0].epoch != epoch:
                self._done.append(before)

    def _verdicts(self) -> tuple[Verdict, ...]:
        return tuple([Verdict(fold.outcome(), fold.candidates()) for fold in self._folds])

    def explained(self, run_id: str) -> list[Explained]:
        """What became of the run's epochs."""
        begun = self._folds[0].started
        parent, agent = (begun.parent, begun.agent) if begun is not None else (None, None)
        return [Explained(run_id, parent, agent, verdicts) for verdicts in (*self._done, self._verdicts())]
