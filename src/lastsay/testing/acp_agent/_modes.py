"""Modes that keep to the protocol, versions 1 and 2."""

import json
from typing import Any, Final

from ._agent import CHILD, SESSION, Agent, Mode

__all__ = ("MODES",)


def normal(agent: Agent) -> str:
    """Two pieces of one message."""
    agent.hello()
    return "end_turn"


def no_ids(agent: Agent) -> str:
    """The same on a wire without message ids."""
    agent.hello(None)
    return "end_turn"


def two_steps(agent: Agent) -> str:
    """A message, a tool, the answer."""
    agent.chunk("Let me look.", "msg-0")
    agent.tool()
    agent.hello()
    return "end_turn"


def tool_then_empty(agent: Agent) -> str:
    """Text and a tool, then an end without text."""
    agent.hello()
    agent.tool()
    return "end_turn"


def tool_then_max_tokens(agent: Agent) -> str:
    """Text and a tool, then a tool call that is cut by the token limit."""
    agent.hello()
    agent.tool()
    agent.update("tool_call", toolCallId="call-2", title="List files", status="pending")
    return "max_tokens"


def max_tokens(agent: Agent) -> str:
    """The answer is cut by the token limit."""
    agent.hello()
    return "max_tokens"


def refusal(_agent: Agent) -> str:
    """The model refuses."""
    return "refusal"


def empty(_agent: Agent) -> str:
    """The turn ends without a word."""
    return "end_turn"


def error(agent: Agent) -> None:
    """Some text, then a JSON-RPC error."""
    agent.hello()
    agent.send({"id": agent.prompt["id"], "error": {"code": -32603, "message": "upstream answered 500"}})


def thoughts(agent: Agent) -> str:
    """Reasoning beside the answer."""
    agent.update("agent_thought_chunk", content={"type": "text", "text": "Hm."}, messageId="thought-1")
    agent.hello()
    return "end_turn"


def interleaved_ids(agent: Agent) -> str:
    """Pieces of two messages in turn."""
    agent.chunk("Let me ", "msg-0")
    agent.chunk("Hello ", "msg-1")
    agent.chunk("look.", "msg-0")
    agent.chunk("there.", "msg-1")
    return "end_turn"


def slow(agent: Agent) -> str:
    """One word every 20 ms for a minute; ends at once when cancelled."""
    for _ in range(3000):
        agent.chunk("word ")
        if agent.cancelled.wait(0.02):
            return "cancelled"
    return "end_turn"


def flood(agent: Agent) -> str:
    """`--count` updates as fast as they can be written."""
    update = {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "text", "text": "a piece of twenty-six char"},
    }
    params = {"sessionId": SESSION, "update": {**update, "messageId": "msg-1"}}
    line = json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}).encode() + b"\n"
    left = agent.options.count
    while left > 0:
        agent.raw(line * min(left, 1000))
        left -= 1000
    return "end_turn"


def long_line(agent: Agent) -> str:
    """One update of `--size` bytes in one line, then the answer."""
    agent.chunk("x" * agent.options.size, "msg-0")
    agent.hello()
    return "end_turn"


def permission(agent: Agent) -> str:
    """Asks for permission, and says which option it got."""
    found = agent.ask("ask-1", "session/request_permission", _request())["result"]["outcome"]
    agent.update("tool_call_update", toolCallId="call-1", status="completed", content=[])
    agent.chunk(found.get("optionId") or found["outcome"])
    return "cancelled" if found["outcome"] == "cancelled" else "end_turn"


def withdrawn_permission(agent: Agent) -> str:
    """Asks for permission, takes the request back, and says whether that was confirmed."""
    agent.send({"id": "ask-1", "method": "session/request_permission", "params": _request()})
    agent.send({"method": "$/cancel_request", "params": {"requestId": "ask-1"}})
    code = agent.answer_to("ask-1").get("error", {}).get("code")
    agent.chunk("withdrawn" if code == -32800 else "answered")
    return "end_turn"


def _request() -> dict[str, Any]:
    options = [
        {"optionId": "yes-always", "name": "Always", "kind": "allow_always"},
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]
    call = {"toolCallId": "call-1", "title": "Remove files", "rawInput": {"command": "rm"}, "status": "pending"}
    return {"sessionId": SESSION, "toolCall": call, "options": options}


def client_files(agent: Agent) -> str:
    """Asks the client for a file, though it has none to offer."""
    found = agent.ask("ask-1", "fs/read_text_file", {"sessionId": SESSION, "path": "/x"})
    agent.chunk("Hello there." if found["error"]["code"] == -32601 else "?")
    return "end_turn"


def children(agent: Agent) -> str:
    """A child session (draft) that starts, speaks, and ends before the answer."""
    _child(agent, title="helper", state={"state": "running"}, capabilities={"cancel": {}})
    update = {"sessionUpdate": "agent_message_chunk", "messageId": "c-1", "content": {"type": "text", "text": "Found."}}
    agent.send({"method": "session/update", "params": {"sessionId": CHILD, "update": update}})
    _child(agent, state={"state": "idle", "stopReason": "end_turn"})
    agent.hello()
    return "end_turn"


def _child(agent: Agent, **fields: Any) -> None:
    update = {"sessionUpdate": "subagent_update", "sessionId": CHILD, **fields}
    agent.send({"method": "session/update", "params": {"sessionId": SESSION, "update": update}})


def second_messages(agent: Agent) -> str:
    """Protocol 2: a whole message, replaced, then pieces appended."""
    agent.update("state_update", state="running")
    agent.update("user_message", messageId="u-1", content=[{"type": "text", "text": "Hi."}])
    agent.update("agent_message", messageId="msg-1", content=[{"type": "text", "text": "Wrong."}])
    agent.update("agent_message", messageId="msg-1", content=[{"type": "text", "text": "Hello "}])
    agent.chunk("there.")
    return "end_turn"


def second_cleared(agent: Agent) -> str:
    """Protocol 2: the last message is taken back."""
    agent.update("state_update", state="running")
    agent.hello("msg-0")
    agent.update("agent_message", messageId="msg-1", content=[{"type": "text", "text": "Never mind."}])
    agent.update("agent_message", messageId="msg-1", content=None)
    return "end_turn"


def second_error(agent: Agent) -> None:
    """Protocol 2: idle with an error."""
    agent.update("state_update", state="running")
    agent.hello()
    failure = {"code": -32603, "message": "upstream answered 500"}
    agent.update("state_update", state="idle", stopReason="error", error=failure)


def second_back_to_work(agent: Agent) -> str:
    """Protocol 2: idle, then running again, then idle for good."""
    agent.update("state_update", state="running")
    agent.chunk("First.", "msg-0")
    agent.update("state_update", state="idle", stopReason="end_turn")
    agent.update("state_update", state="running")
    agent.hello()
    return "end_turn"


MODES: Final[tuple[Mode, ...]] = (
    normal,
    no_ids,
    two_steps,
    tool_then_empty,
    tool_then_max_tokens,
    max_tokens,
    refusal,
    empty,
    error,
    thoughts,
    interleaved_ids,
    slow,
    flood,
    long_line,
    permission,
    withdrawn_permission,
    client_files,
    children,
    second_messages,
    second_cleared,
    second_error,
    second_back_to_work,
)
