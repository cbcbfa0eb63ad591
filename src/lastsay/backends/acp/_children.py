"""Child sessions as runs of their own (draft, agent-client-protocol#1992).

``subagent_update`` comes on the parent's session. It is a patch: a title, a state, or both. A state is an object
(``{"state": "idle", "stopReason": "end_turn"}``); in an older draft, which some agents still speak, it is a word, and
there are ``subagent_spawned`` and ``subagent_state_update``. Protocol 2's ``state_update`` on the child's own session
ends it too.

| the child   | by                                              | what is told            |
|-------------|-------------------------------------------------|-------------------------|
| starts      | its first patch, or its first update            | RunStarted              |
| ends        | a state that is not one of work                 | its messages, RunEnded  |
| goes on     | running, after an end                           | EpochStarted            |
| is aborted  | the end of its parent                           | its messages, RunEnded  |

What comes for a child that has ended is kept as a `Notice` of the root.
"""

from collections.abc import Mapping
from typing import Any, Final

from lastsay.backends.acp._recovery import Agent, End, end_of
from lastsay.backends.acp._session import Session
from lastsay.events import ABORTED, EpochStarted, Event, Notice, RunEnded, RunStarted

__all__ = ("CHILD_UPDATES", "Children", "answer_of", "ended", "mapping")

CHILD_UPDATES: Final = ("subagent_update", "subagent_spawned", "subagent_state_update")
"""The current draft's update, and two of an older one."""
_WORKING: Final = ("running", "requires_action", "pending", "in_progress")
"""States of a child that has not ended."""


class Children:
    """The child sessions of one connection, by their id, which is their run id too."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._epochs: dict[str, int] = {}

    def get(self, session_id: str) -> Session | None:
        """The child's session, if there is one of that id."""
        return self._sessions.get(session_id)

    def start(self, run: str, parent: str, agent: Agent, about: Mapping[str, Any], out: list[Event]) -> Session:
        """Begin a child."""
        session = self._sessions[run] = Session(run, agent)
        title = about.get("title") or about.get("name")
        name = title if isinstance(title, str) else None
        out.append(RunStarted(run=run, parent=parent, agent=name, backend="acp", call=_call_of(about)))
        return session

    def patch(
        self, update: Mapping[str, Any], parent: str, agent: Agent, out: list[Event], *, cancelling: bool
    ) -> None:
        """Take a patch to a child that came on the session of the run `parent`."""
        child = update.get("sessionId") or update.get("subagentSessionId")
        if not isinstance(child, str):
            out.append(Notice("subagent_update", dict(update), run=parent))
            return
        if child not in self._sessions:
            self.start(child, parent, agent, update, out)
        out.append(Notice("subagent_update", dict(update)))
        state = update.get("state")
        self.state(child, state if isinstance(state, Mapping) else update, out, cancelling=cancelling)

    def state(self, run: str, update: Mapping[str, Any], out: list[Event], *, cancelling: bool) -> None:
        """Take a child's new state."""
        session = self._sessions[run]
        state = update.get("state")
        if state == "running" and session.ended:
            session.ended = False
            self._epochs[run] = self._epochs.get(run, 0) + 1
            out.append(EpochStarted(self._epochs[run], run=run))
        elif isinstance(state, str) and state not in _WORKING and not session.ended:
            answer = answer_of(update)
            if "stopReason" not in update and state != "idle":
                answer = {"result": {"stopReason": state}}  # completed, failed, cancelled: the state is the word
            self._end(session, end_of(answer, session.agent, cancelling=cancelling), out)

    def close(self, out: list[Event]) -> None:
        """The parent ended: so do those that are open, children before their parents."""
        for session in reversed(self._sessions.values()):
            if not session.ended:
                self._end(session, End(ABORTED, None, "recovered", "the parent ended first"), out)

    @staticmethod
    def _end(session: Session, end: End, out: list[Event]) -> None:
        session.close(out, interrupted=end.stop_reason == ABORTED)
        out.append(ended(end, session.run))


def ended(end: End, run: str, exit_status: int | None = None) -> RunEnded:
    """The event for an end."""
    return RunEnded(
        end.stop_reason,
        diagnostic=end.diagnostic,
        raw=end.raw,
        provenance=end.provenance,
        exit_status=exit_status,
        run=run,
    )


def answer_of(update: Mapping[str, Any]) -> dict[str, Any]:
    """A state update in the form of an answer to the prompt."""
    error = update.get("error")
    stop = update.get("stopReason")
    if error is not None:
        return {"error": error}
    if stop == "error":
        return {"error": {"message": "the agent ended the turn with an error"}}
    return {"result": {"stopReason": stop, "_meta": update.get("_meta")}}


def mapping(value: Any) -> Mapping[str, Any]:
    """The value, if it is a mapping; else an empty one."""
    return value if isinstance(value, Mapping) else {}


def _call_of(update: Mapping[str, Any]) -> str | None:
    """The parent's tool call that started a child, which only vendors' own fields tell."""
    vendors = [value for value in mapping(update.get("_meta")).values() if isinstance(value, Mapping)]
    keys = ("toolCallId", "parentToolCallId", "parentToolUseId")
    found = [fields.get(key) for fields in (update, *vendors) for key in keys]
    return next((call for call in found if isinstance(call, str)), None)
