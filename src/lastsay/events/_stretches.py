"""Stretches: consecutive events of one class; of deltas, those of one message and one run.

Everyone who takes events in lists wants the same two things of deltas: to know that they belong together, and their
text in one piece. Both are worked out here, once, while a list is cut; `Deltas` carries the text along.
"""

from collections.abc import Sequence
from typing import Any, Final

from lastsay.events._events import MAIN, Event, ReasoningDelta, TextDelta

__all__ = ("FEW", "Deltas", "stretches")

FEW: Final = 4
"""Events that make a stretch worth a list of its own: fewer are cheaper to take one by one (measured)."""


class Deltas(list[Any]):
    """A stretch of deltas: of one class, one run and one message. Made with `of`, and not to be changed."""

    __slots__ = ("text", "texts")

    texts: list[str]
    """The pieces."""
    text: str
    """The pieces, joined."""

    @staticmethod
    def of(deltas: Sequence[Event], texts: list[str]) -> "Deltas":
        """Deltas that belong together, with their texts."""
        stretch = Deltas(deltas)
        stretch.texts = texts
        stretch.text = "".join(texts)
        return stretch


def stretches(events: Sequence[Event]) -> list[Sequence[Event]]:
    """The events in their order, in lists of one class and one run each; `FEW` or more deltas as `Deltas`."""
    lists: list[Sequence[Event]] = []
    rest = iter(events)
    event: Any = next(rest, None)
    at = 0
    while at < len(events):
        kind, run, upto = type(event), _run_of(event), at + 1
        if kind is TextDelta or kind is ReasoningDelta:
            message, texts = event.message, [event.text]
            for event in rest:
                if type(event) is not kind or event.message != message or event.run != run:
                    break
                texts.append(event.text)
            upto = at + len(texts)
            part = events[at:upto]
            lists.append(part if len(texts) < FEW else Deltas.of(part, texts))
        else:
            for event in rest:
                if type(event) is not kind or _run_of(event) != run:
                    break
                upto += 1
            lists.append(events[at:upto])
        at = upto
    return lists


def _run_of(event: Any) -> str:
    return getattr(event, "run", MAIN)  # whoever reads the list says what is wrong with a thing that has none
