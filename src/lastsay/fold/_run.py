"""The run fold: everything about one run that its consumers are told, decided in one place."""

from collections.abc import Sequence
from typing import Any, Final, cast

import msgspec

from lastsay.events import (
    COMPLETED,
    ERROR,
    REFUSAL,
    Deltas,
    EpochStarted,
    Event,
    Message,
    MessageStarted,
    RunEnded,
    RunStarted,
    TextDelta,
    known_stop_reason,
)
from lastsay.fold._evidence import INCOMPLETE, effective_stop
from lastsay.fold._journal import Mark, readable
from lastsay.fold._outcome import NoneReason, Outcome, Unselected, digest_of, limited_diagnostic
from lastsay.fold._output import OutputFold
from lastsay.fold._policy import CANONICAL, Policy
from lastsay.fold._select import NOT_MODEL, Candidate, Selection
from lastsay.fold._tally import Tally

__all__ = ("RunFold",)

_QUARTER: Final = 4


class RunFold:
    """Folds one run's events into its `Outcome`.

    The stop reason is the end record's. Without one it is ``error`` with provenance ``unknown``, and the evidence says
    ``no_end_record``. `close` ends the run from outside (a cancellation here, a parent that ended).

    What comes after an end record is late. Late text of a message that was being streamed is taken, and so is the late
    text of a run that has no messages at all. Everything else is folded apart: it joins if a second end record shows
    that the first was none (an intermediate result, a wait that timed out), or a second start goes on with the run, and
    else it is counted and set aside. An `EpochStarted` begins anew: what follows is folded from its own events only.

    Args:
        policy: the selection rule.
        everything: keep what can no longer be selected, for `candidates`.
    """

    __slots__ = (
        "_characters",
        "_deltas",
        "_everything",
        "_late",
        "_late_events",
        "_streaming",
        "closed",
        "ended",
        "epoch",
        "output",
        "policy",
        "started",
        "tally",
    )

    def __init__(self, policy: Policy = CANONICAL, *, everything: bool = False) -> None:
        self.policy: Policy = policy
        self._everything = everything
        self.started: RunStarted | None = None
        self.epoch: int = 0
        self._renew()

    def _renew(self) -> None:
        self.output: OutputFold = OutputFold(self.policy, everything=self._everything)
        self.tally: Tally = Tally()
        self._deltas = self._characters = 0  # not yet in the tally
        self.ended: RunEnded | None = None
        self.closed: tuple[str, ...] = ()  # evidence given from outside
        self._streaming: str | None = None  # the message that was being streamed at the end
        self._late: RunFold | None = None  # what came after the end
        self._late_events = 0

    def push(self, event: Event) -> None:
        """Take one event of the run. Never raises."""
        if type(event) is TextDelta and self.ended is None:
            self.output.push(event)
            self._deltas += 1
            self._characters += len(event.text)
            return
        self._push_rare(event)

    def push_run(self, events: Sequence[Event]) -> None:
        """Take consecutive events of one class."""
        if self.ended is None and events and type(events[0]) is TextDelta:
            self.output.push_run(events)
            self._deltas += len(events)
            if type(events) is Deltas:
                self._characters += len(events.text)
            else:
                self._characters += len("".join([event.text for event in cast("Sequence[TextDelta]", events)]))
        else:
            for event in events:
                self._push_rare(event)

    def _count_text(self) -> None:
        """Bring the tally up to date; text is counted in plain numbers until something asks."""
        if self._deltas:
            self.tally.push_text(self._deltas, self._characters)
            self._deltas = self._characters = 0

    def _push_rare(self, event: Event) -> None:
        self._count_text()
        kind = type(event)
        if kind is RunStarted:
            self._begin(cast("RunStarted", event))
        elif kind is EpochStarted:
            self._begin_epoch(cast("EpochStarted", event))
        elif self.ended is not None:
            self._push_late(event)
        elif kind is RunEnded:
            self._end(cast("RunEnded", event))
        else:
            if kind is MessageStarted:
                self._streaming = cast("MessageStarted", event).message
            elif kind is Message and cast("Message", event).message == self._streaming:
                self._streaming = None
            self.output.push(event)
            self.tally.push(event)

    def _begin(self, event: RunStarted) -> None:
        """A second start after an end goes on with the run."""
        if self.ended is not None:
            self._join_late()
            self.reopen()
        self.started = self.started or event

    def _begin_epoch(self, event: EpochStarted) -> None:
        if event.epoch != self.epoch or self.ended is not None or self.spoke:
            self._renew()
        self.epoch = event.epoch

    def _end(self, ended: RunEnded) -> None:
        self.ended = ended
        self.output.end(ended)

    def _push_late(self, event: Event) -> None:
        if type(event) in (TextDelta, Message):
            message = cast("TextDelta | Message", event).message
            if message is not None and (message == self._streaming or message in self.tally.ids):
                self.output.push(event)
                self.tally.push(event)
                return
        self._late_events += 1
        self._late = self._late or RunFold(self.policy, everything=self._everything)
        self._late.push(event)
        if type(event) is RunEnded:
            self._join_late()

    @property
    def spoke(self) -> bool:
        """Whether the model has said anything in this epoch."""
        return bool(self._deltas) or self.tally.spoke

    @property
    def late(self) -> int:
        """Events that came after the end record, so far."""
        return self._late_events

    def _join_late(self) -> None:
        """The end record was none: what came after it belongs to the run."""
        late, self._late = self._late, None
        if late is not None:
            self.reopen()
            self.merge(late)

    def _settled(self) -> "RunFold":
        """This fold with what of the late events belongs to it: streamed text, if the run has no messages."""
        self._count_text()
        late = self._late
        if late is None:
            return self
        settled = RunFold.restore(self.state(), everything=self._everything)
        late._count_text()
        counts = late.tally.counts
        if self.tally.counts.messages == 0 and counts.messages == 0 and counts.deltas:
            settled.output.merge(late.output)
            settled.tally.counts.deltas += counts.deltas
            settled.tally.counts.characters += counts.characters
        else:
            settled.tally.counts.late += sum(
                [counts.messages, counts.deltas, counts.tool_calls, counts.tool_results, counts.synthetic]
            )
        return settled

    def close(
        self, stop_reason: str, *, evidence: tuple[str, ...] = (), diagnostic: str | None = None, raw: str | None = None
    ) -> None:
        """End the run from outside, if it has not ended; `evidence` says why."""
        if self.ended is None:
            self._end(RunEnded(stop_reason, diagnostic=diagnostic, raw=raw, provenance="recovered"))
            self.closed = evidence

    def reopen(self) -> None:
        """Take the end record back: a cancellation came before it was handed on."""
        self.ended, self.closed = None, ()
        self.output.end(None)

    def merge(self, later: "RunFold") -> None:
        """Append the fold of the events that follow, of the same epoch; `later` is not changed.

        What follows an end record without a start or an end of its own is late. The rest of a message that was being
        streamed at the end is taken from it only where the part holds nothing else.
        """
        later._count_text()
        if self.ended is not None and later.started is None and later.ended is None:
            self._merge_late(later)
            return
        self._join_late()
        self._count_text()
        self.output.merge(later.output)
        self.tally.merge(later.tally)
        self.started = self.started or later.started
        self.ended = later.ended
        self.closed = later.closed if later.ended is not None else ()
        self.output.end(self.ended)
        self._streaming = later._streaming or self._streaming
        if later._late is not None:
            self._late = RunFold.restore(later._late.state(), everything=self._everything)
        self._late_events += later._late_events

    def _merge_late(self, later: "RunFold") -> None:
        if self._late is None and self._is_rest(later):
            self.output.merge(later.output)
            self.tally.merge(later.tally)
            return
        self._late = self._late or RunFold(self.policy, everything=self._everything)
        self._late.merge(later)
        self._late_events += later._events()

    def _is_rest(self, later: "RunFold") -> bool:
        """Whether a part that came late holds nothing but messages that were being streamed, or known, at the end."""
        known = {*self.tally.ids, self._streaming} - {None}
        told = [item.message in known for item in later.output.items if type(item) is not Mark]
        counts = later.tally.counts
        return bool(told) and all(told) and counts.messages + counts.deltas == later._events()

    def _events(self) -> int:
        """How many events that matter are in this part, as far as it has counted them."""
        counts = self.tally.counts
        said = counts.messages + counts.deltas + counts.synthetic
        return said + counts.tool_calls + counts.tool_results + counts.aborted_attempts

    def state(self) -> dict[str, Any]:
        """All of the fold as plain data, fit for JSON."""
        self._count_text()
        return {
            "policy": msgspec.to_builtins(self.policy),
            "output": self.output.state(),
            "tally": msgspec.to_builtins(self.tally),
            "started": msgspec.to_builtins(self.started),
            "ended": msgspec.to_builtins(self.ended, enc_hook=repr),
            "closed": list(self.closed),
            "epoch": self.epoch,
            "streaming": self._streaming,
            "late": self._late.state() if self._late is not None else None,
            "late_events": self._late_events,
        }

    @classmethod
    def restore(cls, state: dict[str, Any], *, everything: bool = False) -> "RunFold":
        """A fold that goes on where the one with that `state` stopped."""
        fold = cls(msgspec.convert(state["policy"], Policy), everything=everything)
        fold.output = OutputFold.restore(state["output"], fold.policy, everything=everything)
        fold.tally = msgspec.convert(state["tally"], Tally)
        fold.started = msgspec.convert(state["started"], RunStarted | None)
        ended = msgspec.convert(state["ended"], RunEnded | None)
        if ended is not None:
            fold._end(ended)
        fold.closed = tuple(state["closed"])
        fold.epoch = state["epoch"]
        fold._streaming = state["streaming"]
        if state["late"] is not None:
            fold._late = cls.restore(state["late"], everything=everything)
        fold._late_events = state["late_events"]
        return fold

    def candidates(self) -> list[Candidate]:
        """The texts that could have been the output, in order, each with the rule that chose or rejected it."""
        return self._settled().output.selection().candidates

    def snapshot(self) -> Outcome:
        """The outcome as it would be now, with `final` False; the run goes on."""
        return self._settled()._outcome(final=self.ended is not None)

    def outcome(self) -> Outcome:
        """The outcome, frozen."""
        return self._settled()._outcome(final=True)

    def _outcome(self, *, final: bool) -> Outcome:
        selection = self.output.selection()
        ended = self.ended
        stop = known_stop_reason(ended.stop_reason) if ended is not None else ERROR
        if final:
            effective, evidence = effective_stop(stop, None if self.closed else ended, self.tally)
        else:
            effective, evidence = stop, ()
        if self.closed:
            effective, evidence = stop, (*self.closed, *(e for e in evidence if e != "no_end_record"))
        unselected, outweighed = _unselected(selection)
        return Outcome(
            output=selection.output,
            source=selection.source,
            none_reason=self._none_reason(stop) if selection.output is None else None,
            stop_reason=stop,
            raw_stop_reason=_raw(ended),
            provenance=ended.provenance if ended is not None else "unknown",
            effective_stop_reason=effective,
            evidence=evidence,
            answer_complete=self._complete(selection, effective),
            diagnostic=limited_diagnostic(ended.diagnostic) if ended is not None else None,
            structured=ended.structured if ended is not None else None,
            partial=selection.partial,
            pieces=selection.pieces,
            beside=selection.beside,
            attempts=self.tally.counts.messages + self.tally.counts.aborted_attempts,
            usage=self.tally.summed_usage(),
            counts=self.tally.counts,
            unselected=unselected,
            outweighed=outweighed,
            policy=self.policy.name,
            epoch=self.epoch,
            final=final,
            digest=digest_of(selection.output, stop),
        )

    def _complete(self, selection: Selection, effective: str) -> bool:
        """Whether the output is a whole answer."""
        if selection.output is None or selection.partial or effective == INCOMPLETE:
            return False
        if selection.source != "structured" and not readable(selection.output):
            return False
        message = selection.message
        if message is None or message.stop_reason is None:
            final = message is not None and message.phase == "final_answer"
            return final or effective == COMPLETED
        return known_stop_reason(message.stop_reason) == COMPLETED or message.phase == "final_answer"

    def _none_reason(self, stop: str) -> NoneReason:
        counts = self.tally.counts
        told: tuple[tuple[bool, NoneReason], ...] = (
            ("source_missing" in self.closed, "source_missing"),
            ("reader_dead" in self.closed, "reader_dead"),
            (stop == REFUSAL or self.tally.mapped_last_stop() == REFUSAL, "refused"),
            (self.tally.blank or counts.characters > 0, "blank"),
            (counts.tool_calls > 0, "tools_only"),
            (counts.reasoning > 0, "reasoning_only"),
            (counts.empty > 0, "empty_final"),
        )
        return next((reason for holds, reason in told if holds), "never_spoke")


def _raw(ended: RunEnded | None) -> str | None:
    """The harness's own word; the one it gave as stop reason where it gave no other."""
    if ended is None:
        return None
    if ended.raw is None and ended.provenance == "reported":
        return ended.stop_reason
    return ended.raw


def _unselected(selection: Selection) -> tuple[tuple[Unselected, ...], bool]:
    told = {row.text for row in selection.candidates if row.kind in ("message", "streamed")}
    rows = [
        row
        for row in selection.candidates
        if row.text and not row.chosen and row.why != NOT_MODEL and not (row.kind == "terminal" and row.text in told)
    ]
    chosen = sum([len(row.text) for row in selection.candidates if row.chosen])
    longest = max([len(row.text) for row in rows], default=0)
    listed = tuple(
        Unselected(ordinal=r.ordinal, length=len(r.text), stop_reason=r.stop_reason, message=r.message) for r in rows
    )
    return listed, selection.output is not None and chosen * _QUARTER < longest
