"""coalesce: fewer, larger deltas.

Neighbouring deltas of one class, run and message become one. Anything else that passes lets the joined delta go first,
so the order of the stream is kept. A joined delta carries the sequence number of its last piece: the point from which a
reader resumes.
"""

from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from math import inf
from typing import cast

import anyio

from lastsay.errors import UsageError
from lastsay.events import EVENT_TYPES, Deltas, Event, ReasoningDelta, TextDelta
from lastsay.operators._fused import Operator, through
from lastsay.operators._mailbox import Mailbox
from lastsay.operators._own_task import pumped
from lastsay.operators._pipeline import Pipeline
from lastsay.operators._stage import Handlers, Stage
from lastsay.operators._stream import Stream

__all__ = ("coalesce",)

Delta = TextDelta | ReasoningDelta


def coalesce(seconds: float | None = None, *, characters: int | None = None) -> Operator:
    """Joins neighbouring deltas of one message.

    Without arguments it joins what is ready together, which delays nothing. With `seconds`, text waits for more of its
    kind; with `characters` alone it waits for that many, for another event, or for the end, however long that takes.
    Pieces stay whole: a delta goes on with the piece that reaches `characters`, whether they came together or not.

    Args:
        seconds: how long the first piece of a delta may wait, in seconds.
        characters: how many characters make a delta large enough to go on at once.
    """
    if seconds is not None and seconds <= 0:
        raise UsageError(
            f"coalesce({seconds}): seconds must be more than 0; leave it out to join what is ready together"
        )
    if characters is not None and characters < 1:
        raise UsageError(f"coalesce(characters={characters}): at least 1 character")
    if seconds is None:
        return through(_CoalesceReady if characters is None else lambda: _Coalesce(characters))
    return _within(seconds, characters)


class _Coalesce(Stage):
    kind = "flat"

    def __init__(self, characters: int | None = None) -> None:
        self._limit: float = inf if characters is None else characters
        self._last: Delta | None = None
        self._pieces: list[str] = []
        self._length = 0

    @property
    def holds(self) -> bool:
        """Whether a piece waits."""
        return self._last is not None

    def handlers(self) -> Handlers:
        others: Handlers = dict.fromkeys(EVENT_TYPES, (self._other, self._others))
        return {**others, **dict.fromkeys((TextDelta, ReasoningDelta), (self._one, self._run))}

    def _one(self, event: Delta) -> Sequence[Event]:
        last, text = self._last, event.text
        out: Sequence[Event] = ()
        if last is not None and not (
            event.message == last.message and event.run == last.run and type(event) is type(last)
        ):
            out = self.flush()
        self._last = event
        self._pieces.append(text)
        self._length = length = self._length + len(text)
        if length < self._limit:
            return out
        return (*out, *self.flush())

    def _run(self, events: Deltas) -> Sequence[Event]:
        first, last, text = events[0], self._last, events.text
        out: list[Event] | tuple[()] = ()
        if last is not None and not (
            first.message == last.message and first.run == last.run and type(first) is type(last)
        ):
            out = [_joined(last, self._pieces)]
            self._pieces, self._length = [], 0
        self._length += len(text)
        if self._length >= self._limit:
            return self._cut(events, [*out])
        self._last = events[-1]
        self._pieces.append(text)
        return out

    def _cut(self, events: Deltas, out: list[Event]) -> list[Event]:
        """Cut where the pieces reach the limit, as if they had come one by one."""
        texts, text, limit = events.texts, events.text, cast("int", self._limit)
        held, left = self._pieces, len(text)
        need = limit - self._length + left  # characters that are missing from what was held before
        at = done = 0  # pieces and characters that have gone on
        while left >= need:
            upto, reached = _reach(texts, at, need, left)
            held.append(text[done : done + reached])
            out.append(_joined(events[upto - 1], held))
            held, need = [], limit
            at, done, left = upto, done + reached, left - reached
        self._last = None
        if at < len(texts):
            self._last = events[-1]
            held.append(text[done:])
        self._pieces, self._length = held, left
        return out

    def _other(self, event: Event) -> Sequence[Event]:
        return (event,) if self._last is None else (*self.flush(), event)

    def _others(self, events: Sequence[Event]) -> Sequence[Event]:
        return events if self._last is None else (*self.flush(), *events)

    def flush(self) -> Sequence[Event]:
        last, pieces = self._last, self._pieces
        if last is None:
            return ()
        self._last, self._pieces, self._length = None, [], 0
        return (_joined(last, pieces),)


class _CoalesceReady(_Coalesce):
    def settle(self) -> Sequence[Event]:
        return self.flush()


def _reach(texts: list[str], at: int, need: int, left: int) -> tuple[int, int]:
    """Behind which piece `need` characters are reached, counting from piece `at`, and how many characters that are.

    `left` characters follow in all, at least `need`. Pieces are much of a size, so the place is guessed and then
    corrected: adding up all their lengths costs five times as much.
    """
    upto = at + need * (len(texts) - at) // left
    reached = len("".join(texts[at:upto]))
    while reached < need:
        reached += len(texts[upto])
        upto += 1
    while reached - len(texts[upto - 1]) >= need:
        upto -= 1
        reached -= len(texts[upto])
    return upto, reached


def _joined(last: Delta, pieces: list[str]) -> Delta:
    if len(pieces) == 1 and pieces[0] is last.text:
        return last
    return type(last)("".join(pieces), last.message, run=last.run, seq=last.seq)


def _within(seconds: float, characters: int | None) -> Operator:
    def operator(source: Stream | AsyncIterable[Event]) -> Stream:
        return pumped(source, lambda mailbox: _timed(mailbox, seconds, characters))

    return operator


async def _timed(mailbox: Mailbox, seconds: float, characters: int | None) -> AsyncGenerator[list[Event], None]:
    """The stage, driven by a clock instead of by the ends of batches."""
    stage = _Coalesce(characters)
    pipeline = Pipeline([stage])
    due = inf
    while True:
        batch: list[Event] | None = None
        with anyio.move_on_at(due):
            batch = await mailbox.take()
        if batch is not None and not batch:
            break
        held = stage.holds
        out = pipeline.push(batch) if batch else []
        now = anyio.current_time()
        if held and not out and now >= due:
            out += stage.flush()
        elif stage.holds and (out or not held):
            due = now + seconds
        if not stage.holds:
            due = inf
        if out:
            yield out
    rest = pipeline.flush()
    if rest:
        yield rest
