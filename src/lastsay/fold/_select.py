"""Selection: from a journal and an end record to the output, by the rules of one policy.

In the order in which they are asked:

1. `structured_first`: a declared structured result is the output.
2. The last message that counts. It counts with content; with `substance`, only with something to read. `final_first`
   prefers the last one declared final. `reactions_aside` goes back over answers to injected prompts. `join_pieces` puts
   the pieces before it in front.
3. `tail`: text streamed after that message is newer, and is the output unless the message was a finished answer.
4. Without a message, the streamed text: all of it, or with `segment` the last step's, without the attempts that
   `drop_aborted` takes out.
5. `terminal`: the end record's own text.

The stop reason plays no part in the selection, and text that the model did not write is never selected.
"""

import json
from typing import Final, Literal

import msgspec

from lastsay.events import COMPLETED, ERROR, MAX_TOKENS, REFUSAL, Block, Message, RunEnded, Text, known_stop_reason
from lastsay.fold._journal import Draft, Item, Mark, has_substance, text_of
from lastsay.fold._policy import Policy

__all__ = ("NOT_MODEL", "Candidate", "Selection", "Source", "select")

Source = Literal["message", "streamed", "terminal", "structured", "none"]


class Candidate(msgspec.Struct, kw_only=True):
    """A text that could have been the output, and what became of it."""

    ordinal: int
    """Position among the candidates of the run, from 1."""
    kind: Literal["message", "streamed", "terminal", "structured"]
    text: str
    message: str | None = None
    stop_reason: str | None = None
    chosen: bool = False
    why: str = ""
    """The rule that chose or rejected it."""


class Selection(msgspec.Struct, kw_only=True):
    """What was selected, and from what."""

    output: tuple[Block, ...] | None
    source: Source
    partial: bool = False
    pieces: int = 1
    beside: tuple[Block, ...] | None = None
    message: Message | None = None
    """The message that was selected, or its last piece."""
    candidates: list[Candidate] = msgspec.field(default_factory=list)


class _Segment:
    """Streamed text of one message, or of one step where there are no ids."""

    __slots__ = ("aborted", "at", "covered", "message", "parts")

    def __init__(self, message: str | None, at: int) -> None:
        self.message = message
        self.at = at
        self.parts: list[tuple[int, str]] = []  # place and text of each stretch
        self.aborted = False
        self.covered = False

    @property
    def began(self) -> int:
        return self.parts[0][0]

    @property
    def text(self) -> str:
        return "".join([text for _, text in self.parts])


_STRUCTURED: Final = "a declared structured result comes first (structured_first)"
_NOTHING_TO_READ: Final = "nothing in it to read (substance)"
NOT_MODEL: Final = "written by the harness, not by the model"


def select(items: list[Item], policy: Policy, ended: RunEnded | None, *, explained: bool = True) -> Selection:
    """The output that the policy selects. Total: every input has an answer, if only "none".

    Without `explained` the candidates are left out.
    """
    selector = _Selector(items, policy, ended)
    selection = selector.run()
    if explained:
        selection.candidates = selector.candidates(selection)
    return selection


class _Selector:
    def __init__(self, items: list[Item], policy: Policy, ended: RunEnded | None) -> None:
        self.items = items
        self.policy = policy
        self.ended = ended
        self.segments = _segments(items)
        self.why: dict[int, str] = {}  # place in items -> reason
        self.chosen: set[int] = set()
        self.counting: list[int] = []  # places of the messages that count

    def run(self) -> Selection:
        at = self._message()
        selection = self._structured() or (self._from_message(at) if at is not None else self._streamed())
        if selection.source == "none":
            selection = self._terminal() or selection
        return selection

    def _structured(self) -> Selection | None:
        if not self.policy.structured_first or self.ended is None or self.ended.structured is None:
            return None
        return Selection(output=(Text(_plain_text(self.ended.structured)),), source="structured")

    def _counts(self, at: int) -> bool:
        """Whether the item is a message that counts; if not, why."""
        item = self.items[at]
        if type(item) is not Message:
            return False
        if item.origin != "model":
            self.why[at] = NOT_MODEL
        elif not item.content:
            self.why[at] = "its content is empty"
        elif self.policy.substance and not has_substance(item):
            self.why[at] = _NOTHING_TO_READ
        else:
            return True
        return False

    def _message(self) -> int | None:
        counting = self.counting = [at for at in range(len(self.items)) if self._counts(at)]
        if not counting:
            return None
        for at in counting:
            self.why[at] = "a later message counts"
        chosen = self._declared_final(counting)
        if self.policy.reactions_aside:
            chosen = self._before_reactions(counting, chosen)
        self.why[chosen] = "the last message that counts" if chosen == counting[-1] else self.why[chosen]
        return chosen

    def _declared_final(self, counting: list[int]) -> int:
        if self.policy.final_first:
            for at in reversed(counting):
                if self._at(at).phase == "final_answer":
                    if at != counting[-1]:
                        self.why[at] = "declared to be the final answer (final_first)"
                    return at
        return counting[-1]

    def _before_reactions(self, counting: list[int], chosen: int) -> int:
        while (place := counting.index(chosen)) > 0:
            before = counting[place - 1]
            between = [item.kind for item in self.items[before + 1 : chosen] if type(item) is Mark]
            if "injected" not in between or "step" in between or "user" in between or not _finished(self._at(before)):
                break
            self.why[chosen] = "answers a prompt that the harness injected (reactions_aside)"
            self.why[before] = "a finished answer; what follows reacts to an injected prompt (reactions_aside)"
            chosen = before
        return chosen

    def _at(self, at: int) -> Message:
        item = self.items[at]
        assert type(item) is Message
        return item

    def _from_message(self, at: int) -> Selection:
        message = self._at(at)
        places = self._pieces(at) if self.policy.join_pieces else [at]
        content = tuple(block for place in places for block in self._at(place).content)
        tail = self._tail(at) if self.policy.tail else None
        if tail is not None and self._continues(at, tail):
            return self._with_tail(places, content, tail)
        if tail is not None and (not _finished(message) or self._between(at, tail.at, "user")):
            self.why[at] = "newer text was streamed after it (tail); kept beside"
            self.why[tail.at] = "the newest text, streamed after the last complete message (tail)"
            self.chosen.add(tail.at)
            return Selection(output=(Text(tail.text),), source="streamed", partial=True, beside=content)
        self._choose(places)
        if tail is not None:
            self.why[tail.at] = "streamed after a finished answer (tail); kept beside"
        return Selection(
            output=content,
            source="message",
            partial=_cut(message),
            pieces=len(places),
            beside=(Text(tail.text),) if tail is not None else self._complete_before(places[0], message),
            message=message,
        )

    def _choose(self, places: list[int]) -> None:
        self.chosen.update(places)
        for place in places[:-1]:
            self.why[place] = "a piece cut at max-tokens and continued (join_pieces)"

    def _continues(self, at: int, tail: _Segment) -> bool:
        """Whether the tail is the rest of the message: more of the same one, or the next piece of one that was cut."""
        message = self._at(at)
        if tail.message is not None and tail.message == message.message:
            return not _finished(message)
        return self.policy.join_pieces and _at_limit(message) and not self._between(at, tail.at, "step", "user")

    def _with_tail(self, places: list[int], content: tuple[Block, ...], tail: _Segment) -> Selection:
        message = self._at(places[-1])
        more = 0 if tail.message is not None and tail.message == message.message else 1
        self._choose(places)
        self.chosen.add(tail.at)
        self.why[tail.at] = "streamed on from the message before it, and not completed (tail)"
        output = (*content, Text(tail.text))
        return Selection(output=output, source="message", partial=True, pieces=len(places) + more, message=message)

    def _between(self, after: int, before: int, *kinds: str) -> bool:
        return any(type(item) is Mark and item.kind in kinds for item in self.items[after + 1 : before])

    def _complete_before(self, at: int, message: Message) -> tuple[Block, ...] | None:
        """What stands beside a message that a cancellation cut: the last complete one before it."""
        if self.policy.tail and message.interrupted:
            for before in range(at - 1, -1, -1):
                if self._counts(before) and not _cut(self._at(before)):
                    return self._at(before).content
        return None

    def _pieces(self, at: int) -> list[int]:
        """The places of the message and of the pieces that it continues, in order."""
        places = [at]
        for before in range(at - 1, -1, -1):
            item = self.items[before]
            if type(item) is Mark and item.kind in ("step", "user"):
                break
            if type(item) is Message and item.origin == "model" and item.content:
                if not _at_limit(item) or not has_substance(item):
                    break
                places.insert(0, before)
        return places

    def _tail(self, at: int) -> _Segment | None:
        readable = [s for s in self._kept_segments() if s.at > at and _readable(s.text)]
        return readable[-1] if readable else None

    def _kept_segments(self) -> list[_Segment]:
        """The segments, less the aborted ones that a later attempt replaced."""
        if not self.policy.drop_aborted:
            return self.segments
        dropped: set[int] = set()
        later = False
        for segment in sorted(self.segments, key=lambda segment: segment.began, reverse=True):
            if segment.aborted and later:
                self.why[segment.at] = "its attempt was aborted, and a later one produced text (drop_aborted)"
                dropped.add(segment.at)
            later = later or _readable(segment.text)
        return [segment for segment in self.segments if segment.at not in dropped]

    def _streamed(self) -> Selection:
        segments = [segment for segment in self._kept_segments() if self._can_stand(segment)]
        if self.policy.segment and segments:
            for segment in segments[:-1]:
                self.why[segment.at] = "streamed in an earlier step (segment)"
            segments = segments[-1:]
        if not segments:
            return Selection(output=None, source="none")
        for segment in segments:
            self.chosen.add(segment.at)
            self.why[segment.at] = "no message counts; this text was streamed"
        completed = self.ended is not None and known_stop_reason(self.ended.stop_reason) == COMPLETED
        partial = not completed or segments[-1].aborted
        in_order = sorted([part for s in segments for part in s.parts])  # messages may be streamed interleaved
        return Selection(output=(Text("".join([t for _, t in in_order])),), source="streamed", partial=partial)

    def _can_stand(self, segment: _Segment) -> bool:
        """Whether streamed text may be output where no message counts; if not, why."""
        if segment.covered and not self.policy.reads_streams:
            self.why[segment.at] = "streamed before a message that was taken back"
        elif self.policy.substance and not _readable(segment.text):
            self.why[segment.at] = _NOTHING_TO_READ
        else:
            return bool(segment.text)
        return False

    def _terminal(self) -> Selection | None:
        text = self.ended.terminal if self.ended is not None else None
        if not self.policy.terminal or self.ended is None or text is None or not text.strip():
            return None
        if known_stop_reason(self.ended.stop_reason) in (ERROR, REFUSAL) or text in self._not_model_texts():
            return None
        return Selection(output=(Text(text),), source="terminal")

    def _not_model_texts(self) -> set[str]:
        return {text_of(item) for item in self.items if type(item) is Message and item.origin != "model"}

    def candidates(self, selection: Selection) -> list[Candidate]:
        found: list[tuple[int, Candidate]] = []
        for at, item in enumerate(self.items):
            if type(item) is Message:
                row = Candidate(ordinal=0, kind="message", text=text_of(item), message=item.message)
                row.stop_reason = item.stop_reason
                found.append((at, row))
        found.extend(
            (s.at, Candidate(ordinal=0, kind="streamed", text=s.text, message=s.message))
            for s in self.segments
            if s.text
        )
        found.sort(key=lambda pair: pair[0])
        for at, row in found:
            row.chosen = at in self.chosen
            row.why = self._reason(at, selection)
        rows = [row for _, row in found]
        if self.ended is not None:
            rows += self._end_candidates(self.ended, selection)
        for ordinal, row in enumerate(rows, 1):
            row.ordinal = ordinal
        return rows

    def _reason(self, at: int, selection: Selection) -> str:
        if selection.source == "structured" and at in self.counting:
            return _STRUCTURED
        if at in self.why:
            return self.why[at]
        return "streamed text; a complete message counts" if self.counting else _STRUCTURED

    def _why_not_terminal(self, selection: Selection) -> str:
        if not self.policy.terminal:
            return "the policy does not read the end record's text"
        if selection.source == "none":
            return "the end record's text is no answer: blank, of a failure, or the harness's own"
        return "the end record's text is the last resort"

    def _end_candidates(self, ended: RunEnded, selection: Selection) -> list[Candidate]:
        rows: list[Candidate] = []
        if ended.terminal:
            chosen = selection.source == "terminal"
            why = "nothing else was said (terminal)" if chosen else self._why_not_terminal(selection)
            rows.append(Candidate(ordinal=0, kind="terminal", text=ended.terminal, chosen=chosen, why=why))
        if ended.structured is not None:
            chosen = selection.source == "structured"
            why = _STRUCTURED if chosen else "the policy does not put a structured result first"
            text = _plain_text(ended.structured)
            rows.append(Candidate(ordinal=0, kind="structured", text=text, chosen=chosen, why=why))
        return rows


def _segments(items: list[Item]) -> list[_Segment]:
    """Streamed text grouped by message, or by step where it has no message ids; done text left out."""
    segments: list[_Segment] = []
    by_id: dict[str, _Segment] = {}
    loose: _Segment | None = None  # the text without an id that is being streamed
    since = 0  # where the model call began that is going on
    for at, item in enumerate(items):
        if type(item) is Draft:
            if item.done:
                continue
            segment = by_id.get(item.message) if item.message is not None else loose
            if segment is None:
                segment = _Segment(item.message, at)
                segments.append(segment)
            if item.message is None:
                loose = segment
            else:
                by_id[item.message] = segment
            segment.at = at
            segment.covered = item.covered
            segment.parts.append((at, item.text))
            continue
        loose = None
        if type(item) is Mark and item.kind == "aborted":
            _abort(segments, item.message, since)
            by_id.clear() if item.message is None else by_id.pop(item.message, None)
        since = at
    segments.sort(key=lambda segment: segment.at)
    return segments


def _abort(segments: list[_Segment], message_id: str | None, since: int) -> None:
    """Mark what the aborted attempt had streamed; without an id, all of the model call that was going on."""
    for segment in segments:
        if segment.at >= since if message_id is None else segment.message == message_id:
            segment.aborted = True


def _plain_text(value: object) -> str:
    """A structured value as text: itself, or its JSON; a value that JSON has no form for, as Python writes it."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=repr)
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def _readable(text: str) -> bool:
    return text != "" and not text.isspace()


def _finished(message: Message) -> bool:
    """Whether the message was declared final, or its own model call ended a turn normally."""
    if message.phase == "final_answer":
        return True
    return message.stop_reason is not None and known_stop_reason(message.stop_reason) == COMPLETED


def _at_limit(message: Message) -> bool:
    return message.stop_reason is not None and known_stop_reason(message.stop_reason) == MAX_TOKENS


def _cut(message: Message) -> bool:
    return message.interrupted or _at_limit(message)
