"""Properties of the fold: one rule however it is asked, wherever it is cut."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.scale import examples

from lastsay.events import Block, Event, Image, Message, MessageRetracted, RunEnded, Text, TextDelta
from lastsay.fold import ANSWER, CANONICAL, OutputFold, Policy, RunFold, digest_of, final_output
from lastsay.testing._strategies import run_events

FIELDS = [name for name in Policy.__struct_fields__ if name != "name"]
policies = st.one_of(
    st.sampled_from((CANONICAL, ANSWER)),
    st.builds(Policy, name=st.just("any"), **{name: st.booleans() for name in FIELDS}),
)


def literal_rule(events: Sequence[Event]) -> tuple[Block, ...] | None:
    """The canonical rule once more, written naively from its prose: no shared code, no incremental state."""
    standing: list[Message] = []
    streamed = ""
    for event in events:
        match event:
            case Message(content=content, message=ident, origin="model") if len(content) > 0:
                standing = [m for m in standing if ident is None or m.message != ident] + [event]
                streamed = ""
            case MessageRetracted(message=ident):
                standing = [m for m in standing if m.message != ident]
            case TextDelta(text=text) if not standing:
                streamed += text
            case _:
                pass
    if standing:
        return standing[-1].content
    return (Text(streamed),) if streamed else None


@examples(20_000)
@given(run_events(ended=False))
def test_canonical_is_the_literal_rule(events: list[Event]) -> None:
    """20,000 random sequences select the same as an independent reading of the rule."""
    fold = OutputFold()
    for event in events:
        fold.push(event)
    assert literal_rule(events) == fold.collect()


@examples(3000)
@given(run_events(), policies)
def test_backward_equals_forward(events: list[Event], policy: Policy) -> None:
    """Reading a complete list backwards selects what folding it forwards does."""
    fold = OutputFold(policy)
    for event in events:
        if type(event) is RunEnded:
            fold.end(event)
        else:
            fold.push(event)
    assert fold.collect() == final_output(events, policy) == final_output(iter(events), policy)


@examples(3000)
@given(run_events(), policies, st.integers(0, 30), st.integers(0, 30))
def test_merge_is_cutting_undone(events: list[Event], policy: Policy, first: int, second: int) -> None:
    """Three parts, merged in either order, have the outcome of the whole."""
    low, high = sorted((first, second))

    def folded(part: list[Event]) -> RunFold:
        fold = RunFold(policy)
        for event in part:
            fold.push(event)
        return fold

    left = folded(events[:low])
    left.merge(folded(events[low:high]))
    left.merge(folded(events[high:]))
    later = folded(events[low:high])
    later.merge(folded(events[high:]))
    right = folded(events[:low])
    right.merge(later)
    assert folded(events).outcome() == left.outcome() == right.outcome()


@examples(2000)
@given(run_events(), policies, st.integers(0, 30))
def test_restore_is_invisible(events: list[Event], policy: Policy, cut: int) -> None:
    """A fold carried elsewhere as JSON, at any moment, ends as if it had never moved."""
    whole, moved = RunFold(policy), RunFold(policy)
    for event in events:
        whole.push(event)
    for event in events[:cut]:
        moved.push(event)
    moved = RunFold.restore(moved.state())
    for event in events[cut:]:
        moved.push(event)
    assert whole.outcome() == moved.outcome()


@examples(2000)
@given(run_events(), policies, st.lists(st.integers(1, 6), max_size=30))
def test_every_split_into_lists_is_equal(events: list[Event], policy: Policy, sizes: list[int]) -> None:
    """Runs of one class, handed over whole in any split, fold like single events."""
    single, grouped = RunFold(policy), RunFold(policy)
    for event in events:
        single.push(event)
    at = 0
    for size in [*sizes, *([1] * len(events))]:
        part = events[at : at + size]
        at += size
        while part:
            same = [part[0]]
            while len(same) < len(part) and type(part[len(same)]) is type(part[0]):
                same.append(part[len(same)])
            grouped.push_run(same)
            part = part[len(same) :]
    assert single.outcome() == grouped.outcome()


@examples(2000)
@given(run_events(), policies)
def test_keeping_everything_changes_no_selection(events: list[Event], policy: Policy) -> None:
    """What explain reads selects what the fold selects, and marks exactly the chosen candidates."""
    lean, full = RunFold(policy), RunFold(policy, everything=True)
    for event in events:
        lean.push(event)
        full.push(event)
    assert lean.outcome().output == full.outcome().output
    chosen = [row for row in full.candidates() if row.chosen]
    assert bool(chosen) is (full.outcome().output is not None)


@examples(2000)
@given(run_events())
def test_policies_differ_only_by_their_fields(events: list[Event]) -> None:
    """A policy with all fields off is the canonical one, whatever it is called."""
    plain, canonical = RunFold(Policy(name="plain")), RunFold(CANONICAL)
    for event in events:
        plain.push(event)
        canonical.push(event)
    assert canonical.outcome().model_copy(update={"policy": "plain"}) == plain.outcome()


@examples(2000)
@given(run_events(ended=False))
def test_answer_is_readable_whenever_there_is_text(events: list[Event]) -> None:
    """Wherever a run is cut, ANSWER selects something to read if the model wrote any that stands."""
    fold = RunFold(ANSWER)
    for event in events:
        fold.push(event)
    standing = [m for m in events if type(m) is Message and m.origin == "model" and m.message is None]
    if any(type(block) is Text and block.text.strip() for message in standing for block in message.content):
        output = fold.outcome().output
        assert output is not None
        assert any(type(block) is Image or (type(block) is Text and block.text.strip()) for block in output)


@examples(2000)
@given(run_events(), run_events())
def test_digest_is_equal_exactly_when_output_and_stop_are(first: list[Event], second: list[Event]) -> None:
    """Two outcomes have one digest if and only if they agree on output and stop reason."""
    outcomes = []
    for events in (first, second):
        fold = RunFold()
        for event in events:
            fold.push(event)
        outcomes.append(fold.outcome())
    one, other = outcomes
    same = one.output == other.output and one.stop_reason == other.stop_reason
    assert same is (one.digest == other.digest)


@examples(500)
@given(run_events())
def test_an_outcome_survives_json(events: list[Event]) -> None:
    """An outcome read back from its JSON is the same value."""
    fold = RunFold(ANSWER)
    for event in events:
        fold.push(event)
    outcome = fold.outcome()
    assert outcome == type(outcome).model_validate(outcome.model_dump(mode="json"))


@pytest.mark.parametrize("reason", ["completed", "error"])
def test_digest_separates_text_from_stop_reason(reason: str) -> None:
    """Moving characters between output and stop reason changes the digest."""
    assert digest_of((Text("a"),), reason) != digest_of((Text("a" + reason),), "")
    assert msgspec.to_builtins(Text("a")) == {"type": "text", "text": "a"}
