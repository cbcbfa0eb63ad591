"""The live adapter against the scripted agent, in every mode that it has."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from lastsay.backends import _process, acp
from lastsay.backends.acp import _live
from lastsay.errors import SourceError, UsageError
from lastsay.events import (
    MAIN,
    EpochStarted,
    Event,
    Fault,
    Message,
    Notice,
    RunEnded,
    RunStarted,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
)
from lastsay.fold import ANSWER, CANONICAL, Outcome, RunFold
from lastsay.operators import Stream
from lastsay.testing.acp_agent import EXPECTED, MODES, command

QUICK: dict[str, Any] = {"linger": 0.03, "start_limit": 10.0}
CONDITIONAL = {
    "slow",
    "flood",
    "long_line",
    "grandchild",
    "hang",
    "deaf",
    "end_turn_on_cancel",
    "error_on_cancel",
    "babble",
    "withdrawn_permission",
}
UNSTARTED = {"exit_at_start", "hang_at_start", "refuse_config", "refuse_session"}


@pytest.fixture(autouse=True)
def short_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that exist for slow agents are cut for a quick one."""
    monkeypatch.setattr(_process, "_ORPHAN_BOUND", 0.2)
    monkeypatch.setattr(_process, "_TERM_BOUND", 0.2)


def scripted(mode: str, *arguments: str, **options: Any) -> Stream:
    """A stream of the scripted agent."""
    return acp.stream(command(mode, *arguments), "Hi.", **{**QUICK, **options})


async def taken(stream: Stream) -> list[Event]:
    """All events of a stream."""
    async with stream as events:
        return [event async for event in events]


def outcome_of(events: list[Event], run: str = MAIN, policy: Any = CANONICAL) -> Outcome:
    """What the fold makes of one run."""
    fold = RunFold(policy)
    for event in events:
        if event.run == run:
            fold.push(event)
    return fold.outcome()


def text_of(outcome: Outcome) -> str | None:
    """The text of an outcome's output."""
    if outcome.output is None:
        return None
    return "".join(block.text for block in outcome.output if isinstance(block, Text))


def faults_in(events: list[Event]) -> tuple[str, ...]:
    """The kinds of the faults, in order."""
    return tuple(event.kind for event in events if isinstance(event, Fault))


def test_every_mode_has_an_expectation() -> None:
    """No mode of the scripted agent goes untested."""
    assert set(MODES) == set(EXPECTED) | CONDITIONAL | UNSTARTED


@pytest.fixture(scope="module")
def runs() -> Iterator[dict[str, list[Event]]]:
    """The events of every mode, run six at a time."""

    async def run_all() -> dict[str, list[Event]]:
        found: dict[str, list[Event]] = {}
        limit = asyncio.Semaphore(6)

        async def run_one(mode: str) -> None:
            async with limit:
                protocol = 2 if mode.startswith("second_") else 1
                linger = 0.5 if mode == "late_text" else 0.03
                found[mode] = await taken(scripted(mode, protocol=protocol, linger=linger))

        await asyncio.gather(*[run_one(mode) for mode in EXPECTED])
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_process, "_ORPHAN_BOUND", 0.2)
        patched.setattr(_process, "_TERM_BOUND", 0.2)
        yield asyncio.run(run_all())


@pytest.mark.parametrize("mode", sorted(EXPECTED))
def test_mode(mode: str, runs: dict[str, list[Event]]) -> None:
    """No hang, nothing lost but what was broken, one named fault for each broken piece, and one end."""
    expected, events = EXPECTED[mode], runs[mode]
    outcome = outcome_of(events)
    assert (expected.output, expected.stop) == (text_of(outcome), outcome.stop_reason)
    assert expected.faults == faults_in(events)
    assert isinstance(events[0], RunStarted)
    assert isinstance(events[-1], RunEnded)
    for kind in (RunStarted, RunEnded):
        ends = [event.run for event in events if type(event) is kind]
        assert len(set(ends)) == len(ends)


@pytest.mark.parametrize("mode", ["normal", "no_ids", "two_steps", "retry", "warnings_without_ids", "early_update"])
def test_both_policies_agree_where_the_agent_is_plain(mode: str, runs: dict[str, list[Event]]) -> None:
    """The answer policy selects the same text as the canonical one."""
    assert EXPECTED[mode].output == text_of(outcome_of(runs[mode], policy=ANSWER))


@pytest.mark.asyncio
async def test_the_run_says_who_the_agent_is() -> None:
    """Name and backend stand in the start."""
    events = await taken(scripted("normal", "--name", "gemini-cli"))
    assert RunStarted(agent="gemini-cli", backend="acp") == events[0]
    assert RunEnded("completed", raw="end_turn", provenance="unknown") == events[-1]


def test_tool_calls_are_told_with_their_input_and_result(runs: dict[str, list[Event]]) -> None:
    """One call with the input that came later, one result with its content, the message before them."""
    events = runs["two_steps"]
    kinds = [type(event) for event in events if type(event) in (Message, ToolCall, ToolResult)]
    assert [Message, ToolCall, ToolResult, Message] == kinds
    call = next(event for event in events if isinstance(event, ToolCall))
    result = next(event for event in events if isinstance(event, ToolResult))
    assert ToolCall("call-1", "List files", {"command": "ls"}) == call
    assert ((Text("a.txt"),), False) == (result.content, result.is_error)


def test_a_child_session_is_a_run_of_its_own(runs: dict[str, list[Event]]) -> None:
    """The child has its start, its parent, its output and its end, before the parent's."""
    events = runs["children"]
    child = [event for event in events if event.run != MAIN]
    assert isinstance(child[0], RunStarted)
    assert (MAIN, "helper") == (child[0].parent, child[0].agent)
    assert RunEnded("completed", raw="end_turn", run=child[0].run) == child[-1]
    assert text_of(outcome_of(events, child[0].run)) == "Found."
    assert not [event for event in events if isinstance(event, EpochStarted)]


def test_late_text_is_counted(runs: dict[str, list[Event]]) -> None:
    """What came after the answer is in the output, and a notice says how much it was."""
    events = runs["late_text"]
    assert Notice("late", {"updates": 1, "characters": 6}) in events


def test_an_exit_status_is_told(runs: dict[str, list[Event]]) -> None:
    """A dead agent's status stands in the end, and the diagnostic says what happened."""
    end = runs["half_a_line_then_exit"][-1]
    assert isinstance(end, RunEnded)
    assert end.exit_status == 3
    assert end.provenance == "unknown"
    assert end.diagnostic == "the agent ended with exit status 3 before it answered the prompt"
    killed = runs["crash"][-1]
    assert isinstance(killed, RunEnded)
    assert killed.exit_status == -9
    assert killed.diagnostic == "the agent was ended by signal 9 before it answered the prompt"


@pytest.mark.asyncio
@pytest.mark.parametrize("mode", sorted(UNSTARTED))
async def test_an_agent_that_does_not_start_is_a_source_error(mode: str) -> None:
    """Entry raises, says why, and no run has begun."""
    said = {
        "exit_at_start": "exited 9.*no configuration found",
        "hang_at_start": "did not answer initialize within",
        "refuse_config": "refused session/set_config_option: no such option",
        "refuse_session": "refused session/new: Authentication required",
    }
    limit = 0.6 if mode == "hang_at_start" else 10.0
    with pytest.raises(SourceError, match=said[mode]):
        await taken(scripted(mode, start_limit=limit, config={"model": "large"}))


@pytest.mark.asyncio
async def test_a_prompt_of_any_text_gets_there() -> None:
    """Also one with half a character, and one made of blocks."""
    for prompt in ("\ud83d", [{"type": "text", "text": "Hi."}]):
        events = await taken(acp.stream(command("normal"), prompt, **QUICK))
        assert text_of(outcome_of(events)) == "Hello there."


@pytest.mark.asyncio
async def test_session_options_are_set_before_the_prompt() -> None:
    """An agent that takes them answers as usual."""
    assert (
        text_of(outcome_of(await taken(scripted("normal", config={"model": "large", "mode": "ask"})))) == "Hello there."
    )


def test_no_call_blocks_the_event_loop() -> None:
    """Not for files, processes or sleep."""
    blockbuster = pytest.importorskip("blockbuster", reason="the tests group is not installed")
    streams = [scripted(mode) for mode in ("normal", "children", "crash")]

    async def run() -> None:
        for stream in streams:
            await taken(stream)

    with blockbuster.blockbuster_ctx("lastsay"):
        asyncio.run(run())


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("policy", "answer"),
    [
        ("reject", "no"),
        ("allow", "yes"),
        (lambda request: request.options[0].id, "yes-always"),
        (lambda _: None, "cancelled"),
        (lambda _: "nonsense", "no"),
        (lambda _: 1 / 0, "no"),
    ],
    ids=["reject", "allow", "callback", "no_answer", "no_option", "failing"],
)
async def test_permission_policies(policy: Any, answer: str) -> None:
    """The agent gets the option that the policy picked; a policy that fails rejects, and is told."""
    events = await taken(scripted("permission", permission=policy))
    assert answer == text_of(outcome_of(events))
    assert (answer == "no" and callable(policy)) == ("permission" in faults_in(events))
    assert [n.kind for n in events if isinstance(n, Notice) and n.kind.startswith("permission")] == [
        "permission_request",
        "permission_answered",
    ]


@pytest.mark.asyncio
async def test_an_async_permission_function_is_awaited() -> None:
    """The request holds what the agent wants to do."""
    seen: list[acp.PermissionRequest] = []

    async def decide(request: acp.PermissionRequest) -> str:
        seen.append(request)
        await anyio.sleep(0.02)
        return "yes"

    events = await taken(scripted("permission", permission=decide))
    assert text_of(outcome_of(events)) == "yes"
    assert [("Remove files", "call-1", {"command": "rm"})] == [(r.title, r.tool_call, r.input) for r in seen]


async def cancelled_after_text(mode: str, **options: Any) -> list[Event]:
    """The events of a run that is cancelled by its event as soon as text has come."""
    cancel = asyncio.Event()
    out: list[Event] = []
    async with scripted(mode, cancel=cancel, **options) as events:
        async for event in events:
            out.append(event)
            if isinstance(event, TextDelta):
                cancel.set()
    return out


@pytest.mark.asyncio
@pytest.mark.parametrize("mode", ["slow", "hang", "end_turn_on_cancel", "error_on_cancel"])
async def test_a_cancelled_turn_keeps_its_text(mode: str) -> None:
    """The run ends as aborted whatever the agent's word for it is, with the text so far."""
    outcome = outcome_of(await cancelled_after_text(mode))
    assert outcome.stop_reason == "aborted"
    assert (text_of(outcome) or "").startswith(("Hello", "word"))


@pytest.mark.asyncio
async def test_an_agent_that_ignores_cancellation_is_killed() -> None:
    """After the limit it is gone, and a fault says so."""
    events = await cancelled_after_text("deaf", cancel_limit=0.1)
    assert "cancel_ignored" in faults_in(events)
    assert outcome_of(events).stop_reason == "aborted"


@pytest.mark.asyncio
async def test_a_pending_permission_is_answered_when_cancelled() -> None:
    """The agent that waits for its permission gets `cancelled`, as the protocol demands."""
    cancel = asyncio.Event()

    async def never(_: acp.PermissionRequest) -> str:
        cancel.set()
        await anyio.sleep_forever()
        return ""

    events = await taken(scripted("permission", permission=never, cancel=cancel))
    assert (outcome_of(events).stop_reason, text_of(outcome_of(events))) == ("aborted", "cancelled")


async def never(_: acp.PermissionRequest) -> str:
    """A person who does not answer."""
    await anyio.sleep_forever()
    return ""


@pytest.mark.asyncio
async def test_a_request_that_is_withdrawn_is_let_go() -> None:
    """The agent gets the protocol's error for it, and goes on."""
    assert text_of(outcome_of(await taken(scripted("withdrawn_permission", permission=never)))) == "withdrawn"


@pytest.mark.asyncio
async def test_leaving_while_a_permission_is_pending() -> None:
    """The person is not waited for."""
    async with scripted("permission", permission=never) as events:
        async for event in events:
            if isinstance(event, Notice) and event.kind == "permission_request":
                break


@pytest.mark.asyncio
async def test_leaving_early_ends_the_agent_and_all_it_started() -> None:
    """A consumer that breaks off leaves no process behind."""
    async with scripted("grandchild") as events:
        async for event in events:
            if isinstance(event, TextDelta):
                sleeper = int(event.text)
                break
    stat = _process._stat(str(sleeper))
    assert stat is None or stat.state == "Z"


@pytest.mark.asyncio
async def test_cancelling_the_consumer_ends_the_agent_soon() -> None:
    """Cancellation in mid-stream gets through, and nothing hangs on the way."""
    with anyio.move_on_after(0.4) as scope:
        await taken(scripted("slow"))
    assert scope.cancelled_caught


@pytest.mark.asyncio
async def test_a_stream_can_be_entered_again() -> None:
    """Each entry starts the agent anew."""
    stream = scripted("normal")
    assert await taken(stream) == await taken(stream)


def resident() -> int:
    """Resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.asyncio
async def test_a_slow_consumer_holds_the_agent_up_in_bounded_memory() -> None:
    """100,000 updates wait in the pipe and in one megabyte here, while the consumer sleeps; all arrive."""
    count = 0
    async with scripted("flood").batches() as batches:
        async for batch in batches:
            count += sum([type(event) is TextDelta for event in batch])
            if count:
                break
        before = resident()
        await anyio.sleep(0.3)
        assert resident() - before < 30_000_000
        async for batch in batches:
            count += sum([type(event) is TextDelta for event in batch])
    assert count == 100_000


@pytest.mark.asyncio
async def test_a_line_of_fifty_megabytes() -> None:
    """It is one update like any other."""
    events = await taken(scripted("long_line", "--size", "50000000"))
    assert max([len(event.text) for event in events if isinstance(event, TextDelta)]) == 50_000_000
    assert text_of(outcome_of(events)) == "Hello there."


@pytest.mark.asyncio
async def test_a_line_over_the_cap_costs_itself() -> None:
    """The long update is skipped and named, the answer is there."""
    events = await taken(scripted("long_line", "--size", "100000", max_line=50_000))
    assert faults_in(events) == ("line_too_long",)
    assert text_of(outcome_of(events)) == "Hello there."


@pytest.mark.parametrize(
    "options",
    [{"protocol": 3}, {"permission": "sometimes"}, {"command": "gemini --acp"}, {"command": []}],
    ids=["protocol", "permission", "text_command", "no_command"],
)
def test_arguments_that_cannot_work_are_refused(options: dict[str, Any]) -> None:
    """At once, not on entry."""
    with pytest.raises(UsageError):
        acp.stream(**{"command": ["agent"], "prompt": "Hi.", **options})


@pytest.mark.asyncio
async def test_an_agent_that_never_falls_silent_is_not_heard_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Updates after the answer extend the run, within a bound."""
    monkeypatch.setattr(_live, "_LINGER_ROUNDS", 3)
    events = await taken(scripted("babble", linger=0.1))
    assert RunEnded("completed", raw="end_turn") == events[-1]
    late = next(event for event in events if isinstance(event, Notice) and event.kind == "late")
    assert late.raw["characters"] == 0
    assert 1 < late.raw["updates"] < 1000
