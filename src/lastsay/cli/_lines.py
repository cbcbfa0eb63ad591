"""How a run looks on one line of a terminal or a pipe."""

import shutil
import unicodedata

from lastsay.events import ToolUse
from lastsay.fold import Outcome

__all__ = ("excerpt", "run_line", "said")


def said(outcome: Outcome) -> str:
    """What the run said, in words for people; in brackets where it is not text."""
    if outcome.output is None:
        return f"(no output: {outcome.none_reason or 'none'})"
    text = outcome.text
    if text:
        return text if text.strip() else f"(blank text, {len(text)} characters)"
    names = [block.name for block in outcome.output if isinstance(block, ToolUse)]
    kinds = [type(block).__name__.lower() for block in outcome.output if not isinstance(block, ToolUse)]
    return f"(no text: {', '.join([*kinds, *(f'call of {name}' for name in names)])})"


def excerpt(text: str, width: int) -> str:
    """The text on one line of at most `width` columns: control characters and line ends become spaces."""
    line = " ".join("".join(" " if unicodedata.category(c)[0] == "C" else c for c in text[: width * 8]).split())
    if _columns(line) <= width and len(text) <= width * 8:
        return line
    out: list[str] = []
    left = width - 1
    for character in line:
        left -= _columns(character)
        if left < 0:
            break
        out.append(character)
    return "".join(out).rstrip() + "…"


def _columns(text: str) -> int:
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def run_line(name: str, outcome: Outcome, *, child: bool, width: int | None = None) -> str:
    """One line for a run: its name, its stop reason, where the output comes from, and the beginning of it."""
    columns = width or shutil.get_terminal_size((100, 24)).columns
    label = ("└ " if child else "") + excerpt(name, 26)
    head = f"{label:<28}  {excerpt(outcome.stop_reason, 12):<12}  {outcome.source:<10}  "
    return head + excerpt(said(outcome), max(20, columns - len(head)))
