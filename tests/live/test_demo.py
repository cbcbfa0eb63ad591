"""The demo's scenarios on the real native CLI: what the harness hands over, and what everyone is told."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from lastsay.cli.demo import CASES, Case, play
from lastsay.fold import ANSWER
from lastsay.testing.model_server import ModelServer, model_server

pytestmark = [pytest.mark.live, pytest.mark.timeout(90)]

EXPECTED = {
    "plain-answer": ("completed", "message", "The ferry leaves at seven, from the north pier."),
    "tool-then-empty": ("completed", "message", "The timetable says that the ferry leaves at seven."),
    "max-tokens-in-tool": ("completed", "message", "It leaves at seven. I look that up once more."),
    "max-tokens": ("max-tokens", "message", "Fourth piece. "),
    "cancelled": ("aborted", "streamed", "So far I know that the ferry leaves"),
    "http-error": ("error", "message", "The timetable says that the ferry leaves at seven."),
    "refusal": ("refusal", "none", None),
    "killed": ("error", "streamed", "So far I know that the ferry leaves"),
    "subagent-max-tokens": ("max-tokens", "message", "Fourth piece. "),
}
"""Stop reason, source and text of each scenario's outcome."""

HARNESS_HAS_ALL = {"plain-answer", "refusal"}
"""Scenarios in which the harness's own result lacks nothing of the agreed text."""


@pytest.fixture(name="server", scope="module")
def one_server() -> Iterator[ModelServer]:
    """One scripted model for all scenarios."""
    with model_server() as server:
        yield server


@pytest.mark.asyncio
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
async def test_all_three_consumers_are_told_the_agreed_outcome(case: Case, server: ModelServer) -> None:
    """Stop reason, source and text as expected; one digest; and the harness's own result has what it has."""
    shown = await play(case, server)
    stop_reason, source, text = EXPECTED[case.name]
    assert (stop_reason, source, text) == (shown.outcome.stop_reason, shown.outcome.source, shown.outcome.text)
    assert (shown.outcome.digest,) * 3 == shown.digests
    assert shown.kept == (case.name not in HARNESS_HAS_ALL)
    assert shown.tool_result.is_error == (stop_reason != "completed")
    assert ("lastAssistantMessage" in shown.end_event) == (text is not None)
    assert stop_reason == shown.span["attributes"]["lastsay.stop_reason.mapped"]
    json.dumps(shown.as_json())


@pytest.mark.asyncio
async def test_the_answer_policy_joins_what_was_cut(server: ModelServer) -> None:
    """Under the other policy the pieces of an answer that was cut again and again are one text."""
    (case,) = [case for case in CASES if case.name == "max-tokens"]
    shown = await play(case, server, policy=ANSWER)
    assert 4 == shown.outcome.pieces
    assert "First piece of a long answer. Second piece. Third piece. Fourth piece. " == shown.outcome.text
    assert shown.agreed


def test_the_command_prints_one_list_of_json() -> None:
    """`lastsay demo --json` gives a list with all six parts of each scenario, and succeeds."""
    command = [sys.executable, "-c", "import sys; from lastsay.cli import main; sys.exit(main())", "demo"]
    options = ["--json", "--only", "tool-then-empty", "--only", "killed"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=80, check=False)
    assert (0, "") == (done.returncode, done.stderr)
    shown = json.loads(done.stdout)
    parts = {"scenario", "native", "outcome", "tool_result", "end_event", "span"}
    assert ["tool-then-empty", "killed"] == [one["scenario"] for one in shown]
    assert all(parts <= one.keys() for one in shown)
    assert ["", None] == [one["native"]["text"] for one in shown]


def test_the_text_fits_a_terminal_of_80_columns() -> None:
    """No line of the text output is wider, and each scenario has its title and its verdict."""
    command = [sys.executable, "-c", "import sys; from lastsay.cli import main; sys.exit(main())", "demo"]
    done = subprocess.run(
        [*command, "--only", "refusal", "--only", "http-error"],
        capture_output=True,
        text=True,
        timeout=80,
        check=False,
        env={**os.environ, "COLUMNS": "80"},
    )
    assert 0 == done.returncode
    assert 80 >= max(len(line) for line in done.stdout.splitlines())
    assert 2 == done.stdout.count("tool result = end event = span")
