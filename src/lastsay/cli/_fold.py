"""``lastsay fold``: what the agents in recorded logs finally said."""

import json
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Self

import click

from lastsay.cli._lines import run_line
from lastsay.cli._status import FAILED, worst
from lastsay.errors import SourceError
from lastsay.events import ERROR, Fault
from lastsay.fold import POLICIES, policy_named
from lastsay.logs import FORMATS, FoldedRun, Log, find_logs, fold_log, format_named

__all__ = ("command",)

_SHOWN_FAULTS: Final = 5
"""Faults that are told one by one; the rest is counted."""

_LONG_INPUT: Final = 16 * 1024 * 1024
"""Bytes from which a progress bar is worth its line."""


@click.command("fold")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["auto", *(f.name for f in FORMATS)]),
    default="auto",
    help="What the logs are; by default each file is looked into.",
)
@click.option(
    "--policy",
    "policy_name",
    type=click.Choice(sorted(POLICIES)),
    default="canonical",
    help="The rule that selects the output.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each run, one a line.")
def command(paths: tuple[Path, ...], format_name: str, policy_name: str, *, as_json: bool) -> int:
    """Print what the agents in recorded logs finally said, one line for each run.

    PATHS are files, folders that are searched for logs, or - for standard input. Subagents of a Claude session are read
    with their session. Broken lines are named on standard error and cost only themselves.

    Exit status, by the stop reason of the runs without a parent (the largest, if there are several): 0 completed,
    3 max-tokens, 4 refusal, 5 aborted, 6 error or unknown; 6 also for a file that cannot be read.
    """
    wanted = None if format_name == "auto" else format_named(format_name)
    with _Spooled(paths) as files:
        logs, complaints = find_logs(files.paths, wanted)
        faults = _Faults(files)
        reasons: list[str] = []
        with _progress(logs) as advance:
            for log in logs:
                try:
                    runs = fold_log(log, policy_named(policy_name), on_fault=faults.of(log), on_read=advance)
                except SourceError as error:
                    complaints.append(str(error))
                    continue
                if len(logs) > 1 and not as_json:
                    click.echo(files.name(log.path))
                _print(runs, as_json=as_json)
                reasons += [run.outcome.stop_reason for run in runs if run.parent is None] or [ERROR]
        for line in (*faults.lines(), *map(files.renamed, complaints)):
            click.echo(f"lastsay: {line}", err=True)
    return max(worst(reasons), FAILED if complaints else 0)


class _Spooled:
    """The paths that were named; standard input, where it is one of them, is copied to a file while it is needed."""

    def __init__(self, named: tuple[Path, ...]) -> None:
        self._named = named
        self._folder: TemporaryDirectory[str] | None = None
        self._copy: Path | None = None
        self.paths: list[Path] = []

    def __enter__(self) -> Self:
        for path in self._named:
            if str(path) != "-" and not path.exists():
                raise click.BadParameter(f"no such file or folder: {path}", param_hint="PATHS")
        if Path("-") in self._named:
            self._folder = TemporaryDirectory(prefix="lastsay-")
            self._copy = Path(self._folder.name) / "stdin"
            with self._copy.open("wb") as stream:
                shutil.copyfileobj(sys.stdin.buffer, stream)
        self.paths = [self._copy if str(path) == "-" and self._copy else path for path in self._named]
        return self

    def __exit__(self, *exception: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def name(self, path: Path) -> str:
        """What the person called the file."""
        return "standard input" if path == self._copy else str(path)

    def renamed(self, sentence: str) -> str:
        """A sentence about a file, with the name that the person knows."""
        return sentence.replace(str(self._copy), "standard input") if self._copy else sentence


def _print(runs: list[FoldedRun], *, as_json: bool) -> None:
    for run in runs:
        if as_json:
            click.echo(json.dumps(run.as_json()))
        else:
            name = run.agent or run.run if run.parent is not None else run.run
            click.echo(run_line(name, run.outcome, child=run.parent is not None))


class _Faults:
    """Collects what was broken: the first ones are told, all are counted by kind."""

    def __init__(self, files: _Spooled) -> None:
        self._files = files
        self._first: list[str] = []
        self._kinds: Counter[str] = Counter()

    def of(self, log: Log) -> Callable[[Fault], None]:
        """What takes the faults of a log."""
        return lambda fault: self._take(self._files.name(log.path), fault)

    def _take(self, name: str, fault: Fault) -> None:
        if len(self._first) < _SHOWN_FAULTS:
            self._first.append(f"{name}: {fault.kind}: {fault.detail}")
        self._kinds[fault.kind] += 1

    def lines(self) -> list[str]:
        """What there is to say about them."""
        total = self._kinds.total()
        if total <= len(self._first):
            return self._first
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(self._kinds.items()))
        return [*self._first, f"{total} faults in all ({counts}); the rest was read"]


def _progress(logs: list[Log]) -> AbstractContextManager[Callable[[int], Any] | None]:
    total = sum(log.size for log in logs)
    if total < _LONG_INPUT or not sys.stderr.isatty():
        return nullcontext(None)
    return _bar(total)


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int], Any]]:
    with click.progressbar(length=total, label="reading", file=sys.stderr) as bar:
        yield bar.update
