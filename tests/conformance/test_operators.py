"""Every operator passes the checks that are shipped for operators."""

from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from lastsay.operators import (
    Stage,
    Stream,
    broadcast,
    budget,
    coalesce,
    deadline,
    dedupe,
    epochs,
    every,
    in_order,
    merge,
    own_task,
    redact,
    split_runs,
    tap,
    through,
    validate,
)
from lastsay.testing._operators import check_operator, joined, said

pytestmark = pytest.mark.anyio


def shared(stream: Stream) -> Stream:
    """A broadcast with one consumer, as a stream."""

    @asynccontextmanager
    async def opened():
        async with AsyncExitStack() as stack:
            hub = await stack.enter_async_context(broadcast()(stream))
            yield await stack.enter_async_context(hub.subscribe("only").batches())

    return Stream(opened)


def main_run(stream: Stream) -> Stream:
    """The first run that split_runs gives, as a stream; the others are skipped."""

    async def make():
        async with split_runs()(stream) as runs:
            async for run in runs:
                if run.run != "main":
                    run.skip()
                    continue
                async with run.batches() as batches:
                    async for batch in batches:
                        yield batch

    return Stream.from_batches(make)


PASSING = {
    "nothing": lambda: lambda stream: stream,
    "tap": lambda: tap(lambda event: None),
    "coalesce what is ready": coalesce,
    "coalesce in time": lambda: coalesce(0.01),
    "coalesce by size": lambda: coalesce(characters=7),
    "deadline": lambda: deadline(first=60, idle=60, total=60),
    "budget": lambda: budget(events=10_000, characters=10_000, tokens=10_000, tool_calls=100),
    "validate": validate,
    "dedupe": dedupe,
    "in_order": in_order,
    "epochs": epochs,
    "own_task": own_task,
    "own_task with little room": lambda: own_task(room=1),
    "merge": lambda: merge,
    "broadcast": lambda: shared,
    "many": lambda: lambda s: s | validate() | own_task() | coalesce() | deadline(idle=60) | epochs(),
}
CHANGING = {
    "budget of events": lambda: budget(events=7),
    "budget of characters": lambda: budget(characters=20),
    "merge with a label": lambda: lambda s: merge(labelled={"one": s}),
    "split_runs": lambda: main_run,
    "validate, dropping": lambda: validate("drop"),
}


@pytest.mark.parametrize("name", PASSING)
async def test_operators_that_pass_everything(name):
    """The operator keeps every rule, and everything it is given."""
    await check_operator(PASSING[name])


@pytest.mark.parametrize("name", CHANGING)
async def test_operators_that_change_the_stream(name):
    """The operator keeps every rule."""
    await check_operator(CHANGING[name], passes=False)


@pytest.mark.parametrize("patterns", [[r"sk-\w+"], ["forty-two", "child"]])
async def test_redact(patterns):
    """Redacting delays text, but no run says anything else in another order."""
    passes = "child" not in patterns
    await check_operator(lambda: redact(*patterns), passes=passes, same=said)


class Silent(Stage):
    """Drops every second event."""

    kind = "filter"

    def __init__(self) -> None:
        self.seen = 0

    def handlers(self):
        return every(self.one)

    def one(self, event):
        self.seen += 1
        return self.seen % 2


def reversing(stream: Stream) -> Stream:
    """Gives each list backwards."""

    async def make():
        async with stream.batches() as batches:
            async for batch in batches:
                yield batch[::-1]

    return Stream.from_batches(make)


KEPT = []


def leaky(stream: Stream) -> Stream:
    """Never closes its source; keeps it from the garbage collector, which would."""

    async def make():
        batches = await stream.opened().__aenter__()
        KEPT.append(batches)
        async for batch in batches:
            yield batch

    return Stream.from_batches(make)


def swallowing(stream: Stream) -> Stream:
    """Takes the end of the source for the end of an error."""

    async def make():
        try:
            async with stream.batches() as batches:
                async for batch in batches:
                    yield batch
        except GeneratorExit:
            raise
        except BaseException:
            yield []

    return Stream.from_batches(make)


@pytest.mark.parametrize(
    ("check", "operator"),
    [
        ("order", lambda: through(Silent)),
        ("order", lambda: reversing),
        ("closing", lambda: leaky),
        ("cancellation", lambda: swallowing),
    ],
)
async def test_broken_operators_are_caught(check, operator):
    """The checks find an operator that breaks a rule, and name the rule."""
    with pytest.raises(AssertionError, match=f"^{check}: "):
        await check_operator(operator)


async def test_a_run_handler_that_disagrees_is_caught():
    """A stage whose run handler does something else than its one-event handler fails the check of splits."""

    class Two(Stage):
        kind = "filter"

        def handlers(self):
            return every(lambda event: True, lambda events: events[:1])

    with pytest.raises(AssertionError, match=r"^splits: "):
        await check_operator(lambda: through(Two), passes=False, same=joined)
