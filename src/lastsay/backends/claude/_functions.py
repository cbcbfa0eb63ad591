"""Functions of the host, served to the Claude CLI, with the native call id that makes their receipts findable.

The SDK's own tool decorator passes arguments only. The native id travels in the metadata of the MCP request under
``claudecode/toolUseId`` (Claude Code 2.1.269 to 2.1.332), so the server here is a low-level one that reads it. A call
without an id, and a call of a function that was not declared, are refused before the host is asked.

Calls of one assistant message run one after the other, unless a function is declared `read_only`: those run
concurrently, and their receipts come in the order of completion.
"""

import dataclasses
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lastsay.errors import MissingExtraError, ReceiptError, UsageError
from lastsay.events import Image, Text
from lastsay.operators import FunctionBridge
from lastsay.receipts import FunctionResult, Limits

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeAgentOptions
    from mcp.types import CallToolResult, Tool

__all__ = ("CALL_ID", "Function", "FunctionServer", "Handler")

CALL_ID: Final = "claudecode/toolUseId"
"""Key of the native call id in the metadata of an MCP request."""

_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_RESULT_CEILING: Final = 500_000
"""Characters up to which the CLI lets a tool declare that its results are shown whole."""

_LINE: Final = 16 * 1024 * 1024
"""Bytes of the longest line that the SDK must read: a line holds a result twice, and its own default is 1 MiB."""

Handler = Callable[[Any], Awaitable[FunctionResult | Mapping[str, Any]]]


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """A function that the host offers to the model.

    Args:
        name: letters, digits, ``_`` and ``-``; unique in its server.
        description: what the model reads.
        parameters: a JSON schema whose root is an object. The CLI does not check arguments against it.
        read_only: it changes nothing: the CLI may run its calls concurrently and while the model still streams.
        result_characters: longest result that the CLI shows whole; longer ones go to a file. At most 500,000.
            None leaves it to the CLI: 50,000, and fewer where its tokenizer counts many tokens.
        handler: gives the result for decoded arguments. None: the host answers by `FunctionBridge.submit`.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = msgspec.field(default_factory=lambda: {"type": "object"})
    read_only: bool = False
    result_characters: int | None = _RESULT_CEILING
    handler: Handler | None = None


class FunctionServer:
    """Serves functions to the Claude CLI through a bridge.

        bridge = FunctionBridge()
        server = FunctionServer(bridge, [Function(name="lookup", handler=lookup)])
        stream = claude.stream(prompt, server.configure(options)) | confirm(bridge)

    Args:
        bridge: takes the calls, and gives their results.
        functions: at most 64, with unique names.
        name: name of the MCP server; the model sees ``mcp__NAME__FUNCTION``.

    Raises:
        UsageError: a declaration that cannot work; the message names it.
        MissingExtraError: the ``claude`` extra is not installed.
    """

    def __init__(self, bridge: FunctionBridge, functions: Iterable[Function], *, name: str = "functions") -> None:
        self.bridge = bridge
        self.name = name
        checked = _checked(functions, bridge.ledger.limits)
        self.functions: dict[str, Function] = {function.name: function for function in checked}
        self._server = self._make()

    def configure(self, options: "ClaudeAgentOptions | None" = None) -> "ClaudeAgentOptions":
        """The options with this server added, its functions allowed and a line limit that large results fit in."""
        try:
            from claude_agent_sdk import ClaudeAgentOptions  # noqa: PLC0415 - optional dependency
        except ImportError as error:
            raise MissingExtraError("claude", "serving functions to Claude Code") from error
        options = options if options is not None else ClaudeAgentOptions()
        if not isinstance(options.mcp_servers, dict):
            raise UsageError("mcp_servers must be a dict, not a path, for functions to be added to it")
        servers: dict[str, Any] = {**options.mcp_servers}
        servers[self.name] = {"type": "sdk", "name": self.name, "instance": self._server}
        return dataclasses.replace(
            options,
            mcp_servers=servers,
            allowed_tools=[*options.allowed_tools, *(self.tool(name) for name in self.functions)],
            max_buffer_size=max(options.max_buffer_size or 0, _LINE),
        )

    def tool(self, function: str) -> str:
        """The name under which the model sees a function."""
        return f"mcp__{self.name}__{function}"

    def _make(self) -> Any:
        try:
            from mcp.server import Server  # noqa: PLC0415 - optional dependency
            from mcp.types import ListToolsResult  # noqa: PLC0415
        except ImportError as error:
            raise MissingExtraError("claude", "serving functions to Claude Code") from error

        async def list_tools(_context: Any, _params: Any) -> ListToolsResult:
            return ListToolsResult(tools=[_declared(function) for function in self.functions.values()])

        async def call_tool(_context: Any, params: Any) -> "CallToolResult":
            return await self._call(params.name, params.arguments or {}, params.meta or {})

        return Server(self.name, version="1", on_list_tools=list_tools, on_call_tool=call_tool)

    async def _call(self, name: str, arguments: dict[str, Any], meta: Mapping[str, Any]) -> "CallToolResult":
        call, function = meta.get(CALL_ID), self.functions.get(name)
        if not isinstance(call, str):
            return _refused(f"function call refused: the request has no {CALL_ID}")
        if function is None:
            return _refused(f"function call refused: {name} was not declared")
        tool, handler = self.tool(name), function.handler
        try:
            if handler is None:
                result = await self.bridge.call(call, name, arguments, tool=tool)
            else:
                result = await self.bridge.answer(call, name, arguments, handler, tool=tool)
        except ReceiptError as error:
            return _refused(str(error))
        return _shown(result)


def _checked(functions: Iterable[Function], limits: Limits) -> list[Function]:
    declared = list(functions)
    if len(declared) > limits.functions:
        raise UsageError(f"{len(declared)} functions declared: at most {limits.functions} are taken")
    names: set[str] = set()
    for function in declared:
        name = function.name
        if not _NAME.fullmatch(name) or len(name) > limits.name:
            raise UsageError(f"not a function name: {name[:80]!r}; letters, digits, _ and - are taken")
        if name in names:
            raise UsageError(f"function {name} is declared twice")
        if function.parameters.get("type") != "object":
            raise UsageError(f"the parameters of function {name} must be a JSON schema with an object at its root")
        if function.result_characters is not None and not 0 < function.result_characters <= _RESULT_CEILING:
            raise UsageError(f"result_characters of function {name} must be between 1 and {_RESULT_CEILING}")
        names.add(name)
    return declared


def _declared(function: Function) -> "Tool":
    from mcp.types import Tool  # noqa: PLC0415 - optional dependency

    wire: dict[str, Any] = {
        "name": function.name,
        "description": function.description,
        "inputSchema": dict(function.parameters),
    }
    if function.result_characters is not None:
        wire["_meta"] = {"anthropic/maxResultSizeChars": function.result_characters}
    if function.read_only:
        wire["annotations"] = {"readOnlyHint": True}
    return Tool.model_validate(wire)


def _shown(result: FunctionResult) -> "CallToolResult":
    from mcp.types import CallToolResult  # noqa: PLC0415 - optional dependency

    content: list[dict[str, Any]] = []
    for part in result.parts:
        if type(part) is Image:
            content.append({"type": "image", "data": part.data, "mimeType": part.media_type})
        else:
            assert type(part) is Text
            content.append({"type": "text", "text": part.text})
    return CallToolResult.model_validate({"content": content, "isError": result.is_error})


def _refused(message: str) -> "CallToolResult":
    from mcp.types import CallToolResult  # noqa: PLC0415 - optional dependency

    return CallToolResult.model_validate({"content": [{"type": "text", "text": message}], "isError": True})
