"""A child that can be continued: one epoch per message."""

from collections.abc import AsyncGenerator, AsyncIterable, Callable
from contextlib import aclosing
from functools import partial
from typing import Any

import anyio

from lastsay.backends.in_process._plain import Item, PlainNormaliser
from lastsay.backends.in_process._pulled import normalised
from lastsay.errors import UsageError
from lastsay.events import MAIN, Event
from lastsay.operators import Stream

__all__ = ("Continuable",)


class Continuable:
    """A child that can be continued: every message to it begins an epoch, with a start and an end of its own.

    Args:
        reply: called with each message, gives an async iterable of items, as for `stream`.
        run: the run's id.
        parent: id of the run that this one works for, or None.
        agent: the agent's name, or None.
        model: the model's name, or None.

    Messages may be sent before the stream is entered and while it is read; messages sent while an epoch runs wait for
    its end. `close` ends the stream after the last of them. It is read once.
    """

    def __init__(
        self,
        reply: Callable[[Any], AsyncIterable[Item]],
        *,
        run: str = MAIN,
        parent: str | None = None,
        agent: str | None = None,
        model: str | None = None,
    ) -> None:
        self._reply = reply
        self._plain = PlainNormaliser(run, parent=parent, agent=agent, model=model)
        self._messages: list[Any] = []
        self._closed = False
        self._read = False
        self._changed: anyio.Event | None = None

    def send(self, message: Any) -> None:
        """Give the child a message.

        Raises:
            UsageError: it was closed.
        """
        if self._closed:
            raise UsageError("this child was closed; it takes no more messages")
        self._messages.append(message)
        self._wake()

    def close(self) -> None:
        """Send no more; the stream ends when all messages were answered."""
        self._closed = True
        self._wake()

    def stream(self) -> Stream:
        """The child's events, epoch after epoch.

        Raises (on entry):
            UsageError: it was entered before.
        """
        return Stream.from_batches(self._batches)

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.set()

    async def _batches(self) -> AsyncGenerator[list[Event], None]:
        if self._read:
            raise UsageError("a continuable child is read once")
        self._read = True
        yield self._plain.begin()
        first = True
        while not (self._closed and not self._messages):
            if not self._messages:
                self._changed = anyio.Event()
                await self._changed.wait()
                continue
            message = self._messages.pop(0)
            if not first:
                yield self._plain.begin_epoch()
            first = False
            async with aclosing(normalised(self._plain, partial(self._reply, message))) as events:
                async for batch in events:
                    yield batch
            if ends := self._plain.end():
                yield ends
        if ends := self._plain.end():
            yield ends
