"""The SDK protocol of DeepSeek Harness (JSON-RPC 2.0, one object per line), as events. Without I/O.

The first session is the root, its run is called ``main``; every other session's run has the session's id. Frames of
both directions are pushed: a prompt starts an epoch of its session, and an answered `session/wait` ends it.

| frame | becomes |
|---|---|
| `session/prompt` request | RunStarted of a new root, or EpochStarted of one that had ended |
| `session/prompt` error | RunEnded, error |
| `session/wait` result | RunEnded of the root: it and all its managed children are quiet |
| `session/wait` error | nothing: this harness (0.1.5rc1, 0.1.1rc1) does not know the request, see `quiet` |
| `subagent.started` | RunStarted of the child; EpochStarted if it ran before: the harness has no run id on this wire |
| `session.event` | see `_session` |
| `subagent.finished` | Notice, then RunEnded of the child |
| `session.status` | Notice |
| `shutdown` request | nothing; what still runs after it was cancelled (there is no cancel request) |
| anything else | Notice (unknown) or Fault (broken) |

`subagent.finished` carries the harness's own choice of output. It stays in a Notice: the answer is folded from the
child's events like any other, and can be compared with it.

The tool call that caused a child is not on this wire. It is the only open one of the parent that could have; where
several are open (children in parallel), the child's RunStarted waits for its first event, whose prompt tells.
"""

from typing import Any, Final

from lastsay.backends.dsh._session import Session
from lastsay.backends.dsh._shapes import decoded
from lastsay.events import ERROR, MAIN, Event, Fault, Notice, RunEnded, RunStarted, ToolCall, ToolResult

__all__ = ("BACKEND", "WireNormaliser")

BACKEND: Final = "dsh"
_REQUESTS: Final = frozenset(
    {"initialize", "session/prompt", "session/resume", "session/wait", "session/working-directory/get",
     "session/working-directory/set", "shutdown"}
)  # fmt: skip
"""What a client can ask for. A request of another name comes from the harness."""


class WireNormaliser:
    """Turns frames into events: `push` each one, `close` at the end.

    Args:
        model: name of the model for RunStarted, where the `initialize` request is not pushed.
    """

    def __init__(self, model: str | None = None) -> None:
        self.sessions: dict[str, Session] = {}
        """By id, in the order of their first mention."""
        self.parents: dict[str, str] = {}
        """The parent of each child session."""
        self._root: str | None = None
        self._model = model
        self._running: set[str] = set()
        self._asked: dict[str, tuple[str, str | None]] = {}
        self._calls: dict[str, dict[str, ToolCall]] = {}
        self._unannounced: list[str] = []
        self._closed = False
        self._shut = False

    def push(self, raw: Any) -> list[Event]:
        """The events of one frame, decoded or as a line of JSON. Never raises."""
        frame = raw
        if isinstance(raw, (bytes, bytearray)):
            try:
                frame = decoded(bytes(raw))
            except (ValueError, RecursionError) as error:
                text = bytes(raw[:200]).decode("utf-8", "replace")
                return [Fault("invalid_json", f"not JSON: {error}", raw=text)]
        if not isinstance(frame, dict):
            kind = type(frame).__name__
            return [Fault("not_an_object", f"a JSON {kind} where an object was expected", raw=repr(frame)[:200])]
        method = frame.get("method")
        if not isinstance(method, str):
            return self._answered(frame) if method is None else [Notice("untyped", frame)]
        params = frame.get("params")
        params = params if isinstance(params, dict) else {}
        if "id" in frame:
            if method not in _REQUESTS:
                return [Notice("request", frame)]
            return self._asked_for(str(frame["id"]), method, params)
        return self._notified(method, params, frame)

    def quiet(self, session: str) -> bool:
        """Whether a root has come to rest: idle after a turn, and every child of it finished.

        For harnesses without `session/wait`. There is no later notice of a child to wait for: a settled child's notice
        makes the parent run before the child is reported finished (seen in 27 of 27 epochs of 0.1.5rc1 and 0.2.1rc2).
        """
        found = self.sessions.get(session)
        if found is None or found.ended or session in self._running or not found.work.turns or found.work.running:
            return False
        return all(self.sessions[child].ended for child in self._below(session) if child in self.sessions)

    def settle(self, session: str) -> list[Event]:
        """The end of a root's epoch, if it is open. The caller decides when: see `quiet`."""
        found = self.sessions.get(session)
        return found.end() if found is not None else []

    def push_record(self, session: str, kind: str, raw: Any, seq: int | None, time: float | None) -> list[Event]:
        """The events of a record of the session's durable log; none if the wire had it already.

        Args:
            session: the session's id.
            kind: the record's type.
            raw: its payload.
            seq: its number in the session.
            time: when it was written, in milliseconds since the epoch.
        """
        found, out = self._session(session)
        return [*out, *self._watched(found, found.push(kind, raw, seq, time))]

    def close(self, *, cancelled: bool = False, exit_status: int | None = None) -> list[Event]:
        """The ends of all that is open, children before their parents. A second call gives nothing.

        Args:
            cancelled: whether the caller had the run cancelled.
            exit_status: how the harness's process ended, if that is why the stream did.
        """
        if self._closed:
            return []
        self._closed = True
        out: list[Event] = []
        for child in list(self._unannounced):
            out += self._announce(child, None)
        for session in reversed(self.sessions.values()):
            out += session.end(cancelled=cancelled or self._shut, exit_status=exit_status)
        return out

    # Requests and their answers.

    def _asked_for(self, ident: str, method: str, params: dict[str, Any]) -> list[Event]:
        name = params.get("sessionId")
        session = name if isinstance(name, str) else None
        self._asked[ident] = (method, session)
        self._shut = self._shut or method == "shutdown"
        if method == "initialize" and isinstance(params.get("model"), str):
            self._model = params["model"]
        if session is None or method != "session/prompt":
            return []
        found, out = self._session(session)
        if found.work.turns and session not in self._running:
            out += found.end()
        return [*out, *found.begin_epoch()]

    def _answered(self, frame: dict[str, Any]) -> list[Event]:
        asked = self._asked.pop(str(frame.get("id")), None)
        if asked is None:
            return [Notice("unmatched_response" if "id" in frame else "untyped", frame)]
        method, session = asked
        found = self.sessions.get(session) if session is not None else None
        error = frame.get("error")
        if error is None:
            # A shutdown answers a waiting client as well, though the session was cut and not quiet (0.2.1rc2).
            quiet = method == "session/wait" and found is not None and not self._shut
            return found.end() if found is not None and quiet else []
        if method == "session/wait":
            return []
        if found is not None and not found.ended and not found.work.turns:
            found.ended = True
            said = error.get("message") if isinstance(error, dict) else error
            return [RunEnded(ERROR, diagnostic=f"{method}: {said}", raw="error", run=found.run)]
        return [Fault("request_failed", f"{method}: {error}"[:400])]

    # Notifications.

    def _notified(self, method: str, params: dict[str, Any], frame: dict[str, Any]) -> list[Event]:
        session = params.get("sessionId")
        if method == "session.event" and isinstance(session, str):
            return self._session_event(session, params.get("event"))
        if method == "session.status" and isinstance(session, str):
            return self._status(session, params)
        child = params.get("childSessionId")
        if method == "subagent.started" and isinstance(child, str):
            return self._child_started(child, params.get("parentSessionId"))
        if method == "subagent.finished" and isinstance(child, str):
            return self._child_finished(child, params)
        return [Notice(method, frame)]

    def _session_event(self, name: str, event: Any) -> list[Event]:
        if not isinstance(event, dict) or not isinstance(event.get("type"), str):
            return [Fault("invalid_event", f"session {name}: no type", raw=repr(event)[:200])]
        kind, data = event["type"], event.get("data")
        session, out = self._session(name, _prompt_of(data))
        seq, time = event.get("seq"), event.get("time")
        events = session.push(
            kind, data, seq if isinstance(seq, int) else None, time if isinstance(time, (int, float)) else None
        )
        return [*out, *self._watched(session, events)]

    def _watched(self, session: Session, events: list[Event]) -> list[Event]:
        """The events, after a look at the tool calls that may start children."""
        for event in events:
            if type(event) is ToolCall:
                self._calls.setdefault(session.run, {})[event.id] = event
            elif type(event) is ToolResult:
                self._calls.get(session.run, {}).pop(event.id, None)
        return events

    def _status(self, name: str, params: dict[str, Any]) -> list[Event]:
        if params.get("status") == "running":
            self._running.add(name)
        else:
            self._running.discard(name)
        if name in self._unannounced:
            return []  # it says nothing about which call the child belongs to
        session, out = self._session(name)
        return out if session.ended else [*out, Notice("session_status", params, run=session.run)]

    def _child_started(self, child: str, parent: Any) -> list[Event]:
        if child in self.sessions:
            known, out = self._session(child)
            return [*out, *known.end(), *known.begin_epoch()]
        above = parent if isinstance(parent, str) else None
        self.sessions[child] = Session(child, parent=above, marks_epochs=False)
        if above is not None:
            self.parents[child] = above
        able = self._able(child)
        if len(able) > 1:
            self._unannounced.append(child)
            return []
        return [self._started(child, next(iter(able), None))]

    def _able(self, child: str) -> dict[str, ToolCall]:
        """The open calls of the parent that may have caused the child: those that carry a prompt."""
        calls = self._calls.get(self._run_of(self.parents.get(child, "")), {})
        return {name: call for name, call in calls.items() if isinstance(call.input, dict) and "prompt" in call.input}

    def _announce(self, child: str, prompt: str | None) -> list[Event]:
        self._unannounced.remove(child)
        able = self._able(child)
        call = next(
            (name for name, call in able.items() if prompt is not None and call.input["prompt"] == prompt), None
        )
        return [self._started(child, call)]

    def _child_finished(self, child: str, params: dict[str, Any]) -> list[Event]:
        session, out = self._session(child)
        said = params.get("stopReason")
        if session.ended:
            return [*out, Fault("unexpected_end", "a second end of the same epoch", run=session.run)]
        notice = Notice("subagent_finished", params, run=session.run)
        return [*out, notice, *session.end(said if isinstance(said, str) else None)]

    # Sessions.

    def _session(self, name: str, prompt: str | None = None) -> tuple[Session, list[Event]]:
        """The session of that name, and its start where that has not been told. The prompt is a child's first one."""
        found = self.sessions.get(name)
        if found is not None:
            return found, self._announce(name, prompt) if name in self._unannounced else []
        if self._root is None:
            self._root = name
        session = self.sessions[name] = Session(self._run_of(name))
        return session, [self._started(name, None)]

    def _run_of(self, session: str) -> str:
        return MAIN if session == self._root else session

    def _started(self, name: str, call: str | None) -> RunStarted:
        parent = self.parents.get(name)
        above = self._run_of(parent) if parent is not None else None
        return RunStarted(parent=above, backend=BACKEND, model=self._model, call=call, run=self._run_of(name))

    def _below(self, session: str) -> list[str]:
        below: list[str] = []
        for child, parent in self.parents.items():
            if parent == session or parent in below:
                below.append(child)
        return below


def _prompt_of(data: Any) -> str | None:
    """The text of the first block of the first message that was put into the inbox."""
    try:
        text = data["inserted"][0]["content"][0]["text"]
    except (KeyError, IndexError, TypeError):
        return None
    return text if isinstance(text, str) else None
