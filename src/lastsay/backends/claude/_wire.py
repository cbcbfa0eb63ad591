"""The border: whatever form a Claude record comes in leaves here as a record of the CLI's stream.

There are three forms: records of ``--output-format stream-json`` (passed through), message objects of claude-agent-sdk
(its parser drops fields, so a tee of the records is better where one can be had), and lines of session files, which
write the same things in other words. The SDK is not imported: its classes are known by name.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

__all__ = ("is_launch_note", "moment_of", "native_of", "record_of", "record_of_line", "word_of")

_TYPES: Final = {
    "ResultMessage": "result",
    "RateLimitEvent": "rate_limit_event",
    "ConversationResetMessage": "conversation_reset",
    "StreamEvent": "stream_event",
}
_BLOCK_TYPES: Final = {
    "TextBlock": "text",
    "ThinkingBlock": "thinking",
    "ToolUseBlock": "tool_use",
    "ToolResultBlock": "tool_result",
    "ServerToolUseBlock": "server_tool_use",
    "ServerToolResultBlock": "server_tool_result",
}


def record_of(message: Any) -> dict[str, Any]:
    """The record that a dict, a line of a session file or an SDK message stands for."""
    if type(message) is dict:
        return record_of_line(message) if "sessionId" in message or "isSidechain" in message else message
    if isinstance(message, Mapping):
        return record_of(dict(message))
    name = type(message).__name__
    if name == "AssistantMessage":
        return _assistant(message)
    if name == "UserMessage":
        return _user(message)
    if name in _TYPES:
        return {"type": _TYPES[name], **vars(message)}
    data = getattr(message, "data", None)
    if isinstance(data, dict) and hasattr(message, "subtype"):
        return {"type": "system", "subtype": message.subtype, **data}
    return {"type": name, "value": message}


def _assistant(message: Any) -> dict[str, Any]:
    get: Callable[[str], Any] = vars(message).get
    inner = {
        "id": get("message_id"),
        "model": get("model"),
        "content": _content(get("content")),
        "stop_reason": get("stop_reason"),
        "usage": get("usage"),
    }
    outer = {key: get(key) for key in ("parent_tool_use_id", "error", "session_id", "uuid")}
    return {"type": "assistant", "message": inner, **outer}


def _user(message: Any) -> dict[str, Any]:
    get: Callable[[str], Any] = vars(message).get
    outer = {key: get(key) for key in ("uuid", "parent_tool_use_id", "tool_use_result", "origin")}
    return {"type": "user", "message": {"role": "user", "content": _content(get("content"))}, **outer}


def _content(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [part if isinstance(part, str | dict) else _part(part) for part in content]


def _part(part: Any) -> dict[str, Any]:
    kind = _BLOCK_TYPES.get(type(part).__name__, type(part).__name__)
    return {"type": kind, **getattr(part, "__dict__", {})}


_MARKS: Final = frozenset({"[Request interrupted by user]", "[Request interrupted by user for tool use]"})
_LINE_NAMES: Final = (
    ("agent_id", "agentId"),
    ("api_error", "apiError"),
    ("aborted", "isAbortedMidStream"),
    ("error", "error"),
    ("is_api_error_message", "isApiErrorMessage"),
    ("isSynthetic", "isMeta"),
    ("origin", "origin"),
    ("session_id", "sessionId"),
    ("timestamp", "timestamp"),
    ("tool_use_result", "toolUseResult"),
    ("uuid", "uuid"),
)


def record_of_line(line: dict[str, Any]) -> dict[str, Any]:
    """The record that a line of a session file stands for; lines of other types come back as they are."""
    kind = line.get("type")
    if kind not in ("assistant", "user"):
        return line
    record: dict[str, Any] = {"type": kind, "message": line.get("message"), "parent_tool_use_id": None}
    for name, own in _LINE_NAMES:
        if own in line:
            record[name] = line[own]
    if isinstance(line.get("parentToolUseID"), str):
        record["parent_tool_use_id"] = line["parentToolUseID"]
    if line.get("isCompactSummary"):
        record["isSynthetic"] = True
    if line.get("rowSource") == "harness" or _is_marker(line):
        record["isSynthetic"] = record["interrupt"] = True
    if "forkedFrom" in line:
        record["restated"] = True
    if "toolDenialKind" in line:
        record["tool_result_meta"] = [{"non_execution_kind": line["toolDenialKind"]}]
    record["line"] = True
    return record


def _is_marker(line: dict[str, Any]) -> bool:
    """Whether a user line is the mark of an interrupt. Lines before the field `rowSource` have nothing but its text."""
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    part = content[0] if isinstance(content, list) and len(content) == 1 else content
    text = part.get("text") if isinstance(part, dict) else part
    return line.get("type") == "user" and isinstance(text, str) and text in _MARKS


def native_of(part: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    """The harness's own record of a tool result, as the function bridge needs it."""
    call = part.get("tool_use_id")
    listed = record.get("tool_result_meta")
    metas = (
        [m for m in listed if isinstance(m, dict) and m.get("id") in (None, call)] if isinstance(listed, list) else []
    )
    meta = metas[0] if metas else {}
    return {
        "agent_id": record.get("agent_id"),
        "content": part.get("content"),
        "is_error": part.get("is_error"),
        "isReplay": record.get("isReplay", False),
        "isSynthetic": record.get("isSynthetic", False),
        "non_execution_kind": meta.get("non_execution_kind"),
        "parent_tool_use_id": record.get("parent_tool_use_id"),
        "session_id": record.get("session_id"),
        "tool_result_meta": meta or None,
        "tool_use_id": call,
        "tool_use_result": record.get("tool_use_result"),
    }


def moment_of(record: dict[str, Any]) -> float | None:
    """When the record was written, in seconds since the epoch, if it says so."""
    stamp = record.get("timestamp")
    try:
        return datetime.fromisoformat(stamp).timestamp() if isinstance(stamp, str) else None
    except ValueError:
        return None


def is_launch_note(told: Any) -> bool:
    """Whether a tool result only says that a child was sent into the background."""
    return isinstance(told, dict) and (told.get("isAsync") is True or told.get("status") == "async_launched")


def word_of(record: Mapping[str, Any], key: str) -> str:
    """The string in a field; empty where it holds none."""
    value = record.get(key)
    return value if isinstance(value, str) else ""
