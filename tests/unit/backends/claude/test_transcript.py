"""Session files: broken lines, resumed sessions, older layouts."""

import json
from pathlib import Path
from typing import Any

import pytest

from lastsay.backends import claude
from lastsay.events import Event, Fault, Message, Notice, RunEnded, RunStarted, Text, ToolResult

Line = dict[str, Any]


def line(kind: str, content: Any, uuid: str, above: str | None = None, **fields: Any) -> Line:
    """A line of a session file."""
    message: Line = {"role": kind, "content": content}
    if kind == "assistant":
        message |= {"id": f"m-{uuid}", "model": "some-model", "stop_reason": "end_turn"}
    base = {
        "type": kind,
        "message": message,
        "uuid": uuid,
        "parentUuid": above,
        "sessionId": "s1",
        "isSidechain": False,
    }
    return {**base, "timestamp": "2026-11-30T10:00:00.500Z", **fields}


def text(words: str) -> list[Line]:
    """Content of one text block."""
    return [{"type": "text", "text": words}]


def agent_call(name: str, prompt: str) -> list[Line]:
    """Content of one delegating call."""
    given = {"subagent_type": "worker", "prompt": prompt}
    return [{"type": "tool_use", "id": name, "name": "Task", "input": given}]


def result_of(name: str) -> list[Line]:
    """Content of one tool result."""
    return [{"type": "tool_result", "tool_use_id": name, "content": "report"}]


def session(path: Path, *lines: Line | bytes) -> Path:
    """A session file with these lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        b"".join((item if isinstance(item, bytes) else json.dumps(item).encode()) + b"\n" for item in lines)
    )
    return path


def events(path: Path) -> list[Event]:
    """The events of one file."""
    return [event for batch in claude.events_of(path) for event in batch]


def messages(found: list[Event]) -> list[tuple[str, Any]]:
    """Run and content of each message."""
    return [(event.run, event.content) for event in found if type(event) is Message]


def test_root(tmp_path: Path) -> None:
    """A session is one run under its own id, with the times of its first and last line."""
    path = session(
        tmp_path / "s1.jsonl",
        line("user", "Hello", "u1"),
        line("assistant", text("Hi"), "u2", "u1", timestamp="2026-11-30T10:00:02Z"),
    )
    start, *_, end = events(path)
    assert isinstance(start, RunStarted)
    assert isinstance(end, RunEnded)
    assert ("s1", "completed", "end_turn", "recovered") == (end.run, end.stop_reason, end.raw, end.provenance)
    assert (1.5, None) == ((end.time or 0) - (start.time or 0), start.parent)


def test_one_bad_line_costs_one_line(tmp_path: Path) -> None:
    """Every broken line is a named fault, and the rest is read."""
    good = json.dumps(line("assistant", text("Hi"), "u2")).encode()
    path = session(
        tmp_path / "s1.jsonl",
        b"\xef\xbb\xbf" + json.dumps(line("user", "Hello", "u1")).encode(),
        b"\x01\xff binary",
        b"[1, 2]",
        b"5",
        good + b"\r",
        b"\0" * 40 + json.dumps(line("user", "sep\u2028arator", "u3"), ensure_ascii=False).encode(),
        b'{"type": "assistant", "mess',
    )
    path.write_bytes(path.read_bytes()[:-1])
    found = events(path)
    kinds = [(event.kind, event.line) for event in found if type(event) is Fault]
    expected = [
        ("invalid_json", 2),
        ("not_an_object", 3),
        ("not_an_object", 4),
        ("nul_padding", 6),
        ("truncated_line", 7),
    ]
    assert expected == kinds
    assert [("s1", (Text("Hi"),))] == messages(found)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\x89PNG\r\n\x1a\n\x00\x00"], ids=["empty", "blank", "binary"])
def test_no_session_at_all(tmp_path: Path, content: bytes) -> None:
    """A file without a record gives faults only, and no run."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    assert not claude.looks_like(content)
    assert {Fault} >= {type(event) for event in events(path)}


def test_unknown_lines_are_kept(tmp_path: Path) -> None:
    """Lines of unknown types are notices."""
    odd = {"type": "cost-state", "sessionId": "s1", "total": 1}
    found = events(session(tmp_path / "s1.jsonl", line("user", "Hello", "u1"), odd))
    assert Notice("cost-state", odd, run="s1") in found


def test_bare_strings_in_content(tmp_path: Path) -> None:
    """A content list may hold bare strings."""
    path = session(
        tmp_path / "s1.jsonl", line("user", ["Hello", "there"], "u1"), line("assistant", ["Hi", *text("!")], "u2")
    )
    found = events(path)
    assert [("s1", (Text("Hi"), Text("!")))] == messages(found)
    assert ["user_message"] == [event.kind for event in found if type(event) is Notice]


def test_resumed_sessions_are_read_once(tmp_path: Path) -> None:
    """Lines that a later file restates are left out, within one reading."""
    first = (line("user", "Hello", "u1"), line("assistant", text("Hi"), "u2", "u1"))
    one = session(tmp_path / "s1.jsonl", *first, first[1])
    two = session(
        tmp_path / "s2.jsonl",
        *({**item, "sessionId": "s2"} for item in first),
        line("assistant", text("More"), "u3", "u2", sessionId="s2"),
    )
    assert [("s1", (Text("Hi"),))] == messages(events(one))
    found = [event for batch in claude.read([one, two]) for event in batch]
    assert [("s1", (Text("Hi"),)), ("s2", (Text("More"),))] == messages(found)


def test_forked_history_is_no_output(tmp_path: Path) -> None:
    """What a fork took over is the model's earlier word, restated."""
    forked = line("assistant", text("Old"), "u2", forkedFrom={"sessionId": "s0", "messageUuid": "x"})
    found = events(session(tmp_path / "s1.jsonl", line("user", "Hello", "u1"), forked))
    assert ["replay"] == [event.origin for event in found if type(event) is Message]


def test_interrupt_of_an_older_version(tmp_path: Path) -> None:
    """The mark of an interrupt ends the run as aborted, unless the model spoke again."""
    mark = line("user", text("[Request interrupted by user]"), "u3")
    head = (line("user", "Hello", "u1"), line("assistant", text("Hi"), "u2"))
    assert "aborted" == events(session(tmp_path / "a.jsonl", *head, mark))[-1].stop_reason  # type: ignore[union-attr]
    again = events(session(tmp_path / "b.jsonl", *head, mark, line("assistant", text("Yes"), "u4")))
    assert "completed" == again[-1].stop_reason  # type: ignore[union-attr]  # the last event is the end


def test_turn_marker_finishes(tmp_path: Path) -> None:
    """An older line has no stop reason; the mark of a finished turn says that the run was finished."""
    answer = line("assistant", text("Hi"), "u2")
    answer["message"]["stop_reason"] = None
    head = (line("user", "Hello", "u1"), answer)
    mark = {"type": "system", "subtype": "turn_duration", "sessionId": "s1", "uuid": "u3"}
    ends = [events(session(tmp_path / "s1.jsonl", *head, *tail))[-1] for tail in ((), (mark,))]
    assert [("error", "unknown"), ("completed", "recovered")] == [(e.stop_reason, e.provenance) for e in ends]  # type: ignore[union-attr]  # the last event is the end


def test_sidechains_of_older_versions(tmp_path: Path) -> None:
    """A child inside the session file belongs to the one call that has its prompt."""
    side = {"isSidechain": True}
    path = session(
        tmp_path / "s1.jsonl",
        line("user", "Hello", "u1"),
        line("assistant", agent_call("t1", "Work."), "u2", "u1"),
        line("user", "Work.", "c1", None, **side),
        line("assistant", text("Found it."), "c2", "c1", **side),
        line("user", result_of("t1"), "u3", "u2"),
        line("assistant", text("Done."), "u4", "u3"),
    )
    found = events(path)
    child = next(event for event in found if type(event) is RunStarted and event.run != "s1")
    assert ("t1", "s1", "worker") == (child.run, child.parent, child.agent)
    assert [("t1", (Text("Found it."),)), ("s1", (Text("Done."),))] == messages(found)[-2:]
    assert [RunEnded, ToolResult] == [type(e) for e in found if type(e) in (RunEnded, ToolResult)][:2]


def test_ambiguous_sidechains_are_not_guessed(tmp_path: Path) -> None:
    """Two calls with the same prompt: the child is a run of its own, attributed to neither."""
    path = session(
        tmp_path / "s1.jsonl",
        line("user", "Hello", "u1"),
        line("assistant", [*agent_call("t1", "Work."), *agent_call("t2", "Work.")], "u2", "u1"),
        line("user", "Work.", "c1", None, isSidechain=True),
        line("assistant", text("Found it."), "c2", "c1", isSidechain=True),
    )
    child = next(event for event in events(path) if type(event) is RunStarted and event.run != "s1")
    assert ("s1", None) == (child.parent, child.call)


def test_children_beside_the_session(tmp_path: Path) -> None:
    """A child's file is read where its result stands; one without a result comes at the end."""
    child = {"isSidechain": True, "agentId": "a1"}
    lost = {"isSidechain": True, "agentId": "a2"}
    folder = tmp_path / "s1" / "subagents"
    session(
        folder / "agent-a1.jsonl", line("user", "Work.", "c1", **child), line("assistant", text("One."), "c2", **child)
    )
    (folder / "agent-a1.meta.json").write_text('{"agentType": "worker", "toolUseId": "t1", "finished": true}')
    alone = session(folder / "workflows" / "w1" / "agent-a2.jsonl", line("assistant", text("Two."), "d1", **lost))
    main = session(
        tmp_path / "s1.jsonl",
        line("user", "Hello", "u1"),
        line("assistant", agent_call("t1", "Work."), "u2"),
        line("user", result_of("t1"), "u3"),
        line("assistant", text("Done."), "u4"),
    )
    found = events(main)
    order = [(run, content[0].text) for run, content in messages(found) if type(content[0]) is Text]
    assert [("t1", "One."), ("s1", "Done."), ("a2", "Two.")] == order
    assert ["t1", "a2", "s1"] == [event.run for event in found if type(event) is RunEnded]
    assert (main, None) == (claude.session_of(alone), claude.session_of(main))


def test_a_childs_file_alone(tmp_path: Path) -> None:
    """A child's file that is read by itself is one run, with its session as parent."""
    child = {"isSidechain": True, "agentId": "a1"}
    path = session(
        tmp_path / "s1" / "subagents" / "agent-a1.jsonl",
        line("user", "Work.", "c1", **child),
        line("assistant", text("One."), "c2", **child),
    )
    found = events(path)
    (start,) = [event for event in found if type(event) is RunStarted]
    assert ("a1", "s1") == (start.run, start.parent)
    assert [("a1", (Text("One."),))] == messages(found)
    assert None is claude.session_of(path)


def test_long_lines_and_progress(tmp_path: Path) -> None:
    """A line of several megabytes is read, and the bytes read are told."""
    path = session(tmp_path / "s1.jsonl", line("user", "x" * 5_000_000, "u1"), line("assistant", text("Hi"), "u2"))
    told: list[int] = []
    found = [event for batch in claude.events_of(path, told.append) for event in batch]
    assert [("s1", (Text("Hi"),))] == messages(found)
    assert path.stat().st_size == sum(told)


def test_recorded_streams_are_read_too(tmp_path: Path) -> None:
    """The saved output of the CLI is a log as well: without its result the run was killed."""
    record = {"type": "assistant", "session_id": "s9", "message": {"id": "m1", "content": text("Hi")}}
    path = session(tmp_path / "out.jsonl", {"type": "system", "subtype": "init", "session_id": "s9"}, record)
    assert claude.looks_like(path.read_bytes())
    end = events(path)[-1]
    assert isinstance(end, RunEnded)
    assert ("s9", "error", "unknown") == (end.run, end.stop_reason, end.provenance)


@pytest.mark.parametrize(
    "start",
    [b'{"type": "text_delta", "text": "a"}\n', b'{"jsonrpc": "2.0", "id": 1}\n', b'{"role": "user", "content": "x"}\n'],
    ids=["lastsay", "json-rpc", "chat"],
)
def test_looks_like_refuses(start: bytes) -> None:
    """Other people's lines are not taken for Claude's."""
    assert not claude.looks_like(start)
