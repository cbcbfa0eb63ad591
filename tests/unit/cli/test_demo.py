"""The demo without a harness: its scenarios as data, and how it looks."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lastsay.cli.demo import CASES, Shown
from lastsay.cli.demo._show import show, show_introduction, show_summary
from lastsay.consumers import tool_result
from lastsay.events import Message, RunEnded, Text
from lastsay.fold import RunFold
from lastsay.testing.model_server import BUILT_IN
from lastsay.testing.model_server._marker import find_cue


def shown(*, native: str | None, text: str | None, span: bool = True, stop_reason: str = "completed") -> Shown:
    """A scenario that came to this, on both sides."""
    fold = RunFold()
    if text is not None:
        fold.push(Message((Text(text),)))
    fold.push(RunEnded(stop_reason, diagnostic="it went wrong" if stop_reason == "error" else None))
    outcome = fold.outcome()
    report: dict[str, Any] = {"what": "result message", "text": native, "is_error": False, "subtype": "success"}
    return Shown(
        case=CASES[0],
        native={**report, "stop_reason": "end_turn", "exception": None},
        outcome=outcome,
        tool_result=tool_result(outcome),
        end_event={"digest": outcome.digest},
        span={"attributes": {"lastsay.output.digest": outcome.digest}} if span else {},
    )


def printed(*scenarios: Shown) -> str:
    """The text output of 80 columns."""
    console = Console(file=io.StringIO(), width=80)
    show_introduction(console)
    for number, one in enumerate(scenarios, 1):
        show(one, number, console)
    show_summary(scenarios, 1.0, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_each_scenario_plays_what_the_model_server_knows(case: Any, tmp_path: Path) -> None:
    """The marker names a built-in scenario, and its arguments make turns."""
    cue = find_cue({"messages": [{"role": "user", "content": case.prompt(tmp_path)}]})
    (scenario,) = [scenario for scenario in BUILT_IN if scenario.name == cue.scenario]
    assert isinstance(scenario.play(cue.arguments, 0, 0), tuple)
    assert bool(case.disturb) == bool(case.streamed)


def test_agreement_is_told_and_so_is_its_absence() -> None:
    """Equal digests are one line; a consumer that was told something else is named as a disagreement."""
    good, bad = shown(native="Hi", text="Hi"), shown(native="Hi", text="Hi", span=False)
    assert (True, False) == (good.agreed, bad.agreed)
    assert "tool result = end event = span" in printed(good)
    assert "disagree" in printed(bad)
    assert "in 1 of 2" in printed(good, bad)


@pytest.mark.parametrize(
    ("native", "text", "kept"),
    [("All of it.", "All of it.", False), ("", "The answer.", True), (None, "So far", True), (None, None, False)],
)
def test_kept_is_a_text_that_the_harness_has_not(native: str | None, text: str | None, kept: bool) -> None:
    """An agreed text counts as kept if the harness's own result does not hold it."""
    assert kept == shown(native=native, text=text).kept


def test_everything_fits_80_columns() -> None:
    """Long texts, no text and a diagnostic: no line is wider than the terminal."""
    text = printed(
        shown(native="word " * 100, text="wide 日本語 " * 40), shown(native=None, text=None, stop_reason="error")
    )
    assert 80 >= max(len(line) for line in text.splitlines())
    assert "(no text)" in text
    assert "diagnostic: it went wrong" in text


def test_json_has_the_six_parts() -> None:
    """Scenario, native, outcome, tool result, end event and span."""
    keys = shown(native="Hi", text="Hi").as_json().keys()
    assert {"scenario", "native", "outcome", "tool_result", "end_event", "span"} <= keys
