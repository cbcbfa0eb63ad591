"""``lastsay receipts``: what recorded logs say about their tool results."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from lastsay.cli._status import FAILED
from lastsay.errors import SourceError
from lastsay.logs import FORMATS, Log, ReceiptReport, audit_log, find_logs, format_named

if TYPE_CHECKING:
    from lastsay.events import Fault

__all__ = ("command",)

_LISTED: Final = 10
"""Call ids of one kind that are shown; the rest is counted."""


@click.command("receipts")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["auto", *(f.name for f in FORMATS)]),
    default="auto",
    help="What the logs are; by default each file is looked into.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each log, one a line.")
def command(paths: tuple[Path, ...], format_name: str, *, as_json: bool) -> int:
    """Audit the tool results in recorded logs: what is missing, blank, doubled, and what the model was shown instead.

    PATHS are files, or folders that are searched for logs: runs that lastsay recorded, or sessions of Claude Code.
    Verdicts of the function bridge are in logs that lastsay recorded; how a result was shown is read from any log.

    Exit status: 0; 6 if a function result was not confirmed, or a file cannot be read.
    """
    wanted = None if format_name == "auto" else format_named(format_name)
    logs, complaints = find_logs(paths, wanted)
    sound = True
    for log in logs:
        told = _Faults(log)
        try:
            report = audit_log(log, on_fault=told.take)
        except SourceError as error:
            complaints.append(str(error))
            continue
        sound = sound and report.sound
        click.echo(_as_json(log, report) if as_json else "\n".join(_lines(log, report, named=len(logs) > 1)))
    for complaint in complaints:
        click.echo(f"lastsay: {complaint}", err=True)
    return 0 if sound and not complaints else FAILED


class _Faults:
    """Tells the first faults of a log on standard error."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._count = 0

    def take(self, fault: "Fault") -> None:
        """One more fault."""
        self._count += 1
        if self._count <= _LISTED:
            click.echo(f"lastsay: {self._log.path}: {fault.kind}: {fault.detail}", err=True)


def _as_json(log: Log, report: ReceiptReport) -> str:
    plain: dict[str, Any] = {"path": str(log.path), "format": log.format.name, **msgspec.to_builtins(report)}
    return msgspec.json.encode(plain).decode()


def _lines(log: Log, report: ReceiptReport, *, named: bool) -> list[str]:
    lines = [str(log.path)] if named else []
    lines.append(f"{report.calls} calls, {report.results} results, {report.errors} errors")
    for title, calls in (
        ("calls without result", report.without_result),
        ("results without call", report.without_call),
        ("results without text", report.blank),
        ("more than one result", report.duplicates),
    ):
        if calls:
            lines.append(f"{title}: {_listed(calls)}")
    for title, counts in (("shown as", report.shown), ("verdicts", report.verdicts)):
        if counts:
            lines.append(f"{title}: {', '.join(f'{count} {word}' for word, count in counts.items())}")
    lines += [f"not confirmed: {call.call} ({call.tool}): {call.verdict}: {call.detail}" for call in report.refused]
    return lines


def _listed(calls: tuple[str, ...]) -> str:
    more = f" and {len(calls) - _LISTED} more" if len(calls) > _LISTED else ""
    return f"{len(calls)} ({', '.join(calls[:_LISTED])}{more})"
