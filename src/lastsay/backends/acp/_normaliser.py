"""The Agent Client Protocol, versions 1 and 2 (draft), as events. Sans-IO: frames in, events out.

The run begins when the session is known, and ends at `close`, not at the answer to the prompt: agents send updates
after it (agentclientprotocol/claude-agent-acp#824, anomalyco/opencode#17505), and their text counts.

| state      | left when                                                        | what comes meanwhile           |
|------------|------------------------------------------------------------------|--------------------------------|
| before     | ``session/new`` is answered, or any update comes unasked for     | held back, then told in order  |
| running    | protocol 1: the prompt is answered; 2: ``state_update`` idle with | told                           |
|            | a stop reason; an error; `lost`                                  |                                |
| answered   | `close`; protocol 2: back to running by ``state_update`` running | told, and counted as late      |
| closed     |                                                                  | dropped                        |

Child sessions are runs of their own: see `_children`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from lastsay.backends.acp._children import CHILD_UPDATES, Children, answer_of, ended, mapping
from lastsay.backends.acp._content import usage_of
from lastsay.backends.acp._frames import TextChunk, ThoughtChunk, decode_chunk, decode_line, is_frame
from lastsay.backends.acp._recovery import Agent, End, agent_named, end_of
from lastsay.backends.acp._session import Draft, Session
from lastsay.events import (
    ABORTED,
    ERROR,
    MAIN,
    Event,
    Fault,
    Notice,
    RunStarted,
    TextDelta,
    UsageReported,
)

__all__ = ("Normaliser",)

_HELD_LIMIT: Final = 10_000
"""Events held back before the session is known; with more than these, the run is begun without waiting."""


class Normaliser:
    """Normalises what one agent sends in one session and one turn.

    Feed it the agent's frames with `push` (or whole lines with `push_lines`), tell it ours with `sent`, and `close` it.
    Without `sent` it goes by the shape of answers, so that a log of the agent's side alone can be read.

    Args:
        session: the session's id, where it is known from the start.
        agent: the agent's name, where it is known from the start.

    Attributes:
        initialized: the answer to ``initialize``, or None.
        session: the session's id, or None.
        refused: the error that a request of ours got, by method.
        answered: how the turn ended, or None while it runs.
        inbox: frames of the agent that want an answer; whoever holds the connection takes them out.
    """

    def __init__(self, *, session: str | None = None, agent: str | None = None) -> None:
        self.initialized: dict[str, Any] | None = None
        self.session = session
        self.refused: dict[str, Any] = {}
        self.answered: End | None = None
        self.inbox: list[dict[str, Any]] = []
        self._agent_name = agent
        self._agent: Agent = agent_named(agent)
        self._model: str | None = None
        self._pending: dict[str, str] = {}
        self._asked = False
        self._cancelling = False
        self._main = Session(MAIN, self._agent)
        self._children = Children()
        self._nested = False  # the agent has child sessions
        self._held: list[Event] | None = []
        self._worked = False  # protocol 2: running was said
        self._late = 0
        self._late_characters = 0
        self._exit_status: int | None = None
        self._closed = False

    @property
    def protocol(self) -> int:
        """The protocol version that the agent chose; 1 until it is known."""
        version = (self.initialized or {}).get("protocolVersion")
        return version if isinstance(version, int) else 1

    @property
    def unanswered(self) -> list[str]:
        """The methods of our requests that were not answered yet."""
        return list(self._pending.values())

    def sent(self, frame: Mapping[str, Any]) -> None:
        """Take a frame that went to the agent: answers are told by the request, and a cancellation is known."""
        method, identity = frame.get("method"), frame.get("id")
        if method == "session/cancel":
            self._cancelling = True
        elif isinstance(method, str) and identity is not None:
            self._asked = True
            self._pending[str(identity)] = method

    def push(self, raw: Any) -> list[Event]:
        """The events of one frame: an object, or a line as bytes or text. Never raises."""
        if isinstance(raw, str):
            raw = raw.encode("utf-8", "surrogatepass")
        if isinstance(raw, (bytes, bytearray)):
            return self.push_lines([(None, bytes(raw))])
        out: list[Event] = []
        if not self._closed:
            if isinstance(raw, dict) and is_frame(raw):
                self._frame(raw, out)
            else:
                out.append(Fault("not_jsonrpc", "not a JSON-RPC frame", raw=repr(raw)[:200]))
        return self._released(out)

    def push_lines(self, lines: Iterable[tuple[int | None, bytes] | Fault]) -> list[Event]:
        """The events of numbered lines, in order; a `Fault` among them is passed on. Never raises."""
        out: list[Event] = []
        if self._closed:
            return out
        decode, append, main = decode_chunk, out.append, self._main
        draft: Draft | None = None  # the message that the pieces belong to, while they all belong to one
        for item in lines:
            if isinstance(item, Fault):
                append(item)
                continue
            try:
                frame = decode(item[1])
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                draft = None
                self._slow_line(item[1], item[0], out)
                continue
            params = frame.params
            update = params.update
            if update.meta is not None or frame.id is not None:
                draft = None
                self._slow_line(item[1], item[0], out)
            elif (
                draft is not None
                and update.message_id == draft.id
                and type(update) is TextChunk
                and params.session_id == self.session
            ):
                text = update.content.text
                if text:
                    draft.pieces.append(text)
                    append(TextDelta(text, draft.id))
            else:
                draft = self._chunk(params, out)
        main.settle()
        return self._released(out)

    def _chunk(self, params: Any, out: list[Event]) -> Draft | None:
        """Take a piece of text or reasoning; gives the message that was begun, if more pieces can simply be added."""
        update = params.update
        session = self._main if params.session_id == self.session else self._session(params.session_id, out)
        before = len(out)
        if type(update) is ThoughtChunk:
            session.thought(update.content.text, update.message_id, out)
        else:
            session.chunk(update.content.text, update.message_id, out)
        if self.answered is not None:
            self._count_late(out[before:])
            return None
        return session.plain() if session is self._main and type(update) is TextChunk else None

    def _count_late(self, events: list[Event]) -> None:
        self._late += 1
        self._late_characters += sum([len(event.text) for event in events if type(event) is TextDelta])

    def run_of(self, session: Any) -> str:
        """The run id of a session's events."""
        child = self._children.get(session) if isinstance(session, str) else None
        return MAIN if child is None else child.run

    def lost(self, *, exit_status: int | None = None) -> None:
        """The agent's output ended; if the turn was not answered, this is its end."""
        if self.answered is None:
            self._exit_status = exit_status  # an agent that fails after its answer has answered
            how = "closed its output" if exit_status is None else f"ended with exit status {exit_status}"
            if exit_status is not None and exit_status < 0:
                how = f"was ended by signal {-exit_status}"
            diagnostic = f"the agent {how} before it answered the prompt"
            self._answer(End(ABORTED if self._cancelling else ERROR, None, "unknown", diagnostic))

    def close(self) -> list[Event]:
        """The end of everything that is open. A second call gives nothing."""
        out: list[Event] = []
        if self._closed or (self._held is not None and not self._held and self.answered is None):
            self._closed = True
            return out
        self._begin(out)
        self._closed = True
        end = self.answered or End(
            ABORTED if self._cancelling else ERROR, None, "unknown", "the turn has no end record"
        )
        self._children.close(out)
        self._main.close(out, interrupted=end.stop_reason == ABORTED)
        if self._late:
            out.append(Notice("late", {"updates": self._late, "characters": self._late_characters}))
        out.append(ended(end, MAIN, self._exit_status))
        return out

    # Frames.

    def _slow_line(self, line: bytes, number: int | None, out: list[Event]) -> None:
        for part in decode_line(line, number):
            if isinstance(part, Fault):
                out.append(part)
            else:
                self._frame(part, out)

    def _frame(self, frame: dict[str, Any], out: list[Event]) -> None:
        method = frame.get("method")
        if not isinstance(method, str):
            self._response(frame, out)
        elif frame.get("id") is not None:
            self._request(method, frame, out)
        else:
            self._notification(method, frame, out)

    def _notification(self, method: str, frame: dict[str, Any], out: list[Event]) -> None:
        params = frame.get("params")
        fields: dict[str, Any] = params if isinstance(params, dict) else {}
        session_id = fields.get("sessionId")
        if method == "session/update":
            self._update(session_id, fields.get("update"), out)
        elif method.lstrip("_").endswith("session/retrying"):
            self._session(session_id, out).retry(out)
        else:
            if method == "$/cancel_request":
                self.inbox.append(frame)
            out.append(Notice(method, params))

    def _request(self, method: str, frame: dict[str, Any], out: list[Event]) -> None:
        self.inbox.append(frame)
        params = frame.get("params")
        fields: dict[str, Any] = params if isinstance(params, dict) else {}
        if method != "session/request_permission":
            out.append(Notice("agent_request", {"method": method, "params": params}))
            return
        session = self._session(fields.get("sessionId"), out)
        subject = fields.get("subject")
        call = subject.get("toolCall") if isinstance(subject, dict) else fields.get("toolCall")
        if isinstance(call, dict):
            session.tool(call, out)
        out.append(Notice("permission_request", params, run=MAIN if session.ended else session.run))

    def _response(self, frame: dict[str, Any], out: list[Event]) -> None:
        method = self._pending.pop(str(frame["id"]), None) or self._method_by_shape(frame)
        result = frame.get("result")
        if method is None:
            out.append(Fault("unmatched_response", f"an answer to nothing that was asked: id {frame['id']!r}"))
        elif method == "session/prompt":
            self._prompt_answer(frame, out)
        elif frame.get("error") is not None:
            self.refused[method] = frame["error"]
        elif method == "initialize":
            self._initialize(result if isinstance(result, dict) else {})
        elif method in ("session/new", "session/load", "session/resume"):
            self._open_session(result if isinstance(result, dict) else {}, out)
        else:
            out.append(Notice("response", {"method": method, "result": result}))

    def _method_by_shape(self, frame: dict[str, Any]) -> str | None:
        """What an answer answers, where our side of the conversation is not known."""
        if self._asked:
            return None
        result = frame.get("result")
        if not isinstance(result, dict):
            return "session/prompt" if "error" in frame else None
        keys = (("stopReason", "session/prompt"), ("protocolVersion", "initialize"), ("sessionId", "session/new"))
        return next((method for key, method in keys if key in result), None)

    def _initialize(self, result: dict[str, Any]) -> None:
        self.initialized = result
        info = result.get("agentInfo") or result.get("info")
        name = info.get("name") if isinstance(info, dict) else None
        if isinstance(name, str) and name:
            self._agent_name = name
            self._agent = self._main.agent = agent_named(name)
            self._main.expect_ids(ids=self._agent.ids)
        capabilities = result.get("agentCapabilities") or result.get("capabilities")
        known = mapping(capabilities)
        self._nested = "subagents" in known or "subagents" in _inner(known)

    def _open_session(self, result: dict[str, Any], out: list[Event]) -> None:
        session = result.get("sessionId")
        if isinstance(session, str):
            self.session = session
        models = result.get("models")
        model = models.get("currentModelId") if isinstance(models, dict) else None
        self._model = model if isinstance(model, str) else None
        self._begin(out)

    # Ends.

    def _prompt_answer(self, frame: dict[str, Any], out: list[Event]) -> None:
        result = frame.get("result")
        fields: dict[str, Any] = result if isinstance(result, dict) else {}
        usage = usage_of(fields.get("usage"))
        if usage is not None:
            message = self._main.message if self._agent.usage_of_last_call else None
            out.append(UsageReported(usage, message))
        only_accepted = (self.protocol >= 2 or self._worked) and "stopReason" not in fields and not frame.get("error")
        if only_accepted:
            out.append(Notice("prompt_accepted", result))
            return
        merged = {**self._main.meta, **mapping(fields.get("_meta"))}
        answer = {**frame, "result": {**fields, "_meta": merged}}
        self._answer(end_of(answer, self._agent, cancelling=self._cancelling))

    def _answer(self, end: End) -> None:
        self.answered = end

    def _state(self, update: Mapping[str, Any], out: list[Event]) -> None:
        """Protocol 2: the state of the session decides when the turn ends."""
        state = update.get("state")
        out.append(Notice("state_update", dict(update)))
        if state == "running":
            self._worked = True
            self.answered, self._late, self._late_characters = None, 0, 0
        elif state == "idle" and ("stopReason" in update or update.get("error") or self._worked):
            self._answer(end_of(answer_of(update), self._agent, cancelling=self._cancelling))

    # Sessions.

    def _update(self, session_id: Any, update: Any, out: list[Event]) -> None:
        kind = update.get("sessionUpdate") if isinstance(update, dict) else None
        if kind in CHILD_UPDATES and update.get("sessionId") != self.session:
            self._nested = True
            parent = self._session(session_id, out).run
            self._children.patch(update, parent, self._agent, out, cancelling=self._cancelling)
            return
        session = self._session(session_id, out)
        before = len(out)
        if kind == "state_update":
            if session is self._main:
                self._state(update, out)
            else:
                out.append(Notice("state_update", dict(update)))
                self._children.state(session.run, update, out, cancelling=self._cancelling)
        else:
            session.push(update, out)
            if self.answered is not None:
                self._count_late(out[before:])

    def _session(self, session_id: Any, out: list[Event]) -> Session:
        """The session of that id. An agent without child sessions has one only, whatever id it writes."""
        if session_id == self.session or not isinstance(session_id, str):
            return self._main
        child = self._children.get(session_id)
        if child is not None:
            return child
        opening = "session/new" in self._pending.values() or self.session is None
        if opening or not self._nested:
            return self._main
        return self._children.start(session_id, MAIN, self._agent, {}, out)

    # The beginning.

    def _begin(self, out: list[Event]) -> None:
        """Put the start, and what was held back, before what is in `out`."""
        if self._held is None:
            return
        version = self.initialized or {}
        info = mapping(version.get("agentInfo") or version.get("info"))
        start = RunStarted(agent=self._agent_name, backend="acp", model=self._model)
        about: list[Event] = [Notice("agent_info", dict(info))] if info else []
        out[:0] = [start, *about, *self._held]
        self._held = None

    def _released(self, out: list[Event]) -> list[Event]:
        """What may be told now: everything once the run has begun."""
        if self._held is None:
            return out
        unasked = (self.session is not None or not self._asked) and any(type(event) is not Fault for event in out)
        if unasked or self.answered is not None or len(self._held) + len(out) > _HELD_LIMIT:
            self._begin(out)
            return out
        self._held += out
        return []


def _inner(capabilities: Mapping[str, Any]) -> set[str]:
    return {key for value in capabilities.values() if isinstance(value, dict) for key in value}
