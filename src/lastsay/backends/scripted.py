"""A scripted child: a backend without a harness, that plays a list of events, pauses and faults.

It ships with the package, as other libraries ship their mock transport, so that code built on lastsay can be tested
against every way a child can behave::

    from lastsay.backends import scripted

    child = scripted.stream([RunStarted(), TextDelta("so f"), scripted.Pause(0.1), TextDelta("ar"), scripted.Hang()])

A script says what the source does, in order:

    an event              is sent alone
    a list of events      is sent as one batch: all of them are ready without waiting
    `Pause(seconds)`      waits; a cancellation ends the wait
    `Checkpoint()`        lets other tasks run, and is a point at which a cancellation can strike
    `Hang()`              waits until cancelled
    `Wait(event)`         waits for an `anyio.Event` that the test sets
    `Do(function)`        calls a function (sync or async) inside the source: set an event, cancel a scope, kill a child
    `Raise(exception)`    raises inside the source

What happened to each entry stands in `Script.entries`: which task opened and which closed it, and how far it came.
"""

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel

from lastsay.events import Event
from lastsay.operators import Stream

__all__ = ("Checkpoint", "Do", "Entry", "Hang", "Pause", "Raise", "Script", "Step", "Wait", "stream")


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Let other tasks run once; a pending cancellation strikes here."""


@dataclass(frozen=True, slots=True)
class Hang:
    """Wait until cancelled."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until the event is set. Events belong to one event loop: make it inside the test."""

    event: anyio.Event


@dataclass(frozen=True, slots=True)
class Do:
    """Call the function inside the source; what it returns is awaited if it can be, and ignored."""

    function: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Raise:
    """Raise the exception inside the source."""

    exception: BaseException


Step: TypeAlias = Event | Sequence[Event] | Pause | Checkpoint | Hang | Wait | Do | Raise


@dataclass(slots=True)
class Entry:
    """What happened to one entry of a script.

    Attributes:
        opened_in: id of the task that opened the source.
        closed_in: id of the task that closed it; None while it is open.
        sent: number of events that were handed over.
        exhausted: True if the script was played to its end.
    """

    opened_in: int
    closed_in: int | None = None
    sent: int = 0
    exhausted: bool = False

    @property
    def closed(self) -> bool:
        """Whether the source was closed."""
        return self.closed_in is not None


@dataclass(frozen=True, slots=True)
class _Ends:
    start: BaseException | None
    closing: tuple[Pause | Checkpoint | Hang | Wait | Do | Raise, ...] = field(default=())


class Script(Stream):
    """The stream that a script plays; each entry plays it from the start.

    Attributes:
        entries: what happened to every entry so far, in the order of opening.
    """

    __slots__ = ("_ends", "_steps", "entries")

    def __init__(self, steps: Iterable[Step], ends: _Ends) -> None:
        super().__init__(self._opened)
        self._steps = tuple(steps)
        self._ends = ends
        self.entries: list[Entry] = []

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[AsyncIterator[list[Event]], None]:
        await anyio.lowlevel.checkpoint()
        if self._ends.start is not None:
            raise self._ends.start
        entry = Entry(anyio.get_current_task().id)
        self.entries.append(entry)
        batches = self._play(entry)
        try:
            yield batches
        finally:
            entry.closed_in = anyio.get_current_task().id
            await batches.aclose()
            for step in self._ends.closing:
                await _act(step)

    async def _play(self, entry: Entry) -> AsyncGenerator[list[Event], None]:
        for step in self._steps:
            if isinstance(step, Pause | Checkpoint | Hang | Wait | Do | Raise):
                await _act(step)
            elif batch := list(step) if isinstance(step, Sequence) else [step]:
                entry.sent += len(batch)
                yield batch
        entry.exhausted = True


async def _act(step: Pause | Checkpoint | Hang | Wait | Do | Raise) -> None:
    match step:
        case Pause(seconds):
            await anyio.sleep(seconds)
        case Checkpoint():
            await anyio.lowlevel.checkpoint()
        case Hang():
            await anyio.sleep_forever()
        case Wait(event):
            await event.wait()
        case Do(function):
            result = function()
            if inspect.isawaitable(result):
                await result
        case Raise(exception):
            raise exception


def stream(
    steps: Iterable[Step],
    *,
    start: BaseException | None = None,
    closing: Iterable[Pause | Checkpoint | Hang | Wait | Do | Raise] = (),
) -> Script:
    """A stream that plays the steps.

    Args:
        steps: what the source does, in order; see the module's table.
        start: raised on entry, for a source that cannot be started (`lastsay.errors.SourceError`).
        closing: what the source does while it is being closed, for a teardown that is slow, hangs or fails.

    Cancellation: strikes inside `Pause`, `Checkpoint`, `Hang` and `Wait`; sending events is not a cancellation point,
    as in a real source that has a buffer full of them.
    """
    return Script(steps, _Ends(start, tuple(closing)))
