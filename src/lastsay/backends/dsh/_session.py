"""One session of DeepSeek Harness: from its events to events of one run. The wire and the log share this.

The rule, in prose. A session is a run. What the session does between two ends is an epoch;
a session that goes on after an end says so with `EpochStarted`, and the new epoch is judged by its own turns alone.

Text reaches us in one of two ways. In generation A each piece is an event while it happens; the pieces carry no message
id, so a draft id is made up (``turn.step#n``, n counts the model calls of the step) and the message that follows keeps
it. In generations B and C the pieces lie in the `stream` of the record that they became, and are expanded in front of
it: they carry the message's own id, or the made-up one where the call ended without a message.

| state | record | becomes | state after |
|---|---|---|---|
| no draft | `assistant/chunk`, packed row | MessageStarted, deltas | draft |
| draft | `assistant/chunk`, packed row | deltas | draft |
| draft | `finish` chunk of kind error | AttemptAborted | no draft |
| draft | `assistant/message` without a stream | Message under the draft's id | no draft |
| draft | end of step or turn, end of input | AttemptAborted | no draft |
| any | `assistant/message` with a stream | MessageStarted, deltas, Message | same |
| any | `assistant/attempt` | MessageStarted, deltas, AttemptAborted | same |
| seed of a fork | `assistant/message` | Message of origin replay, nothing else | same until `session/end-seed` |
| ended | turn start, prompt, activation | EpochStarted | running |
| ended | anything else | held back until the next epoch | ended |
"""

from collections.abc import Callable  # noqa: TC003 (the class body names it)
from typing import Any, ClassVar, Final, NamedTuple

import msgspec

from lastsay.backends.dsh._blocks import blocks_of, result_of, tool_input, usage_of
from lastsay.backends.dsh._shapes import (
    AssistantData,
    ChunkData,
    PackedCall,
    PackedData,
    PackedRow,
    ToolCallData,
    ToolResultData,
    TurnEndData,
    typed,
)
from lastsay.backends.dsh._streams import DELTAS, PACKED, ROWS, expanded, finish_of, pieces_of
from lastsay.backends.dsh._work import ConsumedWork, StopFound
from lastsay.events import (
    ABORTED,
    ERROR,
    AttemptAborted,
    EpochStarted,
    Event,
    Fault,
    Message,
    MessageStarted,
    Notice,
    RunEnded,
    TextDelta,
    ToolCall,
    ToolResult,
    Usage,
    UsageReported,
)

__all__ = ("BULK", "Session", "comes_from_outside")

BULK: Final = frozenset({"request/header", "request/context", "system/message"})
"""Records of the harness's prompts and tool schemas, tens of kB each: their Notice says that they came, no more."""

_USER_TURNS: Final = frozenset({"user", "agent-message", "subagent-settled"})
"""Sources of a message in the user's role that the model answers as a user's. The others (`plugin` and
`runtime-context`) set the scene."""


class _Record(NamedTuple):
    kind: str
    data: Any
    seq: int | None


class Session:
    """One session's state.

    Args:
        run: the run's id.
        parent: id of the parent's session, or None for a root.
        seeded: whether it begins with the copied history of a fork, up to a `session/end-seed`.
        seed_length: how many of its first records are copied history, where the header counts them (generation A).
        marks_epochs: whether a message from outside that finds the session idle starts an epoch (logs, and sessions
            without a parent); a child on the wire has its epochs told by the harness.
        pieces: whether each streamed piece becomes an event of its own, also where they were recorded together.
    """

    __slots__ = (
        "_at",
        "_calls",
        "_draft",
        "_finish",
        "_late",
        "_pieces_apart",
        "_seed_length",
        "_usage",
        "ended",
        "epoch",
        "last_seq",
        "marks_epochs",
        "parent",
        "run",
        "seeding",
        "time",
        "work",
    )  # fmt: skip

    def __init__(
        self,
        run: str,
        *,
        parent: str | None = None,
        seeded: bool = False,
        seed_length: int | None = None,
        marks_epochs: bool = True,
        pieces: bool = True,
    ) -> None:
        self.run = run
        self.parent = parent
        self.epoch = 0
        self.ended = False
        self.seeding = seeded or bool(seed_length)
        self._seed_length = seed_length
        self.marks_epochs = marks_epochs
        self.last_seq: int | None = None
        self.time: float | None = None
        self.work = ConsumedWork()
        self._at = (0, 0)
        self._calls = 0
        self._draft: str | None = None
        self._finish: str | None = None
        self._usage: Usage | None = None
        self._late: list[Event] = []
        self._pieces_apart = pieces

    def push(self, kind: str, raw: Any, seq: int | None = None, time: float | None = None) -> list[Event]:
        """The events that one record stands for; a `Fault` if it is broken.

        Args:
            kind: the record's type.
            raw: its payload, decoded or as raw JSON.
            seq: its number in the session, where it has one. A number that was seen before is a repetition: no events.
            time: when it was written, in milliseconds since the epoch.
        """
        if seq is not None:
            if kind not in ROWS:
                if self.last_seq is not None and seq <= self.last_seq:
                    return []
                self.last_seq = seq
            if self._seed_length is not None and seq >= self._seed_length:
                self.seeding, self._seed_length = False, None
        if time is not None:
            self.time = time / 1000
        out: list[Event] = []
        try:
            self._HANDLERS.get(kind, Session._other)(self, _Record(kind, raw, seq), out)
        except (ValueError, TypeError, msgspec.MsgspecError, RecursionError) as error:
            where = f" {seq}" if seq is not None else ""
            out.append(Fault("invalid_event", f"{kind}{where}: {error}"[:400], run=self.run, seq=seq))
        if self.ended and out:
            self._late += out
            return []
        return out

    def begin_epoch(self) -> list[Event]:
        """The start of the next epoch, if the last one has ended; else nothing."""
        if not self.ended:
            return []
        self.epoch += 1
        self.ended = False
        self.work = ConsumedWork()
        late, self._late = self._late, []
        return [EpochStarted(self.epoch, run=self.run), *late]

    def end(self, said: str | None = None, *, cancelled: bool = False, exit_status: int | None = None) -> list[Event]:
        """The end of the epoch, if it is open; else nothing.

        Args:
            said: the stop reason in the harness's own end record, if there was one.
            cancelled: whether the caller had the run cancelled: then what has no end of its own is aborted.
            exit_status: how the harness's process ended, where that is why the stream did.
        """
        if self.ended:
            return []
        out: list[Event] = []
        self._abort_draft(out)
        self.ended = True
        reason, raw, provenance, diagnostic = self.work.stop(said) or _cut(
            cancelled=cancelled, running=self.work.running
        )
        out.append(
            RunEnded(
                reason, diagnostic=diagnostic, raw=raw, provenance=provenance, exit_status=exit_status, run=self.run,
                time=self.time,
            )
        )  # fmt: skip
        return out

    # Each handler appends to `out`; the table at the end of the file names them.

    def _chunk(self, record: _Record, out: list[Event]) -> None:
        if self.seeding:
            return
        data = typed(record.data, ChunkData)
        draft = self._draft_of(data.turn, data.step, out)
        chunk = data.chunk
        what = chunk.get("type")
        delta = DELTAS.get(what) if isinstance(what, str) else None
        if delta is not None:
            out.append(delta(str(chunk.get("text", "")), draft, run=self.run, seq=record.seq))
        elif what == "usage":
            self._usage = usage_of(chunk.get("usage"))
        elif what == "finish":
            self._finish, failure = finish_of(chunk)
            if self._finish == "error":
                self._abort_draft(out, failure)

    def _packed(self, record: _Record, out: list[Event]) -> None:
        delta = PACKED.get(record.kind)
        if delta is None:
            self._unseen(record.seq, typed(record.data, PackedCall).args)
            return
        data = typed(record.data, PackedData)
        texts = self._unseen(record.seq, data.texts)
        if texts and not self.seeding:
            draft = self._draft_of(data.turn, data.step, out)
            out += pieces_of(delta, texts, draft, self.run, apart=self._pieces_apart)

    def _unseen(self, first: int | None, members: list[str]) -> list[str]:
        """The members of a packed row that did not come before, one by one (on the wire, before a log was read)."""
        if first is None:
            return members
        seen = 0 if self.last_seq is None else max(0, self.last_seq - first + 1)
        self.last_seq = max(self.last_seq or 0, first + len(members) - 1)
        return members[seen:] if seen else members

    def push_texts(self, row: PackedRow) -> list[Event] | None:
        """The events of a packed row of text: `push`, made short for the record that most of a log consists of.

        None where the row is not a plain continuation of the draft that is open: then it takes the long way.
        """
        draft, last, first = self._draft, self.last_seq, row.seq0
        if draft is None or last is None or first != last + 1 or self.ended:
            return None
        texts = row.data.texts
        self.last_seq = last + len(texts)
        return pieces_of(TextDelta, texts, draft, self.run, apart=self._pieces_apart)

    def _draft_of(self, turn: int, step: int, out: list[Event]) -> str:
        if self._draft is None:
            self._draft = self._next_call(turn, step)
            out.append(MessageStarted(self._draft, run=self.run))
        return self._draft

    def _next_call(self, turn: int, step: int) -> str:
        if (turn, step) != self._at:
            self._at, self._calls = (turn, step), 0
        self._calls += 1
        return f"{turn}.{step}#{self._calls}"

    def _abort_draft(self, out: list[Event], reason: str | None = None) -> None:
        if self._draft is None:
            return
        if self._usage is not None:
            out.append(UsageReported(self._usage, self._draft, run=self.run))
        out.append(AttemptAborted(self._draft, reason or self._finish, run=self.run))
        self._draft = self._finish = self._usage = None

    def _message(self, record: _Record, out: list[Event]) -> None:
        data = typed(record.data, AssistantData)
        message = data.message or {}
        name, blocks = str(message.get("id")), blocks_of(message.get("content"))
        if self.seeding:
            out.append(Message(blocks, name, origin="replay", run=self.run, seq=record.seq))
            return
        finish, usage = self._finish, self._usage
        if self._draft is not None and not data.stream:
            name, self._draft = self._draft, None
        elif data.stream:
            out.append(MessageStarted(name, run=self.run))
            stream = expanded(data.stream, name, self.run, apart=self._pieces_apart)
            out += stream.events
            finish, usage = stream.finish, stream.usage
        self._finish = self._usage = None
        out.append(
            Message(
                blocks,
                name,
                finish,
                usage_of(data.usage) or usage,
                interrupted=data.interrupted,
                run=self.run,
                seq=record.seq,
            )
        )

    def _attempt(self, record: _Record, out: list[Event]) -> None:
        if self.seeding:
            return
        data = typed(record.data, AssistantData)
        name = self._next_call(data.turn, data.step)
        out.append(MessageStarted(name, run=self.run))
        stream = expanded(data.stream, name, self.run, apart=self._pieces_apart)
        out += stream.events
        if stream.usage is not None:
            out.append(UsageReported(stream.usage, name, run=self.run))
        out.append(AttemptAborted(name, stream.failure or stream.finish, run=self.run, seq=record.seq))

    def _tool_call(self, record: _Record, out: list[Event]) -> None:
        if not self.seeding:
            data = typed(record.data, ToolCallData)
            out.append(ToolCall(data.call_id, data.name, tool_input(data.arguments), run=self.run, seq=record.seq))

    def _tool_result(self, record: _Record, out: list[Event]) -> None:
        if not self.seeding:
            data = typed(record.data, ToolResultData)
            call, content, is_error = result_of(data.message)
            out.append(ToolResult(call, content, is_error, data.message, run=self.run, seq=record.seq))

    def _turn_start(self, record: _Record, out: list[Event]) -> None:
        if self.seeding:
            return
        out += self.begin_epoch()
        data = _object(record.data)
        self.work.turn_started(_turn_of(data))
        out.append(Notice(record.kind, data, run=self.run, seq=record.seq))

    def _step_edge(self, record: _Record, out: list[Event]) -> None:
        if self.seeding:
            return
        data = _object(record.data)
        if record.kind == "step/start":
            self.work.step_started(_turn_of(data))
        else:
            self._abort_draft(out)
        out.append(Notice(record.kind, data, run=self.run, seq=record.seq))

    def _turn_end(self, record: _Record, out: list[Event]) -> None:
        if self.seeding:
            return
        self._abort_draft(out)
        data = typed(record.data, TurnEndData)
        self.work.turn_ended(data.turn, data.reason)
        out.append(Notice(record.kind, {"turn": data.turn, "reason": data.reason}, run=self.run, seq=record.seq))

    def _inbox(self, record: _Record, out: list[Event]) -> None:
        if self.seeding:
            return
        data = _object(record.data)
        if comes_from_outside(data, self.parent):
            if self.marks_epochs and self.work.turns and not self.work.running:
                out += self.end()
                out += self.begin_epoch()
            elif self.ended:
                out += self.begin_epoch()
        self.work.inbox_spliced(data)
        out.append(Notice(record.kind, data, run=self.run, seq=record.seq))

    def _user(self, record: _Record, out: list[Event]) -> None:
        data = _object(record.data)
        source = data.get("source")
        written = source.get("kind") if isinstance(source, dict) else None
        name = "user_message" if written in _USER_TURNS else str(written or record.kind)
        out.append(Notice(name, data, run=self.run, seq=record.seq))

    def _job(self, record: _Record, out: list[Event]) -> None:
        data = _object(record.data)
        name = "task_started" if record.kind == "job/registered" else "task_ended"
        out.append(Notice(name, {"id": data.get("jobId"), **data}, run=self.run, seq=record.seq))

    def _end_seed(self, record: _Record, out: list[Event]) -> None:
        if self._seed_length is None:  # a resumed session writes one too, and is not copied history for that
            self.seeding = False
        out.append(Notice(record.kind, _decoded(record.data), run=self.run, seq=record.seq))

    def _bulk(self, record: _Record, out: list[Event]) -> None:
        out.append(Notice(record.kind, run=self.run, seq=record.seq))

    def _other(self, record: _Record, out: list[Event]) -> None:
        out.append(Notice(record.kind, _decoded(record.data), run=self.run, seq=record.seq))

    _HANDLERS: ClassVar[dict[str, "Callable[[Session, _Record, list[Event]], None]"]] = {
        "agent/inbox/spliced": _inbox,
        "assistant/attempt": _attempt,
        "assistant/chunk": _chunk,
        "assistant/message": _message,
        "job/registered": _job,
        "job/settled": _job,
        "reasoning-chunks": _packed,
        "session/end-seed": _end_seed,
        "step/end": _step_edge,
        "step/start": _step_edge,
        "text-chunks": _packed,
        "tool-call-chunks": _packed,
        "tool/call": _tool_call,
        "tool/result": _tool_result,
        "turn/end": _turn_end,
        "turn/start": _turn_start,
        "user/message": _user,
        **dict.fromkeys(BULK, _bulk),
    }


def _cut(*, cancelled: bool, running: bool) -> StopFound:
    if cancelled:
        return ABORTED, None, "recovered", None
    where = "inside a turn" if running else "before any turn had run"
    return ERROR, None, "unknown", f"the stream ended {where}"


def _decoded(raw: Any) -> Any:
    if isinstance(raw, (bytes, msgspec.Raw)):
        return msgspec.json.decode(raw)
    return raw


def _object(raw: Any) -> dict[str, Any]:
    value = _decoded(raw)
    if not isinstance(value, dict):
        raise ValueError(f"an object was expected, not {type(value).__name__}")  # noqa: TRY004  (caught as broken data)
    return value


def _turn_of(data: dict[str, Any]) -> int:
    turn = data.get("turn")
    return turn if isinstance(turn, int) else 0


def comes_from_outside(data: dict[str, Any], parent: str | None) -> bool:
    """Whether an inbox splice puts in a message that begins new work: a prompt, or a message of the session's parent.

    A message of a child of the session belongs to the work that the child was started for.
    """
    inserted = data.get("inserted")
    for message in inserted if isinstance(inserted, list) else ():
        source = message.get("source") if isinstance(message, dict) else None
        if not isinstance(source, dict):
            continue
        if source.get("kind") == "user":
            return True
        if source.get("kind") == "agent-message" and parent is not None and source.get("senderSessionId") == parent:
            return True
    return False
