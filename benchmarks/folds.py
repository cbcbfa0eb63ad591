"""The fold, event by event, against a loop written by hand."""

from collections.abc import Iterator

from benchmarks._events import WORDS
from benchmarks._measure import Effort, Row, cost_row, cpu

from lastsay.events import Event, Message, Text, TextDelta
from lastsay.fold import OutputFold


def chunks(count: int) -> list[Event]:
    """A child whose only text was streamed, after a message without content: every delta counts until the end."""
    return [Message((), "empty"), *[TextDelta(WORDS[i & 7], "m") for i in range(count)]]


def hand_fold(events: list[Event]) -> tuple[Text, ...] | None:
    """The canonical rule, inlined."""
    pieces: list[str] = []
    selected = None
    for event in events:
        kind = type(event)
        if kind is TextDelta:
            if selected is None:
                pieces.append(event.text)
        elif kind is Message and event.content and event.origin == "model":
            selected = event.content
            pieces.clear()
    if selected is not None:
        return selected
    text = "".join(pieces)
    return (Text(text),) if text else None


def folded(events: list[Event]) -> tuple[object, ...] | None:
    """The same through `OutputFold.push`."""
    fold = OutputFold()
    push = fold.push
    for event in events:
        push(event)
    return fold.collect()


def folded_lists(batches: list[list[Event]]) -> tuple[object, ...] | None:
    """The same through `OutputFold.push_run`."""
    fold = OutputFold()
    for batch in batches:
        fold.push_run(batch)
    return fold.collect()


def rows(effort: Effort) -> Iterator[Row]:
    """The rows about the fold."""
    events = chunks(20_000)
    batches = [events[:1], *[events[i : i + 64] for i in range(1, len(events), 64)]]
    assert hand_fold(events) == folded(events) == folded_lists(batches), "the folds disagree"
    count = len(events)
    yield cost_row(
        "fold.push, streamed text", "a hand-written fold loop", 2,
        lambda: folded(events), lambda: hand_fold(events), effort, count,
    )  # fmt: skip
    yield cost_row(
        "fold.push_run, lists of 64", "a hand-written fold loop", 1.2,
        lambda: folded_lists(batches), lambda: hand_fold(events), effort, count,
    )  # fmt: skip
    best = min(cpu(lambda: folded(events)) for _ in range(effort.rounds))
    yield Row(
        "fold.push", "million events a second", 5, "at least", unit="M", measured=count / best / 1e6,
        note="needs an idle core",
    )  # fmt: skip
