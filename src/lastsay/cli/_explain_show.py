"""How an explanation looks on a terminal of 80 columns.

    run c1 (scout), child of main
      stop reason  completed (received: end_turn)
      effective    incomplete: open_tool_call, a tool call has no result
      canonical    (no text: call of search)
                   message, candidate 2 of 2, not a whole answer
      answer       “I look.”
                   message, candidate 1 of 2, not a whole answer
                   differs from canonical

      C A  chosen by canonical / answer
      · A  1  message          7  tool_use      “I look.”
              canonical: a later message counts
              answer: the last message that counts

Many candidates in a row that fare alike under every policy are shown by their first and last.
"""

import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import click

from lastsay.cli._lines import excerpt, said
from lastsay.events import Block, Text
from lastsay.fold import Candidate, Outcome, Unselected

__all__ = ("Verdict", "show")

_FEWEST, _MOST = 48, 100
"""Columns: what a narrower or wider terminal is taken for."""
_ALIKE: Final = 4
"""Candidates in a row with the same fate that are shown one by one; of more only the first and the last."""
_LABEL: Final = 13

_EVIDENCE: Final = {
    "limit_before_recovery": "an error named a limit before the last turn",
    "exit_status": "the process did not end with status 0",
    "open_tool_call": "a tool call has no result",
    "open_background_task": "a background task was started and did not end",
    "last_attempt_failed": "the last model call failed, and nothing was said after it",
    "synthetic_end": "the last message was written by the harness",
    "last_message_stop": "the last message was cut or declined",
    "no_end_record": "the log has no end record of its own",
}
_NONE: Final = {
    "never_spoke": "nothing came from the model",
    "reasoning_only": "only reasoning",
    "tools_only": "only tool calls",
    "blank": "only blank text",
    "empty_final": "only messages without content",
    "refused": "the model declined",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one policy made of a run."""

    outcome: Outcome
    candidates: list[Candidate]


def show(name: str, parent: str | None, verdicts: Sequence[Verdict], *, everything: bool) -> str:
    """The explanation of one run, with an empty line after it; in colour, which `click.echo` takes out for a pipe.

    Args:
        name: what the run is called.
        parent: the run id of its parent.
        verdicts: what each policy made of it, the one that was asked for first.
        everything: show every candidate, also where many in a row fare alike.
    """
    width = max(_FEWEST, min(_MOST, shutil.get_terminal_size((80, 24)).columns))
    outcome = verdicts[0].outcome
    head = f"run {name}" + (f", child of {parent}" if parent is not None else "")
    if outcome.epoch:
        head += f", epoch {outcome.epoch}"
    lines = [click.style(excerpt(head, width), bold=True), *_stop_lines(outcome, width)]
    for verdict in verdicts:
        lines += _verdict_lines(verdict, verdicts[0], width)
    lines += _hint(verdicts[0], width)
    rows = list(zip(*[verdict.candidates for verdict in verdicts], strict=True))
    names = [verdict.outcome.policy for verdict in verdicts]
    if rows:
        lines += ["", "  " + " ".join(_letter(name) for name in names) + _dim("  chosen by " + " / ".join(names))]
        seen = {_longest(outcome).ordinal} if outcome.outweighed else set()
        lines += _candidate_lines(rows, names, width, seen if not everything else set(range(len(rows) + 1)))
    return "\n".join([*lines, ""])


def _dim(text: str) -> str:
    return click.style(text, dim=True)


def _letter(policy: str) -> str:
    return policy[:1].upper()


def _labelled(label: str, text: str, width: int, colour: str | None = None) -> list[str]:
    """The label and, wrapped beside it, the text. The text must not hold wide characters: it is counted by length."""
    wrapped = textwrap.wrap(text, width - _LABEL - 2) or [""]
    heads = [f"  {label:<{_LABEL}}", *[" " * (_LABEL + 2)] * (len(wrapped) - 1)]
    return [_dim(head) + click.style(line, fg=colour) for head, line in zip(heads, wrapped, strict=True)]


def _stop_lines(outcome: Outcome, width: int) -> list[str]:
    raw = outcome.raw_stop_reason
    if raw is None:
        received = "no word received"
    elif raw == outcome.stop_reason:
        received = "as received"
    else:
        received = f"received: {excerpt(raw, 40)}"
    how = "" if outcome.provenance == "reported" else f", {outcome.provenance}"
    reason = excerpt(outcome.stop_reason, 40)
    lines = _labelled("stop reason", f"{reason} ({received}{how})", width, _colour(outcome.stop_reason))
    told = [f"{name}, {_EVIDENCE[name]}" if name in _EVIDENCE else name for name in outcome.evidence]
    effective = excerpt(outcome.effective_stop_reason, 40)
    if told:
        text = f"{effective}: {'; '.join(told)}"
        lines += _labelled("effective", text, width, _colour(outcome.effective_stop_reason))
    else:
        lines += _labelled("effective", f"{effective} (nothing speaks against it)", width)
    if outcome.diagnostic:
        lines.append(_dim(f"  {'diagnostic':<{_LABEL}}") + excerpt(outcome.diagnostic, width - _LABEL - 2))
    return lines


def _colour(stop_reason: str) -> str | None:
    return None if stop_reason == "completed" else "yellow"


def _verdict_lines(verdict: Verdict, asked: Verdict, width: int) -> list[str]:
    outcome = verdict.outcome
    room = width - _LABEL - 2
    lines = [_dim(f"  {outcome.policy:<{_LABEL}}") + _told(outcome, room)]
    facts = [_whence(verdict)]
    if outcome.partial:
        facts.append("partial")
    elif outcome.output is not None:
        facts.append("a whole answer" if outcome.answer_complete else "not a whole answer")
    lines += _labelled("", ", ".join(facts), width)
    if outcome.beside is not None:
        beside = excerpt(_text(outcome.beside) or "(no text)", room - 10)
        lines.append(" " * (_LABEL + 2) + _dim("beside: ") + f"“{beside}”")
    if verdict is not asked:
        same = outcome.digest == asked.outcome.digest
        text = f"the same output as {asked.outcome.policy}" if same else f"differs from {asked.outcome.policy}"
        lines += _labelled("", text, width, None if same else "magenta")
    return lines


def _told(outcome: Outcome, room: int) -> str:
    """What the run said, on one line, in quotes where it is text."""
    if outcome.output is None:
        reason = outcome.none_reason or "none"
        return click.style(excerpt(f"no output: {reason}, {_NONE.get(reason, 'nothing to select')}", room), fg="red")
    if outcome.text and outcome.text.strip():
        return click.style(f"“{excerpt(outcome.text, room - 2)}”", fg="green")
    return click.style(excerpt(said(outcome), room), fg="yellow")


def _whence(verdict: Verdict) -> str:
    chosen = [row.ordinal for row in verdict.candidates if row.chosen]
    total = len(verdict.candidates)
    if not chosen:
        return f"{total} candidate{'s' if total > 1 else ''}, none chosen" if total else "no candidates"
    if len(chosen) == 1:
        return f"{verdict.outcome.source}, candidate {chosen[0]} of {total}"
    listed = " + ".join(map(str, chosen)) if len(chosen) <= _ALIKE else f"{chosen[0]} … {chosen[-1]}"
    return f"{verdict.outcome.source}, candidates {listed} of {total} joined"


def _text(blocks: tuple[Block, ...]) -> str:
    return "".join([block.text for block in blocks if type(block) is Text])


def _longest(outcome: Outcome) -> Unselected:
    return max(outcome.unselected, key=lambda row: row.length)


def _hint(verdict: Verdict, width: int) -> list[str]:
    outcome = verdict.outcome
    if not outcome.outweighed:
        return []
    longest = _longest(outcome)
    chosen = sum([len(row.text) for row in verdict.candidates if row.chosen])
    text = f"{outcome.policy} chose {chosen:,} characters; candidate {longest.ordinal} has {longest.length:,}"
    return _labelled("worth a look", text, width, "yellow")


def _candidate_lines(rows: list[tuple[Candidate, ...]], names: list[str], width: int, seen: set[int]) -> list[str]:
    """The candidates; those that fare alike are left out between, but for the ordinals to be seen."""
    lines: list[str] = []
    digits = len(str(len(rows)))
    for _, fellows in groupby(rows, key=lambda row: _fate(row, seen)):
        alike = list(fellows)
        if len(alike) <= _ALIKE:
            for row in alike:
                lines += _row_lines(row, names, width, digits)
            continue
        lines += _row_lines(alike[0], names, width, digits)
        lines.append(_dim(f"  {'':<{2 * len(names) + digits}}  … {len(alike) - 2} more that fare alike (--all)"))
        lines += _row_lines(alike[-1], names, width, digits)
    return lines


def _fate(row: tuple[Candidate, ...], seen: set[int]) -> tuple[object, ...]:
    """What becomes of a candidate; one that is chosen or to be seen is like no other."""
    own = row[0].ordinal if row[0].ordinal in seen or any(one.chosen for one in row) else 0
    return (own, *[one.why for one in row])


def _row_lines(row: tuple[Candidate, ...], names: list[str], width: int, digits: int) -> list[str]:
    first = row[0]
    marks = " ".join(_letter(name) if one.chosen else "·" for one, name in zip(row, names, strict=True))
    facts = f"{first.kind:<10}  {len(first.text):>6,}  {excerpt(first.stop_reason or '-', 12):<12}  "
    head = f"  {marks}  {first.ordinal:>{digits}}  "
    room = width - len(head) - len(facts)
    blank = "(blank)" if first.text else "(no text)"
    shown = f"“{excerpt(first.text, room - 2)}”" if first.text.strip() else blank
    colour = "green" if any(one.chosen for one in row) else None
    lines = [click.style(head, fg=colour) + _dim(facts) + click.style(shown, fg=colour)]
    reasons = {one.why for one in row}
    indent = " " * len(head)
    for one, name in zip(row, names, strict=True) if len(reasons) > 1 else ((first, ""),):
        label = f"{name}: " if name else ""
        lines += [_dim(indent + line) for line in textwrap.wrap(label + one.why, width - len(head))]
    return lines
