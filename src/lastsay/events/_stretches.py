"""Stretches: consecutive events of one class; of deltas, those of one message and one run.

Everyone who takes events in lists wants the same two things of deltas: to know that they belong together, and their
text in one piece. Both are worked out here, once, while a list is cut; `Deltas` carries the text along.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

from lastsay.events._events import MAIN, Event, ReasoningDelta, TextDelta

__all__ = ("FEW", "Deltas", "stretches", "stretches_by_run")

FEW: Final = 4
"""Events that make a stretch worth a list of its own: fewer are cheaper to take one by one (measured)."""


class Deltas(list[Any]):
    """A stretch of deltas: of one class, one run and one message. Not to be changed."""

    __slots__ = ("text", "texts")

    texts: list[str]
    """The pieces."""
    text: str
    """The pieces, joined."""


def stretches(events: Sequence[Event]) -> list[Any]:
    """The events in their order, with every stretch of `FEW` or more as one list, and deltas as `Deltas`.

    So the list holds single events, lists of events of one class, and `Deltas`.
    """
    if type(events) is Deltas:
        return [events]
    items: list[Any] = []
    size = len(events)
    rest = iter(events)
    first: Any = next(rest, None)
    at = 0
    while at < size:
        kind = type(first)
        event: Any = None
        texts: list[str] | None = None
        count = 1
        if kind is TextDelta or kind is ReasoningDelta:
            message, run, texts = first.message, first.run, [first.text]
            for event in rest:
                if type(event) is not kind or event.message != message or event.run != run:
                    break
                texts.append(event.text)
            count = len(texts)
        else:
            for event in rest:
                if type(event) is not kind:
                    break
                count += 1
        if count == 1:
            items.append(first)
        elif count < FEW:
            items += events[at : at + count]
        else:
            members = events if count == size and type(events) is list else list(events[at : at + count])
            items.append(members if texts is None else _together(members, texts))
        at += count
        first = event
    return items


def stretches_by_run(events: Sequence[Event]) -> list[Sequence[Event]]:
    """The events in their order, in lists of one class and one run each; `FEW` or more deltas as `Deltas`."""
    lists: list[Sequence[Event]] = []
    for item in stretches(events):
        kind = type(item)
        if kind is Deltas:
            lists.append(item)
        elif kind is list:
            lists += [list(same) for _, same in groupby(item, _run_of)]
        else:
            lists.append([item])
    return lists


def _run_of(event: Any) -> str:
    return getattr(event, "run", MAIN)  # whoever reads the list says what is wrong with a thing that has none


def _together(deltas: Sequence[Event], texts: list[str]) -> Deltas:
    together = Deltas(deltas)
    together.texts = texts
    together.text = "".join(texts)
    return together
