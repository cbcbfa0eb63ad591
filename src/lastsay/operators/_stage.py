"""The contract of a synchronous operator: a stage.

A stage says which event classes it handles, and gives for each a handler for one event and, if it wants to be fast, one
for a *run*: a list of consecutive events of that class. A run of deltas is of one message and comes as
`lastsay.events.Deltas`, with its text joined. Which events come in runs depends on what was ready together, so both
handlers must come to the same. Classes that a stage does not name pass it untouched, at no cost.

What a handler returns depends on the stage's kind:

| kind    | one event                   | a run                       |
|---------|-----------------------------|-----------------------------|
| observe | nothing                     | nothing                     |
| map     | the event to pass on        | the events to pass on       |
| filter  | whether the event passes    | the events that pass        |
| flat    | any number of events        | any number of events        |

None stands for no events. Events are frozen: a handler never changes one, and a run handler never changes the list it
was given. A stage belongs to one entry of one stream, so plain attributes are the right place for its state. Ten lines
make one:

    class CountText(Stage):
        kind = "observe"

        def __init__(self) -> None:
            self.characters = 0

        def handlers(self) -> Handlers:
            return {TextDelta: self.one}

        def one(self, event: TextDelta) -> None:
            self.characters += len(event.text)

    stream | through(CountText)
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from lastsay.events import EVENT_TYPES, Event

__all__ = ("Handler", "Handlers", "Kind", "Stage", "every")

Kind = Literal["observe", "map", "filter", "flat"]
Handler = Callable[[Any], Any]
Handlers = Mapping[type, Handler | tuple[Handler, Handler]]


class Stage:
    """A synchronous operator. Subclasses set `kind`, give `handlers`, and override the hooks they need."""

    kind: ClassVar[Kind] = "observe"
    may_end: ClassVar[bool] = False
    """Whether the stage ever sets `ended`; others are not asked."""
    ended: bool = False
    """Set it to True to end the stream: the source is closed, and what comes after is not read. A stage that ends a
    stream passes nothing on from then on."""

    def handlers(self) -> Handlers:
        """What to call for which class: a handler of one event, or a pair with a handler of a run as well.

        The class `object` stands for everything that is not an event.
        """
        raise NotImplementedError  # every stage says what it handles

    def settle(self) -> Sequence[Event]:
        """The events held back only while their batch went on. Called at the end of every batch."""
        return ()

    def flush(self) -> Sequence[Event]:
        """The events still held back. Called once, when the source has ended."""
        return ()

    def close(self) -> None:
        """Let go of what is held. Called once, whatever ended the stream; nothing can be passed on any more."""


def every(one: Handler, run: Handler | None = None) -> Handlers:
    """Handlers that are the same for every event class."""
    return dict.fromkeys(EVENT_TYPES, one if run is None else (one, run))
