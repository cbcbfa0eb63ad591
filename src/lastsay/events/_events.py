"""The events: what flows from a child agent to its consumers.

The union is closed. Whatever a backend cannot express becomes a `Notice` (unknown, kept) or a `Fault` (broken, named);
neither is ever an exception. Every event has two keyword-only fields besides its own: `run`, the id of the run it
belongs to, and `seq`, its sequence number where the source gives one.

    RunStarted  (MessageStarted TextDelta* ReasoningDelta* (Message | AttemptAborted) | ToolCall | ToolResult
                 | MessageRetracted | UsageReported | EpochStarted | Fault | Notice)*  RunEnded
"""

from typing import Any, Final, Literal

import msgspec

from lastsay.events._blocks import Block
from lastsay.events._stop import Provenance

__all__ = (
    "EVENT_TYPES",
    "MAIN",
    "AttemptAborted",
    "EpochStarted",
    "Event",
    "Fault",
    "Message",
    "MessageRetracted",
    "MessageStarted",
    "Notice",
    "Origin",
    "Phase",
    "ReasoningDelta",
    "RunEnded",
    "RunStarted",
    "TextDelta",
    "ToolCall",
    "ToolResult",
    "Usage",
    "UsageReported",
)

MAIN: Final = "main"
"""The run id of an event that names none."""

Origin = Literal["model", "synthetic", "notice", "replay"]
"""Who wrote a message: the model; the harness in the model's place (an API error, a filler); the harness to inform; or
the model earlier, restated here (a fork's seed, a resumed history). Only ``model`` can be output."""

Phase = Literal["commentary", "final_answer"]
"""What a message was declared to be by harnesses that say so."""


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


class Usage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Token counts of one model call or one run. The counts are disjoint: cached input is not inside `input_tokens`.

    None means that the harness did not say.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=_snake):
    run: str = MAIN
    seq: int | None = None


class RunStarted(_Event, frozen=True):
    """A run began. `parent` is the parent's run id, or None for the root."""

    parent: str | None = None
    agent: str | None = None
    backend: str | None = None
    model: str | None = None
    local: bool = True
    call: str | None = None
    """The tool call id of the parent that caused this run, where known."""
    time: float | None = None
    """Seconds since the epoch, where the source says (replays)."""


class MessageStarted(_Event, frozen=True, gc=False):
    """The assistant began a message: the deltas that follow under this id are its draft."""

    message: str | None = None


class TextDelta(_Event, frozen=True, gc=False):
    """A piece of assistant text, as it was streamed."""

    text: str
    message: str | None = None


class ReasoningDelta(_Event, frozen=True, gc=False):
    """A piece of reasoning, as it was streamed. Never part of the fallback text."""

    text: str
    message: str | None = None


class Message(_Event, frozen=True):
    """A complete assistant message. A second one with the same id replaces the first, unless it is empty."""

    content: tuple[Block, ...] = ()
    message: str | None = None
    stop_reason: str | None = None
    """The stop reason of this one model call, as it came."""
    usage: Usage | None = None
    interrupted: bool = False
    """True for what was left of a message that was cut by a cancellation."""
    origin: Origin = "model"
    phase: Phase | None = None


class MessageRetracted(_Event, frozen=True, gc=False):
    """The harness took a message back: it counts as never written."""

    message: str
    reason: str | None = None


class AttemptAborted(_Event, frozen=True, gc=False):
    """A model call ended without a message (retry, dropped stream). None: whatever was streamed since the last one."""

    message: str | None = None
    reason: str | None = None


class ToolCall(_Event, frozen=True):
    """The harness runs a tool call."""

    id: str
    name: str
    input: Any = None


class ToolResult(_Event, frozen=True):
    """A tool call has its result. `native` is the harness's own record of it, for the function bridge."""

    id: str
    content: tuple[Block, ...] = ()
    is_error: bool = False
    native: Any = None


class UsageReported(_Event, frozen=True, gc=False):
    """Token counts: of the message named, or of the whole run where `message` is None. The last report wins."""

    usage: Usage
    message: str | None = None


class EpochStarted(_Event, frozen=True, gc=False):
    """A continuable child goes on: what follows is folded on its own, and gets a start and an end of its own."""

    epoch: int


class RunEnded(_Event, frozen=True):
    """A run ended.

    `stop_reason` is the mapped one, `raw` the harness's own word (None where there was none), and `provenance` says how
    the one was found from the other. `terminal` is the text that the harness itself put into its end record.
    `diagnostic` is about the failure and is never assistant text.
    """

    stop_reason: str
    terminal: str | None = None
    diagnostic: str | None = None
    structured: Any = None
    raw: str | None = None
    provenance: Provenance = "reported"
    exit_status: int | None = None
    time: float | None = None


class Fault(_Event, frozen=True):
    """Something in the source was broken, and cost only itself. `line` counts from 1 where the source has lines."""

    kind: str
    detail: str
    line: int | None = None
    raw: str | None = None
    """The beginning of what was broken."""


class Notice(_Event, frozen=True):
    """Something the events have no word for, kept as it came."""

    kind: str
    raw: Any = None


Event = (
    RunStarted
    | MessageStarted
    | TextDelta
    | ReasoningDelta
    | Message
    | MessageRetracted
    | AttemptAborted
    | ToolCall
    | ToolResult
    | UsageReported
    | EpochStarted
    | RunEnded
    | Fault
    | Notice
)

EVENT_TYPES: Final[tuple[type[Event], ...]] = (
    RunStarted,
    MessageStarted,
    TextDelta,
    ReasoningDelta,
    Message,
    MessageRetracted,
    AttemptAborted,
    ToolCall,
    ToolResult,
    UsageReported,
    EpochStarted,
    RunEnded,
    Fault,
    Notice,
)
