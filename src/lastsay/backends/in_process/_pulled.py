"""A loop that yields."""

from collections.abc import AsyncGenerator, AsyncIterable, Callable
from contextlib import aclosing
from typing import Any

from lastsay.backends.in_process._plain import Item, PlainNormaliser
from lastsay.errors import UsageError
from lastsay.events import MAIN, Event
from lastsay.operators import Stream

__all__ = ("normalised", "stream")


def stream(
    make: Callable[[], AsyncIterable[Item]],
    *,
    run: str = MAIN,
    parent: str | None = None,
    agent: str | None = None,
    model: str | None = None,
) -> Stream:
    """The events of a loop that yields.

    Args:
        make: called once per entry, gives an async iterable of items; usually an async generator function.
        run: the run's id.
        parent: id of the run that this one works for, or None.
        agent: the agent's name, or None.
        model: the model's name, or None.

    Cancellation: goes into the loop; an async generator is closed when the stream is left.
    """
    if not callable(make):
        raise UsageError("make must be callable: give the async generator function itself, not what it returns")

    async def batches() -> AsyncGenerator[list[Event], None]:
        plain = PlainNormaliser(run, parent=parent, agent=agent, model=model)
        yield plain.begin()
        async with aclosing(normalised(plain, make)) as events:
            async for batch in events:
                yield batch
        if ends := plain.end():
            yield ends

    return Stream.from_batches(batches)


async def normalised(
    plain: PlainNormaliser, make: Callable[[], AsyncIterable[Item]]
) -> AsyncGenerator[list[Event], None]:
    """The events of one iteration; what it raises becomes the end of the run."""
    iterator: Any = None
    try:
        iterator = aiter(make())
        async for item in iterator:
            if events := plain.push(item):
                yield events
    except Exception as error:  # noqa: BLE001  (a child-level failure is an outcome)
        if ends := plain.end(error):
            yield ends
    finally:
        if hasattr(iterator, "aclose"):
            await iterator.aclose()
