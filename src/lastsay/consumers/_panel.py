"""The consumers of one stream, each contained: what one does never reaches the others or the run."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

import anyio

from lastsay.consumers._contract import AWAIT_LIMIT, Consumer, RunEnd, RunStart
from lastsay.events import Event

__all__ = ("Panel", "rendered")

_LOG: Final = logging.getLogger("lastsay.consumers")


class Panel:
    """The consumers, each guarded: one that raises is logged once and dropped."""

    def __init__(self, consumers: Iterable[Consumer]) -> None:
        self._consumers = sorted(consumers, key=lambda consumer: consumer.rank)
        self._bind()
        self.waiting: list[tuple[Consumer, Awaitable[None]]] = []

    def _bind(self) -> None:
        """Find out who looks at events, and bind `observe`: straight to the only one, if it needs no guard."""
        self._observers = _observers(self._consumers)
        alone = self._observers[0] if len(self._observers) == 1 else None
        self.observe: Callable[[RunStart, Sequence[Event]], Any] = self._observe_each
        """Tell the observers of consecutive events of one class."""
        if alone is not None and alone[0].contained:
            self.observe = alone[1]

    @property
    def observed(self) -> bool:
        """Whether any consumer looks at events."""
        return bool(self._observers)

    def start(self, start: RunStart) -> None:
        """Tell all of a start."""
        for consumer in tuple(self._consumers):
            self._tell(consumer, consumer.start, start)

    def _observe_each(self, start: RunStart, events: Sequence[Event]) -> None:
        # Called for every event: the loop of `_tell`, without its calls.
        for consumer, observe in self._observers:
            try:
                answer = observe(start, events)
            except Exception as error:  # noqa: BLE001  # as in _tell
                self._drop(consumer, error)
            else:
                if answer is not None:
                    self.waiting.append((consumer, answer))

    def end(self, end: RunEnd) -> None:
        """Tell all of an end, in the order of their ranks."""
        for consumer in tuple(self._consumers):
            self._tell(consumer, consumer.end, end)

    def _tell(self, consumer: Consumer, method: Callable[..., Awaitable[None] | None], *args: Any) -> None:
        try:
            answer = method(*args)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is this consumer's own affair
            self._drop(consumer, error)
        else:
            if answer is not None:
                self.waiting.append((consumer, answer))

    def _drop(self, consumer: Consumer, error: BaseException) -> None:
        self._consumers = [c for c in self._consumers if c is not consumer]
        self._bind()
        _LOG.warning("consumer %s failed and was dropped: %s", type(consumer).__name__, rendered(error))

    async def settle(self) -> None:
        """Await what consumers returned, in order, each within its limit; cancellation waits that long."""
        waiting, self.waiting = self.waiting, []
        for consumer, answer in waiting:
            try:
                with anyio.move_on_after(AWAIT_LIMIT, shield=True) as scope:
                    await answer
                if scope.cancelled_caught:
                    self._drop(consumer, TimeoutError(f"did not finish within {AWAIT_LIMIT} seconds"))
            except Exception as error:  # noqa: BLE001  # as in _tell
                self._drop(consumer, error)


def _observers(consumers: Iterable[Consumer]) -> tuple[tuple[Consumer, Callable[..., Awaitable[None] | None]], ...]:
    """Those that look at events, with the method that does: bound once, and safe to drop from while looping."""
    return tuple([(c, c.observe) for c in consumers if type(c).observe is not Consumer.observe])


def rendered(error: BaseException | None) -> str:
    """The error in words, also when it cannot be rendered."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  # a __str__ may raise anything
        return f"{type(error).__name__} (its text could not be rendered)"
