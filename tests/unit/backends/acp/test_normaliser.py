"""The ACP normaliser: frames in, events out."""

import itertools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastsay.backends.acp import Normaliser
from lastsay.backends.acp._content import usage_of
from lastsay.backends.acp._frames import decode_line
from lastsay.backends.acp._recovery import AGENTS, STOP_REASONS, STOP_RULES, agent_named, end_of
from lastsay.events import (
    MAIN,
    AttemptAborted,
    EpochStarted,
    Event,
    Fault,
    Image,
    Message,
    MessageRetracted,
    MessageStarted,
    Notice,
    Opaque,
    ReasoningDelta,
    RunEnded,
    RunStarted,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    Usage,
    UsageReported,
)


def update(kind: str, /, session: str = "s", **fields: Any) -> dict[str, Any]:
    """An update of a session."""
    return {"method": "session/update", "params": {"sessionId": session, "update": {"sessionUpdate": kind, **fields}}}


def chunk(text: str, message: str | None = None, **more: Any) -> dict[str, Any]:
    """A piece of text."""
    ids = {} if message is None else {"messageId": message}
    return update("agent_message_chunk", content={"type": "text", "text": text}, **ids, **more)


def answer(**result: Any) -> dict[str, Any]:
    """The answer to the prompt."""
    return {"id": 3, "result": result}


def opening(name: str = "agent", version: int = 1, **capabilities: Any) -> list[dict[str, Any]]:
    """The agent's answers before the prompt."""
    info = {"name": name, "version": "1"}
    return [
        {"id": 1, "result": {"protocolVersion": version, "agentInfo": info, "agentCapabilities": capabilities}},
        {"id": 2, "result": {"sessionId": "s"}},
    ]


ASKED = (
    {"id": 1, "method": "initialize"},
    {"id": 2, "method": "session/new"},
    {"id": 3, "method": "session/prompt"},
)


def events_of(frames: Iterable[Any], *, asked: bool = True) -> list[Event]:
    """All events of a run."""
    normaliser = Normaliser()
    if asked:
        for frame in ASKED:
            normaliser.sent(frame)
    out: list[Event] = []
    for frame in frames:
        out += normaliser.push(frame)
    return out + normaliser.close()


def of_class(events: list[Event], *classes: type[Event]) -> list[Event]:
    """The events of these classes."""
    return [event for event in events if type(event) in classes]


END = answer(stopReason="end_turn")


def test_a_plain_turn() -> None:
    """A start with the agent's name, the message's draft, the message, the end."""
    seen = events_of([*opening("small"), chunk("Hello ", "m"), chunk("there.", "m"), END])
    assert seen == [
        RunStarted(agent="small", backend="acp"),
        Notice("agent_info", {"name": "small", "version": "1"}),
        MessageStarted("m"),
        TextDelta("Hello ", "m"),
        TextDelta("there.", "m"),
        Message((Text("Hello there."),), "m"),
        RunEnded("completed", raw="end_turn"),
    ]


def test_a_log_of_the_agents_side_alone_can_be_read() -> None:
    """Answers are told by their shape where our side is not known."""
    frames = [*opening("small"), chunk("Hello.", "m"), END]
    assert events_of(frames) == events_of(frames, asked=False)
    refused = events_of([chunk("Hello.", "m"), {"id": 3, "error": {"code": -32603, "message": "no"}}], asked=False)
    assert refused[-1] == RunEnded("error", raw="-32603", diagnostic="no; code -32603")


def test_nothing_gives_nothing() -> None:
    """A normaliser that was fed nothing has no run to end."""
    assert Normaliser().close() == []


def test_what_comes_before_the_session_is_told_after_the_start() -> None:
    """In order, with the faults."""
    first, second = opening()
    seen = events_of([first, chunk("Early.", "m"), b"oops", second, END])
    assert [type(event) for event in seen] == [
        RunStarted, Notice, MessageStarted, TextDelta, Fault, Message, RunEnded,
    ]  # fmt: skip


def test_a_lost_agent_ends_the_run_once() -> None:
    """With its exit status; and what comes after the end is dropped."""
    normaliser = Normaliser(session="s")
    normaliser.push(chunk("Half", "m"))
    normaliser.lost(exit_status=1)
    ended = normaliser.close()
    assert ended[0] == Message((Text("Half"),), "m")
    diagnostic = "the agent ended with exit status 1 before it answered the prompt"
    assert ended[1] == RunEnded("error", provenance="unknown", diagnostic=diagnostic, exit_status=1)
    assert normaliser.push(chunk("late", "m")) == normaliser.push_lines([(1, b"{}")]) == normaliser.close() == []


def test_an_exit_after_the_answer_changes_nothing() -> None:
    """The status of an agent that has answered is its own affair."""
    normaliser = Normaliser(session="s")
    normaliser.sent(ASKED[2])
    normaliser.push(END)
    normaliser.lost(exit_status=1)
    assert normaliser.close() == [RunEnded("completed", raw="end_turn")]


@pytest.mark.parametrize("raw", sorted(STOP_REASONS))
def test_the_protocols_stop_reasons(raw: str) -> None:
    """Each is mapped, and kept as it came."""
    assert events_of([*opening(), answer(stopReason=raw)])[-1] == RunEnded(STOP_REASONS[raw], raw=raw)


def test_an_unknown_stop_reason_passes_through() -> None:
    """It keeps its name, and is a failure."""
    assert events_of([*opening(), answer(stopReason="tired")])[-1] == RunEnded("tired", raw="tired")


@pytest.mark.parametrize("rule", STOP_RULES, ids=lambda rule: rule.agent)
def test_recovery_rules(rule: Any) -> None:
    """Each rule of the table fires for its agent, and for no other."""
    value: Any = rule.value
    for key in reversed(rule.path):
        value = {key: value}
    value.setdefault("result", {}).setdefault("stopReason", "end_turn")
    end = end_of(value, agent_named(f"the-{rule.agent}-agent"), cancelling=False)
    assert (rule.stop, "recovered") == (end.stop_reason, end.provenance)
    assert end_of(value, agent_named("other"), cancelling=False).provenance == "reported"


def test_every_rule_names_an_agent_of_the_table() -> None:
    """And every row says where it was seen."""
    assert {rule.agent for rule in STOP_RULES} <= {agent.name for agent in AGENTS}
    assert all(row.seen for row in (*STOP_RULES, *AGENTS))


def test_the_documented_tables_are_the_data() -> None:
    """Each word of the protocol, and each rule, has its row on the page."""
    page = Path(__file__).parents[4] / "docs" / "backends" / "acp.md"
    rows = [line for line in page.read_text().splitlines() if line.startswith("|")]
    for raw, stop in STOP_REASONS.items():
        assert [row for row in rows if row.startswith(f"| `{raw}` | `{stop}` |")]
    for rule in STOP_RULES:
        assert [row for row in rows if f"`{rule.value}` | `{rule.stop}`" in row]


def test_claude_at_its_token_limit() -> None:
    """The error's kind says max tokens; the harness's own message beside it is not output."""
    error = {"code": -32603, "message": "API Error", "data": {"errorKind": "max_output_tokens"}}
    seen = events_of(
        [
            *opening("@agentclientprotocol/claude-agent-acp"),
            chunk("The answer is", "msg_01"),
            chunk("API Error: too long", "0b0e5d1c-8f6a-4a51-9f5e-2f6f0d9f9f10"),
            {"id": 3, "error": error},
        ]
    )
    assert seen[-1] == RunEnded(
        "max-tokens",
        raw="max_output_tokens",
        provenance="recovered",
        diagnostic="API Error; max_output_tokens; code -32603",
    )
    messages = of_class(seen, Message)
    assert [m.origin for m in messages if isinstance(m, Message)] == ["model", "synthetic"]
    assert [TextDelta("The answer is", "msg_01")] == of_class(seen, TextDelta)


def test_codex_status_in_an_earlier_update() -> None:
    """The thread's status may come with a session's update before the answer."""
    status = {"codex": {"threadStatus": {"type": "systemError"}}}
    seen = events_of([*opening("codex-acp"), update("session_info_update", _meta=status), END])
    assert seen[-1] == RunEnded("error", raw="end_turn", provenance="recovered")


def test_an_end_turn_that_may_mean_anything_is_a_guess() -> None:
    """Gemini says end_turn for truncation and refusal too."""
    assert events_of([*opening("gemini-cli"), END])[-1] == RunEnded("completed", raw="end_turn", provenance="unknown")


@pytest.mark.parametrize(
    ("frame", "provenance"),
    [(END, "recovered"), ({"id": 3, "error": {"code": 1}}, "recovered"), (answer(stopReason="cancelled"), "reported")],
)
def test_our_cancellation_wins(frame: Any, provenance: str) -> None:
    """Whatever an agent answers to a cancellation, the run was aborted, and the open message was cut."""
    normaliser = Normaliser(session="s")
    normaliser.sent(ASKED[2])
    normaliser.push(chunk("Half", "m"))
    normaliser.sent({"method": "session/cancel"})
    normaliser.push(frame)
    message, ended = normaliser.close()
    assert message == Message((Text("Half"),), "m", interrupted=True)
    assert isinstance(ended, RunEnded)
    assert ("aborted", provenance) == (ended.stop_reason, ended.provenance)


def test_a_cancelled_request_is_aborted() -> None:
    """The protocol's error code for it is a stop reason."""
    assert end_of({"error": {"code": -32800}}, agent_named(None), cancelling=False).stop_reason == "aborted"


def test_text_without_an_id_is_the_harnesss_where_the_agent_is_known_to_send_ids() -> None:
    """It is a notice from the first word on."""
    seen = events_of([*opening("codex-acp"), chunk("Heads up."), chunk("Hello.", "m"), END])
    assert Message((Text("Heads up."),), origin="notice") in seen
    assert not of_class(seen, AttemptAborted)


def test_text_without_an_id_is_taken_back_when_ids_come() -> None:
    """An unknown agent's first text was taken for its answer."""
    seen = events_of([*opening(), chunk("Heads up."), chunk("Hello.", "m"), chunk("Note."), END])
    assert [type(event) for event in seen[2:5]] == [TextDelta, AttemptAborted, MessageStarted]
    assert Message((Text("Note."),), origin="notice") in seen


def test_informational_text_is_a_notice() -> None:
    """claude-agent-acp marks its warnings."""
    seen = events_of([*opening(), chunk("Careful.", _meta={"claudeCode": {"kind": "informational"}}), END])
    assert Message((Text("Careful."),), origin="notice") in seen
    assert not of_class(seen, TextDelta)


def test_a_message_goes_on_after_it_was_told() -> None:
    """It is told again, whole, which replaces the first."""
    tool = update("tool_call", toolCallId="c", title="T", status="in_progress")
    seen = events_of([*opening(), chunk("One ", "m"), tool, chunk("two.", "m"), END])
    assert [Message((Text("One "),), "m"), Message((Text("One two."),), "m")] == of_class(seen, Message)


def test_an_image_is_part_of_its_message() -> None:
    """And a block of an unknown type is kept in its place."""
    image = update(
        "agent_message_chunk", content={"type": "image", "data": "QQ==", "mimeType": "image/png"}, messageId="m"
    )
    odd = update("agent_message_chunk", content={"type": "hologram"}, messageId="m")
    seen = events_of([*opening(), chunk("See ", "m"), image, odd, chunk("there.", "m"), END])
    content = (Text("See "), Image("QQ==", "image/png"), Opaque("hologram", {"type": "hologram"}), Text("there."))
    assert [Message(content, "m")] == of_class(seen, Message)


def test_an_image_on_a_wire_without_ids_is_a_notice() -> None:
    """Such a wire has text only."""
    image = {"type": "image", "data": "QQ=="}
    assert Notice("content", image) in events_of([*opening(), update("agent_message_chunk", content=image), END])


def test_empty_pieces_carry_nothing() -> None:
    """Claude 0.49 opens every block with one."""
    assert not of_class(events_of([*opening(), chunk("", "m"), chunk(""), END]), TextDelta, Message, MessageStarted)


def test_reasoning_is_told_apart() -> None:
    """It is never part of a message."""
    seen = events_of(
        [*opening(), update("agent_thought_chunk", content={"type": "text", "text": "Hm."}, messageId="t"), END]
    )
    assert [ReasoningDelta("Hm.", "t")] == of_class(seen, ReasoningDelta, Message)


def test_a_retry_begins_the_message_anew() -> None:
    """The text of the first attempt is dropped, under the same id."""
    retrying = {"method": "_session/retrying", "params": {"sessionId": "s"}}
    seen = events_of([*opening(), chunk("Wro", "m"), retrying, chunk("Right.", "m"), END])
    assert [AttemptAborted("m", "retry"), Message((Text("Right."),), "m")] == of_class(seen, AttemptAborted, Message)


def test_user_messages_are_told_once() -> None:
    """Whatever number of pieces they come in."""
    piece = update("user_message_chunk", content={"type": "text", "text": "Hi"}, messageId="u")
    seen = events_of([*opening(), piece, piece, chunk("Hello.", "m"), piece, END])
    assert [e.kind for e in of_class(seen, Notice) if isinstance(e, Notice)] == [
        "agent_info",
        "user_message",
        "user_message",
    ]


def test_a_tool_call_is_told_with_its_input() -> None:
    """It is held until the input is there; the result has the content without its wrapping."""
    content = [{"type": "content", "content": {"type": "text", "text": "ok"}}, {"type": "diff", "path": "a"}]
    done = {"toolCallId": "c", "status": "completed", "content": content}
    seen = events_of(
        [
            *opening(),
            update("tool_call", toolCallId="c", title="Write a", name="write", status="pending", rawInput={}),
            update("tool_call_update", toolCallId="c", rawInput={"path": "a"}),
            update("tool_call_update", **done),
            update("tool_call_update", **done),
            END,
        ]
    )
    blocks = (Text("ok"), Opaque("diff", {"type": "diff", "path": "a"}))
    native = {"sessionUpdate": "tool_call_update", **done}
    expected = [ToolCall("c", "write", {"path": "a"}), ToolResult("c", blocks, is_error=False, native=native)]
    assert expected == of_class(seen, ToolCall, ToolResult)
    assert Notice("tool_call_update", native) in seen


def test_a_cut_tool_call_is_told_at_the_end() -> None:
    """A call that never ran is an open call."""
    seen = events_of([*opening(), update("tool_call", toolCallId="c", title="T", status="pending"), END])
    assert [ToolCall("c", "T"), RunEnded("completed", raw="end_turn")] == seen[-2:]


def test_a_failed_tool_call() -> None:
    """Its output may stand under raw output alone."""
    seen = events_of(
        [*opening(), update("tool_call", toolCallId="c", kind="read", status="failed", rawOutput="gone"), END]
    )
    (result,) = of_class(seen, ToolResult)
    assert isinstance(result, ToolResult)
    assert ((Text("gone"),), True) == (result.content, result.is_error)


def test_output_outside_the_content() -> None:
    """Codex sends it in pieces under `_meta`."""
    pieces = [{"terminal_output_delta": {"terminal_id": "t", "data": data}} for data in ("a\n", "b\n")]
    frames = [update("tool_call_update", toolCallId="c", status="in_progress", _meta=meta) for meta in pieces]
    seen = events_of([*opening(), *frames, update("tool_call_update", toolCallId="c", status="completed"), END])
    (result,) = of_class(seen, ToolResult)
    assert isinstance(result, ToolResult)
    assert (Text("a\nb\n"),) == result.content


def test_content_pieces_of_a_tool_call() -> None:
    """Protocol 2 appends them."""
    piece = {"type": "content", "content": {"type": "text", "text": "x"}}
    frames = [
        update("tool_call_update", toolCallId="c", title="T"),
        update("tool_call_content_chunk", toolCallId="c", content=piece),
        update("tool_call_content_chunk", toolCallId="other", content=piece),
        update("tool_call_update", toolCallId="c", status="completed"),
    ]
    seen = events_of([*opening(), *frames, END])
    (result,) = of_class(seen, ToolResult)
    assert isinstance(result, ToolResult)
    assert (Text("x"),) == result.content
    assert "tool_call_content_chunk" in [e.kind for e in seen if isinstance(e, Notice)]


def test_a_subagents_call_without_its_session_is_kept_aside() -> None:
    """It is not the parent's own."""
    meta = {"claudeCode": {"parentToolUseId": "toolu_1"}}
    seen = events_of([*opening(), update("tool_call", toolCallId="c", title="T", status="completed", _meta=meta), END])
    assert not of_class(seen, ToolCall, ToolResult)


def test_usage_is_the_runs_or_the_last_calls() -> None:
    """Opencode counts its last model call only; cached tokens are taken out of the input where they are in it."""
    usage = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15, "cachedReadTokens": 4}
    done = answer(stopReason="end_turn", usage=usage)
    counted = Usage(6, 5, 4)
    assert [UsageReported(counted)] == of_class(events_of([*opening(), chunk("x", "m"), done]), UsageReported)
    assert [UsageReported(counted, "m")] == of_class(
        events_of([*opening("OpenCode"), chunk("x", "m"), done]), UsageReported
    )
    assert usage_of({**usage, "totalTokens": 19}) == Usage(10, 5, 4)
    assert usage_of({"inputTokens": True}) is None


def subagent(state: Any, **fields: Any) -> dict[str, Any]:
    """News of the child session, on its parent's."""
    news = {"sessionUpdate": "subagent_update", "sessionId": "child", "state": state, **fields}
    return {"method": "session/update", "params": {"sessionId": "s", "update": news}}


def test_child_sessions_are_runs() -> None:
    """With a parent, an end, and an epoch for each time that they go on."""
    text = {"type": "text", "text": "Found."}
    words = update("agent_message_chunk", "child", content=text, messageId="c")
    seen = events_of(
        [
            *opening(),
            subagent(None, title="helper", _meta={"vendor": {"parentToolCallId": "call"}}),
            subagent({"state": "running"}),
            words,
            subagent({"state": "idle", "stopReason": "max_tokens"}),
            subagent({"state": "running"}),
            subagent("failed"),
            END,
        ]
    )
    child = [event for event in seen if event.run == "child"]
    assert child == [
        RunStarted(run="child", parent=MAIN, agent="helper", backend="acp", call="call"),
        MessageStarted("c", run="child"),
        TextDelta("Found.", "c", run="child"),
        Message((Text("Found."),), "c", run="child"),
        RunEnded("max-tokens", raw="max_tokens", run="child"),
        EpochStarted(1, run="child"),
        RunEnded("error", raw="failed", run="child"),
    ]


def test_what_comes_for_a_child_after_its_end_is_kept_aside() -> None:
    """Nothing of a run comes after its end; the root has a notice of it."""
    text = {"type": "text", "text": "x"}
    late = [
        update("agent_message_chunk", "child", content=text, messageId="c"),
        update("agent_thought_chunk", "child", content=text),
        update("plan", "child"),
        {"method": "_session/retrying", "params": {"sessionId": "child"}},
        {
            "id": "p",
            "method": "session/request_permission",
            "params": {"sessionId": "child", "toolCall": {"toolCallId": "t"}},
        },
    ]
    done = subagent({"state": "idle", "stopReason": "end_turn"})
    seen = events_of([*opening(), subagent({"state": "running"}), done, *late, END])
    assert isinstance([event for event in seen if event.run == "child"][-1], RunEnded)
    kinds = [event.kind for event in seen if isinstance(event, Notice) and event.run == MAIN]
    assert kinds[-4:] == ["late_update", "late_update", "late_update", "permission_request"]
    frames = [*opening(), subagent({"state": "running"}), done, *late, END]
    assert seen == events_of([json.dumps(frame).encode() for frame in frames])


def test_news_about_the_session_itself_starts_no_child() -> None:
    """It is kept as it came."""
    news = update("subagent_update", state={"state": "running"})
    news["params"]["update"]["sessionId"] = "s"
    assert len(of_class(events_of([*opening(), news, END]), RunStarted)) == 1


def test_a_child_may_be_ended_by_its_own_state() -> None:
    """Protocol 2 sends it on the child's session."""
    idle = update("state_update", "child", state="idle", stopReason="refusal")
    seen = events_of([*opening(), subagent({"state": "running"}), idle, END])
    assert RunEnded("refusal", raw="refusal", run="child") in seen


def test_an_older_draft_of_child_sessions() -> None:
    """Its words differ, and it has a name in place of the title."""
    seen = events_of(
        [
            *opening(),
            update("subagent_spawned", subagentSessionId="child", name="helper", task="Look."),
            update("subagent_state_update", subagentSessionId="child", state="completed"),
            END,
        ]
    )
    child = [event for event in seen if event.run == "child"]
    assert child == [
        RunStarted(run="child", parent=MAIN, agent="helper", backend="acp"),
        RunEnded("completed", raw="completed", run="child"),
    ]


def test_a_childs_child_has_the_child_as_parent() -> None:
    """The parent is the session on which the news came."""
    deeper = update("subagent_update", "child", state={"state": "running"})
    deeper["params"]["update"]["sessionId"] = "deeper"
    seen = events_of([*opening(), subagent({"state": "running"}), deeper, END])
    parents = [(event.run, event.parent) for event in seen if isinstance(event, RunStarted)]
    assert parents == [(MAIN, None), ("child", MAIN), ("deeper", "child")]
    assert ["deeper", "child", MAIN] == [event.run for event in seen if isinstance(event, RunEnded)]


def test_a_child_that_runs_when_its_parent_ends_is_aborted() -> None:
    """Its end comes first, and says why."""
    seen = events_of([*opening(), subagent({"state": "running"}), END])
    child = RunEnded("aborted", provenance="recovered", diagnostic="the parent ended first", run="child")
    assert [child, RunEnded("completed", raw="end_turn")] == seen[-2:]


def test_text_of_a_child_may_come_before_its_announcement() -> None:
    """An agent that has child sessions is believed when it names one."""
    early = update("agent_message_chunk", "child", content={"type": "text", "text": "x"}, messageId="c")
    seen = events_of([*opening(subagents={}), early, subagent({"state": "idle", "stopReason": "end_turn"}), END])
    assert [e.run for e in of_class(seen, RunStarted)] == [MAIN, "child"]


def test_an_agent_without_child_sessions_has_one_session() -> None:
    """Text under another id is its answer all the same."""
    odd = update("agent_message_chunk", "S", content={"type": "text", "text": "x"}, messageId="m")
    assert TextDelta("x", "m") in events_of([*opening(), odd, END])


def second(*frames: Any) -> list[Event]:
    """A turn under protocol 2."""
    info = {"name": "agent"}
    first = {"id": 1, "result": {"protocolVersion": 2, "info": info, "capabilities": {"session": {}}}}
    return events_of([first, opening()[1], {"id": 3, "result": {}}, *frames])


def whole(content: Any) -> dict[str, Any]:
    """A whole message."""
    return update("agent_message", messageId="m", content=content)


def test_whole_messages_replace_and_clear() -> None:
    """The answer to the prompt is no end; idle is."""
    text = [{"type": "text", "text": "A"}]
    seen = second(
        update("state_update", state="running"),
        whole(text),
        update("agent_message", messageId="m"),
        chunk("B", "m"),
        whole([]),
        whole(text),
        update("state_update", state="idle", stopReason="end_turn"),
    )
    assert [
        Message((Text("A"),), "m"),
        MessageRetracted("m", "cleared"),
        Message((Text("A"),), "m"),
        RunEnded("completed", raw="end_turn"),
    ] == of_class(seen, Message, MessageRetracted, RunEnded)


def test_idle_before_any_work_ends_nothing() -> None:
    """And idle with a claude error is recovered from its kind."""
    failed = {"message": "API Error", "data": {"errorKind": "max_output_tokens"}}
    seen = second(
        update("state_update", state="idle"),
        update("state_update", state="running"),
        update("state_update", state="idle", stopReason="error", error=failed),
    )
    assert [RunEnded] == [type(event) for event in of_class(seen, RunEnded)]
    assert isinstance(seen[-1], RunEnded)
    assert seen[-1].raw == "max_output_tokens"


def test_a_permission_request_is_told_and_waits_in_the_inbox() -> None:
    """Its tool call is told first, with the input that the request brought."""
    normaliser = Normaliser(session="s")
    call = {"toolCallId": "c", "title": "Remove", "rawInput": {"path": "a"}}
    for version in ({"toolCall": call}, {"subject": {"type": "tool_call", "toolCall": {**call, "toolCallId": "d"}}}):
        frame = {"id": "p", "method": "session/request_permission", "params": {"sessionId": "s", **version}}
        seen = [event for event in normaliser.push(frame) if not isinstance(event, (RunStarted))]
        assert [ToolCall, Notice] == [type(event) for event in seen]
    assert len(normaliser.inbox) == 2


def lines_of(*frames: Any) -> list[tuple[int, bytes]]:
    """Frames as numbered lines."""
    return [(number, json.dumps(frame).encode()) for number, frame in enumerate(frames, 1)]


def test_a_marked_piece_in_a_run_of_plain_ones() -> None:
    """The mark is seen though the id is the same."""
    warning = chunk("Careful.", "m", _meta={"claudeCode": {"kind": "informational"}})
    seen = Normaliser(session="s").push_lines(lines_of(chunk("One ", "m"), chunk("two", "m"), warning))
    assert Message((Text("Careful."),), "m", origin="notice") in seen
    assert [TextDelta("One ", "m"), TextDelta("two", "m")] == of_class(seen, TextDelta)


def test_a_childs_piece_in_a_run_of_its_parents() -> None:
    """The session counts, though the message's id is the same."""
    normaliser = Normaliser(session="s")
    normaliser.push(subagent({"state": "running"}))
    words = update("agent_message_chunk", "child", content={"type": "text", "text": "Found."}, messageId="m")
    seen = normaliser.push_lines(lines_of(chunk("One ", "m"), words, chunk("two", "m")))
    assert [MAIN, "child", MAIN] == [event.run for event in of_class(seen, TextDelta)]


def test_each_late_piece_is_counted() -> None:
    """Also where they come in one batch with the answer."""
    normaliser = Normaliser(session="s")
    normaliser.sent(ASKED[2])
    normaliser.push_lines(lines_of(chunk("a", "m"), END, chunk("bc", "m"), chunk("d", "m"), chunk("e", "m")))
    assert Notice("late", {"updates": 3, "characters": 4}) in normaliser.close()


def test_an_accepted_prompt_is_no_end() -> None:
    """Under protocol 2 the end is missing, not without a reason."""
    ended = second()[-1]
    assert isinstance(ended, RunEnded)
    assert ended.diagnostic == "the turn has no end record"


LINES = [
    json.dumps(frame).encode()
    for frame in (
        *opening("small"),
        chunk("One ", "a"),
        chunk("two", "a"),
        chunk("\ud83d", "a"),
        chunk("\ude00", "a"),
        chunk("", "b"),
        chunk("three", "b"),
        update("agent_thought_chunk", content={"type": "text", "text": "Hm."}, messageId="b"),
        chunk("four", "b", _meta={"x": 1}),
        update("tool_call", toolCallId="c", title="T", status="completed"),
        chunk("five", "b"),
        chunk("six"),
        {"id": 3, "result": {"stopReason": "end_turn"}},
        chunk("late", "b"),
    )
] + [b"rubbish", b"42"]


@given(st.lists(st.integers(0, len(LINES)), max_size=6), st.integers(0, len(LINES)))
def test_every_split_into_batches_gives_the_same_events(cuts: list[int], gap: int) -> None:
    """Lines in any batches, and frames one by one, are the same; also with a line left out."""
    lines = [(number, line) for number, line in enumerate(LINES, 1) if number != gap]
    edges = sorted({0, len(lines), *[min(cut, len(lines)) for cut in cuts]})
    batched, single = Normaliser(), Normaliser()
    in_batches: list[Event] = []
    for start, end in itertools.pairwise(edges):
        in_batches += batched.push_lines(lines[start:end])
    one_by_one: list[Event] = []
    for line in lines:
        one_by_one += single.push_lines([line])
    assert one_by_one + single.close() == in_batches + batched.close()


def kinds_of(line: bytes) -> list[str]:
    """What a line gives: the methods of its frames and the kinds of its faults."""
    return [p.kind if isinstance(p, Fault) else str(p.get("method", "answer")) for p in decode_line(line, 1)]


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        (b'{"method":"x"}', ["x"]),
        (b'[{"method":"x"},{"id":1,"result":null},7]', ["x", "answer", "not_an_object"]),
        (b'{"id":1}', ["not_jsonrpc"]),
        (b'{"id":null,"error":{"code":-32700}}', ["not_jsonrpc"]),
        (b'{"id":1,"error":null}', ["answer"]),
        (b'noise {"jsonrpc":"2.0","method":"x"} more {"method":"y"} tail', ["glued_text", "x", "y"]),
        (b'noise {"id": broken {"method":"y"}', ["glued_text", "y"]),
        (b'{"method":"\xff"}', ["invalid_utf8", "\ufffd"]),
        (b'{"method":"\xef\xbf\xbd","x":"\\ud800"}', ["\ufffd"]),
        (b'{"method":"x","n":NaN}', ["x"]),
        (b'{"method":', ["not_json"]),
        (b"{" * 5000, ["not_json"]),
    ],
)
def test_lines(line: bytes, kinds: list[str]) -> None:
    """Frames are found wherever they stand, and each broken piece is named once."""
    assert kinds == kinds_of(line)


def test_a_fault_keeps_the_beginning_of_what_was_broken() -> None:
    """And the number of its line."""
    (fault,) = decode_line(b"x" * 1000, 7)
    assert fault == Fault("not_json", "line 7: a line that is not JSON", 7, "x" * 200)
