"""One session's updates to one run's events.

Where messages begin and end, by what the agent sends:

* An id on its chunks (``messageId``, in protocol 1 since June 2026): a `Message` is made of the chunks of one id. It
  is told when another id begins, a tool runs or the turn ends; chunks of an old id that come later tell it again,
  whole, which replaces it.
* No ids at all: the wire is chunk-only and stays so. Its text goes out as deltas without a message, and the fold's
  fallback joins them. Boundaries are not guessed.
* Both: text without an id is the harness's own (codex's warnings and errors, claude's notices). It is a notice, and
  what had gone out as deltas before the first id is taken back with an `AttemptAborted`.

Protocol 2 sends whole messages too: a missing content keeps what is there, an empty one or null takes the message
back, a list replaces it, and later chunks are appended to that.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from lastsay.backends.acp._content import block_of, blocks_of
from lastsay.backends.acp._recovery import Agent
from lastsay.backends.acp._tools import ToolCalls
from lastsay.events import (
    AttemptAborted,
    Block,
    Event,
    Fault,
    Message,
    MessageRetracted,
    MessageStarted,
    Notice,
    Origin,
    ReasoningDelta,
    Text,
    TextDelta,
)

__all__ = ("Draft", "Session")

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)

_COMPACT: Final = 1024
"""Pieces held apart before they are joined."""


class Draft:
    """A message in the making. `joined` and `pieces` are the text since the last block in `blocks`."""

    __slots__ = ("blocks", "id", "joined", "new", "origin", "pieces", "told")

    def __init__(self, message: str, origin: Origin) -> None:
        self.id = message
        self.origin = origin
        self.blocks: list[Block] = []
        self.pieces: list[str] = []
        self.joined: list[str] = []  # pieces that were joined already
        self.new = False  # holds something that was not told
        self.told = False

    def add(self, text: str) -> None:
        self.pieces.append(text)
        self.new = True
        self.settle()

    def settle(self) -> None:
        """Join what was added, if it is much."""
        if len(self.pieces) >= _COMPACT:
            self.joined.append("".join(self.pieces))
            self.pieces.clear()

    def content(self) -> tuple[Block, ...]:
        text = "".join([*self.joined, *self.pieces])
        if text:
            self.joined, self.pieces = [], []
            last = self.blocks[-1] if self.blocks else None
            if type(last) is Text:
                self.blocks[-1] = Text(last.text + text)
            else:
                self.blocks.append(Text(text))
        return tuple(self.blocks)

    def set(self, blocks: list[Block]) -> None:
        self.blocks, self.pieces, self.joined, self.new = blocks, [], [], True


class Session:
    """Normalises the updates of one session.

    Args:
        run: the run id that its events carry.
        agent: what is known about the agent.

    Attributes:
        message: the id of the message that was begun last, or None.
        ended: the run has ended; updates that come for it all the same are kept as notices of the root.
        meta: the newest ``_meta`` of a session's own updates.
    """

    def __init__(self, run: str, agent: Agent) -> None:
        self.run = run
        self.agent = agent
        self.message: str | None = None
        self.ended = False
        self.meta: dict[str, Any] = {}
        self._drafts: dict[str, Draft] = {}
        self._open: Draft | None = None
        self._tools = ToolCalls(run)
        self._ids = agent.ids
        self._loose = False  # deltas without a message went out
        self._half: tuple[str | None, str] | None = None  # the first half of a character that was cut in two
        self._in_user_message: str | None = ""

    def expect_ids(self, *, ids: bool) -> None:
        """Whether text without a message id is the harness's own from the start."""
        self._ids = self._ids or ids

    # Text.

    def chunk(self, text: str, message: str | None, out: list[Event]) -> None:
        """Take a piece of assistant text."""
        if self.ended:
            self._late("agent_message_chunk", text, message, out)
            return
        if self._half is not None:
            text = self._second_half(text, message, out)
        if not text:
            return
        if message is None:
            self._loose_chunk(text, out)
            return
        draft = self._open
        if draft is None or draft.id != message:
            draft = self._begin(message, out)
        draft.add(text)
        if draft.origin == "model":
            out.append(TextDelta(text, message, run=self.run))

    def _late(self, kind: str, text: str, message: str | None, out: list[Event]) -> None:
        update: dict[str, Any] = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
        if message is not None:
            update["messageId"] = message
        out.append(Notice("late_update", {"run": self.run, "update": update}))

    def plain(self) -> Draft | None:
        """The open message, if pieces with its id can simply be added to it, each with a `TextDelta`."""
        draft = self._open
        return draft if draft is not None and draft.origin == "model" else None

    def settle(self) -> None:
        """Join what was added to the open message, if it is much."""
        if self._open is not None:
            self._open.settle()

    def _loose_chunk(self, text: str, out: list[Event]) -> None:
        if self._ids:
            out.append(Message((Text(text),), origin="notice", run=self.run))
            return
        self._loose = True
        out.append(TextDelta(text, run=self.run))

    def thought(self, text: str, message: str | None, out: list[Event]) -> None:
        """Take a piece of reasoning."""
        if self.ended:
            self._late("agent_thought_chunk", text, message, out)
        elif text:
            out.append(ReasoningDelta(text, message, run=self.run))

    def odd_chunk(self, text: str, message: str | None, out: list[Event]) -> None:
        """Take a piece of text that may begin or end inside a character.

        Agents that cut their text by UTF-16 units send the halves of a surrogate pair in two chunks.
        """
        if text and "\ud800" <= text[-1] <= "\udbff":
            self.chunk(text[:-1], message, out)
            self._half = (message, text[-1])
        else:
            self.chunk(text, message, out)

    def _second_half(self, text: str, message: str | None, out: list[Event]) -> str:
        assert self._half is not None
        (owner, half), self._half = self._half, None
        if owner == message and text and "\udc00" <= text[0] <= "\udfff":
            whole = (half + text[0]).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
            return whole + text[1:]
        self.chunk(half, owner, out)
        return text

    def _begin(self, message: str, out: list[Event]) -> Draft:
        self.tell(out)
        if self._loose:
            self._loose = False
            out.append(AttemptAborted(reason="text without a message id, from an agent that sends ids", run=self.run))
        self._ids = True
        self._in_user_message = ""
        draft = self._drafts.get(message)
        if draft is None:
            synthetic = self.agent.synthetic_uuid and _UUID.fullmatch(message) is not None
            draft = self._drafts[message] = Draft(message, "synthetic" if synthetic else "model")
        if draft.origin == "model":
            out.append(MessageStarted(message, run=self.run))
        self._open = draft
        self.message = message
        return draft

    def tell(self, out: list[Event], *, interrupted: bool = False) -> None:
        """Tell the message that is open, if there is anything new in it; it stays open for further chunks."""
        draft = self._open
        if draft is None or not draft.new:
            return
        content = draft.content()
        draft.new = False
        if content:
            draft.told = True
            message = Message(content, draft.id, interrupted=interrupted, origin=draft.origin, run=self.run)
            out.append(message)

    def retry(self, out: list[Event]) -> None:
        """The agent begins the model call anew: what this attempt streamed does not count.

        mistral-vibe 3.0.2 sends the text again under the same id, marked by ``_session/retrying`` alone.
        """
        if self.ended:
            return
        if self._open is not None:
            self._open.set([])
            self._open.new = False
        out.append(AttemptAborted(None if self._open is None else self._open.id, "retry", run=self.run))

    # Updates.

    def push(self, update: Any, out: list[Event]) -> None:
        """Take one update of any kind. Never raises; what is not known is kept as a `Notice`."""
        kind = update.get("sessionUpdate") if isinstance(update, Mapping) else None
        if self.ended:
            out.append(Notice("late_update", {"run": self.run, "update": update}))
            return
        if not isinstance(kind, str):
            out.append(Fault("invalid_update", "an update without a kind", raw=repr(update)[:200], run=self.run))
            return
        take = self._TAKERS.get(kind)
        if take is None:
            self._keep(kind, update, out)
        else:
            take(self, update, out)

    def _keep(self, kind: str, update: Mapping[str, Any], out: list[Event]) -> None:
        if isinstance(update.get("_meta"), Mapping):
            self.meta.update(update["_meta"])
        out.append(Notice(kind, dict(update), run=self.run))

    def _agent_chunk(self, update: Mapping[str, Any], out: list[Event]) -> None:
        message, content = _id_of(update), update.get("content")
        if _is_informational(update.get("_meta")):
            out.append(Message(tuple(blocks_of(content)), message, origin="notice", run=self.run))
            return
        for part in content if isinstance(content, list) else [content]:
            block = block_of(part)
            if block is None:
                continue
            if type(block) is Text:
                self.odd_chunk(block.text, message, out)
            elif message is None:
                out.append(Notice("content", part, run=self.run))
            else:
                self._append(block, message, out)

    def _append(self, block: Block, message: str, out: list[Event]) -> None:
        draft = self._open
        if draft is None or draft.id != message:
            draft = self._begin(message, out)
        draft.content()
        draft.blocks.append(block)
        draft.new = True

    def _agent_message(self, update: Mapping[str, Any], out: list[Event]) -> None:
        message = _id_of(update)
        if message is None:
            self._keep("agent_message", update, out)
            return
        draft = self._drafts.get(message)
        if "content" not in update:
            return
        blocks = blocks_of(update["content"])
        if not blocks:
            if draft is not None:
                draft.set([])
                draft.new = draft.told = False
                out.append(MessageRetracted(message, "cleared", run=self.run))
            return
        draft = self._begin(message, out)
        draft.set(blocks)
        self.tell(out)

    def _thought_chunk(self, update: Mapping[str, Any], out: list[Event]) -> None:
        for block in blocks_of(update.get("content")):
            if type(block) is Text:
                self.thought(block.text, _id_of(update), out)
            else:
                out.append(Notice("thought_content", dict(update), run=self.run))

    def _user_chunk(self, update: Mapping[str, Any], out: list[Event]) -> None:
        """One `Notice` for each message of the user, whatever number of chunks it comes in."""
        message = _id_of(update)
        if self._in_user_message == "" or message != self._in_user_message:
            self._in_user_message = message
            self.tell(out)
            self._open = None
            out.append(Notice("user_message", dict(update), run=self.run))

    def tool(self, update: Mapping[str, Any], out: list[Event]) -> None:
        """Take a patch to a tool call."""
        if self.ended:
            return
        meta = update.get("_meta")
        vendor = meta.get("claudeCode") if isinstance(meta, Mapping) else None
        if isinstance(vendor, Mapping) and vendor.get("parentToolUseId"):
            # A subagent's call; without the subagents capability its text never comes (claude-agent-acp 0.101.0).
            out.append(Notice("subagent_tool_call", dict(update), run=self.run))
            return
        self.tell(out)
        self._in_user_message = ""
        self._tools.push(update, out)

    def _tool_content(self, update: Mapping[str, Any], out: list[Event]) -> None:
        self._tools.push_content(update, out)

    def close(self, out: list[Event], *, interrupted: bool) -> None:
        """The turn ended: tell what is open."""
        if self._half is not None:
            (owner, half), self._half = self._half, None
            self.chunk(half, owner, out)
        self.tell(out, interrupted=interrupted)
        self._tools.close(out)
        self.ended = True

    _TAKERS: ClassVar[Mapping[str, Callable[["Session", Mapping[str, Any], list[Event]], None]]] = {
        "agent_message_chunk": _agent_chunk,
        "agent_thought_chunk": _thought_chunk,
        "agent_message": _agent_message,
        "agent_thought": _thought_chunk,
        "user_message_chunk": _user_chunk,
        "user_message": _user_chunk,
        "tool_call": tool,
        "tool_call_update": tool,
        "tool_call_content_chunk": _tool_content,
    }


def _id_of(update: Mapping[str, Any]) -> str | None:
    message = update.get("messageId")
    return message if isinstance(message, str) and message else None


def _is_informational(meta: Any) -> bool:
    """A warning of claude-agent-acp 0.101.0, sent as if it were the assistant's text."""
    vendor = meta.get("claudeCode") if isinstance(meta, Mapping) else None
    return isinstance(vendor, Mapping) and vendor.get("kind") == "informational"
