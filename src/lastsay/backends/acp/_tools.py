"""Tool calls over ACP: patches to a record, in our words one call and one result.

A call is reported in pieces: claude sends it ``pending`` and empty, its input follows; protocol 2 knows patches only.
So the `ToolCall` is held until its input is there, or the call runs, or the turn ends (then it is a call that was cut).
The `ToolResult` comes with the first final status. Codex sends output outside the content, in pieces under ``_meta``;
it stands in where there is no other.
"""

from collections.abc import Mapping
from typing import Any, Final

from lastsay.backends.acp._content import tool_blocks_of
from lastsay.events import Block, Event, Notice, Text, ToolCall, ToolResult

__all__ = ("ToolCalls",)

_FINAL: Final[Mapping[str, bool]] = {
    "completed": False, "failed": True, "cancelled": True, "canceled": True, "rejected": True, "error": True,
}  # fmt: skip
"""Final statuses, and whether they mean an error. The protocol has the first two; enums are open in protocol 2."""
_OUTPUT_LIMIT: Final = 1024 * 1024
"""Characters of output under ``_meta`` that are kept per call: agents cap at 50 kB or less."""


class _Call:
    __slots__ = ("content", "id", "input", "kind", "name", "output", "output_size", "raw_output", "told")

    def __init__(self, call: str) -> None:
        self.id = call
        self.name: str | None = None
        self.kind: str | None = None
        self.input: Any = None
        self.content: list[Any] = []
        self.raw_output: Any = None
        self.output: list[str] = []
        self.output_size = 0
        self.told = False


class ToolCalls:
    """The tool calls of one session."""

    __slots__ = ("_ended", "_open", "_run")

    def __init__(self, run: str) -> None:
        self._run = run
        self._open: dict[str, _Call] = {}
        self._ended: set[str] = set()

    def push(self, update: Mapping[str, Any], out: list[Event]) -> None:
        """Take a ``tool_call``, a ``tool_call_update``, or the call inside a permission request."""
        call_id = update.get("toolCallId")
        if not isinstance(call_id, str) or call_id in self._ended:
            out.append(Notice("tool_call_update", dict(update), run=self._run))
            return
        call = self._open.get(call_id)
        if call is None:
            call = self._open[call_id] = _Call(call_id)
        _patch(call, update)
        status = update.get("status")
        final = isinstance(status, str) and status in _FINAL
        if not call.told and (final or status == "in_progress" or call.input not in (None, {}, "")):
            self._tell(call, out)
        if final:
            self._end(call, update, out, is_error=_FINAL[str(status)])

    def push_content(self, update: Mapping[str, Any], out: list[Event]) -> None:
        """Take a ``tool_call_content_chunk``: one more item of content."""
        call = self._open.get(str(update.get("toolCallId")))
        if call is None:
            out.append(Notice("tool_call_content_chunk", dict(update), run=self._run))
        else:
            call.content.append(update.get("content"))

    def close(self, out: list[Event]) -> None:
        """The turn ended: calls that were held back are told, without a result."""
        for call in self._open.values():
            if not call.told:
                self._tell(call, out)

    def _tell(self, call: _Call, out: list[Event]) -> None:
        call.told = True
        out.append(ToolCall(call.id, call.name or call.kind or "tool", call.input, run=self._run))

    def _end(self, call: _Call, update: Mapping[str, Any], out: list[Event], *, is_error: bool) -> None:
        del self._open[call.id]
        self._ended.add(call.id)
        content = tuple(_result_of(call))
        out.append(ToolResult(call.id, content, is_error, dict(update), run=self._run))


def _patch(call: _Call, update: Mapping[str, Any]) -> None:
    name = _name_of(update)
    call.name = name or call.name
    if isinstance(update.get("kind"), str):
        call.kind = update["kind"]
    if update.get("rawInput") is not None:
        call.input = update["rawInput"]
    if "content" in update:
        content = update["content"]
        call.content = list(content) if isinstance(content, list) else []
    if update.get("rawOutput") is not None:
        call.raw_output = update["rawOutput"]
    for text in _meta_texts(update.get("_meta")):
        if call.output_size < _OUTPUT_LIMIT:
            call.output.append(text)
            call.output_size += len(text)


def _name_of(update: Mapping[str, Any]) -> str | None:
    """The tool's name: a field of its own, the vendor's under `_meta`, or what is shown to people."""
    meta = update.get("_meta")
    vendors = list(meta.values()) if isinstance(meta, Mapping) else []
    found = [update.get("name"), *[v.get("toolName") for v in vendors if isinstance(v, Mapping)], update.get("title")]
    return next((name for name in found if isinstance(name, str) and name), None)


def _meta_texts(meta: Any) -> list[str]:
    """Pieces of output that codex-acp 2.6.0 sends under ``_meta.terminal_output_delta``."""
    delta = meta.get("terminal_output_delta") if isinstance(meta, Mapping) else None
    data = delta.get("data") if isinstance(delta, Mapping) else delta
    return [data] if isinstance(data, str) else []


def _result_of(call: _Call) -> list[Block]:
    blocks = tool_blocks_of(call.content)
    if any(type(block) is Text for block in blocks) or not (call.output or isinstance(call.raw_output, str)):
        return blocks
    text = "".join(call.output) or (call.raw_output if isinstance(call.raw_output, str) else "")
    return [*blocks, Text(text)] if text else blocks
