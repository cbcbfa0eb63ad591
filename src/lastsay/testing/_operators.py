"""Conformance of an operator: what everything that stands on the right of ``|`` must keep.

| check        | what it demands                                                                                    |
|--------------|----------------------------------------------------------------------------------------------------|
| order        | events come out in the order in which they went in; batches are never empty; a second entry agrees |
| splits       | every way of cutting the input into lists gives the same                                           |
| closing      | the source is closed after a full read, a break, an error in the body, an error of its own         |
| cancellation | a cancellation at any await of the source closes it and goes on                                    |
| one task     | the source runs and closes in one task, and its context variables last                             |
| scopes       | a source may hold a cancel scope or a task group around its yields                                 |
| leaks        | no task is left over                                                                               |
"""

import asyncio
import contextlib
import contextvars
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import anyio
import anyio.lowlevel

from lastsay.events import (
    Event,
    Message,
    MessageStarted,
    Notice,
    ReasoningDelta,
    RunEnded,
    RunStarted,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    Usage,
    UsageReported,
)
from lastsay.operators import Stream

__all__ = ("check_operator", "joined", "said", "sample_events")

Make = Callable[[], Callable[[Stream], Stream]]
Same = Callable[[list[Event]], Any]


def sample_events() -> list[Event]:
    """A small stream with two runs, every shape of text, tool calls, usage and both ends."""
    child = "child"
    events: list[Event] = [
        RunStarted(agent="parent"),
        MessageStarted("m"),
        ReasoningDelta("thin", "m"),
        ReasoningDelta("king", "m"),
        *[TextDelta(piece, "m") for piece in ("Let ", "me ", "ask", " the", " child", ".")],
        Message((Text("Let me ask the child."),), "m", usage=Usage(input_tokens=3, output_tokens=6)),
        ToolCall("t", "delegate"),
        RunStarted(parent="main", call="t", run=child),
        TextDelta("for", "c", run=child),
        TextDelta("ty", "c", run=child),
        TextDelta("Waiting", "n"),
        TextDelta("-two", "c", run=child),
        TextDelta("...", "n"),
        Notice("heartbeat"),
        RunEnded("completed", run=child),
        ToolResult("t", (Text("forty-two"),)),
        UsageReported(Usage(output_tokens=2), "n"),
        TextDelta("It is ", "o"),
        TextDelta("forty-two.", "o"),
        RunEnded("completed"),
    ]
    return events


def joined(events: list[Event]) -> list[Event]:
    """The events with neighbouring deltas of one class, run and message as one: equal for streams that say the same."""
    out: list[Event] = []
    for event in events:
        last = out[-1] if out else None
        if (
            isinstance(event, (TextDelta, ReasoningDelta))
            and isinstance(last, (TextDelta, ReasoningDelta))
            and type(last) is type(event)
            and (last.run, last.message) == (event.run, event.message)
        ):
            out[-1] = type(event)(last.text + event.text, event.message, run=event.run, seq=event.seq)
        else:
            out.append(event)
    return out


def said(events: list[Event]) -> dict[str, Any]:
    """What every run said: text by message, and the other events in order. For operators that delay text.

    Notices and usage have no place of their own in a message, so theirs does not count.
    """
    runs: dict[str, Any] = {}
    for event in events:
        texts, others = runs.setdefault(event.run, ({}, []))
        if isinstance(event, (TextDelta, ReasoningDelta)):
            texts.setdefault((type(event).__name__, event.message), []).append(event.text)
        elif not isinstance(event, (Notice, UsageReported)):
            others.append(event)
    return {
        run: ({key: "".join(pieces) for key, pieces in texts.items()}, others) for run, (texts, others) in runs.items()
    }


async def check_operator(
    make: Make, *, events: Sequence[Event] | None = None, passes: bool = True, same: Same = joined
) -> None:
    """Raises where an operator breaks a rule of the table above. Run it on asyncio and on trio.

    Args:
        make: gives the operator; called anew for every check.
        events: what goes in; `sample_events` if None.
        passes: the operator lets every event through (`same` decides what is equal). With False only the agreement of
            its own outputs is checked.
        same: brings an output into the form that is compared.

    Raises:
        AssertionError: a rule was broken; the message names the check.

    Example:
        >>> import anyio
        >>> from lastsay.operators import coalesce
        >>> anyio.run(lambda: check_operator(coalesce))
    """
    given = list(events if events is not None else sample_events())
    leaked = _tasks()
    await _check_order(make, given, passes, same)
    await _check_splits(make, given, same)
    await _check_closing(make, given)
    await _check_cancellation(make, given)
    await _check_scopes(make, given, same)
    await anyio.lowlevel.checkpoint()
    _demand(_tasks() <= leaked, "leaks", "a task is left over")


def _demand(holds: bool, check: str, message: str) -> None:  # noqa: FBT001  # reads as a sentence where it is called
    if not holds:
        raise AssertionError(f"{check}: {message}")


def _tasks() -> set[int]:
    """The ids of the tasks of this loop; empty on trio, whose nurseries cannot leak."""
    try:
        return {id(task) for task in asyncio.all_tasks()}
    except RuntimeError:
        return set()


class _Source:
    """A source that gives lists with a pause before each, and knows where and how it was run."""

    def __init__(self, events: list[Event], size: int, hold: Callable[[], Any] = contextlib.nullcontext) -> None:
        self.events = events
        self.size = size
        self.hold = hold
        self.opened = self.closed = 0
        self.steps = 0
        self.at: tuple[int, Callable[[], None]] | None = None
        self.fail_after: int | None = None
        self.tasks: set[int] = set()
        self.kept = True
        self._variable: contextvars.ContextVar[int] = contextvars.ContextVar("lastsay_check", default=0)

    async def batches(self) -> AsyncIterator[list[Event]]:
        self.opened += 1
        self._variable.set(self.opened)
        mine = self.opened
        try:
            async with contextlib.AsyncExitStack() as stack:
                held = self.hold()
                if hasattr(held, "__aenter__"):
                    await stack.enter_async_context(held)
                else:
                    stack.enter_context(held)
                for i in range(0, len(self.events), self.size):
                    await self._step(mine)
                    if self.fail_after is not None and i >= self.fail_after:
                        raise OSError("the source broke")
                    yield self.events[i : i + self.size]
                await self._step(mine)
        finally:
            self.closed += 1
            self.tasks.add(anyio.get_current_task().id)

    async def _step(self, mine: int) -> None:
        self.tasks.add(anyio.get_current_task().id)
        self.kept = self.kept and self._variable.get() == mine
        self.steps += 1
        if self.at is not None and self.steps == self.at[0]:
            self.at[1]()
        await anyio.lowlevel.checkpoint()

    @property
    def stream(self) -> Stream:
        return Stream.from_batches(self.batches)

    def demand_closed(self, check: str, when: str) -> None:
        _demand(self.opened == self.closed == 1, check, f"the source is not closed after {when}")
        _demand(len(self.tasks) == 1, "one task", f"the source ran in {len(self.tasks)} tasks, after {when}")
        _demand(self.kept, "one task", f"a context variable of the source was lost, after {when}")


async def _read(stream: Stream) -> list[Event]:
    async with stream as events:
        return [event async for event in events]


async def _check_order(make: Make, events: list[Event], passes: bool, same: Same) -> None:  # noqa: FBT001  # private
    stream = make()(_Source(events, 3).stream)
    out = await _read(stream)
    if passes:
        _demand(same(events) == same(out), "order", "what came out is not what went in, in its order")
    async with stream.batches() as batches:
        lists = [batch async for batch in batches]
    _demand(all(lists), "order", "an empty batch came out")
    again = [event for batch in lists for event in batch]
    _demand(same(out) == same(again), "order", "a second entry, read in lists, gives something else")


async def _check_splits(make: Make, events: list[Event], same: Same) -> None:
    whole = same(await _read(make()(_Source(events, len(events)).stream)))
    for size in (1, 2, 3, 5, 8):
        out = same(await _read(make()(_Source(events, size).stream)))
        _demand(whole == out, "splits", f"lists of {size} give something else than one list")

    async def singles() -> AsyncIterator[Event]:
        for event in events:
            yield event

    out = same(await _read(make()(Stream.from_events(singles))))
    _demand(whole == out, "splits", "single events give something else than one list")


class _BodyError(Exception):
    pass


async def _failing(out: AsyncIterator[Event]) -> None:
    await anext(out)
    raise _BodyError


async def _check_closing(make: Make, events: list[Event]) -> None:
    source = _Source(events, 2)
    await _read(make()(source.stream))
    source.demand_closed("closing", "a full read")
    source = _Source(events, 2)
    async with make()(source.stream) as out:
        async for _ in out:
            break
    source.demand_closed("closing", "a break")
    source = _Source(events, 2)
    swallowed = False
    with contextlib.suppress(_BodyError):
        async with make()(source.stream) as out:
            await _failing(out)
        swallowed = True
    _demand(not swallowed, "closing", "the body's error was swallowed")
    source.demand_closed("closing", "an error in the body")
    source = _Source(events, 2)
    source.fail_after = 6
    with contextlib.suppress(OSError):
        await _read(make()(source.stream))
    source.demand_closed("closing", "an error of the source")


async def _check_cancellation(make: Make, events: list[Event]) -> None:
    steps = len(events) // 2
    for at in range(1, steps):
        source = _Source(events, 2)
        with anyio.CancelScope() as scope:
            source.at = (at, scope.cancel)
            await _read(make()(source.stream))
            # The operator may have ended the stream before: then there was nothing to cancel.
            _demand(source.steps < at or not scope.cancel_called, "cancellation", f"swallowed at await {at}")
        source.demand_closed("cancellation", f"a cancellation at await {at}")


async def _check_scopes(make: Make, events: list[Event], same: Same) -> None:
    whole = same(await _read(make()(_Source(events, 2).stream)))
    for name, hold in (("cancel scope", anyio.CancelScope), ("task group", anyio.create_task_group)):
        source = _Source(events, 2, hold)
        _demand(same(await _read(make()(source.stream))) == whole, "scopes", f"a {name} in the source changes events")
        source.demand_closed("scopes", f"a full read over a {name}")
        source = _Source(events, 2, hold)
        async with make()(source.stream) as out:
            async for _ in out:
                break
        source.demand_closed("scopes", f"a break over a {name}")
