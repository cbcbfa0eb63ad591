"""The Claude normaliser's rules, one by one, on hand-written records."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastsay.backends.claude import Normaliser
from lastsay.events import (
    AttemptAborted,
    EpochStarted,
    Event,
    Fault,
    Message,
    MessageStarted,
    Notice,
    Opaque,
    Reasoning,
    ReasoningDelta,
    RunEnded,
    RunStarted,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    ToolUse,
    Usage,
)

Record = dict[str, Any]


def begin(message: str = "m1") -> Record:
    """A message begins."""
    return stream(
        {"type": "message_start", "message": {"id": message, "usage": {"input_tokens": 7, "output_tokens": 1}}}
    )


def stream(event: Record, **fields: Any) -> Record:
    """One event of the API's stream."""
    return {"type": "stream_event", "event": event, "parent_tool_use_id": None, **fields}


def delta(text: str, kind: str = "text") -> Record:
    """A piece of text or reasoning."""
    return stream({"type": "content_block_delta", "index": 0, "delta": {"type": f"{kind}_delta", kind: text}})


def block_start(kind: str = "text") -> Record:
    """A block begins."""
    return stream({"type": "content_block_start", "index": 0, "content_block": {"type": kind}})


def block_stop() -> Record:
    """A block ends."""
    return stream({"type": "content_block_stop", "index": 0})


def stop(reason: str = "end_turn") -> list[Record]:
    """A message ends."""
    usage = {"input_tokens": 7, "output_tokens": 3}
    return [
        stream({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}),
        stream({"type": "message_stop"}),
    ]


def said(*parts: Any, message: str | None = "m1", **fields: Any) -> Record:
    """An assistant record with these blocks."""
    content = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    inner = {"id": message, "model": "some-model", "content": content}
    return {"type": "assistant", "message": inner, "parent_tool_use_id": None, **fields}


def thought(text: str) -> Record:
    """A reasoning block."""
    return {"type": "thinking", "thinking": text, "signature": ""}


def call(name: str, tool: str = "lookup", **given_input: Any) -> Record:
    """A tool call block."""
    return {"type": "tool_use", "id": name, "name": tool, "input": given_input}


def result_of(name: str, content: Any = "done", **fields: Any) -> Record:
    """A user record with the result of a call."""
    part = {"type": "tool_result", "tool_use_id": name, "content": content}
    return {"type": "user", "message": {"role": "user", "content": [part]}, "parent_tool_use_id": None, **fields}


def ended(**fields: Any) -> Record:
    """A result record."""
    return {"type": "result", "subtype": "success", "is_error": False, "terminal_reason": "completed", **fields}


def system(subtype: str, **fields: Any) -> Record:
    """A system record."""
    return {"type": "system", "subtype": subtype, **fields}


INIT = system("init", model="some-model", claude_code_version="2.1.332")


def events_of(*records: Any, close: bool = True) -> list[Event]:
    """The events of the records, without notices."""
    normaliser = Normaliser()
    events = [event for record in records for event in normaliser.push(record)]
    events += normaliser.close() if close else []
    return [event for event in events if type(event) is not Notice]


def messages(events: list[Event]) -> list[Message]:
    """The messages among the events."""
    return [event for event in events if type(event) is Message]


def last_end(events: list[Event]) -> RunEnded:
    """The last end record."""
    return [event for event in events if type(event) is RunEnded][-1]


# Messages.


def test_blocks_of_one_id_are_one_message() -> None:
    """Records of one message id are merged, also when a tool result lies between."""
    events = events_of(INIT, said("a"), said(call("t1")), result_of("t1"), said(call("t2")), result_of("t2"))
    last = messages(events)[-1]
    assert ("m1", (Text("a"), ToolUse("t1", "lookup", {}), ToolUse("t2", "lookup", {}))) == (last.message, last.content)


def test_a_message_is_emitted_once_when_it_has_one_block() -> None:
    """With deltas on, a message of one block is emitted when it ends, with stop reason and usage."""
    events = events_of(INIT, begin(), block_start(), delta("a"), said("a"), block_stop(), *stop(), ended())
    (message,) = messages(events)
    assert ((Text("a"),), "end_turn") == (message.content, message.stop_reason)
    assert Usage(input_tokens=7, output_tokens=3) == message.usage


def test_a_finished_block_is_not_held_back_by_the_next() -> None:
    """When a message goes on with another block, what is finished is emitted: a cancellation then loses nothing."""
    events = events_of(INIT, begin(), delta("a"), said("a"), block_stop(), block_start("tool_use"), close=False)
    assert [(Text("a"),)] == [message.content for message in messages(events)]


def test_a_call_comes_after_its_message() -> None:
    """The message that holds a call is emitted at once, and the call after it."""
    events = events_of(INIT, begin(), said("a"), said(call("t1", query="x")), close=False)
    assert [Message, ToolCall] == [type(event) for event in events[-2:]]
    assert ToolCall("t1", "lookup", {"query": "x"}) == events[-1]


def test_a_beginning_of_reasoning_is_held_back() -> None:
    """Reasoning alone is not emitted while its message goes on: cancelled then, it would stand for the answer."""
    head = (INIT, begin(), delta("hm", "thinking"), said(thought("hm")), block_stop(), block_start(), delta("a"))
    assert [] == messages(events_of(*head, close=False))
    (whole,) = messages(events_of(*head, said("a"), *stop()))
    assert (Reasoning("hm"), Text("a")) == whole.content
    (cut,) = messages(events_of(*head))
    assert ((Reasoning("hm"), Text("a")), True) == (cut.content, cut.interrupted)


def test_reasoning_alone_is_emitted_when_the_run_goes_on() -> None:
    """Without deltas, held-back reasoning is emitted before the next message, and before the end."""
    events = events_of(
        INIT, said(thought("hm"), message="m1"), said("a", message="m2"), said(thought("x"), message="m3")
    )
    assert [(Reasoning("hm"),), (Text("a"),), (Reasoning("x"),)] == [message.content for message in messages(events)]


def test_a_retried_draft_is_aborted() -> None:
    """Deltas of an attempt that was cut stay under an id that never becomes a message, and the attempt is aborted."""
    events = events_of(
        INIT, begin("m1"), delta("lost"), begin("m2"), delta("kept"), said("kept", message="m2"), *stop()
    )
    assert [AttemptAborted("m1", "superseded")] == [event for event in events if type(event) is AttemptAborted]
    assert ["m2"] == [message.message for message in messages(events)]


def test_api_retry_aborts_the_attempt() -> None:
    """A retry that the CLI announces ends the attempt at once."""
    events = events_of(INIT, begin("m1"), delta("lost"), system("api_retry", attempt=1), close=False)
    assert AttemptAborted("m1", "api_retry") == events[-1]


def test_a_cut_message_with_a_finished_block_is_kept() -> None:
    """A draft with a finished block is a message, when the next one begins without its end."""
    events = events_of(INIT, begin("m1"), said("a"), begin("m2"), said("b", message="m2"), *stop(), ended())
    assert [("m1", (Text("a"),)), ("m2", (Text("b"),))] == [(m.message, m.content) for m in messages(events)]


def test_a_fallback_without_streaming_supersedes_the_draft() -> None:
    """A whole message under another id ends the draft before it."""
    events = events_of(INIT, begin("m1"), delta("lost"), said("whole", message="m2"), ended())
    assert AttemptAborted("m1", "superseded") in events
    assert ["m2"] == [message.message for message in messages(events)]


def test_a_message_without_blocks_is_emitted_empty() -> None:
    """It carries usage and a stop reason."""
    (message,) = messages(events_of(INIT, begin(), *stop(), ended()))
    assert ((), "end_turn", Usage(input_tokens=7, output_tokens=3)) == (
        message.content,
        message.stop_reason,
        message.usage,
    )


def test_empty_texts_are_dropped_and_unknown_blocks_kept() -> None:
    """A zero-length text block carries nothing; a block of another kind is opaque."""
    odd = {"type": "citation", "of": 1}
    (message,) = messages(events_of(INIT, said("", "a", odd, {"type": "text", "text": 5})))
    assert (Text("a"), Opaque("citation", odd), Opaque("text", {"type": "text", "text": 5})) == message.content


def test_usage_of_a_beginning_has_no_output_tokens() -> None:
    """The usage of a block's record is a snapshot from the message's start."""
    record = said("a")
    record["message"]["usage"] = {"input_tokens": 5, "output_tokens": 1, "cache_read_input_tokens": 2}
    (message,) = messages(events_of(INIT, record))
    assert Usage(input_tokens=5, cache_read_tokens=2) == message.usage


def test_cut_tool_json_is_its_raw_text() -> None:
    """A call whose JSON was cut has the text as its input."""
    cut = call("t1", __unparsedToolInput={"raw": '{"query": "x', "len": 12})
    assert ToolCall("t1", "lookup", '{"query": "x') in events_of(INIT, said(cut))


def test_kill_in_mid_message() -> None:
    """Finished blocks and the open block's text are one interrupted message; without a finished block deltas stay."""
    head = (INIT, begin(), block_start(), delta("one "), said("one "), block_stop(), block_start())
    last = messages(events_of(*head, delta("tw"), delta("o")))[-1]
    assert ((Text("one "), Text("two")), True) == (last.content, last.interrupted)
    events = events_of(INIT, begin(), block_start(), delta("alone"))
    assert [] == messages(events)
    assert "error" == last_end(events).stop_reason


def test_reasoning_deltas() -> None:
    """Reasoning is streamed apart from text."""
    events = events_of(INIT, begin(), delta("hm", "thinking"), delta("a"), close=False)
    assert [MessageStarted("m1"), ReasoningDelta("hm", "m1"), TextDelta("a", "m1")] == events[1:]


def test_text_in_a_block_start_is_a_delta() -> None:
    """A block that starts with text loses none of it."""
    start = stream({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "The "}})
    assert TextDelta("The ", "m1") in events_of(INIT, begin(), start)


# What the harness says.


@pytest.mark.parametrize(
    "mark", [{"error": "server_error"}, {"is_api_error_message": True}, {"model": "<synthetic>"}], ids=str
)
def test_synthetic_messages(mark: Record) -> None:
    """What the harness wrote in the model's place is known by each of its marks, and is never output."""
    record = said("API trouble", message="uuid-1", **{k: v for k, v in mark.items() if k != "model"})
    record["message"]["model"] = mark.get("model", "some-model")
    events = events_of(INIT, said("answer"), record, ended())
    assert ["model", "synthetic"] == [message.origin for message in messages(events)]


def test_a_filler_is_no_error() -> None:
    """A synthetic message without an error word does not make the run fail."""
    record = said("No response requested.", message="uuid-1")
    record["message"]["model"] = "<synthetic>"
    assert "completed" == last_end(events_of(INIT, record, ended())).stop_reason


@pytest.mark.parametrize(
    ("fields", "kind", "meta"),
    [
        ({"isSynthetic": True}, "user_message", True),
        ({}, "user_message", True),
        ({"isReplay": True}, "user_message", None),
        ({"origin": {"kind": "task-notification"}}, "woken", None),
        ({"parent_tool_use_id": "t1"}, "user_message", None),
    ],
    ids=["synthetic", "unmarked-root", "replay", "notification", "prompt-of-a-child"],
)
def test_user_text(fields: Record, kind: str, meta: bool | None) -> None:
    """User text is the user's only if it is echoed as such: the CLI does not send its host's words back."""
    record = {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": "x"}]}, **fields}
    normaliser = Normaliser()
    normaliser.push(INIT)
    (notice,) = [event for event in normaliser.push(record) if type(event) is Notice]
    assert (kind, meta) == (notice.kind, notice.raw.get("meta"))


def test_receipts_carry_the_native_record() -> None:
    """All that the function bridge asks of a receipt is in `native`."""
    record = result_of(
        "t1",
        [{"type": "text", "text": "a"}],
        session_id="s",
        tool_use_result=[{"type": "text", "text": "a"}],
        tool_result_meta=[{"id": "t0"}, {"id": "t1", "non_execution_kind": "user-rejected"}],
    )
    (result,) = [event for event in events_of(INIT, record) if type(event) is ToolResult]
    assert (Text("a"),) == result.content
    expected = {
        "content": [{"type": "text", "text": "a"}],
        "is_error": None,
        "isReplay": False,
        "isSynthetic": False,
        "non_execution_kind": "user-rejected",
        "parent_tool_use_id": None,
        "session_id": "s",
        "tool_use_id": "t1",
        "tool_use_result": [{"type": "text", "text": "a"}],
    }
    assert expected == {key: result.native[key] for key in expected}


# Runs.


def test_start_comes_first() -> None:
    """Records before the session's first one are held until the run has started."""
    events = Normaliser().push(system("hook_started"))
    assert [] == events
    normaliser = Normaliser("r", parent="p", agent="a", call="c")
    normaliser.push(system("hook_started"))
    start, held, *_ = normaliser.push(INIT)
    assert RunStarted("p", "a", "claude", "some-model", call="c", run="r") == start
    assert isinstance(held, Notice)
    assert "hook_started" == held.kind


def test_children_by_parent_call() -> None:
    """A record with a parent call belongs to a run of its own, whose parent made the call."""
    child = said("from the child", message="m2", parent_tool_use_id="t1", subagent_type="worker")
    events = events_of(
        INIT, said(call("t1", "Agent")), child, result_of("t1", "report"), said("done", message="m3"), ended()
    )
    start = next(event for event in events if type(event) is RunStarted and event.run == "t1")
    assert ("main", "worker", "t1") == (start.parent, start.agent, start.call)
    ends = [event for event in events if type(event) is RunEnded]
    assert [("t1", "completed"), ("main", "completed")] == [(end.run, end.stop_reason) for end in ends]
    assert ["main", "t1", "main"] == [message.run for message in messages(events)]


@pytest.mark.parametrize("call_comes_first", [True, False])
def test_child_of_a_child(call_comes_first: bool) -> None:
    """A child's child belongs to the child, also when its task is told before its call."""
    task = {"task_id": "a2", "tool_use_id": "t2", "task_type": "local_agent", "spawn_depth": 2, "subagent_type": "deep"}
    pair = [said(call("t2", "Agent"), message="m2", parent_tool_use_id="t1"), system("task_started", **task)]
    inner = said("x", message="m3", parent_tool_use_id="t2")
    events = events_of(INIT, said(call("t1", "Agent")), *(pair if call_comes_first else reversed(pair)), inner)
    starts = [(event.run, event.parent, event.agent) for event in events if type(event) is RunStarted]
    assert [("main", None, None), ("t1", "main", None), ("t2", "t1", "deep")] == starts


def test_child_without_any_record() -> None:
    """A child of which only the result is seen is a run too, with the report as its terminal text."""
    told = {"status": "completed", "agentId": "a1", "content": [{"type": "text", "text": "report"}]}
    agent = call("t1", "Task", subagent_type="worker")
    events = events_of(INIT, said(agent), result_of("t1", "framed", tool_use_result=told), ended())
    end = next(event for event in events if type(event) is RunEnded and event.run == "t1")
    assert ("completed", "report") == (end.stop_reason, end.terminal)
    assert "worker" == next(event for event in events if type(event) is RunStarted and event.run == "t1").agent


def test_background_child() -> None:
    """A launch note does not end a child, and a result does not end the root while the child is open."""
    launched = {"isAsync": True, "status": "async_launched", "agentId": "a1"}
    task = {"task_id": "a1", "tool_use_id": "t1", "task_type": "local_agent", "subagent_type": "worker"}
    head = (
        INIT,
        said(call("t1", "Agent")),
        system("task_started", **task),
        result_of("t1", "note", tool_use_result=launched),
    )
    early = events_of(*head, said("sent", message="m2"), ended(result="sent"), close=False)
    assert not any(type(event) is RunEnded for event in early)
    tail = (
        said("far", message="m3", parent_tool_use_id="t1", agent_id="a1"),
        system("task_updated", task_id="a1", patch={"status": "completed"}),
        system("task_notification", task_id="a1", tool_use_id="t1", status="completed", summary="far"),
        INIT,
        said("it came", message="m4"),
        ended(result="it came"),
    )
    events = events_of(*head, said("sent", message="m2"), ended(result="sent"), *tail)
    ends = [event for event in events if type(event) is RunEnded]
    assert [("t1", "far"), ("main", "it came")] == [(end.run, end.terminal) for end in ends]
    assert not any(type(event) is EpochStarted for event in events)


def test_tasks_are_opened_and_closed_once() -> None:
    """A task that ends by two records is closed once."""
    normaliser = Normaliser()
    records = (
        INIT,
        system("task_started", task_id="b1", task_type="local_bash"),
        system("task_updated", task_id="b1", patch={"status": "killed"}),
        system("task_notification", task_id="b1", status="stopped"),
    )
    notices = [e for record in records for e in normaliser.push(record) if isinstance(e, Notice)]
    assert [("task_started", "b1"), ("task_ended", "b1")] == [(n.kind, n.raw["id"]) for n in notices if "id" in n.raw]


def test_a_busy_session_has_not_ended() -> None:
    """While the CLI says that it is at work, a result is not the end."""
    running, idle = (system("session_state_changed", state=state, sdk_host_only=True) for state in ("running", "idle"))
    head = (running, INIT, said("a"), ended())
    assert not any(type(event) is RunEnded for event in events_of(*head, close=False))
    assert isinstance(events_of(*head, idle, close=False)[-1], RunEnded)
    assert "completed" == last_end(events_of(*head)).stop_reason


def test_another_turn_is_another_epoch() -> None:
    """After its end the root goes on as an epoch of its own; a late second result does not begin one."""
    turn = (INIT, said("one"), ended(result="one"))
    again = (ended(result="again"), INIT, said("two", message="m2"), ended(result="two"))
    events = events_of(*turn, *again)
    kinds = [type(event) for event in events if type(event) in (RunStarted, EpochStarted, RunEnded)]
    assert [RunStarted, RunEnded, EpochStarted, RunEnded] == kinds
    assert "two" == last_end(events).terminal


def test_continued_child() -> None:
    """A task that is started again goes on with its run, as an epoch of its own."""
    launched = {"isAsync": True, "agentId": "a1"}
    task = {"task_id": "a1", "tool_use_id": "t1", "task_type": "local_agent"}
    done = system("task_notification", task_id="a1", tool_use_id="t1", status="completed", summary="x")
    events = events_of(
        INIT,
        said(call("t1", "Agent")),
        system("task_started", **task),
        result_of("t1", "note", tool_use_result=launched),
        done,
        system("task_started", **task),
        said("more", message="m9", parent_tool_use_id="t1", agent_id="a1"),
        done,
    )
    kinds = [type(e) for e in events if e.run == "t1" and type(e) is not Message]
    assert [RunStarted, RunEnded, EpochStarted, RunEnded] == kinds


def test_late_records_of_a_child_are_set_aside() -> None:
    """What comes after a child's end is a notice, and no second run."""
    late = said("late", message="m9", parent_tool_use_id="t1")
    normaliser = Normaliser()
    for record in (INIT, said(call("t1", "Agent")), said("x", parent_tool_use_id="t1", message="m2"), result_of("t1")):
        normaliser.push(record)
    assert [Notice("late_assistant", late, run="t1")] == normaliser.push(late)


def test_children_end_with_an_aborted_root() -> None:
    """A child that is open when its root is aborted is aborted too, and before it."""
    child = said("x", message="m2", parent_tool_use_id="t1")
    events = events_of(INIT, said(call("t1", "Agent")), child, ended(is_error=True, terminal_reason="aborted_tools"))
    ends = [(end.run, end.stop_reason) for end in events if type(end) is RunEnded]
    assert [("t1", "aborted"), ("main", "aborted")] == ends


def test_the_end_of_a_killed_child_process() -> None:
    """Without a result the run is an error of unknown provenance, with the exit and what was on standard error."""
    normaliser = Normaliser()
    normaliser.push(INIT)
    (end,) = normaliser.close(exit_status=-9, detail="out of memory\n")
    assert isinstance(end, RunEnded)
    assert ("error", "SIGKILL", "unknown", -9) == (end.stop_reason, end.raw, end.provenance, end.exit_status)
    assert (end.diagnostic or "").endswith("(SIGKILL): out of memory")


# Odd input.


@pytest.mark.parametrize("raw", [None, 5, "text", b"x", [1], 1.5, True])
def test_no_object(raw: Any) -> None:
    """What is no record is a fault, in its place."""
    normaliser = Normaliser()
    normaliser.push(INIT)
    assert [Fault] == [type(event) for event in normaliser.push(raw)]


FIELDS = (
    "agent_id", "content", "data", "delta", "error", "event", "id", "is_error", "message", "model", "name", "origin",
    "parent_tool_use_id", "patch", "result", "status", "stop_reason", "subtype", "task_id", "task_type", "text",
    "tool_result_meta", "tool_use_id", "tool_use_result", "type", "usage", "isSidechain", "sessionId", "agentId",
)  # fmt: skip
WORDS = (
    "assistant", "user", "system", "result", "stream_event", "init", "task_started", "task_updated",
    "task_notification", "text", "tool_use", "tool_result", "message_start", "content_block_delta", "message_delta",
    "message_stop", "t1", "api_retry", "session_state_changed", "completed",
)  # fmt: skip
leaves = st.sampled_from([None, True, 3, [], {}, [[]], *WORDS])
shallow = st.dictionaries(st.sampled_from(FIELDS), leaves, max_size=4)
parts = st.sampled_from([call("t1", "Agent"), {"type": "text", "text": "a"}, "bare", 5, None]) | shallow
inner = st.dictionaries(st.sampled_from(FIELDS), leaves | shallow | st.lists(parts, max_size=3), max_size=5)
odd_records = st.dictionaries(st.sampled_from(FIELDS), leaves | inner, max_size=6)
sane_records = st.sampled_from([INIT, begin(), delta("a"), said("a"), said(call("t1", "Agent")), *stop(), ended()])


@settings(max_examples=150)
@given(st.lists(odd_records | sane_records, max_size=8))
def test_never_raises(records: list[Record]) -> None:
    """Whatever the records are, nothing is raised, and every run has one start, first, and one end, last."""
    normaliser = Normaliser()
    events = [event for record in records for event in normaliser.push(record)]
    events += normaliser.close()
    for run in {event.run for event in events if type(event) is not Fault}:
        kinds = [type(event) for event in events if event.run == run and type(event) is not Notice]
        assert RunStarted is kinds[0]
        assert RunEnded is kinds[-1]
        assert 1 == kinds.count(RunStarted)
        assert kinds.count(EpochStarted) + 1 == kinds.count(RunEnded)


# The SDK's objects, by the names of its classes.


@dataclass
class TextBlock:
    text: str


@dataclass
class ThinkingBlock:
    thinking: str
    signature: str = ""


@dataclass
class ToolUseBlock:
    id: str
    name: str
    input: dict[str, Any]


@dataclass
class ToolResultBlock:
    tool_use_id: str
    content: Any = None
    is_error: bool | None = None


@dataclass
class AssistantMessage:
    content: list[Any]
    model: str = "some-model"
    parent_tool_use_id: str | None = None
    error: str | None = None
    message_id: str | None = "m1"
    stop_reason: str | None = None
    usage: Any = None


@dataclass
class UserMessage:
    content: Any
    parent_tool_use_id: str | None = None
    tool_use_result: Any = None


@dataclass
class SystemMessage:
    subtype: str
    data: dict[str, Any]


@dataclass
class StreamEvent:
    event: dict[str, Any]
    parent_tool_use_id: str | None = None


@dataclass
class ResultMessage:
    subtype: str = "success"
    is_error: bool = False
    terminal_reason: str | None = "completed"
    result: str | None = "a"
    stop_reason: str | None = "end_turn"


def test_sdk_objects_are_records() -> None:
    """Messages of the SDK give the events of the records that they were made from."""
    tool, answer = ToolUseBlock("t1", "lookup", {"query": "x"}), ToolResultBlock("t1", "done", is_error=True)
    objects = (
        SystemMessage("init", {"model": "some-model"}),
        StreamEvent(begin()["event"]),
        StreamEvent(delta("a")["event"]),
        AssistantMessage([ThinkingBlock("hm")]),
        AssistantMessage([TextBlock("a")]),
        AssistantMessage([tool]),
        StreamEvent(stop()[0]["event"]),
        StreamEvent(stop()[1]["event"]),
        UserMessage([answer], tool_use_result="Error: done"),
        ResultMessage(),
    )
    answered = result_of("t1", "done", tool_use_result="Error: done")
    answered["message"]["content"][0]["is_error"] = True
    records = (
        {"type": "system", "subtype": "init", "model": "some-model"},
        begin(),
        delta("a"),
        said(thought("hm")),
        said("a"),
        said(call("t1", query="x")),
        *stop(),
        answered,
        ended(result="a", stop_reason="end_turn"),
    )
    assert events_of(*records) == events_of(*objects)


def test_unknown_objects_are_kept() -> None:
    """The last end record."""
    """The messages among the events."""
    """A system record."""
    """A result record."""
    """A user record with the result of a call."""
    """A tool call block."""
    """A reasoning block."""
    """An assistant record with these blocks."""
    """A message ends."""
    """A block ends."""
    """A block begins."""
    """A piece of text or reasoning."""
    """One event of the API's stream."""
    """A message begins."""
    """An object of a class that is not known is a notice of its name."""
    normaliser = Normaliser()
    normaliser.push(INIT)
    value = object()
    assert [Notice("object", {"type": "object", "value": value})] == normaliser.push(value)
