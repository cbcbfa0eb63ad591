"""tap: look at events as they pass."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from lastsay.events import EVENT_TYPES, Event
from lastsay.operators._fused import Operator, through
from lastsay.operators._stage import Handlers, Stage

__all__ = ("tap",)


def tap(look: Callable[[Any], object], *kinds: type[Event]) -> Operator:
    """Calls `look` with every event that passes; the events go on as they are.

    Args:
        look: called with one event, in the loop of the stream, so it should be quick. What it raises is logged, and it
            is not called again in that entry: an observer that fails disturbs nobody.
        kinds: the event classes to look at; all of them if none is named.
    """
    return through(lambda: _Tap(look, kinds or EVENT_TYPES))


class _Tap(Stage):
    def __init__(self, look: Callable[[Any], object], kinds: Sequence[type[Event]]) -> None:
        self._look: Callable[[Any], object] | None = look
        self._kinds = kinds

    def handlers(self) -> Handlers:
        return dict.fromkeys(self._kinds, self._one)

    def _one(self, event: Event) -> None:
        if self._look is not None:
            try:
                self._look(event)
            except Exception:
                self._look = None
                logging.getLogger("lastsay.operators").exception("a tap failed and is not called again")
