"""``lastsay run acp``, with the scripted agent."""

import json
from pathlib import Path

import pytest

from lastsay.cli import main
from lastsay.testing.acp_agent import command


@pytest.mark.parametrize(
    ("mode", "status", "text"),
    [
        ("two_steps", 0, "Hello there."),
        ("max_tokens", 3, "Hello there."),
        ("refusal", 4, ""),
        ("exit_zero", 6, "Hello there."),
    ],
)
def test_the_answer_and_its_status(mode: str, status: int, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The text goes to standard output, and the stop reason is the exit status."""
    assert main(["run", "acp", "Hi.", "--", *command(mode)]) == status
    assert capsys.readouterr().out.strip() == text


@pytest.mark.parametrize(("arguments", "option"), [([], "no"), (["--permission-mode", "bypassPermissions"], "yes")])
def test_permissions_are_rejected_unless_bypassed(
    arguments: list[str], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The agent says which option it was given."""
    assert main(["run", "acp", "Hi.", "--json", *arguments, "--", *command("permission")]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["output"][0]["text"] == option


@pytest.mark.parametrize("mode", ["two_steps", "no_ids", "children", "half_a_line_then_exit", "second_cleared"])
def test_live_and_recorded_digests_are_equal(mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Folding the recorded events gives what the run gave, for every run in it."""
    recorded = tmp_path / "events.ndjson"
    main(["run", "acp", "Hi.", "--json", "--record", str(recorded), "--", *command(mode)])
    live = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    main(["fold", "--json", str(recorded)])
    folded = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert live
    assert {run["run"]: run["digest"] for run in live} == {run["run"]: run["digest"] for run in folded}


def test_a_missing_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """One line says where the command goes; and a backend that takes none says so."""
    assert main(["run", "acp", "Hi."]) == 2
    assert "-- COMMAND" in capsys.readouterr().err
    assert main(["run", "claude", "Hi.", "--", "agent"]) == 2


def test_an_agent_that_does_not_start(capsys: pytest.CaptureFixture[str]) -> None:
    """One line with its last words, and the status of an error."""
    assert main(["run", "acp", "Hi.", "--", *command("exit_at_start")]) == 6
    assert "no configuration found" in capsys.readouterr().err
