"""Stages compiled into one table: from a position and an event class to what must be called.

For every position in the chain there is a *level*: a table from event class to a plan. A plan holds the observers of
that class up to the first stage that may change what flows, then that stage as a step, which goes on at the level
behind it. Plans are made on first use, so a class costs nothing until it occurs, and a class that no stage handles
costs one look-up.

A list of fewer than `FEW` events goes event by event. A longer one is cut into runs of one class (and where it is text,
of one message); a handler is given a whole run where it has `FEW` events or more. Both ways call the same handlers in
the same order for any one stage, so every way of splitting the input gives the same output, as far as the two handlers
of each stage do.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, Final

from lastsay.errors import UsageError
from lastsay.events import EVENT_TYPES, FEW, Deltas, Event, ReasoningDelta, TextDelta
from lastsay.operators._stage import Handler, Handlers, Kind, Stage

__all__ = ("Level", "Looks", "Pipeline")

_KNOWN: Final = frozenset(EVENT_TYPES)

Out = list[Event]
Step = Callable[[Any], Iterable[Event] | None]
"""From an event, or a run, to what comes out at the end of the chain for it. No step: the event itself."""
Looks = tuple[Handler, ...]
Plan = tuple[Looks, Step | None, Looks, Step | None]
"""Observers of one event, its step, observers of a run, its step."""
Single = tuple[Looks | None, Looks | None, Looks, Step | None]
"""Four observers of an event, four more, the others, and its step."""


class Level(dict[type, Plan]):
    """The plans of the stages from one position on, by event class; made when first asked for."""

    __slots__ = ("kind", "own", "rest")

    def __init__(self, kind: Kind = "observe", own: Handlers | None = None, rest: "Level | None" = None) -> None:
        super().__init__()
        self.kind = kind
        self.own = own or {}
        self.rest = rest

    def __missing__(self, event_type: type) -> Plan:
        ones: list[Handler] = []
        runs: list[Handler] = []
        step: tuple[Step | None, Step | None] = (None, None)
        level = self
        while level.rest is not None:
            handler = level.own.get(event_type if event_type in _KNOWN else object)
            kind, level = level.kind, level.rest
            if handler is None:
                continue
            pair = handler if isinstance(handler, tuple) else (handler, _RUNS[kind](handler))
            if kind != "observe":
                step = _STEPS[kind](*pair, level)
                break
            ones.append(pair[0])
            runs.append(pair[1])
        self[event_type] = plan = (tuple(ones), step[0], tuple(runs), step[1])
        return plan

    def push_one(self, event: Event, out: Out) -> None:
        """Send one event through the stages of this level."""
        looks, step, _, _ = self[type(event)]
        for look in looks:
            look(event)
        if step is None:
            out.append(event)
        else:
            out += step(event) or ()

    def push_run(self, events: list[Event], out: Out) -> None:  # noqa: C901, PLR0912  # one hot loop
        """Send events through the stages of this level, run by run.

        The loop of `lastsay.events.stretches`, written out: calls in it would cost a twentieth of the whole pipeline.
        """
        if self.rest is None:
            out.extend(events)
            return
        size = len(events)
        whole = type(events) is Deltas  # passed on by a stage: it need not be cut and joined again
        rest = iter(events)
        event: Any = next(rest, None)
        at = 0
        while at < size:
            first, kind, count = event, type(event), 1
            texts: list[str] | None = None
            if whole:
                count = size
            elif kind is TextDelta or kind is ReasoningDelta:
                run, message, texts = first.run, first.message, [first.text]
                for event in rest:
                    if type(event) is not kind or event.message != message or event.run != run:
                        break
                    texts.append(event.text)
                count = len(texts)
            else:
                for event in rest:
                    if type(event) is not kind:
                        break
                    count += 1
            looks, step_one, runs, step_run = self[kind]
            if count == 1:
                for look in looks:
                    look(first)
                if step_one is None:
                    out.append(first)
                else:
                    out += step_one(first) or ()
            elif count < FEW:
                for one in events[at : at + count]:
                    self.push_one(one, out)
            else:
                members: Any = events if count == size else events[at : at + count]
                if texts is not None:
                    members = Deltas(members)
                    members.texts = texts
                    members.text = "".join(texts)
                for handler in runs:
                    handler(members)
                out += members if step_run is None else step_run(members) or ()
            at += count


class _Singles(dict[type, Single]):
    """The plans of a whole chain for events that come one by one."""

    __slots__ = ("_level",)

    def __init__(self, level: Level) -> None:
        super().__init__()
        self._level = level

    def __missing__(self, event_type: type) -> Single:
        looks, step, _, _ = self._level[event_type]
        fours = len(looks) // 4
        self[event_type] = single = (
            looks[:4] if fours else None,
            looks[4:8] if fours > 1 else None,
            looks[4 * min(fours, 2) :],
            step,
        )
        return single


class Pipeline:
    """The stages of one entry, ready to be pushed through.

    Args:
        stages: the stages, in the order in which an event meets them.
    """

    __slots__ = ("_ending", "_settlers", "_stages", "_unchanged", "levels", "may_end", "settles", "singles")

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = stages
        levels = [Level()]
        for stage in reversed(stages):
            levels.append(Level(stage.kind, _handlers(stage), levels[-1]))
        self.levels = levels[::-1]
        self.singles = _Singles(self.levels[0])
        self._settlers = [
            (stage.settle, self.levels[i + 1])
            for i, stage in enumerate(stages)
            if type(stage).settle is not Stage.settle
        ]
        self._ending = [stage for stage in stages if stage.may_end]
        self.settles = bool(self._settlers)
        self.may_end = bool(self._ending)
        self._unchanged = not self.settles and all(stage.kind == "observe" for stage in stages)

    @property
    def ended(self) -> bool:
        """Whether a stage has ended the stream."""
        return any(stage.ended for stage in self._ending)

    def push(self, batch: list[Event]) -> list[Event]:
        """What comes out for a batch. May be the batch itself, or empty."""
        level = self.levels[0]
        out: Out = []
        if len(batch) < FEW:
            for event in batch:
                level.push_one(event, out)
        else:
            level.push_run(batch, out)
        if self._settlers:
            self.settle(out)
        return batch if self._unchanged else out

    def settle(self, out: Out) -> None:
        """Add what the stages held back while the batch went on."""
        for settle, rest in self._settlers:
            held = settle()
            if held:
                rest.push_run(list(held), out)

    def flush(self) -> list[Event]:
        """What comes out at the end of the source."""
        out: Out = []
        for i, stage in enumerate(self._stages):
            held = stage.flush()
            if held:
                self.levels[i + 1].push_run(list(held), out)
        return out

    def close(self) -> None:
        """Close every stage, the last one first; the first error is raised after all were closed."""
        failure: Exception | None = None
        for stage in reversed(self._stages):
            try:
                stage.close()
            except Exception as error:  # noqa: BLE001  # the others must be closed too; it is raised below
                failure = failure or error
        if failure is not None:
            raise failure


def _handlers(stage: Stage) -> Handlers:
    if stage.kind not in _RUNS:
        kinds = ", ".join(_RUNS)
        raise UsageError(f"{type(stage).__name__}.kind is {stage.kind!r}; a stage is one of: {kinds}")
    return stage.handlers()


def _observe_run(one: Handler) -> Handler:
    def run(events: list[Event]) -> None:
        for event in events:
            one(event)

    return run


def _map_run(one: Handler) -> Handler:
    return lambda events: [one(event) for event in events]


def _filter_run(one: Handler) -> Handler:
    return lambda events: [event for event in events if one(event)]


def _flat_run(one: Handler) -> Handler:
    return lambda events: list(chain.from_iterable([one(event) or () for event in events]))


_RUNS: Final[dict[Kind, Callable[[Handler], Handler]]] = {
    "observe": _observe_run,
    "map": _map_run,
    "filter": _filter_run,
    "flat": _flat_run,
}


def _run_step(run: Handler, rest: Level) -> Step:
    def step(events: list[Event]) -> Out:
        out: Out = []
        passed = run(events)
        if passed:
            rest.push_run(passed if isinstance(passed, list) else list(passed), out)
        return out

    return run if rest.rest is None else step


def _map_step(one: Handler, run: Handler, rest: Level) -> tuple[Step, Step]:
    def step(event: Event) -> Out:
        out: Out = []
        rest.push_one(one(event), out)
        return out

    return step, _run_step(run, rest)


def _filter_step(one: Handler, run: Handler, rest: Level) -> tuple[Step, Step]:
    def step(event: Event) -> Out:
        out: Out = []
        if one(event):
            rest.push_one(event, out)
        return out

    return step, _run_step(run, rest)


def _flat_step(one: Handler, run: Handler, rest: Level) -> tuple[Step, Step]:
    def step(event: Event) -> Out:
        out: Out = []
        for passed in one(event) or ():
            rest.push_one(passed, out)
        return out

    return one if rest.rest is None else step, _run_step(run, rest)


_STEPS: Final[dict[Any, Callable[[Handler, Handler, Level], tuple[Step, Step]]]] = {
    "map": _map_step,
    "filter": _filter_step,
    "flat": _flat_step,
}
