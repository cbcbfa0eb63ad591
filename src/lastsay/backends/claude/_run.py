"""One run inside a Claude stream: its messages put together from the pieces that the wire sends.

Rules (Claude Code 2.1.269 to 2.1.332):

* The wire sends one assistant record per content block, all with the id of their message. They are merged by that id,
  also when tool results lie between, and `Message` is emitted again under the same id when it has grown.
* With partial messages on, the record of a block comes before the end of its message. `Message` is emitted when the
  message ends, and before that when waiting could lose something: it calls a tool, it goes on with another block after
  a finished one, it was cut. Without partial messages, each record is emitted as it comes.
* A beginning that is only reasoning is held back until its message goes on or ends: alone it would be the answer.
* A message that was begun and never got a block is superseded by the next one: `AttemptAborted`. Its deltas stay in
  the stream, but under an id that never becomes a message.
* A message that ends without any block is emitted empty, because it carries usage and the stop reason.
* What the harness wrote in the model's place (an API error, a filler) is a message of origin ``synthetic``.
* The CLI gives up on a reply when the last of several pieces was cut too, and says so by an error of its own. Where
  the pieces came without stop reasons (live subagents), that error proves that they were cut, and they are emitted
  once more with ``max_tokens``.
* When the stream breaks off, the finished blocks and the text of the open block are emitted as one interrupted message;
  if no block was finished, the deltas are all there is, and they stay deltas.
"""

from typing import Any, Final

from lastsay.backends.claude._blocks import blocks_of, join_text, usage_of
from lastsay.backends.claude._stop import Witnesses
from lastsay.events import (
    AttemptAborted,
    Block,
    Event,
    Message,
    MessageStarted,
    Origin,
    Reasoning,
    ReasoningDelta,
    Text,
    TextDelta,
    ToolCall,
    ToolUse,
    Usage,
)

__all__ = ("Run",)

_DRAFTS: Final = 16
"""Messages per run that can still grow. Records of one message were seen up to 10 tool results apart."""


class _Draft:
    __slots__ = (
        "begun", "blocks", "calls", "dirty", "ended", "id", "interrupted", "open_text", "origin", "recovered",
        "stop_reason", "usage",
    )  # fmt: skip

    def __init__(self, message: str, *, begun: bool) -> None:
        self.id = message
        self.begun = begun  # a message_start was seen, so a message_stop can be expected
        self.ended = False
        self.blocks: list[Block] = []
        self.calls = 0
        self.dirty = False
        self.interrupted = False
        self.open_text: list[str] = []
        self.origin: Origin = "model"
        self.recovered = False  # the stop reason was not said, but follows from what was
        self.stop_reason: str | None = None
        self.usage: Usage | None = None

    @property
    def streaming(self) -> bool:
        return self.begun and not self.ended

    @property
    def only_reasoning(self) -> bool:
        return bool(self.blocks) and all(type(block) is Reasoning for block in self.blocks)


class Run:
    """The state of one run. All methods append what they find to `out`.

    Args:
        run: the run's id.
    """

    __slots__ = (
        "_current", "_drafts", "_error", "_error_stop", "_injected", "_last", "agent_id", "call", "epoch",
        "error_text", "id", "interrupted", "launched", "open", "shown_text", "status", "status_text", "time",
    )  # fmt: skip

    def __init__(self, run: str) -> None:
        self.id = run
        self.open = True
        self.launched = False  # sent into the background
        self.epoch = 0
        self.time: float | None = None  # of its last line, in seconds since the epoch; None for a live stream
        self.call: str | None = None
        self.agent_id: str | None = None
        self.status: str | None = None  # of the task that runs it
        self.status_text: str | None = None
        self._drafts: dict[str, _Draft] = {}
        self._current: _Draft | None = None
        self.begin_epoch()

    def begin_epoch(self) -> None:
        """Forget what the run has shown about its end."""
        self.error_text: str | None = None
        self.interrupted = False
        self.shown_text = False
        self._error: str | None = None
        self._error_stop: str | None = None
        self._last: _Draft | None = None
        self._injected = False

    # What the stream tells.

    def stream_event(self, event: dict[str, Any], out: list[Event]) -> None:
        """Take one event of the API's stream."""
        kind = event.get("type")
        if kind == "content_block_delta":
            self._delta(event.get("delta"), out)
        elif kind == "content_block_start":
            self._block_start(event.get("content_block"), out)
        elif kind == "content_block_stop":
            if self._current is not None:
                self._current.open_text.clear()
        elif kind == "message_start":
            self._message_start(event.get("message"), out)
        elif kind == "message_delta":
            self._message_delta(event)
        elif kind == "message_stop":
            self._message_stop(out)

    def _message_start(self, message: Any, out: list[Event]) -> None:
        fields = message if isinstance(message, dict) else {}
        self._supersede(out)
        draft = self._new_draft(str(fields.get("id") or f"{self.id}/{len(self._drafts)}"), begun=True)
        draft.usage = usage_of(fields.get("usage"), begun_only=True)
        self._current = self._last = draft
        out.append(MessageStarted(draft.id, run=self.id))

    def _new_draft(self, message: str, *, begun: bool) -> _Draft:
        while len(self._drafts) >= _DRAFTS:
            self._drafts.pop(next(iter(self._drafts)))
        draft = self._drafts[message] = _Draft(message, begun=begun)
        return draft

    def _block_start(self, block: Any, out: list[Event]) -> None:
        draft = self._current
        if draft is None:
            return
        if draft.dirty and not draft.only_reasoning:
            self._emit(draft, out)
        text = block.get("text") if isinstance(block, dict) else None
        if isinstance(text, str) and text:
            self._delta({"type": "text_delta", "text": text}, out)

    def _delta(self, delta: Any, out: list[Event]) -> None:
        if not isinstance(delta, dict):
            return
        draft = self._current
        kind = delta.get("type")
        if kind == "text_delta":
            text = delta.get("text")
            if isinstance(text, str) and text:
                if draft is not None:
                    draft.open_text.append(text)
                out.append(TextDelta(text, None if draft is None else draft.id, run=self.id))
        elif kind == "thinking_delta":
            thought = delta.get("thinking")
            if isinstance(thought, str) and thought:
                out.append(ReasoningDelta(thought, None if draft is None else draft.id, run=self.id))

    def _message_delta(self, event: dict[str, Any]) -> None:
        draft, delta = self._current, event.get("delta")
        if draft is None:
            return
        if isinstance(delta, dict) and isinstance(delta.get("stop_reason"), str):
            draft.stop_reason = delta["stop_reason"]
        usage = usage_of(event.get("usage"))
        if usage is not None:
            draft.usage = _merged(draft.usage, usage)

    def _message_stop(self, out: list[Event]) -> None:
        draft = self._current
        if draft is not None:
            draft.ended = True
            self._current = None
            self._emit(draft, out)

    # What the records tell.

    def assistant(self, record: dict[str, Any], out: list[Event]) -> None:
        """Take one assistant record: one or more blocks of a message."""
        inner = record.get("message")
        message = inner if isinstance(inner, dict) else {}
        if _synthetic(record, message):
            self._synthetic(record, message, out)
            return
        draft = self._draft_of(message, record, out)
        blocks = blocks_of(message.get("content"))
        draft.blocks.extend(blocks)
        draft.open_text.clear()
        draft.dirty = True
        self._take_fields(draft, message, record)
        calls = [block for block in blocks if type(block) is ToolUse]
        draft.calls += len(calls)
        self.shown_text = self.shown_text or any(type(block) is Text for block in blocks)
        if calls or draft.interrupted or not (draft.streaming or draft.only_reasoning):
            self._emit(draft, out)
        out.extend([ToolCall(call.id, call.name, call.input, run=self.id) for call in calls])

    def _draft_of(self, message: dict[str, Any], record: dict[str, Any], out: list[Event]) -> _Draft:
        name = message.get("id")
        key = name if isinstance(name, str) and name else str(record.get("uuid") or f"{self.id}/{len(self._drafts)}")
        draft = self._drafts.get(key)
        if draft is None:
            self._supersede(out)
            draft = self._new_draft(key, begun=False)
            draft.origin = "replay" if record.get("restated") else "model"
            self._last = draft
            self.interrupted = False
        if draft is self._last and draft.origin == "model":
            self._error = self._error_stop = self.error_text = None
            self._injected = False
        return draft

    def _take_fields(self, draft: _Draft, message: dict[str, Any], record: dict[str, Any]) -> None:
        reason = message.get("stop_reason")
        if isinstance(reason, str):
            draft.stop_reason = reason
        usage = usage_of(message.get("usage"), begun_only=not isinstance(reason, str))
        if usage is not None:
            draft.usage = usage if draft.usage is None else _merged(usage, draft.usage)
        if record.get("aborted"):
            draft.interrupted = self.interrupted = True

    def _synthetic(self, record: dict[str, Any], message: dict[str, Any], out: list[Event]) -> None:
        blocks = blocks_of(message.get("content"))
        word = record.get("error") or record.get("api_error")
        reason = message.get("stop_reason")
        if word or record.get("is_api_error_message"):
            self._error = str(record.get("api_error") or word or "unknown")
            self._error_stop = reason if isinstance(reason, str) else None
            self.error_text = join_text(blocks) or self._error
            if self._error == "max_output_tokens":
                self._cut_pieces(out)
        name = message.get("id")
        out.append(
            Message(
                blocks,
                name if isinstance(name, str) else None,
                reason if isinstance(reason, str) else None,
                origin="synthetic",
                run=self.id,
            )
        )

    def _cut_pieces(self, out: list[Event]) -> None:
        """Emit the pieces of the reply that was given up once more, oldest first: now their stop reason is known."""
        pieces: list[_Draft] = []
        for draft in reversed(self._drafts.values()):
            if draft.calls or draft.stop_reason is not None or draft.origin != "model" or not draft.blocks:
                break
            pieces.append(draft)
        for draft in reversed(pieces):
            draft.stop_reason, draft.recovered = "max_tokens", True
            self._emit(draft, out)

    def injected(self, *, interrupt: bool = False) -> None:
        """Take note that the harness wrote a user message of its own into the run, maybe the mark of an interrupt."""
        self._injected = True
        self.interrupted = self.interrupted or interrupt

    # What is asked.

    def settle(self, out: list[Event]) -> None:
        """Emit what was held back of messages that are not being streamed."""
        for draft in list(self._drafts.values()):
            if draft.dirty and not draft.streaming:
                self._emit(draft, out)

    def finish(self, out: list[Event]) -> None:
        """Emit what is left, because the run ends here."""
        self.settle(out)
        draft, self._current = self._current, None
        if draft is not None and draft.blocks and (draft.dirty or draft.open_text):
            if draft.open_text:
                draft.blocks.append(Text("".join(draft.open_text)))
            draft.interrupted = True
            self._emit(draft, out)
        self._drafts.clear()

    def retry(self, reason: str, out: list[Event]) -> None:
        """The model call that is under way has failed and is made again."""
        draft = self._current
        if draft is not None and not draft.blocks:
            self._current = None
            self._drafts.pop(draft.id, None)
            out.append(AttemptAborted(draft.id, reason, run=self.id))

    def witnesses(self) -> Witnesses:
        """What the run has shown about its end so far."""
        last = self._last
        if last is None:
            return Witnesses(self._error, self._error_stop)
        if last.calls:  # its stop reason is not the run's: the loop goes on with the results
            return Witnesses(self._error, self._error_stop, None, self.shown_text and not self._injected)
        return Witnesses(self._error, self._error_stop, None if last.recovered else last.stop_reason)

    def _supersede(self, out: list[Event]) -> None:
        draft, self._current = self._current, None
        if draft is not None:
            if draft.blocks:
                draft.ended = True
            else:
                self._drafts.pop(draft.id, None)
                out.append(AttemptAborted(draft.id, "superseded", run=self.id))
        self.settle(out)

    def _emit(self, draft: _Draft, out: list[Event]) -> None:
        draft.dirty = False
        out.append(
            Message(
                tuple(draft.blocks),
                draft.id,
                draft.stop_reason,
                draft.usage,
                draft.interrupted,
                draft.origin,
                run=self.id,
            )
        )


def _synthetic(record: dict[str, Any], message: dict[str, Any]) -> bool:
    return bool(message.get("model") == "<synthetic>" or record.get("is_api_error_message") or record.get("error"))


def _merged(older: Usage | None, newer: Usage) -> Usage:
    if older is None:
        return newer
    return Usage(
        input_tokens=older.input_tokens if newer.input_tokens is None else newer.input_tokens,
        output_tokens=older.output_tokens if newer.output_tokens is None else newer.output_tokens,
        cache_read_tokens=older.cache_read_tokens if newer.cache_read_tokens is None else newer.cache_read_tokens,
        cache_write_tokens=older.cache_write_tokens if newer.cache_write_tokens is None else newer.cache_write_tokens,
    )
