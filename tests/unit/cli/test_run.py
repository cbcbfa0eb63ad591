"""`lastsay run`, with a scripted child in the harness's place."""

import json
import signal
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from lastsay.backends import scripted
from lastsay.cli import _run, main
from lastsay.events import Message, RunEnded, RunStarted, Text, TextDelta

ANSWER = Message((Text("The answer."),), "m1")


@pytest.fixture(name="child")
def scripted_child(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put a script in the place of the harness; gives what the harness was asked."""

    def place(steps: Iterable[scripted.Step]) -> dict[str, Any]:
        asked: dict[str, Any] = {}

        def start(prompt: str, given: dict[str, Any]) -> scripted.Script:
            asked.update(given, prompt=prompt)
            return scripted.stream(steps)

        monkeypatch.setattr(_run, "_BACKENDS", {"claude": start})
        return asked

    return place


def test_the_final_text_goes_to_standard_output(child: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Only the agreed text; options reach the harness."""
    asked = child([TextDelta("The ans"), ANSWER, Message(()), RunEnded("completed")])
    assert 0 == main(["run", "claude", "do it", "--model", "m", "--tool", "Read", "--max-turns", "3"])
    captured = capsys.readouterr()
    assert ("The answer.\n", "") == (captured.out, captured.err)
    assert ("do it", "m", ("Read",), 3) == (asked["prompt"], asked["model"], asked["tool"], asked["max_turns"])


def test_a_failure_keeps_the_text_and_tells_the_reason(child: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Partial text on standard output, stop reason and diagnostic on standard error, status by reason."""
    child([TextDelta("Half of"), RunEnded("max-tokens", diagnostic="the limit was reached")])
    assert 3 == main(["run", "claude", "x"])
    captured = capsys.readouterr()
    assert ("Half of\n", "lastsay: max-tokens: the limit was reached\n") == (captured.out, captured.err)


def test_json_has_the_children_and_the_root_last(child: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """One object for each run, as in `lastsay fold --json`."""
    child(
        [
            RunStarted(),
            RunStarted(parent="main", agent="scout", run="c"),
            TextDelta("found", run="c"),
            RunEnded("completed", run="c"),
            ANSWER,
            RunEnded("completed"),
        ]
    )
    assert 0 == main(["run", "claude", "x", "--json"])
    runs = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [("c", "main", "scout"), ("main", None, None)] == [(r["run"], r["parent"], r["agent"]) for r in runs]


def test_a_record_folds_to_the_same_outcome(child: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What `--record` wrote gives, through `fold`, the digest that `run` gave."""
    child([RunStarted(backend="x"), TextDelta("The "), ANSWER, RunEnded("refusal")])
    record = tmp_path / "events.ndjson"
    assert 4 == main(["run", "claude", "x", "--json", "--record", str(record)])
    live = json.loads(capsys.readouterr().out)
    assert 4 == main(["fold", "--json", str(record)])
    assert live == json.loads(capsys.readouterr().out)


def test_a_time_limit_aborts_and_keeps_the_text(child: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A child that hangs is cancelled; what it said is printed."""
    child([TextDelta("So far"), scripted.Hang()])
    assert 5 == main(["run", "claude", "x", "--timeout", "0.05"])
    captured = capsys.readouterr()
    assert ("So far\n", "lastsay: aborted (cancelled)\n") == (captured.out, captured.err)


def test_ctrl_c_prints_the_text_so_far(child: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 130; the run is settled and its text is not lost."""
    assert threading.current_thread() is threading.main_thread()
    child([TextDelta("So far"), scripted.Do(lambda: signal.raise_signal(signal.SIGINT)), scripted.Hang()])
    assert 130 == main(["run", "claude", "x"])
    captured = capsys.readouterr()
    assert ("So far\n", "lastsay: aborted (cancelled)\n") == (captured.out, captured.err)


def test_the_prompt_can_come_from_standard_input(child: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` as the prompt reads it from there."""
    import io

    asked = child([ANSWER, RunEnded("completed")])
    monkeypatch.setattr(sys, "stdin", io.StringIO("a long task"))
    assert 0 == main(["run", "claude", "-"])
    assert "a long task" == asked["prompt"]


def test_a_terminal_sees_the_text_while_it_comes(
    child: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a terminal the streamed text and the start of subagents are shown on standard error."""
    shown: list[str] = []
    monkeypatch.setattr("lastsay.cli._live.Live.__call__", lambda self, text: shown.append(text))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    child([RunStarted(), TextDelta("a"), RunStarted(parent="main", agent="scout", run="c"), RunEnded("completed")])
    assert 0 == main(["run", "claude", "x"])
    assert ["a", "\n[scout starts]\n"] == shown


def test_the_display_keeps_the_newest_lines() -> None:
    """However much is streamed, a few lines are shown."""
    from lastsay.cli._live import _KEPT, _LINES, Live

    with Live() as live:
        for number in range(2000):
            live(f"line {number}\n")
        assert len(live._text) <= _KEPT
        assert _LINES >= live.shown().plain.count("line")
        assert "line 1999" in live.shown().plain


def test_the_options_of_claude_become_the_sdks() -> None:
    """Every option has its field; without a tool the harness's own ones stay."""
    given = {
        "model": "m",
        "cwd": None,
        "max_turns": 2,
        "permission_mode": "plan",
        "allow": ("Read",),
        "tool": (),
    }
    seen: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        # Not the SDK itself: it is an extra, and only the fields matter here.
        patch.setitem(sys.modules, "claude_agent_sdk", SimpleNamespace(ClaudeAgentOptions=SimpleNamespace))
        patch.setattr("lastsay.backends.claude.stream", lambda prompt, options=None: seen.append((prompt, options)))
        _run._claude("x", given)
        _run._claude("x", {**given, "tool": ("Read", "Agent")})
    assert [None, ["Read", "Agent"]] == [getattr(options, "tools", None) for _, options in seen]
    assert ("m", 2, "plan", ["Read"]) == (
        seen[0][1].model,
        seen[0][1].max_turns,
        seen[0][1].permission_mode,
        seen[0][1].allowed_tools,
    )
    seen[0][1].stderr("a line")


@pytest.mark.asyncio
async def test_a_run_is_settled_when_its_reader_is_cancelled() -> None:
    """Cancelled from outside, the reading has an outcome, and the source is closed."""
    from lastsay.fold import CANONICAL

    script = scripted.stream([TextDelta("a"), scripted.Hang()])
    reading = _run._Reading(script, CANONICAL, None, None, None)
    with anyio.move_on_after(0.05):
        await reading.read()
    assert reading.run is not None
    assert ("aborted", True) == (reading.run.outcome.stop_reason, script.entries[0].closed)
