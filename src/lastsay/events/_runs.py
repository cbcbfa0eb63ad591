"""How a list of events is cut into runs: consecutive events of one class, and for deltas of one message as well.

Everyone who takes events in lists wants the same two things of deltas: to know that they belong together, and their
text in one piece. Both are worked out here, once, while the list is cut; `Deltas` carries the text along.
"""

from collections.abc import Sequence
from typing import Any, Final

from lastsay.events._events import Event, ReasoningDelta, TextDelta

__all__ = ("FEW", "Deltas", "runs_of")

FEW: Final = 4
"""Events of one class that are worth a list of their own: fewer are cheaper to take one by one (measured)."""


class Deltas(list[Any]):
    """Consecutive deltas of one class, of one run and one message. Not to be changed."""

    __slots__ = ("text", "texts")

    texts: list[str]
    """The pieces."""
    text: str
    """The pieces, joined."""


def runs_of(events: Sequence[Event]) -> list[Any]:
    """The events in their order, with every run of `FEW` or more as one list; deltas that belong together as `Deltas`.

    The list holds single events, lists of events of one class, and `Deltas`.
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
            members = events if count == size else events[at : at + count]
            items.append(members if texts is None else _together(members, texts))
        at += count
        first = event
    return items


def _together(deltas: Sequence[Event], texts: list[str]) -> Deltas:
    together = Deltas(deltas)
    together.texts = texts
    together.text = "".join(texts)
    return together
