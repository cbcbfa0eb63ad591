"""`lastsay explain`: what is shown, that it fits, and what its JSON holds."""

import json
import unicodedata
from pathlib import Path

import pytest

from lastsay.cli import main
from lastsay.events import (
    EpochStarted,
    Event,
    Message,
    Notice,
    Reasoning,
    RunEnded,
    RunStarted,
    Text,
    TextDelta,
    ToolUse,
    encode_many,
)

CALL = Message((ToolUse("c1", "search"),), "m2", stop_reason="tool_use")
WIDE = "我先看一下这个文件。" * 30 + "\x1b[31m\n🙂"


def log(folder: Path, *events: Event) -> Path:
    """A log of the events."""
    path = folder / "log.ndjson"
    path.write_bytes(encode_many(events))
    return path


def explain(*words: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str], str]:
    """Exit status, lines of standard output, and standard error."""
    status = main(["explain", *map(str, words)])
    captured = capsys.readouterr()
    return status, captured.out.splitlines(), captured.err


def columns(line: str) -> int:
    """Columns that a terminal gives to the line."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def test_both_policies_and_every_candidate_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A textless end: what each policy selects, that they differ, and the rule for each candidate."""
    said = Message((Text("I look."),), "m1")
    path = log(tmp_path, RunStarted(agent="scout"), said, CALL, RunEnded("completed", raw="end_turn"))
    status, lines, err = explain(path, capsys=capsys)
    assert (0, "") == (status, err)
    assert [
        "run main (scout)",
        "  stop reason  completed (received: end_turn)",
        "  effective    incomplete: open_tool_call, a tool call has no result",
        "  canonical    (no text: call of search)",
        "               message, candidate 2 of 2, not a whole answer",
        "  answer       “I look.”",
        "               message, candidate 1 of 2, not a whole answer",
        "               differs from canonical",
        "  worth a look canonical chose 0 characters; candidate 1 has 7",
        "",
        "  C A  chosen by canonical / answer",
        "  · A  1  message          7  -             “I look.”",
        "          canonical: a later message counts",
        "          answer: the last message that counts",
        "  C ·  2  message          0  tool_use      (no text)",
        "          canonical: the last message that counts",
        "          answer: nothing in it to read (substance)",
        "",
    ] == lines


def test_agreement_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the other policy selects the same, one line says so; the one asked for comes first."""
    path = log(tmp_path, Message((Text("Yes."),), stop_reason="end_turn"), RunEnded("completed"))
    _, lines, _ = explain(path, "--policy", "answer", capsys=capsys)
    assert "               the same output as answer" in lines
    assert ["answer", "canonical"] == [line.split()[0] for line in lines[3:6:2]]
    assert "  A C  chosen by answer / canonical" in lines


def test_no_output_is_told_with_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Reasoning only, and nothing at all."""
    path = log(tmp_path, Message((Reasoning("Hm."),)), RunStarted(run="c", parent="main"))
    _, lines, _ = explain(path, "--policy", "answer", capsys=capsys)
    assert "  answer       no output: reasoning_only, only reasoning" in lines
    assert "               1 candidate, none chosen" in lines
    assert "run c, child of main" in lines
    assert "  answer       no output: never_spoke, nothing came from the model" in lines
    assert "               no candidates" in lines


def test_what_stands_beside_and_joined_pieces_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The complete message beside a partial tail; the numbers of the pieces that were joined."""
    pieces = [Message((Text(f"{n} "),), f"p{n}", stop_reason="max_tokens", run="joined") for n in range(6)]
    path = log(tmp_path, Message((Text("I look."),), "m1"), TextDelta("The ans", "m2"), pieces[0], *pieces[1:])
    _, lines, _ = explain(path, "--policy", "answer", capsys=capsys)
    assert "               streamed, candidate 2 of 2, partial" in lines
    assert "               beside: “I look.”" in lines
    assert "               message, candidates 1 … 6 of 6 joined, partial" in lines
    path = log(tmp_path, *pieces[:2])
    _, lines, _ = explain(path, "--policy", "answer", capsys=capsys)
    assert "               message, candidates 1 + 2 of 2 joined, partial" in lines


@pytest.mark.parametrize("wide", [48, 80])
def test_every_line_fits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, wide: int
) -> None:
    """Wide characters, control characters and long names stay within the columns of the terminal."""
    monkeypatch.setenv("COLUMNS", str(wide))
    path = log(
        tmp_path,
        RunStarted(agent=WIDE),
        Message((Text(WIDE),), "m1", stop_reason="an_unheard_of_reason_of_great_length"),
        Message((Text(WIDE),), "m1b", stop_reason="max_tokens"),
        TextDelta(WIDE, "m2"),
        Notice("task_started", {"id": "t"}),
        RunEnded("a reason nobody knows, " * 5, raw="x" * 200, diagnostic=WIDE, provenance="unknown", exit_status=1),
    )
    _, lines, _ = explain(path, capsys=capsys)
    assert wide >= max(map(columns, lines))
    assert not [line for line in lines if "\x1b" in line]


def test_many_that_fare_alike_are_shortened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a long session the first and the last of each kind are shown, and the one that a hint points at."""
    rows: list[Event] = [Message((Text(f"Step {n}."),), f"m{n}") for n in range(100)]
    rows[50] = Message((Text("A report. " * 50),), "m50")
    path = log(tmp_path, *rows, Message((Text("Done."),), "last"), RunEnded("completed"))
    _, lines, _ = explain(path, capsys=capsys)
    assert "  worth a look canonical chose 5 characters; candidate 51 has 500" in lines
    assert [48, 47] == [int(line.split()[1]) for line in lines if "more that fare alike" in line]
    shown = [int(line.split()[2]) for line in lines if "  message  " in line and line.startswith("  ")]
    assert [1, 50, 51, 52, 100, 101] == shown
    _, lines, _ = explain(path, "--all", capsys=capsys)
    assert 101 == len([line for line in lines if "  message  " in line])


def test_every_epoch_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A continued child has an explanation for each activation."""
    path = log(tmp_path, RunStarted(), TextDelta("One"), RunEnded("completed"), EpochStarted(1), TextDelta(" \n"))
    _, lines, _ = explain(path, capsys=capsys)
    assert ["run main", "run main, epoch 1"] == [line for line in lines if line.startswith("run")]
    assert "  stop reason  error (no word received, unknown)" in lines
    assert "  C ·  1  streamed         2  -             (blank)" in lines


def test_json_holds_candidates_rules_and_outcomes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One object for each run: the outcome under each policy, and for each candidate the rule of each policy."""
    path = log(tmp_path, Message((Text("I look."),), "m1"), CALL, RunEnded("completed"))
    _, (line,), _ = explain(path, "--json", capsys=capsys)
    row = json.loads(line)
    assert ("main", 0, "canonical", True) == (row["run"], row["epoch"], row["policy"], row["differs"])
    assert "I look." == row["outcomes"]["answer"]["output"][0]["text"]
    first = row["candidates"][0]
    assert (1, "message", "m1", "I look.") == (first["ordinal"], first["kind"], first["message"], first["text"])
    assert {"chosen": False, "why": "a later message counts"} == first["rules"]["canonical"]
    assert {"chosen": True, "why": "the last message that counts"} == first["rules"]["answer"]


def test_one_run_of_several_can_be_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its id selects it; an id that is not there is an error that names those that are."""
    path = log(tmp_path, RunStarted(), RunStarted(run="c", parent="main"))
    _, lines, _ = explain(path, "--run", "c", capsys=capsys)
    assert ["run c, child of main"] == [line for line in lines if line.startswith("run")]
    status, lines, err = explain(path, "--run", "d", capsys=capsys)
    assert (2, [], f"lastsay: no run 'd' in {path}; there are main, c\n") == (status, lines, err)


def test_broken_lines_are_named_and_cost_only_themselves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first five are told, the rest is counted, and they make no run of their own."""
    path = log(tmp_path, RunStarted(run="c"), Message((Text("Yes."),), run="c"))
    with path.open("ab") as stream:
        stream.write(b"{broken\n" * 7)
    status, lines, err = explain(path, capsys=capsys)
    assert (0, ["run c"]) == (status, [line for line in lines if line.startswith("run")])
    assert 6 == len(err.splitlines())
    assert "7 faults in all" in err.splitlines()[-1]


def test_a_folder_names_each_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two logs in a folder: each is named before its runs. A file that is no log is status 6."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        log(tmp_path / name, Message((Text("Yes."),)))
    _, lines, _ = explain(tmp_path, capsys=capsys)
    assert [str(tmp_path / name / "log.ndjson") for name in "ab"] == [line for line in lines if "log.ndjson" in line]
    other = tmp_path / "notes.txt"
    other.write_text("nothing", "utf-8")
    status, lines, err = explain(other, capsys=capsys)
    assert (6, []) == (status, lines)
    assert "not a log of a known format" in err
