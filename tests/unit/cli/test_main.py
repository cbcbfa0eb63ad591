"""What the whole command line has in common."""

import sys
from pathlib import Path

import pytest

from lastsay.cli import main
from lastsay.cli._commands import _COMMANDS
from lastsay.cli._lines import excerpt, run_line, said
from lastsay.cli._status import status_of, worst
from lastsay.events import Image, Message, Reasoning, RunEnded, Text, ToolUse
from lastsay.fold import Outcome, RunFold


def outcome(*blocks: object, stop_reason: str = "completed") -> Outcome:
    """The outcome of a run with one message."""
    fold = RunFold()
    fold.push(Message(blocks))  # type: ignore[arg-type]  # the caller passes blocks
    fold.push(RunEnded(stop_reason))
    return fold.outcome()


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """The help names all commands with a sentence each, and is a success."""
    assert 0 == main(["--help"])
    out = capsys.readouterr().out
    assert all(name in out and about in out for name, (_, about) in _COMMANDS.items())


@pytest.mark.parametrize("name", sorted(_COMMANDS))
def test_every_command_has_help_with_its_exit_status(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` of each command works and tells the exit statuses."""
    assert 0 == main([name, "--help"])
    assert "Exit status" in capsys.readouterr().out


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """`--version` is a success."""
    assert 0 == main(["--version"])
    assert "lastsay" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [["nope"], ["fold"], ["fold", "--nope", "x"], ["run", "nope", "x"], ["demo", "--only", "x"]]
)
def test_wrong_use_is_status_2_without_a_traceback(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong command, argument or option is told on standard error."""
    assert 2 == main(words)
    captured = capsys.readouterr()
    assert ("", True, False) == (captured.out, "Error" in captured.err, "Traceback" in captured.err)


def test_a_missing_extra_is_told_by_name(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without click, one line says what to install."""
    monkeypatch.setitem(sys.modules, "click", None)
    assert 2 == main(["--help"])
    assert "lastsay[cli]" in capsys.readouterr().err


def test_the_demo_names_the_extra_it_misses(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the SDK, one line says what to install."""
    monkeypatch.setattr("lastsay.cli._demo._NEEDED", {"no_such_module.at_all": "claude"})
    assert 2 == main(["demo"])
    assert "lastsay[claude]" in capsys.readouterr().err


def test_a_child_that_cannot_be_started_is_status_6(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A source error is one line, and no traceback."""
    from lastsay.backends import scripted
    from lastsay.cli import _run
    from lastsay.errors import SourceError

    broken = scripted.stream([], start=SourceError("no such harness here"))
    monkeypatch.setattr(_run, "_BACKENDS", {"claude": lambda prompt, given: broken})
    assert 6 == main(["run", "claude", "x"])
    assert "lastsay: no such harness here\n" == capsys.readouterr().err


def test_statuses_are_ordered_from_good_to_bad() -> None:
    """The worst of several is the largest; none at all is a failure."""
    assert [0, 3, 4, 5, 6, 6] == [
        status_of(reason) for reason in ("completed", "max-tokens", "refusal", "aborted", "error", "new-word")
    ]
    assert 5 == worst(["completed", "aborted", "max-tokens"])
    assert 6 == worst([])


def test_what_is_no_text_is_told_in_brackets() -> None:
    """No output, blank text, and blocks that are not text."""
    assert "(no output: never_spoke)" == said(RunFold().outcome())
    assert "(blank text, 3 characters)" == said(outcome(Text(" \n ")))
    assert "(no text: reasoning, call of look)" == said(outcome(Reasoning("hm"), ToolUse("1", "look")))
    assert "(no text: image)" == said(outcome(Image("aGk=")))
    assert "hello" == said(outcome(Text("hel"), Text("lo")))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("short", "short"),
        ("a  b\n\tc", "a b c"),
        ("exactly 10", "exactly 10"),
        ("a bit more than ten", "a bit mor…"),
        ("\x1b[31mred\x07", "[31mred"),
        ("日本語日本語", "日本語日…"),
        ("e\u0301" * 10, "e\u0301" * 10),
        ("x" + " " * 500, "x…"),
    ],
)
def test_an_excerpt_fits_into_its_columns(text: str, expected: str) -> None:
    """One line, no control characters, wide and combining characters counted as they are shown."""
    assert expected == excerpt(text, 10)


def test_a_line_fits_the_terminal() -> None:
    """Whatever the text is, the line is no wider than asked for."""
    for child in (False, True):
        line = run_line("a-rather-long-name-of-a-run-that-goes-on", outcome(Text("word " * 100)), child=child, width=80)
        assert 80 >= len(line)
