"""Runs with more than one end, or with events after it: cutting, merging and moving stay invisible."""

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.scale import examples

from lastsay.events import Event, RunStarted
from lastsay.fold import ANSWER, CANONICAL, Policy, RunFold
from lastsay.testing._strategies import run_events


def renamed(event: Event, part: int) -> Event:
    """The event with a message id of its own part: the rest of a known message is the one thing cut differently."""
    if getattr(event, "message", None) is None:
        return event
    return msgspec.structs.replace(event, message=f"{getattr(event, 'message')}-{part}")  # noqa: B009  # any event


@st.composite
def several_ends(draw: st.DrawFn) -> list[Event]:
    """Up to three stretches of one run, each with or without an end record, some of them begun by a second start."""
    events: list[Event] = []
    for part, stretch in enumerate(draw(st.lists(run_events(max_size=8), min_size=1, max_size=3))):
        if draw(st.booleans()):
            events.append(RunStarted(agent=f"a{part}"))
        events += [renamed(event, part) for event in stretch]
    return events


def folded(events: list[Event], policy: Policy) -> RunFold:
    """The fold of the events."""
    fold = RunFold(policy)
    for event in events:
        fold.push(event)
    return fold


@examples(3000)
@given(several_ends(), st.sampled_from((CANONICAL, ANSWER)), st.integers(0, 30), st.integers(0, 30))
def test_merging_and_moving_are_invisible(events: list[Event], policy: Policy, first: int, second: int) -> None:
    """Three parts, merged in either order, and a fold carried elsewhere as JSON have the outcome of the whole."""
    low, high = sorted((first, second))
    whole = folded(events, policy).outcome()
    left = folded(events[:low], policy)
    left.merge(folded(events[low:high], policy))
    left.merge(folded(events[high:], policy))
    later = folded(events[low:high], policy)
    later.merge(folded(events[high:], policy))
    right = folded(events[:low], policy)
    right.merge(later)
    moved = RunFold.restore(json.loads(json.dumps(folded(events[:low], policy).state())))
    for event in events[low:]:
        moved.push(event)
    assert whole == left.outcome() == right.outcome() == moved.outcome()
