"""Finding, detecting and folding logs."""

import json
from pathlib import Path
from typing import Any

import pytest

from lastsay.errors import SourceError, UsageError
from lastsay.events import (
    EpochStarted,
    Event,
    Fault,
    Message,
    RunEnded,
    RunStarted,
    Text,
    TextDelta,
    encode_many,
)
from lastsay.fold import ANSWER, CANONICAL
from lastsay.logs import FORMATS, Runs, detect, find_logs, fold_log, format_named

PARENT_AND_CHILD: list[Event] = [
    RunStarted(agent="boss"),
    RunStarted(parent="main", agent="helper", run="child"),
    TextDelta("half of it", run="child"),
    Message((Text("I wait."),), "m1"),
    RunEnded("max-tokens", run="child"),
    Message((Text("Done."),), "m2"),
    RunEnded("completed"),
]


def write(path: Path, events: list[Event]) -> Path:
    """A log of the events."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_many(events))
    return path


def claude_line(kind: str, text: str, uuid: str, **more: Any) -> str:
    """A line of a session file."""
    content: Any = text if kind == "user" else [{"type": "text", "text": text}]
    message = {"role": kind, "content": content, "id": f"msg_{uuid}", "stop_reason": "end_turn", "type": "message"}
    return json.dumps({"type": kind, "uuid": uuid, "sessionId": "s1", "message": message, **more}) + "\n"


def session(folder: Path) -> Path:
    """A Claude session with one subagent."""
    main = folder / "s1.jsonl"
    child = folder / "s1" / "subagents" / "agent-a1.jsonl"
    child.parent.mkdir(parents=True)
    main.write_text(claude_line("user", "Go.", "u1") + claude_line("assistant", "The parent's answer.", "u2"))
    side = {"isSidechain": True, "agentId": "a1"}
    child.write_text(
        claude_line("user", "Work.", "c1", **side) + claude_line("assistant", "The child's.", "c2", **side)
    )
    child.with_suffix(".meta.json").write_text(json.dumps({"agentType": "scout", "toolUseId": "t1", "finished": True}))
    return main


def test_runs_are_folded_apart_and_keep_their_parent(tmp_path: Path) -> None:
    """Interleaved runs give one outcome each, in the order of their start."""
    logs, complaints = find_logs([write(tmp_path / "a.ndjson", PARENT_AND_CHILD)])
    runs = fold_log(logs[0])
    assert [] == complaints
    assert [("main", None, "boss", "Done."), ("child", "main", "helper", "half of it")] == [
        (run.run, run.parent, run.agent, run.outcome.text) for run in runs
    ]
    assert ["completed", "max-tokens"] == [run.outcome.stop_reason for run in runs]
    assert {"run", "parent", "agent", "output", "digest"} <= set(runs[1].as_json())


def test_every_epoch_of_a_continued_run_has_an_outcome() -> None:
    """The output of an epoch is folded from its own events only."""
    runs = Runs(CANONICAL)
    first: list[Event] = [RunStarted(), EpochStarted(0), TextDelta("one"), RunEnded("completed")]
    runs.push([*first, EpochStarted(1), TextDelta("two"), RunEnded("aborted")])
    assert [("one", 0), ("two", 1)] == [(run.outcome.text, run.outcome.epoch) for run in runs.results()]


def test_the_batches_in_which_events_come_do_not_matter() -> None:
    """Pushed at once or singly, the outcomes are equal."""
    whole, single = Runs(ANSWER), Runs(ANSWER)
    whole.push(PARENT_AND_CHILD)
    for event in PARENT_AND_CHILD:
        single.push([event])
    assert whole.results() == single.results()


def test_faults_alone_are_no_run(tmp_path: Path) -> None:
    """A broken line belongs to its file: it is reported, and does not make a run."""
    broken = tmp_path / "a.ndjson"
    broken.write_bytes(b"not json\n[1]\n")
    faults: list[Fault] = []
    (log,), _ = find_logs([broken], format_named("lastsay"))
    assert [] == fold_log(log, on_fault=faults.append)
    assert ["invalid_json", "not_an_object"] == [fault.kind for fault in faults]


def test_formats_are_detected_by_content(tmp_path: Path) -> None:
    """Names do not matter; what is of no known format is None."""
    own = write(tmp_path / "own.txt", PARENT_AND_CHILD)
    claude = session(tmp_path)
    other = tmp_path / "other.jsonl"
    other.write_text('{"type": "message", "message": {"role": "user"}}\n{"level": "info"}\n')
    header = tmp_path / "dsh.jsonl"
    header.write_text('{"type": "session", "id": "x", "createdAt": 1, "version": 4}\n')
    found = [detect(path) for path in (own, claude, header, other)]
    assert ["lastsay", "claude", "dsh", None] == [f.name if f else None for f in found]


def test_a_long_first_line_is_looked_into(tmp_path: Path) -> None:
    """A first line of 5 MB is read for detection."""
    big = write(tmp_path / "big.jsonl", [TextDelta("x" * 5_000_000), RunEnded("completed")])
    (log,), _ = find_logs([big])
    assert ("lastsay", 5_000_000) == (log.format.name, len(fold_log(log)[0].outcome.text or ""))


def test_a_folder_gives_its_logs_and_a_session_takes_its_subagents(tmp_path: Path) -> None:
    """Folders are searched; other files in them are no complaint; subagents are read once, with their session."""
    session(tmp_path / "claude")
    write(tmp_path / "deep" / "er" / "b.ndjson", PARENT_AND_CHILD)
    (tmp_path / "notes.jsonl").write_text('{"a": 1}\n')
    (tmp_path / "readme.md").write_text("hello")
    logs, complaints = find_logs([tmp_path, tmp_path / "claude" / "s1.jsonl"])
    assert ([], ["claude", "lastsay"]) == (complaints, [log.format.name for log in logs])
    runs = fold_log(logs[0])
    assert [("s1", None, None), ("t1", "s1", "scout")] == [(run.run, run.parent, run.agent) for run in runs]
    assert ["The parent's answer.", "The child's."] == [run.outcome.text for run in runs]


def test_a_subagent_that_is_named_is_read_alone(tmp_path: Path) -> None:
    """Its file alone gives one run, which still knows its parent."""
    child = session(tmp_path).parent / "s1" / "subagents" / "agent-a1.jsonl"
    (log,), _ = find_logs([child])
    assert [("t1", "s1")] == [(run.run, run.parent) for run in fold_log(log)]


def test_a_session_and_its_subagent_together_are_read_once(tmp_path: Path) -> None:
    """Naming both gives the session with its subagent, and nothing twice."""
    main = session(tmp_path)
    logs, _ = find_logs([main.parent / "s1" / "subagents" / "agent-a1.jsonl", main])
    assert [main] == [log.path for log in logs]


def test_named_files_that_are_no_logs_are_complaints(tmp_path: Path) -> None:
    """Empty, of no format, missing: one sentence each. An empty folder is one too."""
    empty, other, folder = tmp_path / "empty", tmp_path / "other", tmp_path / "folder"
    empty.touch()
    other.write_bytes(b"\x00\xff\x01\n" * 100)
    folder.mkdir()
    logs, complaints = find_logs([empty, other, tmp_path / "missing", folder])
    assert [] == logs
    assert ["empty", "known format", "cannot be read", "no logs in this folder"] == [
        next(
            word for word in ("empty:", "known format", "cannot be read", "no logs in this folder") if word in text
        ).strip(":")
        for text in complaints
    ]


def test_a_file_that_vanishes_is_a_source_error(tmp_path: Path) -> None:
    """What can be found and not be read is named."""
    path = write(tmp_path / "a.ndjson", PARENT_AND_CHILD)
    (log,), _ = find_logs([path])
    path.unlink()
    assert 0 == log.size
    with pytest.raises(SourceError, match=r"a\.ndjson: cannot be read"):
        fold_log(log)


def test_reading_reports_every_byte(tmp_path: Path) -> None:
    """The numbers of bytes that were read add up to the size of all files."""
    for path in (write(tmp_path / "a.ndjson", PARENT_AND_CHILD), session(tmp_path / "claude")):
        (log,), _ = find_logs([path])
        read: list[int] = []
        fold_log(log, on_read=read.append)
        assert log.size == sum(read)


def test_formats_have_names_that_lead_back_to_them() -> None:
    """Every row is found by its name, and an unknown name lists the known ones."""
    assert list(FORMATS) == [format_named(log_format.name) for log_format in FORMATS]
    with pytest.raises(UsageError, match="lastsay, claude, dsh"):
        format_named("nope")
