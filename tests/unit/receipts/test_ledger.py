"""The ledger, row by row of its table."""

from collections.abc import Callable
from typing import Any

import pytest

from lastsay.events import Event, Message, Notice, Text, ToolCall, ToolResult
from lastsay.receipts import (
    CLAUDE_2_1_269,
    CLAUDE_2_1_332,
    EXACT,
    Called,
    Effect,
    FunctionResult,
    Ledger,
    Limits,
    ReadFiles,
    RefusedError,
    Settled,
    State,
    Stray,
    Submission,
    Verdict,
)

RESULT = FunctionResult(success=True, output="x")
OTHER = FunctionResult(success=True, output="y")
TIMED_OUT = 'MCP server "functions" tool "f" timed out after 3s'


def opened(call: str = "c1", **options: Any) -> Ledger:
    """A ledger with one open call, its effects taken."""
    ledger = Ledger(**options)
    ledger.announce(call, "f", {"a": 1}, at=0.0)
    ledger.take()
    return ledger


def receipt(
    text: str = "x", call: str = "c1", *, is_error: bool = False, run: str = "main", **native: Any
) -> ToolResult:
    """A receipt of one text block."""
    return ToolResult(call, (Text(text),), is_error, native or None, run=run)


REJECTION = receipt("no", is_error=True, non_execution_kind="user-rejected")


def state(ledger: Ledger, call: str = "c1") -> State:
    """Where a call stands."""
    record = ledger.record(call)
    assert record is not None
    return record.state


def settled(ledger: Ledger) -> list[Verdict | None]:
    """The verdicts settled since the last look."""
    return [effect.record.verdict for effect in ledger.take() if isinstance(effect, Settled)]


def test_a_result_is_confirmed_by_its_receipt() -> None:
    """Open, sent, settled: with the record of it all."""
    ledger = Ledger()
    ledger.announce("c1", "f", {"a": 1}, tool="mcp__functions__f", at=1.0)
    (called,) = ledger.take()
    assert isinstance(called, Called)
    assert (State.OPEN, {"a": 1}, None) == (called.record.state, called.record.arguments, called.record.content)
    assert ledger.result("c1") is None
    assert ledger.submit("c1", RESULT, at=2.0)
    assert RESULT is ledger.result("c1")
    ledger.push(receipt(), at=3.0)
    (effect,) = ledger.take()
    assert isinstance(effect, Settled)
    record = effect.record
    assert (Verdict.EXACT, "content", False) == (record.verdict, record.proof, record.is_error)
    assert (1.0, 2.0, 3.0) == (record.announced_at, record.submitted_at, record.settled_at)
    assert (Text("x"),) == record.content
    assert record.applied
    assert not record.fatal
    assert (record,) == ledger.records()
    assert {Verdict.EXACT: 1} == ledger.verdicts()
    assert ledger.record("c2") is None
    assert ledger.result("c2") is None


def refusal(action: Callable[[], object]) -> str:
    """Why something was refused."""
    with pytest.raises(RefusedError) as caught:
        action()
    return caught.value.reason


def test_what_cannot_be_a_call_is_refused() -> None:
    """A blank or overlong id, an id used before, and a call after the end; the first use is untouched."""
    ledger = opened()
    assert "invalid" == refusal(lambda: ledger.announce(" ", "f", at=0.0))
    assert "invalid" == refusal(lambda: ledger.announce("x" * 513, "f", at=0.0))
    assert "repeated_call" == refusal(lambda: ledger.announce("c1", "f", at=0.0))
    assert [] == ledger.take()
    ledger.close(at=1.0)
    assert "conflict" == refusal(lambda: ledger.announce("c2", "f", at=0.0))


def test_a_retry_is_accepted_and_not_delivered_again() -> None:
    """The same result any number of times, also when the run is over; a different one is a conflict."""
    ledger = opened()
    assert ledger.submit("c1", RESULT, at=0.0)
    assert not ledger.submit("c1", RESULT, at=0.0)
    assert "conflict" == refusal(lambda: ledger.submit("c1", OTHER, at=0.0))
    ledger.push(receipt(), at=1.0)
    ledger.close(at=2.0)
    assert not ledger.submit("c1", RESULT, at=3.0)
    assert "conflict" == refusal(lambda: ledger.submit("c1", OTHER, at=3.0))


def test_a_refused_result_consumes_nothing() -> None:
    """Unknown call, foreign turn, too large: the pending call takes a good result afterwards."""
    ledger = opened(turn="t1", limits=Limits(result=100))
    assert "unknown_call" == refusal(lambda: ledger.submit("c2", RESULT, at=0.0))
    assert "foreign_turn" == refusal(lambda: ledger.submit("c1", RESULT, at=0.0, turn="t2"))
    large = FunctionResult(success=True, output="x" * 200)
    assert "invalid" == refusal(lambda: ledger.submit("c1", large, at=0.0))
    assert ledger.submit("c1", RESULT, at=0.0, turn="t1")


def submission(call: str, output: str = "x") -> Submission:
    """A submission of one text."""
    return Submission(call_id=call, success=True, output=output)


def test_a_batch_is_taken_whole_or_not_at_all() -> None:
    """One bad member refuses all of it; a repeated member counts once."""
    ledger = opened(limits=Limits(batch=3))
    ledger.announce("c2", "f", at=0.0)
    assert "unknown_call" == refusal(lambda: ledger.submit_all([submission("c1"), submission("c3")], at=0.0))
    assert "conflict" == refusal(lambda: ledger.submit_all([submission("c1"), submission("c1", "y")], at=0.0))
    assert "invalid" == refusal(lambda: ledger.submit_all([submission("c1")] * 4, at=0.0))
    assert {State.OPEN} == {record.state for record in ledger.records()}
    assert {"c1": True, "c2": True} == ledger.submit_all([submission("c1"), submission("c1"), submission("c2")], at=0.0)
    assert {"c1": False} == ledger.submit_all([submission("c1")], at=0.0)


@pytest.mark.parametrize(
    ("event", "verdict", "fatal"),
    [
        (receipt(), Verdict.BEFORE_SUBMISSION, True),
        (receipt("no", is_error=True), Verdict.BEFORE_SUBMISSION, True),
        (REJECTION, Verdict.REJECTED, False),
        (receipt("no", is_error=True, tool_use_result="User rejected tool use"), Verdict.REJECTED, False),
        (receipt(TIMED_OUT, is_error=True), Verdict.TIMED_OUT, False),
    ],
)
def test_a_receipt_of_an_unanswered_call(event: Event, verdict: Verdict, fatal: bool) -> None:
    """Only a rejection or a timeout explains it; anything else is a result that nobody gave."""
    ledger = opened()
    ledger.push(event, at=1.0)
    (effect,) = ledger.take()
    assert isinstance(effect, Settled)
    assert (verdict, fatal) == (effect.record.verdict, effect.record.fatal)
    assert "conflict" == refusal(lambda: ledger.submit("c1", RESULT, at=2.0))


@pytest.mark.parametrize(
    ("event", "verdict"),
    [
        (receipt("no", is_error=True), Verdict.REJECTED),
        (receipt(TIMED_OUT, is_error=True), Verdict.TIMED_OUT),
        (receipt(), Verdict.BEFORE_SUBMISSION),
    ],
)
def test_an_error_settles_a_call_that_was_abandoned(event: Event, verdict: Verdict) -> None:
    """After a cancellation any error receipt does; a success is still a result that nobody gave."""
    ledger = opened()
    ledger.abort("c1")
    assert State.ABANDONED == state(ledger)
    assert "conflict" == refusal(lambda: ledger.submit("c1", RESULT, at=0.5))
    ledger.push(event, at=1.0)
    assert [verdict] == settled(ledger)


@pytest.mark.parametrize(
    ("event", "verdict"),
    [
        (receipt(), Verdict.REJECTED),
        (REJECTION, Verdict.REJECTED),
        (receipt(TIMED_OUT, is_error=True), Verdict.TIMED_OUT),
    ],
)
def test_an_aborted_result_is_never_confirmed(event: Event, verdict: Verdict) -> None:
    """Not even by a receipt that matches."""
    ledger = opened()
    ledger.submit("c1", RESULT, at=0.0)
    ledger.abort("c1")
    assert State.VOID == state(ledger)
    assert not ledger.submit("c1", RESULT, at=0.5)
    ledger.push(event, at=1.0)
    assert [verdict] == settled(ledger)
    record = ledger.record("c1")
    assert record is not None
    assert (verdict is Verdict.TIMED_OUT) == record.fatal


def test_cancelling_the_run_abandons_what_is_unanswered() -> None:
    """A result that was submitted before may still be confirmed."""
    ledger = opened()
    ledger.announce("c2", "f", at=0.0)
    ledger.submit("c1", RESULT, at=0.0)
    ledger.abandon()
    assert (State.SENT, State.ABANDONED) == (state(ledger), state(ledger, "c2"))
    ledger.abort("unknown")


def test_files_are_asked_for_and_then_settle() -> None:
    """Between the two the call takes no other receipt."""
    ledger = opened()
    ledger.submit("c1", RESULT, at=0.0)
    path = "/c/projects/-w/s1/tool-results/c1.json"
    text = f"<persisted-output>\nOutput too large (1KB). Full output saved to: {path}\n"
    ledger.push(receipt(text, session_id="s1"), at=1.0)
    assert [ReadFiles("c1", (path,), "s1")] == ledger.take()
    assert State.CHECKING == state(ledger)
    ledger.abort("c1")
    ledger.push(receipt(), at=1.5)
    assert [Stray("c1", Verdict.DUPLICATE)] == ledger.take()
    ledger.supply("c2", (b"x",), at=2.0)
    ledger.supply("c1", (b"x",), at=2.0)
    ledger.supply("c1", (b"y",), at=2.0)
    assert [Verdict.PERSISTED] == settled(ledger)


def test_no_receipt_within_the_time_limit_is_missing() -> None:
    """The limit counts from the submission; a receipt after it is late and changes nothing."""
    ledger = opened(timeout=10.0)
    ledger.announce("c2", "f", at=0.0)
    assert ledger.deadline() is None
    ledger.submit("c1", RESULT, at=5.0)
    assert 15.0 == ledger.deadline()
    ledger.expire(at=14.9)
    assert [] == settled(ledger)
    ledger.expire(at=15.0)
    assert [Verdict.MISSING] == settled(ledger)
    ledger.push(receipt(), at=16.0)
    assert [Stray("c1", Verdict.LATE)] == ledger.take()
    assert {Verdict.MISSING: 1} == ledger.verdicts()


@pytest.mark.parametrize("cancelled", [False, True])
def test_the_end_settles_what_is_left(cancelled: bool) -> None:
    """Missing, unless a cancellation is known: of the call or, where nothing was submitted, of the run."""
    ledger = Ledger()
    for call in ("open", "abandoned", "sent", "void", "done"):
        ledger.announce(call, "f", at=0.0)
    ledger.abort("abandoned")
    for call in ("sent", "void", "done"):
        ledger.submit(call, RESULT, at=0.0)
    ledger.abort("void")
    ledger.push(receipt(call="done"), at=0.0)
    ledger.close(at=1.0, cancelled=cancelled)
    ledger.close(at=2.0)
    assert {
        "open": Verdict.REJECTED if cancelled else Verdict.MISSING,
        "abandoned": Verdict.REJECTED,
        "sent": Verdict.MISSING,
        "void": Verdict.REJECTED,
        "done": Verdict.EXACT,
    } == {record.call: record.verdict for record in ledger.records()}


def test_receipts_that_do_not_count_are_ignored() -> None:
    """Replays, synthetic records, foreign sessions, and the run of somebody else's call."""
    ledger = opened(session="s1")
    ledger.submit("c1", RESULT, at=0.0)
    for event in (
        receipt(isReplay=True),
        receipt(isSynthetic=True),
        receipt(session_id="s2"),
        receipt(parent_tool_use_id="toolu_parent"),
    ):
        ledger.push(event, at=1.0)
    assert [] == ledger.take()
    ledger.push(receipt(session_id="s1"), at=1.0)
    assert [Verdict.EXACT] == settled(ledger)


def test_a_receipt_must_come_from_the_run_that_made_the_call() -> None:
    """A subagent's call is confirmed by its own receipt, and by no other run's."""
    ledger = opened()
    ledger.push(ToolCall("c1", "mcp__functions__f", run="child"), at=0.0)
    ledger.submit("c1", RESULT, at=0.0)
    ledger.push(receipt(), at=1.0)
    assert [] == ledger.take()
    ledger.push(receipt(run="child", parent_tool_use_id="toolu_parent"), at=1.0)
    (effect,) = ledger.take()
    assert isinstance(effect, Settled)
    assert ("child", "mcp__functions__f") == (effect.record.run, effect.record.tool)


def test_the_tool_call_may_come_before_the_request() -> None:
    """Its name and run are known then when the call is entered."""
    ledger = Ledger()
    ledger.push(ToolCall("c1", "mcp__functions__f", run="child"), at=0.0)
    ledger.announce("c1", "f", tool="other", at=0.0)
    (effect,) = ledger.take()
    assert isinstance(effect, Called)
    assert ("child", "mcp__functions__f") == (effect.record.run, effect.record.tool)


def test_receipts_of_other_tools_are_strays() -> None:
    """A call that never reached the host is somebody else's."""
    ledger = Ledger()
    ledger.push(receipt(call="bash"), at=0.0)
    assert [Stray("bash", Verdict.UNKNOWN_CALL)] == ledger.take()


def test_several_receipts_come_in_any_order() -> None:
    """Each finds its own call by the id alone."""
    ledger = Ledger()
    for call in ("c1", "c2", "c3"):
        ledger.announce(call, "f", at=0.0)
        ledger.submit(call, FunctionResult(success=True, output=call), at=0.0)
    ledger.take()
    for call in ("c2", "c3", "c1"):
        ledger.push(receipt(call, call=call), at=1.0)
    effects: list[Effect] = ledger.take()
    assert ["c2", "c3", "c1"] == [effect.record.call for effect in effects if isinstance(effect, Settled)]


def test_the_session_and_the_profile_are_learned() -> None:
    """From the harness's init notice, else from the first receipt; what was given is kept."""
    ledger = Ledger()
    ledger.push(Notice("init", {"claude_code_version": "2.1.269", "session_id": "s1"}), at=0.0)
    assert (CLAUDE_2_1_269, "s1") == (ledger.profile, ledger.session)
    given = Ledger(profile=EXACT, session="mine")
    given.push(Notice("init", {"claude_code_version": "2.1.269", "session_id": "s1"}), at=0.0)
    given.push(Notice("init", None), at=0.0)
    given.push(Notice("other", {"session_id": "s2"}), at=0.0)
    assert (EXACT, "mine") == (given.profile, given.session)
    silent = opened()
    silent.push(Notice("init", {"claude_code_version": None, "session_id": None}), at=0.0)
    silent.push(receipt(call="other", session_id="s8"), at=0.0)
    silent.submit("c1", RESULT, at=0.0)
    silent.push(receipt(session_id="s9"), at=0.0)
    assert (CLAUDE_2_1_332, "s9") == (silent.profile, silent.session)


def test_other_events_pass_unseen() -> None:
    """A message changes nothing."""
    ledger = opened()
    ledger.push(Message((Text("x"),)), at=0.0)
    assert [] == ledger.take()
