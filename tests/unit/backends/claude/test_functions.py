"""The function server, asked as the CLI asks it; that the CLI does so is shown by the live tests."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from lastsay.backends.claude import Function, FunctionServer
from lastsay.errors import UsageError
from lastsay.operators import FunctionBridge
from lastsay.receipts import FunctionResult, Limits, Verdict

pytestmark = [pytest.mark.asyncio, pytest.mark.live]  # the SDK's own bridge is the other side

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGM4wcUFRAwQCgAbFgNxOExuRAAAAABJRU5ErkJggg=="
ID = "claudecode/toolUseId"


def giving(result: Any) -> Callable[[Any], Awaitable[Any]]:
    """A handler that gives this."""

    async def handler(_: Any) -> Any:
        return result

    return handler


async def ask(server: FunctionServer, method: str, **params: Any) -> dict[str, Any]:
    """What the server answers to an MCP request, through the SDK's own bridge."""
    from claude_agent_sdk._internal.sdk_mcp_bridge import SdkMcpBridge

    options = server.configure()
    bridge = SdkMcpBridge(server.name, options.mcp_servers[server.name]["instance"])  # type: ignore[index,typeddict-item]  # the SDK's union
    client = {"name": "test", "version": "1"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    try:
        await bridge.handle({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
        await bridge.handle({"jsonrpc": "2.0", "method": "notifications/initialized"})
        answer = await bridge.handle({"jsonrpc": "2.0", "id": 2, "method": method, "params": params})
    finally:
        with anyio.CancelScope(shield=True):
            await bridge.aclose()
    assert answer is not None
    result: dict[str, Any] = answer["result"]
    return result


async def test_the_native_id_reaches_the_bridge() -> None:
    """It stands in the request's metadata; the parts go out in order, images too."""
    output = [
        {"type": "input_text", "text": " a"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
    ]
    bridge = FunctionBridge()
    server = FunctionServer(bridge, [Function(name="f", handler=giving({"success": True, "output": output}))])
    meta = {ID: "toolu_1", "progressToken": 3}
    answer = await ask(server, "tools/call", name="f", arguments={"a": 1}, _meta=meta)
    image = {"type": "image", "data": PNG, "mimeType": "image/png"}
    assert [{"type": "text", "text": " a"}, image] == answer["content"]
    assert not answer["isError"]
    (record,) = bridge.records()
    assert ("toolu_1", "f", {"a": 1}, "mcp__functions__f") == (
        record.call, record.function, record.arguments, record.tool,
    )  # fmt: skip


async def test_what_cannot_be_identified_is_refused_before_the_host_is_asked() -> None:
    """No id, an id used before, a function that was not declared."""
    bridge = FunctionBridge()
    server = FunctionServer(bridge, [Function(name="f", handler=giving({"success": False, "error": "e"}))])
    for name, meta, said in (("f", {}, ID), ("f", {ID: 3}, ID), ("g", {ID: "toolu_1"}, "not declared")):
        answer = await ask(server, "tools/call", name=name, arguments={}, _meta=meta)
        assert answer["isError"]
        assert said in answer["content"][0]["text"]
    assert () == bridge.records()
    first = await ask(server, "tools/call", name="f", _meta={ID: "toolu_1"})
    again = await ask(server, "tools/call", name="f", _meta={ID: "toolu_1"})
    assert ("e", True) == (first["content"][0]["text"], first["isError"])
    assert "already used" in again["content"][0]["text"]
    assert {} == dict(bridge.verdicts())


async def test_an_unanswered_call_is_aborted_with_its_server() -> None:
    """The wait is cancelled, and the call can no longer be confirmed."""
    bridge = FunctionBridge()
    server = FunctionServer(bridge, [Function(name="f")])
    with anyio.move_on_after(0.05):
        await ask(server, "tools/call", name="f", _meta={ID: "toolu_1"})
    bridge.ledger.close(at=0.0)
    assert {Verdict.REJECTED: 1} == bridge.verdicts()


async def test_functions_are_declared_with_their_hints() -> None:
    """Schema, read-only hint, and the size up to which the CLI shows a result whole."""
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    server = FunctionServer(
        FunctionBridge(),
        [
            Function(name="f", description="finds", parameters=schema, read_only=True),
            Function(name="g", result_characters=None),
        ],
        name="mine",
    )
    f, g = (await ask(server, "tools/list"))["tools"]
    assert ("f", "finds", schema) == (f["name"], f["description"], f["inputSchema"])
    assert {"anthropic/maxResultSizeChars": 500_000} == f["_meta"]
    assert f["annotations"]["readOnlyHint"]
    assert ("g", {"type": "object"}, None, None) == (g["name"], g["inputSchema"], g.get("_meta"), g.get("annotations"))
    assert "mcp__mine__g" == server.tool("g")


async def test_options_keep_what_they_had() -> None:
    """Another server, other allowed tools and a larger line limit stay."""
    from claude_agent_sdk import ClaudeAgentOptions

    server = FunctionServer(FunctionBridge(), [Function(name="f")])
    given = ClaudeAgentOptions(
        mcp_servers={"other": {"command": "x"}}, allowed_tools=["Read"], max_buffer_size=64 * 1024 * 1024
    )
    made = server.configure(given)
    assert {"other", "functions"} == set(made.mcp_servers)
    assert ["Read", "mcp__functions__f"] == made.allowed_tools
    assert 64 * 1024 * 1024 == made.max_buffer_size
    assert 16 * 1024 * 1024 == server.configure().max_buffer_size
    assert ["Read"] == given.allowed_tools
    with pytest.raises(UsageError, match="mcp_servers"):
        server.configure(ClaudeAgentOptions(mcp_servers="servers.json"))


@pytest.mark.parametrize(
    ("functions", "said"),
    [
        ([Function(name="f"), Function(name="f")], "twice"),
        ([Function(name="")], "not a function name"),
        ([Function(name="a b")], "not a function name"),
        ([Function(name="f" * 513)], "not a function name"),
        ([Function(name="f", parameters={"type": "array"})], "object at its root"),
        ([Function(name="f", result_characters=500_001)], "result_characters"),
        ([Function(name="f", result_characters=0)], "result_characters"),
        ([Function(name=f"f{i}") for i in range(65)], "at most 64"),
    ],
)
async def test_a_declaration_that_cannot_work_is_refused(functions: list[Function], said: str) -> None:
    """When it is made, not when the model calls it."""
    with pytest.raises(UsageError, match=said):
        FunctionServer(FunctionBridge(), functions)


async def test_the_number_of_functions_is_a_limit_of_the_bridge() -> None:
    """It can be set with the others."""
    bridge = FunctionBridge(limits=Limits(functions=1))
    with pytest.raises(UsageError, match="at most 1"):
        FunctionServer(bridge, [Function(name="f"), Function(name="g")])


async def test_a_result_object_is_taken_as_it_is() -> None:
    """A handler may give the admitted form itself."""
    server = FunctionServer(FunctionBridge(), [Function(name="f", handler=giving(FunctionResult(success=True)))])
    assert [] == (await ask(server, "tools/call", name="f", _meta={ID: "toolu_1"}))["content"]
