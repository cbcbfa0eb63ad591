"""Any order of calls, results, receipts, retries, cancellations and timeouts gives each call exactly one verdict.

The machine plays harness and host at once and knows the truth: which receipts are honest. It checks after every step
that nothing is called applied which the harness did not apply, and at the end that every call was settled once.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from lastsay.events import Block, Text, ToolResult
from lastsay.receipts import (
    CLAUDE_2_1_332,
    CONFIRMED,
    STRAY,
    Called,
    FunctionResult,
    Ledger,
    ReadFiles,
    RefusedError,
    Settled,
    State,
    Stray,
    Verdict,
    record_of,
    render,
)

TOOL = "mcp__functions__f"
TEXTS = st.sampled_from(
    ["", " ", "\ufeff", "\x85", "x", " x ", "Unknown error", "Command failed with no output", "no", "e" * 11_025]
)
RESULTS = st.builds(
    FunctionResult,
    success=st.booleans(),
    output=st.none() | TEXTS,
    error=st.none() | TEXTS,
)
PATH = "/c/projects/-w/s1/tool-results/mcp-functions-f-1.txt"
NOTICE = f"Error: result (9 characters) exceeds maximum allowed tokens. Output has been saved to {PATH}.\n"
TIMEOUT = 10.0


class Bridge(RuleBasedStateMachine):
    calls: Bundle[str] = Bundle("calls")

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger(profile=CLAUDE_2_1_332, timeout=TIMEOUT)
        self.now = 0.0
        self.count = 0
        self.closed = False
        self.results: dict[str, FunctionResult] = {}
        self.aborted: set[str] = set()
        self.honest: set[str] = set()  # the first receipt was the harness's rendering of the submitted result
        self.receipts: set[str] = set()
        self.settlements: dict[str, list[Verdict]] = {}
        self.called: list[str] = []

    # The harness and the host

    @precondition(lambda self: not self.closed)
    @rule(target=calls)
    def announce_only(self) -> str:
        return self.announce()

    def announce(self) -> str:
        self.count += 1
        call = f"c{self.count}"
        self.ledger.announce(call, "f", tool=TOOL, at=self.now)
        self.drain()
        return call

    @precondition(lambda self: not self.closed)
    @rule(target=calls, result=RESULTS)
    def announce_and_submit(self, result: FunctionResult) -> str:
        call = self.announce()
        self.submit(call, result)
        return call

    @precondition(lambda self: not self.closed)
    @rule(target=calls, result=RESULTS, with_record=st.booleans(), retries=st.integers(0, 2))
    def undisturbed(self, result: FunctionResult, with_record: bool, retries: int) -> str:
        """Nothing comes between: then the result must be confirmed, whatever the other calls do."""
        call = self.announce()
        for _ in range(1 + retries):
            self.submit(call, result)
        self.honest_receipt(call, with_record)
        (verdict,) = self.settlements[call]
        assert verdict.confirmed
        return call

    @rule(call=calls)
    def announce_again(self, call: str) -> None:
        try:
            self.ledger.announce(call, "f", at=self.now)
        except RefusedError:
            return
        raise AssertionError("a repeated call was taken")

    @rule(call=calls, result=RESULTS)
    def submit_any(self, call: str, result: FunctionResult) -> None:
        self.submit(call, result)

    def submit(self, call: str, result: FunctionResult) -> None:
        before = self.ledger.record(call)
        assert before is not None
        try:
            new = self.ledger.submit(call, result, at=self.now)
        except RefusedError:
            assert before.state is not State.OPEN
            assert call not in self.results or self.results[call].identity != result.identity
            return
        assert new == (call not in self.results)
        if new:
            assert before.state is State.OPEN
            self.results[call] = result
        assert self.results[call].identity == result.identity

    @rule(call=calls)
    def abort(self, call: str) -> None:
        record = self.ledger.record(call)
        assert record is not None
        if record.state in (State.OPEN, State.SENT):
            self.aborted.add(call)
        self.ledger.abort(call)

    @rule()
    def abandon(self) -> None:
        self.ledger.abandon()

    # The stream

    def receive(self, call: str, content: tuple[Block, ...], *, is_error: bool, honest: bool, record: object) -> None:
        waiting = self.ledger.record(call)
        assert waiting is not None
        if call not in self.receipts and waiting.state is State.SENT and honest:
            self.honest.add(call)
        self.receipts.add(call)
        native = {"tool_use_result": record, "session_id": "s1"}
        self.ledger.push(ToolResult(call, content, is_error, native), at=self.now)
        self.drain()

    @rule(call=calls, with_record=st.booleans())
    def any_honest_receipt(self, call: str, with_record: bool) -> None:
        self.honest_receipt(call, with_record)

    def honest_receipt(self, call: str, with_record: bool) -> None:
        result = self.results.get(call)
        if result is None:
            return
        content = render(result, TOOL, CLAUDE_2_1_332).content
        text = content[0].text if len(content) == 1 and type(content[0]) is Text else ""
        record = (f"Error: {text}" if result.is_error else record_of(result.parts)) if with_record else None
        self.receive(call, content, is_error=result.is_error, honest=True, record=record)

    @rule(call=calls)
    def rejection(self, call: str) -> None:
        content = (Text("The user doesn't want to proceed."),)
        self.receive(call, content, is_error=True, honest=False, record="User rejected tool use")

    @rule(call=calls)
    def flipped_receipt(self, call: str) -> None:
        result = self.results.get(call)
        if result is not None:
            content = render(result, TOOL, CLAUDE_2_1_332).content
            self.receive(call, content, is_error=not result.is_error, honest=False, record=None)

    @rule(call=calls)
    def foreign_receipt(self, call: str) -> None:
        self.receive(call, (Text("something else"),), is_error=False, honest=False, record=None)

    @rule(call=calls)
    def native_timeout(self, call: str) -> None:
        content = (Text('MCP server "functions" tool "f" timed out after 3s'),)
        self.receive(call, content, is_error=True, honest=False, record=f"Error: {content[0].text}")

    @rule(call=calls)
    def replayed_receipt(self, call: str) -> None:
        before = self.ledger.record(call)
        self.ledger.push(ToolResult(call, (), False, {"isReplay": True}), at=self.now)
        assert [] == self.ledger.take()
        assert before == self.ledger.record(call)

    @rule(call=calls)
    def persisted_receipt(self, call: str) -> None:
        self.receive(call, (Text(NOTICE),), is_error=False, honest=True, record=NOTICE)

    # Time and the end

    @rule(seconds=st.sampled_from([0.5, TIMEOUT / 2, TIMEOUT]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        deadline = self.ledger.deadline()
        before = {record.call: record.state for record in self.ledger.records()}
        self.ledger.expire(at=self.now)
        self.drain()
        if deadline is not None and deadline <= self.now:
            assert any(
                state is not State.SETTLED and self.settlements.get(call) == [Verdict.MISSING]
                for call, state in before.items()
            )

    @rule(cancelled=st.booleans())
    def close(self, cancelled: bool) -> None:
        self.closed = True
        self.ledger.close(at=self.now, cancelled=cancelled)
        self.drain()
        assert {State.SETTLED} >= {record.state for record in self.ledger.records()}

    def drain(self) -> None:
        while effects := self.ledger.take():
            for effect in effects:
                if isinstance(effect, ReadFiles):
                    result = self.results[effect.call]
                    texts = [part.text for part in result.parts if type(part) is Text]
                    self.ledger.supply(effect.call, ("".join(texts).encode(),), at=self.now)
                elif isinstance(effect, Settled):
                    verdict = effect.record.verdict
                    assert verdict is not None
                    self.settlements.setdefault(effect.record.call, []).append(verdict)
                elif isinstance(effect, Stray):
                    assert effect.verdict in STRAY
                else:
                    assert isinstance(effect, Called)
                    self.called.append(effect.record.call)

    @invariant()
    def every_call_has_at_most_one_verdict(self) -> None:
        assert all(len(verdicts) == 1 for verdicts in self.settlements.values())
        assert {r.call: [r.verdict] for r in self.ledger.records() if r.verdict is not None} == self.settlements
        assert not STRAY & {record.verdict for record in self.ledger.records()}

    @invariant()
    def nothing_unconfirmed_is_applied(self) -> None:
        for record in self.ledger.records():
            assert record.applied == (record.verdict in CONFIRMED)
            if record.applied:
                assert record.call in self.honest
                assert record.call not in self.aborted
                assert not record.fatal

    @invariant()
    def every_call_is_told_before_its_verdict(self) -> None:
        assert set(self.settlements) <= set(self.called)

    def teardown(self) -> None:
        self.close(cancelled=False)
        assert set(self.settlements) == {record.call for record in self.ledger.records()}


TestBridge = Bridge.TestCase
TestBridge.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
