"""`lastsay receipts`: what is printed, and the exit status."""

import json
from pathlib import Path

import pytest

from lastsay.cli import main
from lastsay.events import Event, Notice, RunStarted, Text, ToolCall, ToolResult, encode_many

TOOL = "mcp__functions__f"
GOOD = (
    RunStarted(),
    ToolCall("a", TOOL),
    ToolResult("a", (Text(f"({TOOL} completed with no output)"),)),
    Notice("function_applied", {"call": "a", "verdict": "placeholder"}),
)
BAD = (
    *GOOD,
    ToolCall("b", TOOL),
    Notice("function_refused", {"call": "b", "verdict": "missing", "detail": "none came"}),
)


def log(folder: Path, *events: Event, name: str = "log.ndjson") -> Path:
    """A log of the events."""
    path = folder / name
    path.write_bytes(encode_many(events))
    return path


def receipts(*words: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of `lastsay receipts`."""
    status = main(["receipts", *map(str, words)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_a_sound_log_is_summed_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Counts, what holds no text, how it was shown, the verdicts; status 0."""
    status, out, err = receipts(log(tmp_path, *GOOD), capsys=capsys)
    assert (0, "") == (status, err)
    assert [
        "1 calls, 1 results, 0 errors",
        "results without text: 1 (a)",
        "shown as: 1 placeholder",
        "verdicts: 1 placeholder",
    ] == out.splitlines()


def test_an_unconfirmed_result_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With what was found, and a status of its own; several logs are named."""
    good, bad = log(tmp_path, *GOOD, name="a.ndjson"), log(tmp_path, *BAD, name="b.ndjson")
    status, out, _ = receipts(tmp_path, capsys=capsys)
    assert 6 == status
    assert [str(good), str(bad)] == [line for line in out.splitlines() if line.endswith(".ndjson")]
    assert f"not confirmed: b ({TOOL}): missing: none came" in out.splitlines()
    assert "calls without result: 1 (b)" in out.splitlines()


def test_json_has_one_object_for_each_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Path, format and all fields of the report."""
    path = log(tmp_path, *BAD)
    _, out, _ = receipts("--json", path, capsys=capsys)
    report = json.loads(out)
    assert (str(path), "lastsay", 2, ["b"]) == (
        report["path"], report["format"], report["calls"], report["without_result"],
    )  # fmt: skip
    assert [("b", "missing")] == [(call["call"], call["verdict"]) for call in report["refused"]]


def test_long_lists_are_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ten ids are shown, the rest is counted."""
    calls = [ToolCall(f"c{i}", TOOL) for i in range(13)]
    _, out, _ = receipts(log(tmp_path, RunStarted(), *calls), capsys=capsys)
    assert "c9 and 3 more)" in out


def test_what_cannot_be_read_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A broken line is told and costs only itself; a file that is no log has a status of its own."""
    path = log(tmp_path, *GOOD)
    path.write_bytes(path.read_bytes() + b"{broken\n" * 12)
    status, _, err = receipts(path, capsys=capsys)
    assert 0 == status
    assert 10 == err.count("invalid_json")
    other = tmp_path / "other.txt"
    other.write_text("nothing\n")
    status, _, err = receipts(other, capsys=capsys)
    assert (6, 1) == (status, len(err.splitlines()))


def test_a_session_of_the_cli_can_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its format is found by content, or given."""
    session = "s1"
    base = {"sessionId": session, "isSidechain": False, "version": "2.1.332", "timestamp": "2026-11-30T00:00:00.000Z"}
    use = {"type": "tool_use", "id": "a", "name": TOOL, "input": {}}
    lines = [
        {**base, "type": "user", "uuid": "1", "message": {"role": "user", "content": "Go."}},
        {**base, "type": "assistant", "uuid": "2", "message": {"id": "m1", "role": "assistant", "content": [use]}},
        {
            **base,
            "type": "user",
            "uuid": "3",
            "toolUseResult": "User rejected tool use",
            "message": {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "a", "is_error": True, "content": "no"}],
            },
        },
    ]
    path = tmp_path / f"{session}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for words in ((path,), ("--format", "claude", path)):
        status, out, _ = receipts(*words, capsys=capsys)
        assert 0 == status
        assert "shown as: 1 rejected" in out.splitlines()
