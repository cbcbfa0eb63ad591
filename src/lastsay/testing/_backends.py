"""The contract of a backend, as a check that any backend can be given, with any test runner or none.

    await check_backend(lambda: mybackend.stream("Say hello."), normaliser=mybackend.Normaliser, frames=recorded)

| check       | what a backend owes                                                                          |
|-------------|----------------------------------------------------------------------------------------------|
| complete    | batches are non-empty lists of events; each run has one start, one end, and nothing after it; |
|             | the root starts first, a child's parent before the child                                      |
| speaks      | the run says something (so that the checks below check something)                             |
| again       | the same stream entered again, event by event, gives the same text and the same end           |
| kept        | every event survives the codec, with its class and its run                                    |
| unused      | entering and leaving at once closes the source                                                |
| left_early  | leaving after the first batch closes the source: no task and no process is left               |
| cancelled   | a cancellation gets through in time, leaves nothing behind, and the text so far is kept       |
| total       | the normaliser raises for no input, gives events only, and ends what is open once             |
"""

import asyncio
import copy
import json
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import anyio

from lastsay.events import (
    ABORTED,
    EVENT_TYPES,
    MAIN,
    EpochStarted,
    Event,
    Message,
    RunEnded,
    RunStarted,
    Text,
    TextDelta,
    decode_event,
    encode,
)
from lastsay.fold import ANSWER, Outcome, RunFold
from lastsay.operators import Stream
from lastsay.run import open_run

__all__ = ("BackendCheckError", "check_backend")

_SETTLE: Final = 2.0
"""Seconds that tasks and processes may take to be gone after the source was closed."""
_ODD: Final[tuple[Any, ...]] = (
    b"", b"\xff\xfe", b"{", b"[" * 10_000, b"null", b"42", b'"x"', b"[]", b"[[]]", b"[null, 1]", b"{}", b'{"type": 5}',
    b'{"type": "no such thing"}', "", "text", "\ud83d", None, 0, 1.5, True, [], [None], {}, {"type": None},
    {"type": []}, {1: 2}, object(),
)  # fmt: skip
_SUBSTITUTES: Final[tuple[Any, ...]] = (None, 0, "", "odd", [], [None], {}, {"odd": 1}, True)


class BackendCheckError(AssertionError):
    """A backend breaks its contract; the message begins with the name of the check."""


class _Normaliser(Protocol):
    def push(self, raw: Any, /) -> list[Event]: ...
    def close(self) -> list[Event]: ...


async def check_backend(
    make: Callable[[], Stream],
    *,
    normaliser: Callable[[], _Normaliser] | None = None,
    frames: Iterable[Any] = (),
    limit: float = 60.0,
    skip: Iterable[str] = (),
) -> tuple[str, ...]:
    """The names of the checks that a backend passed: all of them, or an error is raised.

    Runs under asyncio. About six runs of the child are made.

    Args:
        make: gives a stream of one run that says some text and ends by itself.
        normaliser: makes the backend's sans-IO normaliser, for the check ``total``.
        frames: good input for the normaliser, in order; it is bent in every place, and fed to it.
        limit: seconds that one check may take.
        skip: names of checks to leave out.

    Raises:
        BackendCheckError: the first check that fails.
    """
    left_out = set(skip) | ({"total"} if normaliser is None else set())
    passed: list[str] = []
    for name, check in _CHECKS.items():
        if name not in left_out:
            await _checked(name, check(make), limit)
            passed.append(name)
    if "total" not in left_out:
        assert normaliser is not None
        _total(normaliser, list(frames))
        passed.append("total")
    return tuple(passed)


async def _checked(name: str, running: Awaitable[None], limit: float) -> None:
    before = _tasks(), _children()
    try:
        with anyio.fail_after(limit):
            await running
    except TimeoutError:
        raise BackendCheckError(f"{name}: not done within {limit} seconds") from None
    patience = round(_SETTLE * 100)
    while any(left := (_tasks() - before[0], _children() - before[1])) and patience:
        patience -= 1
        await asyncio.sleep(0.01)
    _require(name, not left[0], f"tasks are left behind: {left[0]}")
    _require(name, not left[1], f"child processes are left behind: {sorted(left[1])}")


def _require(name: str, holds: object, message: str) -> None:
    if not holds:
        raise BackendCheckError(f"{name}: {message}")


def _tasks() -> set[Any]:
    return {task for task in asyncio.all_tasks() if not task.done()}


def _children() -> set[int]:
    """The living children of this process, as far as the system tells."""
    found: set[int] = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_bytes().rpartition(b")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if int(parent) == os.getpid() and state != b"Z":
            found.add(int(stat.parent.name))
    return found


async def _batches(stream: Stream) -> list[list[Event]]:
    async with stream.batches() as batches:
        return [batch async for batch in batches]


async def _complete(make: Callable[[], Stream]) -> None:
    name = "complete"
    batches = await _batches(make())
    for batch in batches:
        _require(name, type(batch) is list and batch, f"a batch must be a non-empty list, not {batch!r}")
        for event in batch:
            _require(name, type(event) in EVENT_TYPES, f"not an event: {event!r}")
    _well_formed(name, [event for batch in batches for event in batch])


def _well_formed(name: str, events: list[Event]) -> None:
    running: set[str] = set()
    ended: set[str] = set()
    _require(name, events, "the stream is empty")
    first = events[0]
    _require(name, type(first) is RunStarted, f"the first event must start the root run, not {first!r}")
    for event in events:
        run = event.run
        if type(event) is RunStarted:
            _require(name, run not in running | ended, f"run {run!r} is started twice")
            parent = event.parent
            _require(name, parent is None or parent in running | ended, f"run {run!r} starts before its parent")
            running.add(run)
        elif type(event) is EpochStarted:
            _require(name, run in running | ended, f"run {run!r} goes on before it started")
            ended.discard(run)
            running.add(run)
        else:
            _require(name, run in running, f"outside of its run: {event!r}")
        if type(event) is RunEnded:
            running.discard(run)
            ended.add(run)
    _require(name, not running, f"runs without an end: {sorted(running)}")


def _outcome(events: Iterable[Event]) -> Outcome:
    fold = RunFold(ANSWER)
    for event in events:
        if event.run == MAIN or (type(event) is RunStarted and event.parent is None):
            fold.push(event)
    return fold.outcome()


def _texts(outcome: Outcome) -> str:
    return "".join([block.text for block in outcome.output or () if isinstance(block, Text)])


async def _speaks(make: Callable[[], Stream]) -> None:
    events = [event for batch in await _batches(make()) for event in batch]
    _require("speaks", _texts(_outcome(events)), "the run must say something; give check_backend one that does")


async def _again(make: Callable[[], Stream]) -> None:
    stream = make()
    first = _outcome([event for batch in await _batches(stream) for event in batch])
    async with stream as events:
        second = _outcome([event async for event in events])
    same = (_texts(first), first.stop_reason), (_texts(second), second.stop_reason)
    _require("again", same[0] == same[1], f"two entries of one stream differ: {same[0]!r} and {same[1]!r}")


async def _kept(make: Callable[[], Stream]) -> None:
    for batch in await _batches(make()):
        for event in batch:
            back = decode_event(encode(event).rstrip(b"\n"))
            kept = type(back) is type(event) and back.run == event.run
            _require("kept", kept, f"the codec gives back {back!r} for {event!r}")


async def _unused(make: Callable[[], Stream]) -> None:
    async with make().batches():
        pass


async def _left_early(make: Callable[[], Stream]) -> None:
    async with make().batches() as batches:
        async for _ in batches:
            break


async def _cancelled(make: Callable[[], Stream]) -> None:
    name = "cancelled"
    said: list[str] = []
    with anyio.CancelScope() as scope:
        async with open_run(make(), policy=ANSWER) as run:
            async for event in run:
                said += _said(event)
                if said:
                    scope.cancel()
                    await anyio.lowlevel.checkpoint()
    _require(name, scope.cancelled_caught, "the cancellation was swallowed")
    outcome = run.outcome
    _require(name, outcome is not None, "a cancelled run has no outcome")
    assert outcome is not None
    _require(name, outcome.stop_reason == ABORTED, f"a cancelled run ended as {outcome.stop_reason!r}")
    _require(name, _texts(outcome).startswith(said[0]), f"{said[0]!r} was said before, and is not in the outcome")


def _said(event: Event) -> list[str]:
    if event.run != MAIN:
        return []
    if type(event) is TextDelta:
        return [event.text] if event.text.strip() else []
    if type(event) is Message and event.origin == "model":
        return [block.text for block in event.content if type(block) is Text and block.text.strip()]
    return []


_CHECKS: Final[Mapping[str, Callable[[Callable[[], Stream]], Awaitable[None]]]] = {
    "complete": _complete,
    "speaks": _speaks,
    "again": _again,
    "kept": _kept,
    "unused": _unused,
    "left_early": _left_early,
    "cancelled": _cancelled,
}


def _total(make: Callable[[], _Normaliser], frames: list[Any]) -> None:
    seen: list[Event] = []
    whole = make()
    for raw in _ODD:
        _fed(make(), [raw])
        seen += _pushed(whole, raw)
    for at, frame in enumerate(frames):
        for bent in _bent(frame):
            _fed(make(), [*frames[:at], bent, *frames[at + 1 :]])
        seen += _pushed(whole, frame)
    seen += _closed(whole)
    _one_end(seen)
    if frames:
        _well_formed("total", _fed(make(), frames))


def _fed(normaliser: _Normaliser, raws: list[Any]) -> list[Event]:
    seen: list[Event] = []
    for raw in raws:
        seen += _pushed(normaliser, raw)
    seen += _closed(normaliser)
    _one_end(seen)
    return seen


def _one_end(events: list[Event]) -> None:
    for kind in (RunStarted, RunEnded):
        epochs = sum([type(event) is EpochStarted and event.run == MAIN for event in events])
        count = sum([type(event) is kind and event.run == MAIN for event in events])
        _require("total", count <= 1 + epochs, f"{count} events of class {kind.__name__} for one run")


def _pushed(normaliser: _Normaliser, raw: Any) -> list[Event]:
    try:
        events = normaliser.push(raw)
    except Exception as error:
        raise BackendCheckError(f"total: push raised {error!r} for {_excerpt(raw)}") from error
    odd = [event for event in events if type(event) not in EVENT_TYPES]
    _require("total", type(events) is list and not odd, f"push gave {odd!r} for {_excerpt(raw)}")
    return events


def _closed(normaliser: _Normaliser) -> list[Event]:
    try:
        events, more = normaliser.close(), normaliser.close()
    except Exception as error:
        raise BackendCheckError(f"total: close raised {error!r}") from error
    _require("total", more == [], f"the second close gave {more!r}")
    return events


def _excerpt(raw: Any) -> str:
    return repr(raw)[:200]


def _bent(frame: Any) -> Iterator[Any]:
    """The frame with one value at a time taken out, or replaced by something odd."""
    text = isinstance(frame, (bytes, str))
    try:
        value = json.loads(frame) if text else frame
    except ValueError:
        return
    for path in _paths(value):
        for substitute in _SUBSTITUTES if len(path) < 6 else ():
            yield _dressed(_replaced(value, path, substitute), frame)
        yield _dressed(_replaced(value, path, _GONE), frame)


_GONE: Final = object()


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, inner in items:
        yield (*path, key)
        yield from _paths(inner, (*path, key))


def _replaced(value: Any, path: tuple[Any, ...], substitute: Any) -> Any:
    bent = copy.deepcopy(value)
    target = bent
    for key in path[:-1]:
        target = target[key]
    if substitute is _GONE:
        del target[path[-1]]
    else:
        target[path[-1]] = substitute
    return bent


def _dressed(value: Any, like: Any) -> Any:
    if isinstance(like, bytes):
        return json.dumps(value).encode()
    return json.dumps(value) if isinstance(like, str) else value
