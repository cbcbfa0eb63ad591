"""The function bridge on the real native CLI, against the scripted model server. Run inside a loopback namespace."""

import os
import random
import struct
import zlib
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

import lastsay
from lastsay.backends import claude
from lastsay.backends.claude import Function, FunctionServer
from lastsay.events import ABORTED, COMPLETED, ERROR, Event, Notice, RunEnded, RunStarted, ToolCall, ToolResult
from lastsay.operators import EXECUTION_FAILED, FunctionBridge, Stream, confirm
from lastsay.receipts import CallRecord, FunctionResult, Ledger, ReadFiles, RefusedError, Verdict
from lastsay.testing import claude_offline_options
from lastsay.testing.model_server import CallTool, ModelServer, Say, Scenario, marker, model_server

sdk = pytest.importorskip("claude_agent_sdk", reason="the claude extra is not installed")

pytestmark = [
    pytest.mark.live,
    pytest.mark.asyncio,
    pytest.mark.timeout(400),
    # claude-agent-sdk 0.2.189 leaves the receiving end of its message stream to the collector.
    pytest.mark.filterwarnings("ignore:.*MemoryObjectReceiveStream:pytest.PytestUnraisableExceptionWarning"),
]

RACE_TRIES = int(os.environ.get("LASTSAY_RACE_TRIES", "200"))
"""Rejected tries of the race; about 40 seconds on two cores."""

PLAIN, DECLARED = "mcp__functions__plain", "mcp__functions__declared"


def _png(width: int) -> str:
    header = struct.pack(">IIBBBBB", width, 4, 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes([30, 200, 30]) * width) * 4)
    chunks = ((b"IHDR", header), (b"IDAT", rows), (b"IEND", b""))
    body = b"".join(struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d)) for t, d in chunks)
    return b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()


def _text(*texts: str) -> list[dict[str, str]]:
    return [{"type": "input_text", "text": text} for text in texts]


def _image(width: int) -> dict[str, str]:
    return {"type": "input_image", "image_url": f"data:image/png;base64,{_png(width)}"}


V = Verdict
PAIR_AT_HEAD, PAIR_AT_TAIL = "h" * 4_999 + "😀" + "t" * 7_000, "h" * 7_000 + "😀" + "t" * 4_999
MATRIX: dict[str, tuple[dict[str, Any], Verdict, Verdict]] = {
    "none": ({}, V.PLACEHOLDER, V.PLACEHOLDER),
    "list": ({"output": []}, V.PLACEHOLDER, V.PLACEHOLDER),
    "empty": ({"output": ""}, V.PLACEHOLDER, V.PLACEHOLDER),
    "white": ({"output": " \t\r\n"}, V.PLACEHOLDER, V.PLACEHOLDER),
    "bom": ({"output": "\ufeff"}, V.PLACEHOLDER, V.PLACEHOLDER),
    "nel": ({"output": "\u0085"}, V.EXACT, V.EXACT),
    "error-only": ({"error": "why"}, V.EXACT, V.EXACT),
    "error-blank": ({"error": ""}, V.PLACEHOLDER, V.PLACEHOLDER),
    "padded": ({"output": "  padded\n"}, V.EXACT, V.TRIMMED),
    "multi": ({"output": _text("x", "", "y "), "error": "z"}, V.EXACT, V.EXACT),
    "multi-padded": ({"output": _text(" ", "x", "\ufeff")}, V.EXACT, V.TRIMMED),
    "11024": ({"output": "e" * 11_024}, V.EXACT, V.EXACT),
    "11025": ({"output": "e" * 11_025}, V.EXACT, V.TRUNCATED),
    "pair-at-head": ({"output": PAIR_AT_HEAD}, V.EXACT, V.TRUNCATED),
    "pair-at-tail": ({"output": PAIR_AT_TAIL}, V.EXACT, V.TRUNCATED),
    "50000": ({"output": "s" * 50_000}, V.EXACT, V.TRUNCATED),
    "50001": ({"output": "s" * 50_001}, V.PERSISTED, V.TRUNCATED),
    "120000": ({"output": "s" * 120_000}, V.PERSISTED, V.TRUNCATED),
}
SUCCESS_ONLY: dict[str, tuple[str, dict[str, Any], Verdict]] = {
    "image": (PLAIN, {"output": [*_text("before"), _image(2), *_text("after")]}, V.IMAGE),
    "image-scaled": (PLAIN, {"output": [_image(2_400)]}, V.IMAGE),
    "image-alone": (PLAIN, {"output": [_image(2), _image(3)]}, V.IMAGE),
    # Last: 2.1.269 takes it for a full context.
    "declared-500000": (DECLARED, {"output": "d" * 500_000}, V.EXACT),
}


def _cases() -> dict[str, tuple[str, FunctionResult, Verdict]]:
    cases: dict[str, tuple[str, FunctionResult, Verdict]] = {}
    for name, (fields, on_success, on_error) in MATRIX.items():
        for success, verdict in ((True, on_success), (False, on_error)):
            result = FunctionResult.model_validate({"success": success, **fields})
            cases[f"{name}-{'ok' if success else 'error'}"] = (PLAIN, result, verdict)
    for name, (tool, fields, verdict) in SUCCESS_ONLY.items():
        cases[name] = (tool, FunctionResult.model_validate({"success": True, **fields}), verdict)
    return cases


CASES = _cases()
EVERY = Scenario(
    "every", "one call per case", (*((CallTool(t, {"case": n}, id=f"toolu_{n}"),) for n, (t, _, _) in CASES.items()),
    (Say("All done."),)),
)  # fmt: skip
ONE = Scenario("one", "one call, then a sentence", ((Say("I ask."), CallTool(PLAIN)), (Say("Done."),)))
TWO = Scenario("two", "two calls in one message", ((CallTool(PLAIN, id="toolu_a"), CallTool(PLAIN, id="toolu_b")),
    (Say("Done."),)))  # fmt: skip
AGAIN = Scenario("again", "the same id twice", ((CallTool(PLAIN, id="toolu_a"),), (CallTool(PLAIN, id="toolu_a"),),
    (Say("Done."),)))  # fmt: skip
CHILD = Scenario(
    "child",
    "a child in the foreground that calls a function",
    (
        (
            CallTool(
                "Agent",
                {
                    "description": "A child",
                    "subagent_type": "general-purpose",
                    "run_in_background": False,
                    "prompt": f"Work. {marker('one')}",
                },
            ),
        ),
        (Say("The child is back."),),
    ),
)


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    """A model server for all tests: it keeps no state that a conversation could see of another."""
    with model_server(scenarios=(EVERY, ONE, TWO, AGAIN, CHILD)) as running:
        yield running


def _options(server: ModelServer, home: Path, functions: FunctionServer, **fields: Any) -> Any:
    cli = os.environ.get("LASTSAY_CLAUDE_CLI")  # another version than the one that the SDK brings
    return functions.configure(claude_offline_options(server.url, home, cli_path=cli, **fields))


def _stream(server: ModelServer, home: Path, scenario: str, functions: FunctionServer, **fields: Any) -> Stream:
    options = _options(server, home, functions, **fields)
    return claude.stream(f"Go on. {marker(scenario)}", options)


async def _collect(stream: Stream) -> list[Event]:
    async with stream as events:
        return [event async for event in events]


def _notices(events: list[Event], kind: str) -> list[dict[str, Any]]:
    return [event.raw for event in events if type(event) is Notice and event.kind == kind]


def _end(events: list[Event]) -> RunEnded:
    ends = [event for event in events if type(event) is RunEnded and event.run == "main"]
    assert len(ends) == 1
    return ends[0]


def _read(effect: ReadFiles) -> tuple[bytes, ...]:
    return tuple(Path(path).read_bytes() for path in effect.paths)


def _judged_again(record: CallRecord, events: list[Event], profile: Any, *, flipped: bool) -> CallRecord:
    """The record of the same call, its receipt replayed into a fresh ledger, with the error flag flipped or not."""
    ledger = Ledger(profile=profile)
    ledger.announce(record.call, record.function, tool=record.tool, at=0.0)
    ledger.submit(record.call, CASES[record.call.removeprefix("toolu_")][1], at=0.0)
    for event in events:
        if type(event) is ToolResult and event.id == record.call:
            shown = msgspec.structs.replace(event, is_error=event.is_error != flipped)
            ledger.push(shown, at=1.0)
    for effect in ledger.take():
        if isinstance(effect, ReadFiles):
            ledger.supply(effect.call, _read(effect), at=1.0)
    again = ledger.record(record.call)
    assert again is not None
    return again


async def test_every_case_gets_the_verdict_of_the_table(server: ModelServer, tmp_path: Path) -> None:
    """Blank, padded, multi-part, around every threshold, images: each confirmed by its rule; flipped, each refused."""

    async def answer(arguments: Any) -> FunctionResult:
        return CASES[arguments["case"]][1]

    bridge = FunctionBridge(results_root=tmp_path / "config")
    declared = [
        Function(name="plain", handler=answer, result_characters=None),
        Function(name="declared", handler=answer),
    ]
    functions = FunctionServer(bridge, declared)
    events = await _collect(_stream(server, tmp_path, "every", functions) | confirm(bridge))

    expected = {f"toolu_{name}": verdict for name, (_, _, verdict) in CASES.items()}
    assert expected == {record.call: record.verdict for record in bridge.records()}
    assert list(expected) == [raw["call"] for raw in _notices(events, "function_applied")]
    assert list(expected) == [raw["call"] for raw in _notices(events, "function_call")]
    assert EXECUTION_FAILED != _end(events).raw
    profile = bridge.ledger.profile
    for record in bridge.records():
        same = _judged_again(record, events, profile, flipped=False)
        assert (record.verdict, record.proof) == (same.verdict, same.proof)
        assert Verdict.FLAG_CONFLICT == _judged_again(record, events, profile, flipped=True).verdict


def _tampered(stream: Stream, change: Any) -> Stream:
    async def events() -> Any:
        async with stream as source:
            async for event in source:
                yield change(event) if type(event) is ToolResult else event

    return Stream.from_events(events)


@pytest.mark.parametrize("success", [True, False])
async def test_a_flipped_flag_ends_the_run(server: ModelServer, tmp_path: Path, success: bool) -> None:
    """The run ends with execution_failed at that receipt, and the model is not asked again."""

    async def answer(_: Any) -> FunctionResult:
        return FunctionResult(success=success, output="x")

    bridge = FunctionBridge()
    stream = _stream(server, tmp_path, "one", FunctionServer(bridge, [Function(name="plain", handler=answer)]))
    flipped = _tampered(stream, lambda event: msgspec.structs.replace(event, is_error=not event.is_error))
    events = await _collect(flipped | confirm(bridge))
    end = _end(events)
    assert (ERROR, EXECUTION_FAILED) == (end.stop_reason, end.raw)
    assert end is events[-1]
    assert "flag_conflict" in (end.diagnostic or "")
    assert ["flag_conflict"] == [raw["verdict"] for raw in _notices(events, "function_refused")]
    assert [] == _notices(events, "function_applied")


async def test_the_outcome_of_a_failed_confirmation_is_an_error(server: ModelServer, tmp_path: Path) -> None:
    """The run scope sees one end, with the reason beside the text so far."""

    async def answer(_: Any) -> FunctionResult:
        return FunctionResult(success=True, output="x")

    bridge = FunctionBridge()
    stream = _stream(server, tmp_path, "one", FunctionServer(bridge, [Function(name="plain", handler=answer)]))
    changed = _tampered(stream, lambda event: msgspec.structs.replace(event, content=(), native=None))
    outcome = await lastsay.collect(changed | confirm(bridge))
    assert (ERROR, EXECUTION_FAILED) == (outcome.stop_reason, outcome.raw_stop_reason)
    assert "mismatch" in (outcome.diagnostic or "")


async def test_the_consumer_may_be_the_host(server: ModelServer, tmp_path: Path) -> None:
    """The call is told while the CLI is silent, and whoever reads the stream can answer it; ids agree."""
    bridge = FunctionBridge()
    functions = FunctionServer(bridge, [Function(name="plain")])
    kinds: list[str] = []
    called: list[str] = []
    async with _stream(server, tmp_path, "one", functions) | confirm(bridge) as events:
        async for event in events:
            if type(event) is Notice and event.kind.startswith("function_"):
                kinds.append(event.kind)
                if event.kind == "function_call":
                    assert bridge.submit(event.raw["call"], {"success": True, "output": [*_text("a", "b")]})
            elif type(event) is ToolResult:
                kinds.append("receipt")
            elif type(event) is ToolCall:
                assert PLAIN == event.name
                called.append(event.id)
    assert ["function_call", "receipt", "function_applied"] == kinds
    assert [bridge.records()[0].call] == called


async def test_concurrent_calls_are_confirmed_in_their_own_order(server: ModelServer, tmp_path: Path) -> None:
    """Functions that only read run at once; the second one is answered first, and each finds its receipt."""
    bridge = FunctionBridge()
    functions = FunctionServer(bridge, [Function(name="plain", read_only=True)])
    events: list[Event] = []
    waiting: list[str] = []
    async with _stream(server, tmp_path, "two", functions) | confirm(bridge) as stream:
        async for event in stream:
            events.append(event)
            if type(event) is Notice and event.kind == "function_call":
                waiting.append(event.raw["call"])
                if len(waiting) == 2:
                    bridge.submit("toolu_b", {"success": True, "output": "b"})
            if type(event) is Notice and event.kind == "function_applied" and event.raw["call"] == "toolu_b":
                bridge.submit("toolu_a", {"success": False, "error": "a"})
    assert ["toolu_b", "toolu_a"] == [raw["call"] for raw in _notices(events, "function_applied")]
    assert {Verdict.EXACT: 2} == bridge.verdicts()


async def test_a_repeated_id_is_refused(server: ModelServer, tmp_path: Path) -> None:
    """The host is asked once; the second receipt is a duplicate and changes nothing."""
    asked: list[Any] = []

    async def answer(arguments: Any) -> FunctionResult:
        asked.append(arguments)
        return FunctionResult(success=True, output="x")

    bridge = FunctionBridge()
    functions = FunctionServer(bridge, [Function(name="plain", handler=answer)])
    events = await _collect(_stream(server, tmp_path, "again", functions) | confirm(bridge))
    assert 1 == len(asked)
    assert {Verdict.EXACT: 1} == bridge.verdicts()
    assert [{"call": "toolu_a", "verdict": "duplicate"}] == _notices(events, "function_stray")
    assert COMPLETED == _end(events).stop_reason


async def test_a_subagents_call_is_confirmed_by_its_content(server: ModelServer, tmp_path: Path) -> None:
    """Its receipt carries no record; the run that made the call is the only one whose receipt counts."""

    async def answer(_: Any) -> FunctionResult:
        return FunctionResult(success=True, output="for the child")

    bridge = FunctionBridge()
    functions = FunctionServer(bridge, [Function(name="plain", handler=answer)])
    events = await _collect(_stream(server, tmp_path, "child", functions, tools=["Agent"]) | confirm(bridge))
    (record,) = bridge.records()
    child = next(event.run for event in events if type(event) is RunStarted and event.parent == "main")
    assert (Verdict.EXACT, "content", child) == (record.verdict, record.proof, record.run)
    told = [(e.kind, e.run) for e in events if type(e) is Notice and e.kind.startswith("function_")]
    assert [("function_call", child), ("function_applied", child)] == told
    assert COMPLETED == _end(events).stop_reason


async def test_the_clis_own_timeout_is_not_a_failure_of_the_run(server: ModelServer, tmp_path: Path) -> None:
    """The call is settled as timed out, a late result is refused, and the run goes on."""
    late: list[str] = []
    bridge = FunctionBridge()
    functions = FunctionServer(bridge, [Function(name="plain")])
    stream = _stream(server, tmp_path, "one", functions, env={"MCP_TOOL_TIMEOUT": "500"})
    async with stream | confirm(bridge) as source:
        events = []
        async for event in source:
            events.append(event)
            if type(event) is Notice and event.kind == "function_refused":
                with pytest.raises(RefusedError) as refused:
                    bridge.submit(event.raw["call"], {"success": True})
                late.append(refused.value.reason)
    assert {Verdict.TIMED_OUT: 1} == bridge.verdicts()
    assert ["conflict"] == late
    assert COMPLETED == _end(events).stop_reason


async def test_a_receipt_that_never_comes_ends_the_run(server: ModelServer, tmp_path: Path) -> None:
    """The wait has a limit, and what is missing then is never sent again."""

    async def answer(_: Any) -> FunctionResult:
        return FunctionResult(success=True, output="x")

    bridge = FunctionBridge(timeout=0.3)
    functions = FunctionServer(bridge, [Function(name="plain", handler=answer)])

    async def without_receipts() -> Any:
        async with _stream(server, tmp_path, "one", functions) as source:
            async for event in source:
                if type(event) is ToolResult:
                    await anyio.sleep(60)
                yield event

    events = await _collect(Stream.from_events(without_receipts) | confirm(bridge))
    assert EXECUTION_FAILED == _end(events).raw
    assert {Verdict.MISSING: 1} == bridge.verdicts()


class _Interrupted:
    """A client that lives for many turns, each of which is interrupted while a call is pending."""

    def __init__(self, client: Any, functions: FunctionServer) -> None:
        self.client, self.functions = client, functions

    async def turn(self, submit_after: float | None, interrupt_after: float) -> tuple[CallRecord, str, str]:
        """One turn: its call, what the native history says about it, and why the run ended."""
        bridge = self.functions.bridge = FunctionBridge()
        said, end = "", ""
        await self.client.query(f"Go on. {marker('one')}")

        async def submit(call: str) -> None:
            await anyio.sleep(submit_after or 0.0)
            try:
                bridge.submit(call, {"success": False, "error": " "})
            except RefusedError as error:
                assert "conflict" == error.reason

        async def interrupt() -> None:
            await anyio.sleep(interrupt_after)
            await self.client.interrupt()

        stream = claude.events(self.client.receive_response()) | confirm(bridge)
        async with anyio.create_task_group() as tasks, stream as events:
            async for event in events:
                if type(event) is Notice and event.kind == "function_call":
                    if submit_after is not None:
                        tasks.start_soon(submit, event.raw["call"])
                    tasks.start_soon(interrupt)
                elif type(event) is ToolResult:
                    said = event.native["tool_use_result"]
                elif type(event) is RunEnded:
                    end = event.stop_reason
        (record,) = bridge.records()
        return record, said, end


async def test_an_interrupt_settles_what_was_not_answered(server: ModelServer, tmp_path: Path) -> None:
    """The call is rejected, the run is aborted, and neither is a failed confirmation."""
    functions = FunctionServer(FunctionBridge(), [Function(name="plain")])
    options = _options(server, tmp_path, functions)
    async with sdk.ClaudeSDKClient(options) as client:
        record, said, end = await _Interrupted(client, functions).turn(None, 0.05)
    assert (Verdict.REJECTED, "User rejected tool use", ABORTED) == (record.verdict, said, end)
    assert record.content is None
    assert not record.fatal


SAYS = {
    "User rejected tool use": Verdict.REJECTED,
    "Error: Command failed with no output": Verdict.PLACEHOLDER,
}
"""The CLI's own record of the call, and the only verdict that it allows."""


async def test_a_blank_error_that_an_interrupt_overtook_is_never_confirmed(server: ModelServer, tmp_path: Path) -> None:
    """At random offsets around an interrupt the verdict is what the history holds: a rejection is never a blank error.

    Both are an error with some text of the CLI's own. Where the result was early enough to be applied, the record says
    so, and those tries do not count. How often the result was under way at all depends on the machine: it goes on until
    that was so in half of the tries that are asked for.
    """
    rng = random.Random(20261130)
    functions = FunctionServer(FunctionBridge(), [Function(name="plain")])
    options = _options(server, tmp_path, functions)
    seen: Counter[str] = Counter()
    submitted = 0
    async with sdk.ClaudeSDKClient(options) as client:
        session = _Interrupted(client, functions)
        while seen["User rejected tool use"] < RACE_TRIES or 2 * submitted <= RACE_TRIES:
            offset = rng.uniform(-0.005, 0.003)
            record, said, _ = await session.turn(max(0.0, -offset), max(0.0, offset))
            assert SAYS[said] == record.verdict
            seen[said] += 1
            submitted += said == "User rejected tool use" and record.content is not None
            assert seen.total() < 4 * RACE_TRIES
