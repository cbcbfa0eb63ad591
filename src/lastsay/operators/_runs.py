"""Which runs are open, for operators that end a stream on their own.

An operator that stops a source early says why, once for every run that is still open, and leaves the rest to the run
scope. A run opens with its first event, or again with `RunStarted` or `EpochStarted`; it closes with `RunEnded`. What
trickles in after an end (usage, notices) opens nothing. A stream on which nothing was seen at all has one open run: the
main one.
"""

from collections.abc import Sequence

from lastsay.events import MAIN, EpochStarted, Event, RunEnded, RunStarted

__all__ = ("OpenRuns",)


class OpenRuns:
    """Keeps the open runs of one stream, in the order in which they opened."""

    __slots__ = ("_closed", "_open")

    def __init__(self) -> None:
        self._open: dict[str, None] = {}
        self._closed: set[str] = set()

    @property
    def untouched(self) -> bool:
        """Whether no event was seen yet."""
        return not self._open and not self._closed

    def see(self, event: Event) -> None:
        """Take note of one event."""
        run, kind = event.run, type(event)
        if kind is RunEnded:
            self._open.pop(run, None)
            self._closed.add(run)
        elif run in self._open:
            return
        elif run not in self._closed or kind is RunStarted or kind is EpochStarted:
            self._closed.discard(run)
            self._open[run] = None

    def see_batch(self, events: Sequence[Event]) -> None:
        """Take note of any events."""
        for event in events:
            self.see(event)

    def end(self, word: str, diagnostic: str, stop_reason: str | None = None) -> list[Event]:
        """The end records of all open runs, the youngest run first. Afterwards none is open.

        Args:
            word: what stopped them, in snake case: the raw stop reason.
            diagnostic: one sentence for people.
            stop_reason: the mapped stop reason; `word` in kebab case if None, a failure for every consumer.
        """
        if self.untouched:
            self._open[MAIN] = None
        reason = stop_reason or word.replace("_", "-")
        ends: list[Event] = [
            RunEnded(reason, diagnostic=diagnostic, raw=word, provenance="recovered", run=run)
            for run in reversed(self._open)
        ]
        self._closed.update(self._open)
        self._open.clear()
        return ends
