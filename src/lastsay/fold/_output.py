"""The output fold: an incremental one, and one function over a complete list of events."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast, final
from weakref import WeakMethod

from lastsay.errors import UsageError
from lastsay.events import (
    Block,
    Deltas,
    EpochStarted,
    Event,
    Message,
    MessageRetracted,
    RunEnded,
    Text,
    TextDelta,
)
from lastsay.fold._journal import Item, Journal
from lastsay.fold._policy import CANONICAL, Policy
from lastsay.fold._select import Selection, select

__all__ = ("OutputFold", "final_output")


@final
class OutputFold:
    """Selects one run's output from its events, as they come.

    Push the events of one run (and of one epoch of it) in order, with `push`, `push_run` or `push_text`; ask at any
    time. `merge` appends a fold of the events that follow; cutting anywhere and merging gives the same as folding
    the whole. `state` and `restore` carry a fold elsewhere; it can be copied and pickled too. It serves one thread.

    Args:
        policy: the selection rule.
        everything: keep what can no longer be selected too, so that `selection` can explain it.

    Example:
        >>> from lastsay.events import Message, Text, TextDelta
        >>> fold = OutputFold()
        >>> fold.push(TextDelta("The ans"))
        >>> fold.collect()
        (Text(text='The ans'),)
        >>> fold.push(Message((Text("The answer."),)))
        >>> fold.push(Message(()))
        >>> fold.collect()
        (Text(text='The answer.'),)
    """

    __slots__ = ("__weakref__", "_ended", "_journal", "policy", "push")

    push: Callable[[Event], None]
    """Take one event. Never raises if the event's fields have the types they declare. What decides nothing is ignored.

    It is the entry of a coroutine. An exception that hits it in its middle (KeyboardInterrupt) ends the coroutine, and
    the fold starts another: nothing that was taken is lost, and `push`, asked for anew, goes on.
    """

    def __init__(self, policy: Policy = CANONICAL, *, everything: bool = False) -> None:
        self.policy: Policy = policy
        self._ended: RunEnded | None = None
        self._journal = Journal(streams=policy.reads_streams, everything=everything)
        self._listen()

    def _listen(self) -> None:
        listen = WeakMethod(self._listen)

        def again() -> None:
            fold_listens = listen()
            if fold_listens is not None:
                fold_listens()

        collecting = self._journal.collecting(again)
        next(collecting)
        self.push = collecting.send

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self.policy, self._journal.everything, self.items, self._ended)

    @property
    def items(self) -> list[Item]:
        """What of the events so far can still decide the output, in order."""
        self._journal.settle()
        return self._journal.items

    def push_run(self, events: Sequence[Event]) -> None:
        """Take consecutive events of one class; the fast way for lists of deltas."""
        if not events:
            return
        journal = self._journal
        if type(events[0]) is not TextDelta:
            journal.take(events)
        elif not journal.deaf:
            journal.settle()
            if type(events) is Deltas:
                journal.stream(events[0].message, (events.text,))
            else:
                self._push_deltas(cast("Sequence[TextDelta]", events))

    def _push_deltas(self, deltas: Sequence[TextDelta]) -> None:
        message = deltas[0].message
        texts = [delta.text for delta in deltas if delta.message == message]
        if len(texts) == len(deltas):
            self._journal.stream(message, texts)
        else:
            for delta in deltas:
                self._journal.stream(delta.message, (delta.text,))

    def push_text(self, text: str) -> None:
        """Take a raw chunk of a transport that has no messages. Empty chunks are ignored."""
        if text:
            self.push(TextDelta(text))

    def end(self, ended: RunEnded | None) -> None:
        """Take the run's end record, a source of last resort for policies that ask it; None takes it back."""
        self._ended = ended

    def collect(self) -> tuple[Block, ...] | None:
        """The output so far, or None. The fold goes on; collecting is free of effects."""
        return select(self.items, self.policy, self._ended, explained=False).output

    def selection(self) -> Selection:
        """The output so far, with its source and the candidates it was chosen from."""
        return select(self.items, self.policy, self._ended)

    def merge(self, later: "OutputFold") -> None:
        """Append a fold of the events that follow this one's; `later` is not changed.

        Raises:
            UsageError: the two folds follow different policies.
        """
        if later.policy != self.policy:
            raise UsageError(f"cannot merge a fold of {later.policy.name!r} into one of {self.policy.name!r}")
        self._ended = later._ended or self._ended
        self._journal.settle()
        self._journal.append(later.items)

    @classmethod
    def restore(cls, state: list[Any], policy: Policy = CANONICAL, *, everything: bool = False) -> "OutputFold":
        """A fold that goes on where the one with that `state` stopped. The end record is not part of the state."""
        fold = cls(policy, everything=everything)
        fold._journal.load(state)
        return fold

    def state(self) -> list[Any]:
        """What the fold holds as plain data, fit for JSON, for `restore`. The end record is not part of it."""
        self._journal.settle()
        return self._journal.state()


def _rebuilt(policy: Policy, everything: bool, items: list[Item], ended: RunEnded | None) -> OutputFold:  # noqa: FBT001  # for copy and pickle
    fold = OutputFold(policy, everything=everything)
    fold._journal.admit(items)
    fold._ended = ended
    return fold


def final_output(events: Iterable[Event], policy: Policy = CANONICAL) -> tuple[Block, ...] | None:
    """The output of a complete list of one run's events, or None.

    Equal to pushing them all into an `OutputFold`. Under the canonical rule a sequence is read backwards, and no
    further than needed. Only the last epoch counts.
    """
    rows = events if isinstance(events, Sequence) else list(events)
    if policy.reads_streams or policy != Policy(name=policy.name):
        return _forward(rows, policy)
    pieces: list[str] = []
    retracted: set[str] = set()
    for event in reversed(rows):
        if type(event) is TextDelta:
            pieces.append(event.text)
        elif type(event) is MessageRetracted:
            retracted.add(event.message)
        elif type(event) is EpochStarted:
            break
        elif type(event) is Message and event.content and event.origin == "model":
            if event.message is None or event.message not in retracted:
                return event.content
            return _forward(rows, policy)  # what the retracted message covered is decided forwards
    text = "".join(reversed(pieces))
    return (Text(text),) if text else None


def _forward(rows: Sequence[Event], policy: Policy) -> tuple[Block, ...] | None:
    fold = OutputFold(policy)
    for event in rows:
        if type(event) is EpochStarted:
            fold = OutputFold(policy)
        elif type(event) is RunEnded:
            fold.end(event)
        else:
            fold.push(event)
    return fold.collect()
