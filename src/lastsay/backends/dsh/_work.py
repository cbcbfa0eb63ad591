"""Why an epoch ended: from its turns to one stop reason.

The rule, in prose. An epoch may hold several turns, and not each of them says how the work went: a turn that was opened
and closed over nothing ends `completed` as well. The turn that counts is the last closed one that either entered a
step, or claimed input and then ended in any other way than `completed`. Input that was cancelled out of the inbox
after that turn, with nothing put in its place, was accepted and never run: a completed epoch is then an aborted one.
(Read in the consumed-work fold of DeepSeek Harness; it decides the stop reason of in-process children there.)

| end of the turn | stop reason | |
|---|---|---|
| completed | completed | aborted, if accepted work was dropped after it |
| max-tokens | max-tokens | |
| aborted | aborted | |
| blocked | refusal | the input was turned away before a step |
| error | error | |
| interrupted | error | written by the repair of a log after a crash; the harness's managed children call it aborted |
| any other | the word itself | a failure for every consumer |
| no such turn | error, unknown | |
"""

from typing import Any, Final

from lastsay.events import ABORTED, COMPLETED, ERROR, MAX_TOKENS, REFUSAL, Provenance

__all__ = ("ConsumedWork", "StopFound")

_STOPS: Final = {
    "completed": COMPLETED,
    "max-tokens": MAX_TOKENS,
    "aborted": ABORTED,
    "blocked": REFUSAL,
    "error": ERROR,
    "interrupted": ERROR,
}

StopFound = tuple[str, str | None, Provenance, str | None]
"""The mapped stop reason, the harness's own word, how the one was found from the other, and a diagnostic."""


class ConsumedWork:
    """Folds turns, steps and inbox splices of one epoch into its stop reason."""

    __slots__ = ("_claimed", "_dropped", "_end", "_open", "_stepped", "turns")

    def __init__(self) -> None:
        self.turns = 0
        """Turns begun so far."""
        self._open: int | None = None
        self._stepped: set[int] = set()
        self._claimed: set[int] = set()
        self._end: dict[str, Any] | None = None
        self._dropped = False

    @property
    def running(self) -> bool:
        """Whether a turn is open."""
        return self._open is not None

    def turn_started(self, turn: int) -> None:
        """A turn began."""
        self.turns += 1
        self._open = turn

    def step_started(self, turn: int) -> None:
        """A step of the turn began, so the turn is open: a log read from its end does not show its start."""
        self.turns += self._open is None
        self._open = turn
        self._stepped.add(turn)

    def inbox_spliced(self, data: dict[str, Any]) -> None:
        """Input was put into, claimed from or cancelled out of the inbox."""
        if data.get("removedCount") is None:
            return
        if data.get("outcome") == "canceled":
            self._dropped = self._dropped or not data.get("inserted")
        elif self._open is not None:
            self._claimed.add(self._open)

    def turn_ended(self, turn: int, reason: dict[str, Any]) -> None:
        """The turn is closed."""
        self._open = None
        stepped, claimed = turn in self._stepped, turn in self._claimed
        self._stepped.discard(turn)
        self._claimed.discard(turn)
        if stepped or (claimed and reason.get("kind") != "completed"):
            self._end = reason
            self._dropped = False

    def stop(self, said: str | None = None) -> StopFound | None:
        """How the epoch ended, or None if nothing that was seen says so.

        Args:
            said: the word of the harness's own end record. It decides where the turns do not: where there was none
                (a one-shot child killed from outside sends no turn end), where the log was repaired, and where the
                harness knows of a failure that the turns cannot show (a failed teardown).
        """
        if self.running or self._end is None:
            if said is not None:
                return _STOPS.get(said, said), said, "reported", None
            return (ABORTED, None, "recovered", None) if self._dropped and not self.running else None
        kind = str(self._end.get("kind"))
        mapped = _STOPS.get(kind, kind)
        if said is not None and said != mapped and (mapped == COMPLETED or kind == "interrupted"):
            return said, said, "reported", None
        if mapped == COMPLETED and self._dropped:
            return ABORTED, kind, "recovered", "accepted input was cancelled before it ran"
        provenance: Provenance = "recovered" if kind == "interrupted" else "reported"
        return mapped, kind, provenance, _diagnostic(kind, self._end)


def _diagnostic(kind: str, reason: dict[str, Any]) -> str | None:
    if kind == "interrupted":
        return "the log was repaired after a crash: the turn never ended"
    error = reason.get("error")
    if not isinstance(error, dict):
        return None
    facts = [str(error[key]) for key in ("code", "status") if error.get(key) is not None]
    return ": ".join([" ".join(facts), str(error.get("message", ""))]).strip(": ") or None
