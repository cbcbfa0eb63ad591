"""Durable logs: forward, backward, compressed, cut, and equal to what the wire said."""

import json
import sys
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from lastsay.backends.dsh import LogNormaliser, LogReader, WireNormaliser, events_of, looks_like, recognises, tail_of
from lastsay.errors import MissingExtraError
from lastsay.events import Fault, Message, ReasoningDelta, RunEnded, RunStarted, TextDelta
from lastsay.logs import find_logs, fold_log

FIXTURES = Path(__file__).parents[3] / "fixtures" / "dsh"
LOGS = sorted(str(path.relative_to(FIXTURES)) for path in FIXTURES.glob("*/*.session.jsonl"))
NOT_ON_THE_WIRE = ("cancelled",)
"""Recordings that were cut: what the model was streaming reached the log only (and in generation A, the wire too)."""


def read(data, **options):
    """The events of the bytes of a file."""
    reader = LogReader(**options)
    return reader.push(data) + reader.close()


def in_frames(data, lines=2):
    """The data as many zstd frames of a few lines each, as the harness writes it."""
    whole = data.splitlines(keepends=True)
    parts = [b"".join(whole[at : at + lines]) for at in range(0, len(whole), lines)]
    return b"".join(zstandard.ZstdCompressor().compress(part) for part in parts)


def log_of(*records, header=None):
    """The bytes of a log of these (type, payload) records."""
    head = {"type": "session", "version": 4, "id": "s", "createdAt": 1000, "isSeeded": False} | (header or {})
    rows = [{"type": kind, "seq": seq, "time": 1000 + seq, "data": data} for seq, (kind, data) in enumerate(records)]
    return "".join(json.dumps(row) + "\n" for row in (head, *rows)).encode()


def said(text, step=1, turn=1, **more):
    """A message of one text block, or of none."""
    content = [{"type": "text", "text": text}] if text is not None else []
    return "assistant/message", {
        "turn": turn,
        "step": step,
        "message": {"id": f"m{turn}.{step}", "content": content},
        **more,
    }


def a_turn(*records, turn=1, kind="completed"):
    """The records of a turn of one step."""
    at = {"turn": turn, "step": 1}
    start, end = ("turn/start", {"turn": turn}), ("turn/end", {"turn": turn, "reason": {"kind": kind}})
    return [start, ("step/start", at), *records, ("step/end", at), end]


def from_outside(kind="user", sender=None):
    """A message of that source, put into the inbox."""
    source = {"kind": kind, "senderSessionId": sender}
    return "agent/inbox/spliced", {"target": "next-turn", "start": 0, "inserted": [{"source": source}]}


@pytest.mark.parametrize("name", LOGS)
def test_the_log_gives_the_digests_that_the_wire_gave(name, frames_of, fold_epochs):
    """Live and log of one run agree in output and stop reason, epoch by epoch."""
    data = (FIXTURES / name).read_bytes()
    run = json.loads(data.splitlines()[0])["id"]
    wire = WireNormaliser()
    frames = frames_of(f"{name.split('.session')[0].rsplit('.', 1)[0]}.wire.jsonl")
    events = [event for frame in frames for event in wire.push(frame)] + wire.close()
    run = "main" if run == "root" else run
    live = [outcome.digest for key, outcome in fold_epochs(events).items() if key[0] == run]
    logged = [outcome.digest for outcome in fold_epochs(read(data)).values()]
    if any(word in name for word in NOT_ON_THE_WIRE):
        assert [e.stop_reason for e in read(data) if type(e) is RunEnded] == ["aborted"]
    else:
        assert live == logged


@pytest.mark.parametrize("name", [name for name in LOGS if "cancelled" in name])
def test_the_log_completes_a_wire_that_was_cut(name, frames_of, fold_epochs):
    """Frames, then the records of the log: the interrupted message is there, once, and the run is aborted."""
    wire = WireNormaliser()
    events = [event for frame in frames_of(name.replace(".0.session", ".wire")) for event in wire.push(frame)]
    for line in (FIXTURES / name).read_bytes().splitlines()[1:]:
        row = json.loads(line)
        events += wire.push_record("root", row["type"], row["data"], row.get("seq", row.get("seq0")), None)
    outcome = fold_epochs(events + wire.close())["main", 0]
    assert ("So far I know that the harbour", "aborted", "reported", True) == (
        outcome.text,
        outcome.stop_reason,
        outcome.provenance,
        outcome.partial,
    )


@pytest.mark.parametrize("name", LOGS)
def test_many_frames_give_the_events_of_the_plain_log(name, tmp_path):
    """Compressed as the harness does it, read in blocks of any size, the events are the same."""
    data = (FIXTURES / name).read_bytes()
    path = tmp_path / "log.zstd"
    path.write_bytes(in_frames(data))
    assert read(data) == [event for batch in events_of(path) for event in batch]
    reader = LogReader()
    compressed = path.read_bytes()
    pieces = [reader.push(compressed[at : at + 7]) for at in range(0, len(compressed), 7)]
    assert read(data) == [event for batch in (*pieces, reader.close()) for event in batch]


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "zstd"])
@pytest.mark.parametrize("name", LOGS)
def test_the_end_of_a_log_alone_gives_its_last_digest(name, compressed, tmp_path, fold_epochs):
    """Backward reading decides the last epoch as the whole log does."""
    data = (FIXTURES / name).read_bytes()
    path = tmp_path / "log"
    path.write_bytes(in_frames(data) if compressed else data)
    whole = list(fold_epochs(read(data)).values())[-1]
    (tail,) = fold_epochs(tail_of(path)).values()
    assert whole.digest == tail.digest


RECORDS = st.sampled_from(
    [
        ("turn/start",), ("turn/end", "completed"), ("turn/end", "error"), ("turn/end", "max-tokens"), ("step/start",),
        ("step/end",), ("said", "text"), ("said", None), ("said", ""), ("attempt",), ("row",), ("chunk",),
        ("outside",), ("notice",), ("claim",), ("drop",), ("title",),
    ]
)  # fmt: skip


def built(steps):
    """A log of these steps, in turns that are open when they must be."""
    records, turn, step, is_open = [], 0, 0, False
    for what, *rest in steps:
        at = {"turn": turn, "step": step}
        if what == "turn/start" and not is_open:
            turn, step, is_open = turn + 1, 0, True
            records.append(("turn/start", {"turn": turn}))
        elif what == "turn/end" and is_open:
            is_open = False
            records.append(("turn/end", {"turn": turn, "reason": {"kind": rest[0]}}))
        elif what == "outside":
            records.append(from_outside())
        elif what == "notice":
            records.append(from_outside("subagent-settled", "child"))
        elif what == "title":
            records.append(("session/title", {"title": "t"}))
        elif what == "drop":
            records.append(("agent/inbox/spliced", {"removedCount": 1, "outcome": "canceled", "inserted": []}))
        elif not is_open:
            continue
        elif what == "claim":
            records.append(("agent/inbox/spliced", {"removedCount": 1, "inserted": []}))
        elif what == "step/start":
            step += 1
            records.append(("step/start", {"turn": turn, "step": step}))
        elif what == "step/end" and step:
            records.append(("step/end", at))
        elif step and what == "said":
            records.append(said(rest[0], step, turn))
        elif step and what == "attempt":
            stream = [{"type": "text-chunks", "time0": 1, "index": 0, "dt": [1], "texts": ["try ", "again "]}]
            records.append(("assistant/attempt", {**at, "stream": stream}))
        elif step and what == "chunk":
            records.append(("assistant/chunk", {**at, "chunk": {"type": "text-delta", "index": 0, "text": "piece "}}))
    return records


@given(st.lists(RECORDS, max_size=60), st.booleans())
def test_backward_and_forward_agree_on_any_log(tmp_path_factory, fold_epochs, steps, compressed):
    """Whatever the turns, steps, messages, notices and epochs are, the last digest is the same."""
    data = log_of(*built(steps))
    path = tmp_path_factory.mktemp("logs") / "log"
    path.write_bytes(in_frames(data, 3) if compressed else data)
    whole = list(fold_epochs(read(data)).values())[-1]
    (tail,) = fold_epochs(tail_of(path)).values()
    assert (whole.output, whole.stop_reason) == (tail.output, tail.stop_reason)


def test_backward_reading_stops_early(tmp_path):
    """Of a long log, the last step and what follows it."""
    records = [record for turn in range(1, 200) for record in a_turn(said("x" * 50, turn=turn), turn=turn)]
    path = tmp_path / "log"
    path.write_bytes(log_of(*records))
    assert 10 > len(tail_of(path))


def test_packed_rows_are_expanded_and_reasoning_stays_apart(fold_epochs):
    """Rows of generation A: text and reasoning pieces, tool arguments left out, numbers gone on with."""
    at = {"turn": 1, "step": 1, "index": 0}
    rows = [
        {"type": "session", "version": 0, "id": "s", "createdAt": 1},
        {"type": "turn/start", "seq": 0, "time": 1, "data": {"turn": 1}},
        {"type": "step/start", "seq": 1, "time": 1, "data": {"turn": 1, "step": 1}},
        {"type": "reasoning-chunks", "seq0": 2, "time0": 1, "data": {**at, "dt": [0], "texts": ["hm", "m"]}},
        {"type": "text-chunks", "seq0": 4, "time0": 1, "data": {**at, "dt": [0, -1], "texts": ["a", "", "b"]}},
        {"type": "tool-call-chunks", "seq0": 7, "time0": 1, "data": {**at, "dt": [], "id": "c", "args": ["{}"]}},
        {"type": "text-chunks", "seq0": 8, "time0": 1, "data": {**at, "dt": [], "texts": ["c"]}},
    ]
    data = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows).encode()
    apart = read(data, pieces=True)
    assert ["a", "", "b", "c"] == [event.text for event in apart if type(event) is TextDelta]
    assert ["hm", "m"] == [event.text for event in apart if type(event) is ReasoningDelta]
    joined = read(data)
    assert ["ab", "c"] == [event.text for event in joined if type(event) is TextDelta]
    assert "abc" == fold_epochs(joined)["s", 0].text == fold_epochs(apart)["s", 0].text


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("marked", [True, False], ids=["end-seed", "seedLength"])
def test_the_copied_history_of_a_fork_is_no_output(marked, backward, tmp_path, fold_epochs):
    """What the parent said before the fork is replay; the fork's own epoch has only its own words."""
    seed = [from_outside(), *a_turn(said("the parent's"))]
    own = [from_outside(), *a_turn(said(None, turn=2), turn=2, kind="max-tokens")]
    records = [*seed, *([("session/end-seed", {"inherited": True})] if marked else []), *own]
    header = {"parentSession": "p", **({"isSeeded": True} if marked else {"seedLength": len(seed), "version": 0})}
    path = tmp_path / "log"
    path.write_bytes(log_of(*records, header=header))
    events = tail_of(path) if backward else read(path.read_bytes())
    assert backward or ["replay", "model"] == [event.origin for event in events if type(event) is Message]
    (outcome,) = fold_epochs(events).values()
    assert (None, "max-tokens") == (outcome.output, outcome.stop_reason)


def test_a_resumed_session_is_not_taken_for_a_fork(fold_epochs):
    """Its end-seed mark stands between two epochs of its own."""
    records = [
        from_outside(),
        *a_turn(said("one")),
        ("session/end-seed", {}),
        from_outside(),
        *a_turn(said("two", turn=2), turn=2),
    ]
    assert ["one", "two"] == [outcome.text for outcome in fold_epochs(read(log_of(*records))).values()]


@pytest.mark.parametrize(
    ("kind", "sender", "epochs"),
    [("user", None, 2), ("agent-message", "p", 2), ("agent-message", "child", 1), ("subagent-settled", "child", 1)],
)
def test_a_prompt_or_the_parents_message_begins_an_epoch(kind, sender, epochs, tmp_path, fold_epochs):
    """What its own children send to an idle session goes on with the epoch that they were started in."""
    first, second = a_turn(said("one")), a_turn(said(None, turn=2), turn=2)
    path = tmp_path / "log"
    path.write_bytes(log_of(from_outside(), *first, from_outside(kind, sender), *second, header={"parentSession": "p"}))
    outcomes = list(fold_epochs(read(path.read_bytes())).values())
    assert ["one", None][:epochs] == [outcome.text for outcome in outcomes]
    assert outcomes[-1].digest == next(iter(fold_epochs(tail_of(path)).values())).digest


@pytest.mark.parametrize("version", ["0.1.5rc1", "0.2.1rc2"])
def test_a_childs_report_to_its_idle_parent_is_no_new_epoch(version, frames_of, fold_epochs):
    """One prompt, three turns, one outcome: on the wire and in the log."""
    wire = WireNormaliser()
    events = [event for frame in frames_of(f"{version}/report.wire.jsonl") for event in wire.push(frame)]
    logged = read((FIXTURES / version / "report.0.session.jsonl").read_bytes())
    for name, outcomes in (("main", fold_epochs(events + wire.close())), ("root", fold_epochs(logged))):
        assert ["The report has come."] == [out.text for (run, _), out in outcomes.items() if run == name]


def test_a_log_that_ends_inside_a_line_or_a_frame_gives_the_rest(tmp_path):
    """Both kinds of cut: everything before is read, and the cut is named."""
    data = log_of(*a_turn(said("whole")))
    cut = read(data[:-9])
    assert ["truncated_line"] == [event.kind for event in cut if type(event) is Fault]
    torn = read(in_frames(data)[:-9])
    assert ["torn_frame"] == [event.kind for event in torn if type(event) is Fault]
    for events in (cut, torn):
        assert 1 == sum(type(event) is Message for event in events)
        assert RunEnded is type(events[-1])
    path = tmp_path / "torn"
    path.write_bytes(in_frames(data)[:-9])
    assert 1 == sum(type(event) is Message for event in tail_of(path))


@pytest.mark.parametrize("cut", [0, 1, 3, 4, 5, 9])
def test_a_file_of_a_few_bytes_is_no_catastrophe(cut):
    """Cut inside the magic number, a header, or a line."""
    for data in (log_of()[:cut], in_frames(log_of())[:cut]):
        assert all(type(event) is Fault for event in read(data))


def test_broken_lines_cost_themselves(fold_epochs):
    """A line that is no JSON, no object, or has a broken payload is named by its number; the rest is read."""
    lines = log_of(*a_turn(said("kept"))).splitlines()
    lines[2:2] = [b"{oops", b"[1]", b'{"type":"turn/end","seq":99,"data":{"turn":[]}}']
    events = read(b"\n".join(lines) + b"\n")
    faults = [event for event in events if type(event) is Fault]
    assert ["invalid_json", "invalid_event", "invalid_event"] == [fault.kind for fault in faults]
    assert 3 == faults[0].line


def test_broken_lines_at_the_end_cost_themselves_backward_too(tmp_path, fold_epochs):
    """No JSON, a broken payload, a second header: the last message is found past them."""
    lines = [*log_of(*a_turn(said("kept"))).splitlines(), b"{oops", b'{"type":"assistant/message","seq":98,"data":3}']
    lines += [b'{"type":"agent/inbox/spliced","seq":99,"data":[]}']
    path = tmp_path / "log"
    path.write_bytes(b"\n".join(lines) + b"\n\n")
    (outcome,) = fold_epochs(tail_of(path)).values()
    assert ("kept", "completed", 3) == (outcome.text, outcome.stop_reason, outcome.counts.faults)


def test_a_second_header_is_named():
    """Two logs in one file: the first session's name holds."""
    events = read(log_of(*a_turn(said("x"))) + log_of(header={"id": "other"}))
    assert ["second_header"] == [event.kind for event in events if type(event) is Fault]
    assert {"s"} == {event.run for event in events}


def test_broken_frames_in_a_recording_are_named():
    """A line that is no JSON between frames."""
    frame = b'{"jsonrpc":"2.0","method":"session.status","params":{"sessionId":"s","status":"running"}}\n'
    events = read(frame + b"{oops\n" + frame)
    assert ["invalid_json"] == [event.kind for event in events if type(event) is Fault]


def test_lone_surrogates_are_read():
    """JavaScript escapes half of a pair; the text survives."""
    data = log_of(*a_turn(said("X")))
    events = read(data.replace(b'"X"', b'"\\ud83d"'))
    assert ["\ud83d"] == [event.content[0].text for event in events if type(event) is Message]


def test_half_of_a_pair_in_a_packed_row_is_read():
    """The row is not lost for it."""
    row = {"turn": 1, "step": 1, "index": 0, "dt": [0], "texts": ["X", "Y"]}
    events = read(log_of(*a_turn(("text-chunks", row))).replace(b'"X"', b'"\\ud83d"'))
    assert ["\ud83dY"] == [event.text for event in events if type(event) is TextDelta]


def test_a_version_that_is_not_known_is_read_with_a_warning():
    """Shapes are recognised by themselves; the number is named."""
    events = read(log_of(*a_turn(said("x")), header={"version": 9}))
    assert ["unknown_version"] == [event.kind for event in events if type(event) is Fault]
    assert 1 == sum(type(event) is Message for event in events)


def test_a_log_without_its_header_is_read_with_a_warning():
    """The session has no name then."""
    events = read(log_of(*a_turn(said("x"))).split(b"\n", 1)[1])
    assert (RunStarted, "missing_header") == (type(events[0]), events[1].kind)
    assert {"main"} == {event.run for event in events}


def test_a_parent_in_the_header_is_told():
    """The run knows whose child it is, and since when."""
    (started, *_) = read(log_of(header={"parentSession": "p"}))
    assert ("p", "s", 1.0) == (started.parent, started.run, started.time)


@pytest.mark.parametrize(
    "name", [*LOGS, *(str(path.relative_to(FIXTURES)) for path in FIXTURES.glob("*/*.wire.jsonl"))]
)
def test_recorded_files_are_recognised(name):
    """Logs and frames, plain and compressed, by their first bytes and by their records."""
    data = (FIXTURES / name).read_bytes()
    assert looks_like(data[:1000])
    assert looks_like(in_frames(data)[:4096])
    assert recognises(json.loads(data.splitlines()[0]))


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"session","version":3,"id":"x","timestamp":"2026-01-01T00:00:00Z","cwd":"/x"}\n',
        b'{"type":"text_delta","text":"x","message":"m"}\n',
        b'{"type":"user","message":{"role":"user","content":"x"},"uuid":"u"}\n',
        b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}\n',
        b"plain text\n",
        b"[]\n",
        b"",
    ],
)
def test_files_of_others_are_not(line):
    """Other harnesses begin a log with a session line as well, or speak JSON-RPC too."""
    assert not looks_like(line)


def test_recorded_frames_are_read_as_a_log(fold_epochs, recorded):
    """A file of frames gives all runs of the process."""
    events = [e for batch in events_of(recorded / "0.2.1rc2" / "parallel.wire.jsonl") for e in batch]
    assert 5 == len(fold_epochs(events))


def test_a_folder_of_logs_is_found_and_folded(tmp_path):
    """Under the name that the harness gives them, through the table of log formats."""
    for name, text in (("a", "one"), ("b", "two")):
        folder = tmp_path / "--work--" / name
        folder.mkdir(parents=True)
        (folder / "session.v4.jsonl.zstd").write_bytes(in_frames(log_of(*a_turn(said(text)), header={"id": name})))
    logs, complaints = find_logs([tmp_path])
    assert [] == complaints
    assert [("a", "one"), ("b", "two")] == [(run.run, run.outcome.text) for log in logs for run in fold_log(log)]


def test_a_compressed_log_needs_the_extra(monkeypatch, tmp_path):
    """Without zstandard: the error names the extra, and the file is still taken for what it is."""
    path = tmp_path / "log"
    path.write_bytes(in_frames(log_of()))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    assert looks_like(path.read_bytes())
    for work in (lambda: list(events_of(path)), lambda: tail_of(path)):
        with pytest.raises(MissingExtraError, match=r"lastsay\[zstd\]"):
            work()


def test_lines_may_come_decoded():
    """The normaliser takes objects as well as lines."""
    log = LogNormaliser()
    events = [event for line in log_of(*a_turn(said("x"))).splitlines() for event in log.push(json.loads(line))]
    assert 1 == sum(type(event) is Message for event in events)
    assert [RunEnded] == [type(event) for event in log.close()]
    assert [] == log.close()
