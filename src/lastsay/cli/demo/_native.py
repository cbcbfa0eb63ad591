"""The control: the same scenario on the bare SDK, without anything of lastsay between the CLI and its caller."""

import os
import signal
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from lastsay.cli.demo._cases import Case

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, ToolResultBlock

__all__ = ("kill_recorded", "native_result")


class _Seen:
    """What the caller of `query` can have seen."""

    def __init__(self, sdk: Any) -> None:
        self.result: ResultMessage | None = None
        self.handed_back: ToolResultBlock | None = None
        self.exception: str | None = None
        self._sdk = sdk
        self._delegation: str | None = None
        self._streamed: list[str] = []

    @property
    def streamed(self) -> str:
        return "".join(self._streamed)

    def take(self, message: Any) -> None:
        sdk = self._sdk
        if isinstance(message, sdk.ResultMessage):
            self.result = message
        elif isinstance(message, sdk.StreamEvent):
            delta = message.event.get("delta", {})
            self._streamed.append(delta.get("text", ""))
        elif isinstance(message, sdk.AssistantMessage) and message.parent_tool_use_id is None:
            calls = [block.id for block in message.content if isinstance(block, sdk.ToolUseBlock)]
            self._delegation = calls[0] if calls else self._delegation
        elif isinstance(message, sdk.UserMessage) and isinstance(message.content, list):
            for block in message.content:
                if isinstance(block, sdk.ToolResultBlock) and block.tool_use_id == self._delegation:
                    self.handed_back = block

    def report(self, case: Case) -> dict[str, Any]:
        result, block = self.result, self.handed_back
        if case.child:
            text = _text_of(block.content) if block is not None else None
            return {"what": "tool result for the parent", "text": text, "is_error": bool(block and block.is_error)}
        return {
            "what": "result message" if result is not None else "no result message",
            "text": result.result if result is not None else None,
            "is_error": result.is_error if result is not None else None,
            "subtype": result.subtype if result is not None else None,
            "stop_reason": result.stop_reason if result is not None else None,
            "exception": self.exception,
        }


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or () if isinstance(part, dict))


async def native_result(case: Case, options: "ClaudeAgentOptions", directory: Path, pid_file: Path) -> dict[str, Any]:
    """What the SDK's own `query` hands to its caller in this scenario, as plain data.

    Args:
        case: the scenario.
        options: the SDK's options.
        directory: the child's working directory.
        pid_file: where the process id of the CLI is written, for the scenario that kills it.
    """
    import claude_agent_sdk as sdk

    seen = _Seen(sdk)
    with anyio.CancelScope() as scope:
        try:
            messages: Any = sdk.query(prompt=case.prompt(directory), options=options)
            async with aclosing(messages):
                disturbed = case.disturb is None
                async for message in messages:
                    seen.take(message)
                    if not disturbed and seen.streamed == case.streamed:
                        disturbed = True
                        if case.disturb == "kill":
                            kill_recorded(pid_file)
                        else:
                            scope.cancel()
        except Exception as error:  # noqa: BLE001 - that it raises is what is shown
            seen.exception = f"{type(error).__name__}: {error}".splitlines()[0]
    if scope.cancelled_caught:
        seen.exception = "cancelled"
    return seen.report(case)


def kill_recorded(pid_file: Path) -> None:
    """Kill the CLI whose process id stands in the file, as the system does when memory runs out."""
    os.kill(int(pid_file.read_text()), signal.SIGKILL)
