"""How the demo looks on a terminal of 80 columns."""

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lastsay.cli._lines import excerpt, said
from lastsay.cli.demo._play import Shown

__all__ = ("show", "show_introduction", "show_summary")

_WIDTH: Final = 64
"""Columns of a text beside its label, on a terminal of 80."""


_INTRODUCTION: Final = (
    ("The real Claude Code CLI as a child, its model a script on 127.0.0.1.", ""),
    ("  harness   what the SDK's own query() hands to its caller", "dim"),
    ("  lastsay   the one outcome of the same scenario through lastsay", "dim"),
    ("  told      whether the three consumers carry that outcome's digest", "dim"),
)


def show_introduction(console: Console) -> None:
    """Print what is about to be seen."""
    for line, style in _INTRODUCTION:
        console.print(Text(line, style))
    console.print()


def show(shown: Shown, number: int, console: Console) -> None:
    """Print one scenario: the harness's own result, the agreed outcome, and whether the consumers agree."""
    console.print(Text.assemble((f"{number:>2}  ", "dim"), (shown.case.title, "bold")))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(width=8, style="dim")
    grid.add_column(max_width=_WIDTH)
    native = _native_lines(shown)
    grid.add_row("harness", native)
    grid.add_row("lastsay", _own_lines(shown))
    digest = shown.outcome.digest[:8]
    if shown.agreed:
        verdict = Text.assemble(("tool result = end event = span", "green"), f"  digest {digest}")
    else:
        verdict = Text(f"the consumers disagree: {', '.join(str(d)[:8] for d in shown.digests)}", "bold red")
    grid.add_row("told", verdict)
    console.print(Padding(grid, (0, 0, 0, 4), expand=False))
    console.print()


def _native_lines(shown: Shown) -> Text:
    native = shown.native
    head = [native["what"], *(["is_error"] if native["is_error"] else [])]
    if native.get("subtype"):
        head.append(f"{native['subtype']}, stop_reason {native['stop_reason']}")
    lines = Text.assemble((", ".join(head), "dim"))
    if native["text"]:
        style = "red" if native["is_error"] else ""
        lines.append("\n").append(_quoted(native["text"]), style or "default")
    else:
        lines.append("\n(no text)", "red")
    if native.get("exception"):
        lines.append("\n").append(excerpt(f"raised: {native['exception']}", _WIDTH), "dim")
    return lines


def _own_lines(shown: Shown) -> Text:
    outcome = shown.outcome
    head = [outcome.stop_reason, f"source {outcome.source}"]
    if outcome.partial:
        head.append("partial")
    if outcome.pieces > 1:
        head.append(f"{outcome.pieces} pieces")
    if outcome.unselected:
        head.append(f"{len(outcome.unselected)} not selected")
    lines = Text.assemble((", ".join(head), "dim"))
    style = "green" if shown.kept else "default"
    lines.append("\n").append(_quoted(said(outcome)) if outcome.text else said(outcome), style)
    if outcome.diagnostic:
        lines.append("\n").append(excerpt(f"diagnostic: {outcome.diagnostic}", _WIDTH), "dim")
    return lines


def _quoted(text: str) -> str:
    return f"“{excerpt(text, 2 * _WIDTH - 12)}”"


def show_summary(all_shown: Sequence[Shown], seconds: float, console: Console) -> None:
    """Print what the scenarios together have shown."""
    total = len(all_shown)
    agreed = sum(shown.agreed for shown in all_shown)
    kept = sum(shown.kept for shown in all_shown)
    console.print(Text(f"{total} scenarios on the real CLI, offline, in {seconds:.0f} s.", "bold"))
    console.print(f"Tool result, end event and span carry the same digest in {agreed} of {total}.")
    console.print(f"Text that the harness's own result lacks was kept in {kept} of {total}.")
