"""confirm and the function bridge: what is added to a stream, when it ends early, and who is let go."""

import json
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from tests.unit.operators.streams import Watched, read

from lastsay.errors import ReceiptError, SourceError, UsageError
from lastsay.events import (
    ABORTED,
    COMPLETED,
    ERROR,
    Event,
    Notice,
    RunEnded,
    RunStarted,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
)
from lastsay.operators import EXECUTION_FAILED, FunctionBridge, Stream, confirm
from lastsay.receipts import EXACT, FunctionResult, Limits, RefusedError, Verdict, record_of

pytestmark = pytest.mark.anyio

START, END, STOPPED = RunStarted(), RunEnded(COMPLETED), RunEnded(ABORTED)
RESULT = FunctionResult(success=True, output="x")


def receipt(text: str = "x", call: str = "c1", *, is_error: bool = False, **native: Any) -> ToolResult:
    """A receipt of one text block."""
    return ToolResult(call, (Text(text),), is_error, native or None)


REJECTION = receipt("no", is_error=True, non_execution_kind="user-rejected")


class Harness:
    """A source that asks the bridge for a call, and goes on with `after` once it has the result."""

    def __init__(self, bridge: FunctionBridge, *after: Event | float, call: str = "c1") -> None:
        self.bridge, self.after, self.call = bridge, after, call
        self.got: list[FunctionResult | str] = []
        self.closed = False

    async def play(self) -> Any:
        """Start, the call, and what comes after it."""
        try:
            yield [START, ToolCall(self.call, "mcp__functions__f")]
            try:
                self.got.append(await self.bridge.call(self.call, "f", {"a": 1}, tool="mcp__functions__f"))
            except RefusedError as error:
                self.got.append(error.reason)
            for step in self.after:
                if isinstance(step, float):
                    await anyio.sleep(step)
                else:
                    yield [step]
        finally:
            self.closed = True

    @property
    def stream(self) -> Stream:
        """The stream of it, confirmed."""
        return Stream.from_batches(self.play) | confirm(self.bridge)


async def answered(harness: Harness, result: FunctionResult | dict[str, Any] = RESULT) -> list[Event]:
    """All events, the host answering as soon as it is asked."""
    events: list[Event] = []
    async with harness.stream as stream:
        async for event in stream:
            events.append(event)
            if type(event) is Notice and event.kind == "function_call":
                harness.bridge.submit(event.raw["call"], result)
    return events


def kinds(events: list[Event]) -> list[str]:
    """The kinds of the notices among the events."""
    return [event.kind for event in events if type(event) is Notice]


async def test_an_applied_result_is_told_after_its_receipt():
    """Everything passes in order; the call is told before, the confirmation after."""
    harness = Harness(FunctionBridge(), receipt(), TextDelta("t"), END)
    events = await answered(harness)
    names = [event.kind if type(event) is Notice else type(event).__name__ for event in events]
    assert [
        "RunStarted",
        "ToolCall",
        "function_call",
        "ToolResult",
        "function_applied",
        "TextDelta",
        "RunEnded",
    ] == names
    call, applied = (event.raw for event in events if type(event) is Notice)
    assert {"call": "c1", "function": "f", "tool": "mcp__functions__f", "arguments": {"a": 1}} == call
    assert ("exact", "content", False) == (applied["verdict"], applied["proof"], applied["is_error"])
    assert 0 <= applied["receipt_seconds"] <= applied["seconds"]
    assert [RESULT] == harness.got
    assert {Verdict.EXACT: 1} == harness.bridge.verdicts()


@pytest.mark.parametrize(
    ("shown", "word"),
    [(receipt(is_error=True), "flag_conflict"), (receipt("y"), "mismatch")],
)
async def test_a_result_that_cannot_be_confirmed_ends_the_run(shown: ToolResult, word: str):
    """What comes after the receipt is not passed on, and the source is closed."""
    harness = Harness(FunctionBridge(), shown, 3600.0, END)
    events = await answered(harness)
    end = events[-1]
    assert isinstance(end, RunEnded)
    assert (ERROR, EXECUTION_FAILED, "main") == (end.stop_reason, end.raw, end.run)
    assert word in (end.diagnostic or "")
    assert ["function_call", "function_refused"] == kinds(events)
    assert harness.closed


async def test_a_receipt_that_never_comes_ends_the_run():
    """The wait wakes without any event of the source."""
    harness = Harness(FunctionBridge(timeout=0.05), 3600.0)
    with anyio.fail_after(5):
        events = await answered(harness)
    assert EXECUTION_FAILED == getattr(events[-1], "raw", None)
    assert {Verdict.MISSING: 1} == harness.bridge.verdicts()


@pytest.mark.parametrize(
    ("end", "stop"), [(STOPPED, (ABORTED, None)), (RunEnded("max-tokens"), ("max-tokens", None)),
                      (END, (ERROR, EXECUTION_FAILED))]
)  # fmt: skip
async def test_a_rejected_result_fails_only_a_run_that_says_it_completed(end: RunEnded, stop: tuple[str, str | None]):
    """A run that was cancelled ends as such; one that claims to be complete without the result does not."""
    events = await answered(Harness(FunctionBridge(), REJECTION, end))
    last = events[-1]
    assert isinstance(last, RunEnded)
    assert stop == (last.stop_reason, last.raw)
    assert ["function_call", "function_refused"] == kinds(events)


@pytest.mark.parametrize("end", [END, STOPPED, None])
async def test_an_end_without_the_receipt_is_a_failure(end: RunEnded | None):
    """Also where the source just stops, and also where the run was aborted: nobody knows what was applied."""
    events = await answered(Harness(FunctionBridge(), *([end] if end else [])))
    assert EXECUTION_FAILED == getattr(events[-1], "raw", None)
    assert 1 == sum(type(event) is RunEnded for event in events)


@pytest.mark.parametrize(("end", "fatal"), [(STOPPED, False), (END, True)])
async def test_an_unanswered_call_may_be_dropped_by_a_cancellation_only(end: RunEnded, fatal: bool):
    """Whoever waits for its result is let go; a run that completed without it is not believed."""
    bridge = FunctionBridge()
    waited: list[str] = []

    async def wait() -> None:
        try:
            await bridge.call("c1", "f")
        except RefusedError as error:
            waited.append(error.reason)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(5):
            events = await read(Watched(START, end).stream | confirm(bridge))
    assert ["conflict"] == waited
    assert fatal == (getattr(events[-1], "raw", None) == EXECUTION_FAILED)


async def test_a_call_is_not_told_before_the_start():
    """Even where the harness asks before its stream has begun."""
    bridge = FunctionBridge(profile=EXACT)
    bridge.ledger.announce("c1", "f", at=anyio.current_time())
    bridge.submit("c1", RESULT)

    async def play() -> Any:
        await anyio.sleep(0.02)
        yield [START, receipt(), END]

    events = await read(Stream.from_batches(play) | confirm(bridge))
    assert START is events[0]
    assert ["function_call", "function_applied"] == kinds(events)


async def test_a_call_is_told_in_the_run_that_made_it():
    """The request may be quicker than its tool call; then it waits for it, and is told after it."""
    bridge = FunctionBridge()

    async def play() -> Any:
        yield [START, RunStarted(parent="main", run="child")]
        with anyio.move_on_after(3600):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(bridge.call, "c1", "f")
                await anyio.sleep(0.02)
                yield [ToolCall("c1", "mcp__functions__f", run="child")]
        yield [ToolResult("c1", (Text("x"),), run="child"), END]

    events: list[Event] = []
    async with Stream.from_batches(play) | confirm(bridge) as stream:
        async for event in stream:
            events.append(event)
            if type(event) is Notice and event.kind == "function_call":
                assert type(events[-2]) is ToolCall
                assert ("child", "mcp__functions__f") == (event.run, event.raw["tool"])
                bridge.submit("c1", RESULT)
    assert ["function_call", "function_applied"] == kinds(events)


async def test_a_call_without_a_tool_call_event_is_told_all_the_same():
    """A harness that has no such event costs a short wait."""
    bridge = FunctionBridge(profile=EXACT)

    async def play() -> Any:
        yield [START]
        result = await bridge.call("c1", "f")
        yield [ToolResult("c1", result.parts), END]

    with anyio.fail_after(5):
        async with Stream.from_batches(play) | confirm(bridge) as stream:
            async for event in stream:
                if type(event) is Notice and event.kind == "function_call":
                    assert "main" == event.run
                    bridge.submit("c1", RESULT)
    assert {Verdict.EXACT: 1} == bridge.verdicts()


async def test_leaving_early_lets_everyone_go():
    """The source is closed, the waiting call is released, and its verdict is that it was cancelled."""
    harness = Harness(FunctionBridge(), END)
    async with harness.stream as stream:
        async for event in stream:
            if type(event) is Notice:
                break
    assert harness.closed
    assert {Verdict.REJECTED: 1} == harness.bridge.verdicts()


async def test_duplicates_are_told_and_change_nothing():
    """A second receipt is a notice of its own; receipts of other tools pass in silence."""
    events = await answered(Harness(FunctionBridge(), receipt(), receipt("y"), receipt(call="bash"), END))
    assert ["function_call", "function_applied", "function_stray"] == kinds(events)
    assert {"call": "c1", "verdict": "duplicate"} == next(
        event.raw for event in events if type(event) is Notice and event.kind == "function_stray"
    )
    assert events[-1] is END


@pytest.mark.parametrize("root", ["main", "mine"])
async def test_the_root_is_the_first_run(root: str):
    """Its own end closes the ledger, a child's does not."""
    bridge = FunctionBridge(profile=EXACT)

    async def play() -> Any:
        yield [RunStarted(run=root), RunStarted(parent=root, run="child")]
        bridge.ledger.announce("c1", "f", at=anyio.current_time())
        bridge.submit("c1", RESULT)
        yield [RunEnded(COMPLETED, run="child")]
        yield [ToolCall("c1", "f", run=root), ToolResult("c1", (Text("x"),), run=root), RunEnded(COMPLETED, run=root)]

    events = await read(Stream.from_batches(play) | confirm(bridge))
    assert {Verdict.EXACT: 1} == bridge.verdicts()
    assert [COMPLETED, COMPLETED] == [event.stop_reason for event in events if type(event) is RunEnded]


async def test_errors_of_the_source_arrive_as_they_are():
    """At entry and between events; what was ready before is passed on first."""
    failure = SourceError("gone")
    with pytest.raises(SourceError, match="gone"):
        async with Watched(START, failure).stream | confirm(FunctionBridge()) as stream:
            assert START is await anext(stream)
            await anext(stream)
    with pytest.raises(SourceError, match="gone"):
        await read(Watched(failure).stream | confirm(FunctionBridge()))


async def test_a_bridge_serves_one_run():
    """A second entry is refused before the source is opened."""
    bridge, source = FunctionBridge(), Watched(START, END)
    stream = source.stream | confirm(bridge)
    assert [START, END] == await read(stream)
    with pytest.raises(UsageError, match="one run"):
        await read(stream)
    assert 1 == source.opened


async def test_any_iterable_can_be_confirmed():
    """Not only streams."""

    async def events() -> Any:
        yield START
        yield END

    assert [START, END] == await read(confirm(FunctionBridge())(events()))


# Files


def persisted(
    folder: Path, content: str, *, session: str = "s1", name: str = "mcp-functions-f-1.txt"
) -> tuple[Path, str]:
    """A result file of a session, and the notice that names it."""
    path = folder / "projects" / "-work" / session / "tool-results" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    head = f"Error: result ({len(content)} characters across 1 line) exceeds maximum allowed tokens."
    return path, f"{head} Output has been saved to {path}.\nFormat: Plain text\n"


async def verdict_of(notice: str, *, root: Path | None = None, session: str = "s1") -> Verdict | None:
    """The verdict on a long result whose receipt is this notice."""
    bridge = FunctionBridge(results_root=root)
    events = Harness(bridge, receipt(notice, session_id=session), END)
    await answered(events, FunctionResult(success=True, output="long"))
    return bridge.records()[0].verdict


async def test_a_result_file_is_read_and_compared(tmp_path: Path):
    """Inside the session's own folder and, where one is given, below the root."""
    _, notice = persisted(tmp_path, "long")
    assert Verdict.PERSISTED == await verdict_of(notice)
    assert Verdict.PERSISTED == await verdict_of(notice, root=tmp_path)
    assert Verdict.MISMATCH == await verdict_of(notice, root=tmp_path / "other")
    assert Verdict.MISMATCH == await verdict_of(notice, session="s2")
    _, other = persisted(tmp_path, "else")
    assert Verdict.MISMATCH == await verdict_of(other)


async def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path):
    """Nor is a file read that is not there; a link inside the folder is fine."""
    path, notice = persisted(tmp_path, "long")
    outside = tmp_path / "outside.txt"
    path.rename(outside)
    path.symlink_to(outside)
    assert Verdict.MISMATCH == await verdict_of(notice)
    path.unlink()
    assert Verdict.MISMATCH == await verdict_of(notice)
    beside = path.with_name("other.txt")
    beside.write_text("long")
    path.symlink_to(beside)
    assert Verdict.PERSISTED == await verdict_of(notice)


async def test_the_parts_of_a_file_may_be_json(tmp_path: Path):
    """As the CLI writes more than one part."""
    result = FunctionResult(success=True, output="long", error="too")
    _, notice = persisted(tmp_path, json.dumps(record_of(result.parts), indent=2))
    bridge = FunctionBridge()
    await answered(Harness(bridge, receipt(notice, session_id="s1"), END), result)
    assert {Verdict.PERSISTED: 1} == bridge.verdicts()


# The bridge alone


async def test_a_result_may_be_given_as_json():
    """It is admitted by the same rules; what is refused leaves the call pending."""
    bridge = FunctionBridge(limits=Limits(result=100))
    got: list[FunctionResult] = []

    async def wait() -> None:
        got.append(await bridge.call("c1", "f"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        for bad in ({"success": 1}, {"success": True, "output": "x" * 200}, {"success": True, "more": 1}):
            with pytest.raises(ReceiptError):
                bridge.submit("c1", bad)
        with pytest.raises(ReceiptError, match="limit"):
            bridge.submit("c1", FunctionResult(success=True, output="x" * 200))
        assert bridge.submit("c1", {"success": True, "output": "x"})
        assert not bridge.submit("c1", {"success": True, "output": "x"})
    assert [RESULT.identity] == [result.identity for result in got]


async def test_a_batch_answers_several_calls():
    """All of them or none, whoever waits."""
    bridge = FunctionBridge()
    got: dict[str, FunctionResult] = {}

    async def wait(call: str) -> None:
        got[call] = await bridge.call(call, "f")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait, "c1")
        tasks.start_soon(wait, "c2")
        await anyio.wait_all_tasks_blocked()
        batch = [{"call_id": call, "success": True} for call in ("c1", "c2", "c3")]
        with pytest.raises(RefusedError):
            bridge.submit_all(batch)
        assert not got
        assert {"c1": True, "c2": True} == bridge.submit_all(batch[:2])
    assert {"c1", "c2"} == set(got)


async def test_a_cancelled_wait_marks_its_call():
    """Nobody is left to take the result: it is refused, and could not be confirmed."""
    bridge = FunctionBridge()
    with anyio.move_on_after(0.01):
        await bridge.call("c1", "f")
    with pytest.raises(RefusedError, match="abandoned"):
        bridge.submit("c1", RESULT)


async def test_a_cancelled_run_takes_no_first_result():
    """From the moment in which its host says so."""
    bridge = FunctionBridge()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bridge.call, "c1", "f")
        await anyio.wait_all_tasks_blocked()
        bridge.cancel()
        with pytest.raises(RefusedError, match="abandoned"):
            bridge.submit("c1", RESULT)
        tasks.cancel_scope.cancel()


async def give(value: Any) -> Any:
    """A handler: gives what it is asked for, or raises it."""
    await anyio.lowlevel.checkpoint()
    if isinstance(value, Exception):
        raise value
    return value


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (RESULT, RESULT),
        ({"success": True, "output": "x"}, RESULT),
        (ValueError("exploded"), FunctionResult(success=False, error="exploded")),
        (ValueError(), FunctionResult(success=False, error="ValueError")),
    ],
)
async def test_a_handler_answers_its_own_call(given: Any, expected: FunctionResult):
    """What it gives is submitted; an exception becomes a failed result with its text."""
    bridge = FunctionBridge()
    assert expected.identity == (await bridge.answer("c1", "f", given, give)).identity
    (record,) = bridge.records()
    assert (expected.parts, expected.is_error) == (record.content, record.is_error)


@pytest.mark.parametrize("given", [{"success": 1}, {"success": True, "output": "x" * 200}, RESULT.model_copy(
    update={"output": "x" * 200})])  # fmt: skip
async def test_a_handler_that_gives_nonsense_fails_its_call(given: Any):
    """The model is told what is wrong with it."""
    bridge = FunctionBridge(limits=Limits(result=100))
    result = await bridge.answer("c1", "f", given, give)
    assert result.is_error
    assert "function result refused" in (result.error or "")


async def test_a_cancelled_handler_marks_its_call():
    """The handler is cancelled with it."""
    bridge = FunctionBridge()
    with anyio.move_on_after(0.01):
        await bridge.answer("c1", "f", None, lambda _: anyio.sleep(3600))
    with pytest.raises(RefusedError, match="abandoned"):
        bridge.submit("c1", RESULT)
