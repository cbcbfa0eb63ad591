"""The lifecycle events ``subagent/start`` and ``subagent/end``.

Field names are DeepSeek Harness's. `lastAssistantMessage` is absent, not empty, when there is no output; diagnostics
and structured results never enter the end event. `policy` and `digest` are ours: with the digest, an observer can
prove that it was told the same as the parent's tool result.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from lastsay.consumers._contract import Consumer, RunEnd, RunStart

__all__ = ("Lifecycle", "end_event", "lifecycle", "start_event")

Listener = Callable[[dict[str, Any]], Awaitable[None] | None]

_START: Final = "subagent/start"
_END: Final = "subagent/end"


def start_event(start: RunStart) -> dict[str, Any]:
    """The ``subagent/start`` event of a run, as plain data."""
    return {
        "type": _START,
        "runId": start.run_id,
        "provider": start.provider,
        "id": start.run,
        "local": start.local,
    }


def end_event(end: RunEnd) -> dict[str, Any]:
    """The ``subagent/end`` event of a run, as plain data."""
    outcome = end.outcome
    event = {**start_event(end.start), "type": _END, "stopReason": outcome.stop_reason}
    if outcome.output is not None:
        event["lastAssistantMessage"] = msgspec.to_builtins(list(outcome.output), enc_hook=repr)
    return {**event, "policy": outcome.policy, "digest": outcome.digest}


class Lifecycle(Consumer):
    """Publishes the lifecycle events of every run in the stream to its listeners."""

    def __init__(self, on_start: Listener | None, on_end: Listener | None) -> None:
        self._on_start = on_start
        self._on_end = on_end

    def start(self, start: RunStart) -> Awaitable[None] | None:
        """Publish ``subagent/start``."""
        return self._on_start(start_event(start)) if self._on_start is not None else None

    def end(self, end: RunEnd) -> Awaitable[None] | None:
        """Publish ``subagent/end``."""
        return self._on_end(end_event(end)) if self._on_end is not None else None


def lifecycle(*, on_start: Listener | None = None, on_end: Listener | None = None) -> Lifecycle:
    """A consumer that publishes ``subagent/start`` and ``subagent/end``.

    Args:
        on_start: called with the start event of each run, before the run's first event. May be async.
        on_end: called with the end event of each run, exactly once per start. May be async.

    A listener that raises is logged and dropped; the run goes on.
    """
    return Lifecycle(on_start, on_end)
