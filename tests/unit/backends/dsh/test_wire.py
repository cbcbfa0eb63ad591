"""The SDK protocol as events, judged by the harness's own answers in recorded frames."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastsay.backends.dsh import WireNormaliser
from lastsay.backends.dsh._blocks import blocks_of
from lastsay.events import (
    AttemptAborted,
    EpochStarted,
    Fault,
    Message,
    Notice,
    ReasoningDelta,
    RunEnded,
    RunStarted,
    TextDelta,
    ToolCall,
    ToolResult,
    ToolUse,
    Usage,
)
from lastsay.fold import ANSWER

FIXTURES = Path(__file__).parents[3] / "fixtures" / "dsh"
WIRES = sorted(str(path.relative_to(FIXTURES)) for path in FIXTURES.glob("*/*.wire.jsonl"))


def normalised(frames, **close):
    """All events of the frames, the ends included."""
    wire = WireNormaliser()
    events = [event for frame in frames for event in wire.push(frame)]
    return events + wire.close(**close)


def event_frame(kind, data, session="s", seq=None):
    """A session event as a notification."""
    event = {"type": kind, "time": 1000, "data": data} | ({} if seq is None else {"seq": seq})
    return {"jsonrpc": "2.0", "method": "session.event", "params": {"sessionId": session, "event": event}}


def prompted(*frames, session="s"):
    """The frames after a prompt."""
    params = {"sessionId": session, "contentBlocks": []}
    return [{"jsonrpc": "2.0", "id": "r1", "method": "session/prompt", "params": params}, *frames]


def turn(*frames, reason=None, number=1):
    """The frames inside a turn of one step."""
    at = {"turn": number, "step": 1}
    return [
        event_frame("turn/start", {"turn": number}),
        event_frame("step/start", at),
        *frames,
        event_frame("step/end", at),
        event_frame("turn/end", {"turn": number, "reason": reason or {"kind": "completed"}}),
    ]


@pytest.mark.parametrize("name", WIRES)
def test_each_epoch_of_a_child_has_the_harness_own_output_and_stop_reason(name, frames_of, fold_epochs):
    """Output and stop reason of each child epoch equal `subagent.finished`, which is not shown to the normaliser."""
    frames = frames_of(name)
    oracle, epochs = {}, Counter()
    for frame in frames:
        if frame.get("method") == "subagent.finished":
            params = frame["params"]
            child = params["childSessionId"]
            oracle[child, epochs[child]] = (blocks_of(params.pop("lastAssistantMessage", [])), params.pop("stopReason"))
            epochs[child] += 1
    outcomes = fold_epochs(normalised(frames))
    children = {key: value for key, value in outcomes.items() if key[0] in epochs}
    assert oracle == {key: (value.output or (), value.stop_reason) for key, value in children.items()}


def test_the_recorded_files_hold_enough_epochs_to_judge_by(frames_of):
    """At least 18 child epochs were recorded, a child with two of them in each version that delegates."""
    finished = [
        (name, frame["params"]["childSessionId"])
        for name in WIRES
        for frame in frames_of(name)
        if frame.get("method") == "subagent.finished"
    ]
    assert len(finished) >= 18
    assert {"0.1.5rc1", "0.2.1rc2"} == {name[:8] for (name, _), count in Counter(finished).items() if count == 2}


@pytest.mark.parametrize("name", WIRES)
def test_each_epoch_of_each_run_has_one_start_and_one_end(name, frames_of):
    """Per run: RunStarted, then its events, RunEnded, and a further epoch begins with EpochStarted."""
    open_runs, known = set(), set()
    for event in normalised(frames_of(name)):
        if type(event) is RunStarted:
            assert event.run not in known
            known.add(event.run)
            open_runs.add(event.run)
        elif type(event) is EpochStarted:
            assert event.run in known - open_runs
            open_runs.add(event.run)
        elif type(event) is RunEnded:
            open_runs.remove(event.run)
        else:
            assert event.run in open_runs, event
    assert set() == open_runs


@pytest.mark.parametrize("version", ["0.1.5rc1", "0.2.1rc2"])
def test_parallel_children_are_tied_to_the_calls_that_caused_them(version, frames_of):
    """Four children in parallel: each names the call whose prompt it got."""
    frames = frames_of(f"{version}/parallel.wire.jsonl")
    events = normalised(frames)
    prompts = {
        event.id: event.input["prompt"] for event in events if type(event) is ToolCall and "prompt" in event.input
    }
    children = {event.run: event.call for event in events if type(event) is RunStarted and event.parent}
    got = {
        frame["params"]["sessionId"]: frame["params"]["event"]["data"]["inserted"][0]["content"][0]["text"]
        for frame in frames
        if frame.get("method") == "session.event"
        and frame["params"]["event"]["data"].get("inserted")
        and frame["params"]["sessionId"] in children
    }
    assert 4 == len(children)
    assert got == {child: prompts[call] for child, call in children.items()}


def test_a_retried_call_is_an_aborted_attempt_and_a_policy_may_drop_its_text(frames_of, fold_epochs):
    """Six dropped attempts: the canonical output repeats their text as the harness does, ANSWER has it once."""
    events = normalised(frames_of("0.2.1rc2/retried-child.wire.jsonl"))
    child = next(event.run for event in events if type(event) is RunStarted and event.parent)
    assert 6 == sum(type(event) is AttemptAborted and event.run == child for event in events)
    said = "The harbour opens at six and the ferry leaves at seven."
    assert said * 6 == fold_epochs(events)[child, 0].text
    assert said == fold_epochs(events, ANSWER)[child, 0].text


def test_pieces_stream_while_they_come_in_generation_a_under_a_draft_id(frames_of):
    """Generation A: deltas come before their message is known, and the message keeps the draft's id."""
    events = [
        event for event in normalised(frames_of("0.1.1rc1/text.wire.jsonl")) if type(event) in (TextDelta, Message)
    ]
    assert ["1.1#1"] == sorted({event.message for event in events})
    assert Message is type(events[-1])


def test_embedded_streams_are_expanded_before_their_message(frames_of):
    """Generations B and C: reasoning and text pieces precede the message, under its own id."""
    events = normalised(frames_of("0.2.1rc2/two-epochs.wire.jsonl"))
    first = next(index for index, event in enumerate(events) if type(event) is Message)
    pieces = [event for event in events[:first] if type(event) in (TextDelta, ReasoningDelta)]
    assert {events[first].message} == {event.message for event in pieces}
    assert "".join(b.text for b in events[first].content) == "".join(event.text for event in pieces)


def test_what_still_runs_at_a_shutdown_is_aborted(frames_of, fold_epochs):
    """A shutdown in mid-stream is this protocol's cancel: aborted, recovered."""
    outcome = fold_epochs(normalised(frames_of("0.2.1rc2/cancelled.wire.jsonl")))["main", 0]
    assert ("aborted", "recovered") == (outcome.stop_reason, outcome.provenance)


def test_a_killed_process_leaves_an_error_with_its_exit_status(frames_of, fold_epochs):
    """The wire ends inside a turn: error, unknown, with a diagnostic."""
    events = normalised(frames_of("0.2.1rc2/killed.wire.jsonl"), exit_status=-9)
    outcome = fold_epochs(events)["main", 0]
    assert ("error", "unknown", -9) == (outcome.stop_reason, outcome.provenance, events[-1].exit_status)
    assert "inside a turn" in outcome.diagnostic


def test_status_ok_with_max_tokens_is_a_truncation(frames_of, fold_epochs):
    """The harness calls a child cut at its token limit ok; its stop reason is max-tokens all the same."""
    frames = frames_of("0.2.1rc2/parallel.wire.jsonl")
    called_ok = {
        frame["params"]["childSessionId"]
        for frame in frames
        if frame.get("method") == "subagent.finished"
        and (frame["params"]["status"], frame["params"]["stopReason"]) == ("ok", "max-tokens")
    }
    assert called_ok
    outcomes = fold_epochs(normalised(frames))
    assert {"max-tokens"} == {outcomes[child, 0].stop_reason for child in called_ok}


def test_an_empty_text_block_counts_as_content(fold_epochs):
    """The harness's rule tests the length of the list: a zero-length block hides earlier text."""
    message = {"turn": 1, "step": 1, "message": {"id": "m", "content": [{"type": "text", "text": ""}]}}
    outcome = fold_epochs(normalised(prompted(*turn(event_frame("assistant/message", message)))))["main", 0]
    assert ("", "message") == (outcome.text, outcome.source)


def test_a_cut_tool_call_keeps_its_raw_arguments():
    """Arguments that do not decode stay text."""
    blocks = [{"type": "tool-call", "id": "c", "name": "bash", "arguments": '{"command": "ec'}]
    assert (ToolUse("c", "bash", '{"command": "ec'),) == blocks_of(blocks)


@pytest.mark.parametrize("wrapped", [True, False], ids=["A and B", "C"])
def test_a_tool_result_is_read_in_both_shapes(wrapped):
    """Wrapped in a block of a user message, or on a message of its own role."""
    inner = {"toolCallId": "c", "content": [{"type": "text", "text": "out"}], "isError": True}
    message = {"role": "user", "content": [{"type": "tool-result", **inner}]} if wrapped else {"role": "tool", **inner}
    events = normalised(prompted(event_frame("tool/result", {"turn": 1, "step": 1, "message": message})))
    result = next(event for event in events if type(event) is ToolResult)
    assert ("c", "out", True) == (result.id, result.content[0].text, result.is_error)


def test_usage_of_a_message_and_of_an_attempt_is_kept(fold_epochs):
    """Counts are disjoint and belong to their model call; an aborted call was paid for too."""
    usage = {"inputTokens": 7, "outputTokens": 3, "cacheReadTokens": 2}
    message = {"turn": 1, "step": 1, "message": {"id": "m", "content": []}, "usage": usage}
    attempt = {
        "turn": 1,
        "step": 1,
        "stream": [{"type": "chunk", "time": 1, "chunk": {"type": "usage", "usage": usage}}],
    }
    frames = prompted(*turn(event_frame("assistant/attempt", attempt), event_frame("assistant/message", message)))
    assert Usage(14, 6, 4) == fold_epochs(normalised(frames))["main", 0].usage


def test_a_prompt_that_finds_the_session_idle_begins_an_epoch(fold_epochs):
    """Two prompts, one after the other: two epochs, each with its own output."""

    def said(number, text):
        message = {
            "turn": number,
            "step": 1,
            "message": {"id": f"m{number}", "content": [{"type": "text", "text": text}]},
        }
        return turn(event_frame("assistant/message", message), number=number)

    outcomes = fold_epochs(normalised([*prompted(*said(1, "one")), *prompted(*said(2, "two"))]))
    assert {("main", 0): "one", ("main", 1): "two"} == {key: outcome.text for key, outcome in outcomes.items()}


def test_a_refused_prompt_ends_the_run_in_error(fold_epochs):
    """An error instead of a receipt: error, with what the harness said."""
    answer = {"jsonrpc": "2.0", "id": "r1", "error": {"code": -32603, "message": "no such session"}}
    outcome = fold_epochs(normalised(prompted(answer)))["main", 0]
    assert ("error", "session/prompt: no such session") == (outcome.stop_reason, outcome.diagnostic)


def test_a_repeated_record_is_dropped_by_its_number():
    """A record that was seen gives nothing: a log may be read after the wire."""
    message = {"turn": 1, "step": 1, "message": {"id": "m", "content": [{"type": "text", "text": "x"}]}}
    frame = event_frame("assistant/message", message, seq=5)
    events = normalised(prompted(frame, frame))
    assert 1 == sum(type(event) is Message for event in events)


def test_a_packed_row_that_was_half_seen_gives_the_rest():
    """Generation A, cut in mid-run: the wire had the first pieces, the log's row holds all of them."""
    wire = WireNormaliser()
    chunk = {"turn": 1, "step": 1, "chunk": {"type": "text-delta", "index": 0, "text": "a"}}
    wire.push(event_frame("assistant/chunk", chunk, seq=9))
    row = {"turn": 1, "step": 1, "index": 0, "dt": [1, 1], "texts": ["a", "b", "c"]}
    assert ["b", "c"] == [event.text for event in wire.push_record("s", "text-chunks", row, 9, None)]
    assert [] == wire.push_record("s", "text-chunks", row, 9, None)


def test_bookkeeping_after_an_end_waits_for_the_next_epoch():
    """What comes late is not lost, and does not follow the end."""
    wire = WireNormaliser()
    for frame in prompted(*turn()):
        wire.push(frame)
    assert RunEnded is type(wire.settle("s")[-1])
    assert [] == wire.push(event_frame("session/title", {"title": "t"}))
    assert [EpochStarted(1), "session/title"] == [
        event.kind if type(event) is Notice else event for event in wire.push(prompted()[0])
    ]


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (b"not json", "invalid_json"),
        (b"42", "not_an_object"),
        ([1], "not_an_object"),
        (event_frame("assistant/message", {"message": 3}), "invalid_event"),
        (event_frame("turn/end", {}), "invalid_event"),
        ({"method": "session.event", "params": {"sessionId": "s", "event": 1}}, "invalid_event"),
        ({"method": "subagent.finished", "params": {"childSessionId": "c"}}, None),
        ({"id": "zz", "result": {}}, None),
        ({"method": "never/heard"}, None),
        ({"id": 1, "method": "client/ask"}, None),
    ],
)
def test_an_odd_frame_is_a_fault_or_a_notice(frame, kind):
    """Broken is named, unknown is kept, nothing is raised."""
    events = WireNormaliser().push(frame)
    faults = [event.kind for event in events if type(event) is Fault]
    assert ([] if kind is None else [kind]) == faults
    assert events


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
KEYS = (
    "turn",
    "step",
    "message",
    "content",
    "stream",
    "chunk",
    "reason",
    "inserted",
    "source",
    "texts",
    "usage",
    "args",
)
KINDS = (
    "assistant/message", "assistant/attempt", "assistant/chunk", "turn/start", "turn/end", "step/start", "tool/call",
    "tool/result", "user/message", "agent/inbox/spliced", "job/settled", "text-chunks", "tool-call-chunks", "x/y",
)  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from(KINDS), JSON | st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4))))
def test_no_payload_is_ever_raised(records):
    """Any JSON under any type gives events, and one start and one end of the run."""
    events = normalised([event_frame(kind, data, seq=index) for index, (kind, data) in enumerate(records)])
    counts = Counter(type(event) for event in events)
    assert counts[RunStarted] == min(1, len(records))
    assert counts[RunEnded] == counts[RunStarted] + counts[EpochStarted]


@pytest.mark.parametrize("first", ["status", "finished", "record", "again", "close"])
def test_a_child_whose_cause_is_not_told_yet_starts_before_anything_of_it(first):
    """Two open calls, and no prompt to tell by: whatever comes of the child first, its start comes before."""
    wire = WireNormaliser()
    for name in ("a", "b"):
        call = {"callId": name, "name": "subagent", "arguments": json.dumps({"prompt": name})}
        wire.push(event_frame("tool/call", call))
    child = {"childSessionId": "c", "parentSessionId": "s"}
    assert [] == wire.push({"method": "subagent.started", "params": child})
    frames = {
        "status": {"method": "session.status", "params": {"sessionId": "c", "status": "running"}},
        "finished": {"method": "subagent.finished", "params": {**child, "stopReason": "aborted"}},
        "again": {"method": "subagent.started", "params": child},
    }
    events = wire.push(frames[first]) if first in frames else []
    if first == "record":
        events = wire.push_record("c", "turn/start", {"turn": 1}, 0, None)
    events += wire.close()
    of_child = [event for event in events if event.run == "c"]
    assert RunStarted(parent="main", backend="dsh", run="c") == of_child[0]
    assert RunEnded is type(of_child[-1])
    assert 1 == sum(type(event) is RunStarted for event in of_child)


def test_closing_twice_gives_nothing_more():
    """Close is idempotent."""
    wire = WireNormaliser()
    wire.push(json.dumps(prompted()[0]).encode())
    assert [RunEnded] == [type(event) for event in wire.close()]
    assert [] == wire.close()
