"""The journal: what of a run's events can still decide its output, in order.

Three kinds of item stand in it. A `Draft` is text as it was streamed, one draft per stretch of one message. A `Message`
stands where it was first sent, while no later message counts, else where it was last sent: a second one with the same
id replaces the first, unless it is empty or not the model's. A `Mark` is a boundary: a step (tool call or result), the
start of a message without an id, a turn of the user or one injected by the harness, an aborted attempt, a retraction,
and the place of what was taken away.

Nothing is decided here, only left out when it cannot matter any more:

- text streamed before or beside a complete message with content is *covered*: the canonical rule can never come back
  to it, so under a policy that reads no streams it is dropped for good, and later text is not even collected;
- text whose own message arrived and has substance is *done*: every policy prefers the message, so it is dropped;
- streamed pieces are joined every 1,024, which holds the cost of a million small deltas near their text.

Because leaving out commutes with appending, two journals join by replaying the later one's items onto the earlier one:
`append` is associative, and equal to having pushed the whole.
"""

from collections.abc import Callable, Generator, Sequence
from itertools import repeat
from typing import Any, Final, Literal, cast

import msgspec

from lastsay.events import (
    AttemptAborted,
    Block,
    Event,
    Image,
    Message,
    MessageRetracted,
    MessageStarted,
    Notice,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
)

__all__ = ("Draft", "Item", "Journal", "Mark", "has_substance", "readable", "text_of")

_COMPACT: Final = 1024
"""Streamed pieces held apart before they are joined: 5 bytes a piece instead of 62 (CPython 3.11)."""

_NOTHING: Final = object()
"""Stands for "no message": equal to no message id, not even to None."""

MarkKind = Literal["step", "started", "user", "injected", "aborted", "retracted", "withdrawn"]


class Mark(msgspec.Struct, frozen=True, gc=False, tag="mark"):
    """A boundary. `message` names what was aborted or taken back, where the event did.

    ``retracted`` stands where the retraction came, and ``withdrawn`` where the message stood that it took away; `told`
    says whether that one had something to read.
    """

    kind: MarkKind
    message: str | None = None
    told: bool = False


class Draft:
    """Text streamed for one message, so far. `covered` and `done`: see the module."""

    __slots__ = ("_joined", "covered", "done", "message", "pieces")

    def __init__(self, message: str | None, text: str = "", *, covered: bool = False, done: bool = False) -> None:
        self.message = message
        self.covered = covered
        self.done = done
        self.pieces: list[str] = []
        self._joined: list[str] = [text] if text else []

    @property
    def text(self) -> str:
        """The text streamed so far."""
        self.compact()
        return self._joined[0] if self._joined else ""

    def compact(self) -> None:
        """Join what was pushed into one string."""
        if self.pieces or len(self._joined) > 1:
            self._joined = ["".join((*self._joined, *self.pieces))]
            self.pieces.clear()

    def spill(self) -> None:
        """Join the newest pieces only, so that the cost of a long draft stays linear."""
        self._joined.append("".join(self.pieces))
        self.pieces.clear()


Item = Draft | Message | Mark


def text_of(message: Message) -> str:
    """The message's visible text: its text blocks, joined."""
    return "".join([block.text for block in message.content if type(block) is Text])


def _counts(item: Item) -> bool:
    """Whether the item is a message of the model with content."""
    return type(item) is Message and bool(item.content) and item.origin == "model"


def has_substance(message: Message) -> bool:
    """Whether the message holds anything for a reader: non-blank text or an image."""
    return readable(message.content)


def readable(content: Sequence[Block]) -> bool:
    """Whether there is anything for a reader among the blocks: non-blank text or an image."""
    return any(
        kind is Image or (kind is Text and not cast("Text", block).text.isspace() and cast("Text", block).text != "")
        for block in content
        for kind in (type(block),)
    )


class Journal:
    """Collects events; see the module for what it keeps.

    Args:
        streams: keep streamed text though a complete message exists (the policy reads it).
        everything: leave nothing out (for explaining a selection).
    """

    __slots__ = (
        "_collected",
        "_collecting",
        "_ids",
        "_live",
        "_pending",
        "_pieces",
        "_streaming",
        "_streams",
        "deaf",
        "everything",
        "items",
    )

    def __init__(self, *, streams: bool, everything: bool = False) -> None:
        self.items: list[Item] = []
        self._streams = streams or everything
        self.everything: bool = everything
        self._live = 0  # messages of the model with content, not retracted
        self.deaf: bool = False
        """Whether streamed text cannot matter now."""
        self._ids: set[str] = set()  # of those that have one
        self._pending: list[Draft] = []  # drafts whose message has not come
        self._streaming: str | object | None = _NOTHING  # the message whose draft is the last item and takes text
        self._pieces: list[str] = []  # of that draft
        self._collected: list[str] = []  # text that was pushed piece by piece, and not yet taken
        self._collecting: str | None = None  # the message it belongs to

    def collecting(self, broken: Callable[[], None]) -> Generator[None, Event, None]:
        """A coroutine that takes the events that are sent to it, one by one, and never ends of itself.

        Streamed text of one message is collected here, and the journal sees it joined. Its state lives in local
        variables, which makes `send` a fifth cheaper than a method that does the same (CPython 3.11).

        Args:
            broken: called when an exception has ended it: an interrupt, or an event with fields of wrong types.
        """
        collected = self._collected
        message: object = _NOTHING
        try:
            while True:
                for _ in repeat(None, _COMPACT):
                    event = yield
                    if type(event) is TextDelta:
                        if event.message != message:
                            self.settle()
                            self._collecting = message = event.message
                        collected.append(event.text)
                    else:
                        take = _TAKERS.get(type(event))
                        if take is not None:
                            if collected:
                                self.settle()
                            take(self, event)
                self.settle()
        except GeneratorExit:
            raise
        except BaseException:
            broken()
            raise

    def settle(self) -> None:
        """Take in what was collected; to be called before anything else is done with the journal."""
        collected = self._collected
        if collected and not self.deaf:
            self.stream(self._collecting, ("".join(collected),))
        collected.clear()

    def take(self, events: Sequence[Event]) -> None:
        """Take events of one class that are no pieces of text. Those that decide nothing are ignored."""
        take = _TAKERS.get(type(events[0]))
        if take is None:
            return
        if self._collected:
            self.settle()
        if take is Journal._take_step:
            take(self, events[0])  # one boundary, however many steps
            return
        for event in events:
            take(self, event)

    def stream(self, message: str | None, texts: Sequence[str]) -> None:
        """Take streamed text of one message; only while the journal is not `deaf`. Empty text opens nothing."""
        if not any(texts):
            return
        pieces = self._pieces if message == self._streaming else self._open_draft(message)
        pieces += texts
        if len(pieces) >= _COMPACT:
            cast("Draft", self.items[-1]).spill()

    def append(self, later: Sequence[Item]) -> None:
        """Append what a journal of the events that follow has kept."""
        for item in later:
            if type(item) is Draft:
                self._add_draft(item)
            elif type(item) is Mark:
                self._add_mark(item)
            else:
                self._add_message(cast("Message", item))

    def _open_draft(self, message: str | None) -> list[str]:
        last = self.items[-1] if self.items else None
        if type(last) is Draft and last.message == message and last.covered == (self._live > 0) and not last.done:
            draft = last
        else:
            draft = Draft(message, covered=self._live > 0)
            self.items.append(draft)
            self._pending.append(draft)
        self._pieces, self._streaming = draft.pieces, message
        return draft.pieces

    def _add_draft(self, draft: Draft) -> None:
        if self.deaf:
            return
        self._open_draft(draft.message).append(draft.text)
        cast("Draft", self.items[-1]).covered |= draft.covered and self._follows_mark()

    def _follows_mark(self) -> bool:
        return len(self.items) > 1 and type(self.items[-2]) is not Draft

    def _add_mark(self, mark: Mark) -> None:
        self._streaming = _NOTHING
        if mark.kind == "retracted":
            self._retract(mark)
        elif mark.kind == "withdrawn":
            self.items.append(mark)
            self._cover(mark.message, told=mark.told)
        elif self._streams and not (mark.kind in ("step", "started") and self.items and self.items[-1] == mark):
            self.items.append(mark)

    def _add_message(self, message: Message) -> None:
        self._streaming = _NOTHING
        self._pieces = []  # the draft's own: what it held goes with it
        if not message.content or message.origin != "model":
            self.items.append(message)
            return
        if not self._replaced(message):
            self.items.append(message)
        self._live += 1
        self.deaf = not self._streams
        if self._pending:
            self._cover(message.message, told=has_substance(message))

    def _replaced(self, message: Message) -> bool:
        """Whether the message took the place of the one with its id, as it does while no later message counts.

        Else the old one is taken out. A mark keeps its place where what it covered cannot be told from the new one.
        """
        if message.message is None:
            return False
        known = message.message in self._ids
        self._ids.add(message.message)
        if not known:
            return False
        at = self._place(message.message)
        told = has_substance(cast("Message", self.items[at]))
        if told and not has_substance(message):
            self.items[at] = Mark("withdrawn", message.message, told)
        elif any(_counts(item) for item in self.items[at + 1 :]):
            del self.items[at]
        else:
            self.items[at] = message
            return True
        return False

    def _place(self, message_id: str) -> int:
        """Where the message of that id stands; it no longer counts as live."""
        at = len(self.items) - 1
        while not self._is_live(self.items[at], message_id):  # it does stand somewhere: `_ids` has it
            at -= 1
        self._live -= 1
        return at

    @staticmethod
    def _is_live(item: Item, message_id: str) -> bool:
        return type(item) is Message and item.message == message_id and item.content != () and item.origin == "model"

    def _retract(self, mark: Mark) -> None:
        message_id = cast("str", mark.message)
        if message_id in self._ids:
            self._ids.discard(message_id)
            at = self._place(message_id)
            self.items[at] = Mark("withdrawn", message_id, has_substance(cast("Message", self.items[at])))
        self.items.append(mark)  # an earlier part may hold the message
        self.deaf = self._live > 0 and not self._streams

    def _cover(self, message_id: str | None, *, told: bool) -> None:
        """The drafts so far are covered by a message with content; its own are done if it told what they said."""
        pending: list[Draft] = []
        for draft in self._pending:
            draft.covered = True
            draft.done = told and (draft.message is None or draft.message == message_id)
            if self.everything:
                keep = True
            else:
                keep = self._streams and not draft.done
                if not keep:
                    self._drop(draft)
            if keep and not draft.done:
                pending.append(draft)
        self._pending = pending

    def _drop(self, draft: Draft) -> None:
        at = len(self.items) - 1
        while self.items[at] is not draft:
            at -= 1
        del self.items[at]

    def _take_step(self, _: Event) -> None:
        if self.deaf:
            return
        self._streaming = _NOTHING
        if self._streams:
            self._add_mark(Mark("step"))

    def _take_started(self, event: MessageStarted) -> None:
        self._streaming = _NOTHING
        if event.message is None:
            self._add_mark(Mark("started"))

    def _take_notice(self, event: Notice) -> None:
        if event.kind == "user_message":
            meta = isinstance(event.raw, dict) and bool(event.raw.get("meta"))
            self._add_mark(Mark("injected" if meta else "user"))

    def state(self) -> list[Any]:
        """The items as plain data, fit for JSON."""
        rows: list[Any] = []
        for item in self.items:
            if type(item) is Draft:
                row = {"message": item.message, "text": item.text, "covered": item.covered, "done": item.done}
                rows.append({"type": "draft", **row})
            else:
                rows.append(msgspec.to_builtins(item, enc_hook=repr))
        return rows

    def load(self, rows: list[Any]) -> None:
        """Take the items of a `state`, into an empty journal."""
        self.admit([_item_of(row) for row in rows])

    def admit(self, items: Sequence[Item]) -> None:
        """Take copies of another journal's items, into an empty one."""
        for item in items:
            if type(item) is Draft:
                draft = Draft(item.message, item.text, covered=item.covered, done=item.done)
                self.items.append(draft)
                if not draft.done:
                    self._pending.append(draft)
                continue
            self.items.append(item)
            if _counts(item):
                self._live += 1
                message_id = cast("Message", item).message
                if message_id is not None:
                    self._ids.add(message_id)
        self.deaf = self._live > 0 and not self._streams


def _item_of(row: dict[str, Any]) -> Item:
    if row["type"] == "draft":
        return Draft(row["message"], row["text"], covered=row["covered"], done=row["done"])
    if row["type"] == "mark":
        return msgspec.convert(row, Mark)
    return msgspec.convert(row, Message)


_TAKERS: Final[dict[type, Callable[[Journal, Any], None]]] = {
    Message: Journal._add_message,
    MessageStarted: Journal._take_started,
    MessageRetracted: lambda j, e: j._add_mark(Mark("retracted", e.message)),
    AttemptAborted: lambda j, e: j._add_mark(Mark("aborted", e.message)),
    ToolCall: Journal._take_step,
    ToolResult: Journal._take_step,
    Notice: Journal._take_notice,
}
