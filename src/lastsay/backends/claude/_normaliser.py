"""Claude records to events: which run a record belongs to, when runs begin and when they end.

One object serves the CLI's stream, the SDK's messages and the lines of session files. Rules (Claude Code 2.1.269 to
2.1.332):

* The root is one run; each subagent is one. A child is known by its agent id and by the tool call that started it; its
  run id is that call's id. The parent is the run that made the call.
* A child in the foreground ends with the tool result of its call, one in the background with its task's notification:
  its tool result is only a launch note.
* A result record is not the end while a background child is open, or while the CLI says that it is still at work
  (``session_state_changed``): a finished child wakes its parent for another turn, with another result record.
* After the root's end, another turn is a new epoch.
* What comes before the root's first event or after its last one is held: a `RunStarted` is first, a `RunEnded` last.
* `close` ends what is open: a run without an end record was killed, or its transcript was left in the middle.

    record                      events
    system/init                 RunStarted (root), later ones Notice
    stream_event                MessageStarted, TextDelta, ReasoningDelta, Message
    assistant                   Message, ToolCall
    user, tool_result block     ToolResult; RunEnded of the child
    user, text                  Notice user_message (``meta`` marks what the harness injected) or woken
    system/task_started         Notice task_started; RunStarted (child)
    system/task_updated, ...    Notice task_ended; RunEnded (child in the background)
    system/api_retry            AttemptAborted, Notice
    result                      UsageReported, RunEnded (root)
    anything else               Notice
"""

from typing import Any, Final

from lastsay.backends.claude._blocks import blocks_of, summed, usage_of
from lastsay.backends.claude._ends import child_end, lost_end, result_end
from lastsay.backends.claude._run import Run
from lastsay.backends.claude._wire import is_launch_note, moment_of, native_of, record_of, word_of
from lastsay.events import (
    ABORTED,
    MAIN,
    EpochStarted,
    Event,
    Fault,
    Notice,
    RunStarted,
    ToolResult,
    Usage,
    UsageReported,
)

__all__ = ("Normaliser",)

_DELEGATING: Final = frozenset({"Agent", "Task"})
_AGENT_TASKS: Final = frozenset({"local_agent", "local_workflow"})
"""Kinds of background work whose end wakes the parent. Shells and monitors may never end."""
_SETTLED: Final = frozenset({"completed", "failed", "killed", "stopped"})
_TURN: Final = frozenset({"assistant", "stream_event", "user", "result"})


class Normaliser:
    """Turns Claude records, SDK messages and session lines into events; never raises on odd input.

    Args:
        run: run id of the root.
        parent: run id of the root's own parent, where the whole stream is a child's.
        agent: name of the root's agent.
        call: tool call id of the parent that caused the root run.
        agent_id: the harness's id of the root, where the whole stream is a child's.
        backend: name of the backend in `RunStarted`.
    """

    def __init__(
        self,
        run: str = MAIN,
        *,
        parent: str | None = None,
        agent: str | None = None,
        call: str | None = None,
        agent_id: str | None = None,
        backend: str = "claude",
    ) -> None:
        self.version: str | None = None  # of the CLI, once it has said so
        self._identity = (parent, agent, call, backend)
        self._root = Run(run)
        self._runs: dict[str, Run] = {run: self._root}
        self._started = False
        self._closed = False
        self._held: list[Event] = []
        self._agents: dict[str, Run] = {}  # by agent id
        if agent_id is not None:
            self._agents[agent_id] = self._root
        self._children: dict[str, Run] = {}  # by the call that started them
        self._callers: dict[str, Run] = {}  # which run made a call
        self._delegations: dict[str, str | None] = {}  # calls of a delegating tool and the agent they name
        self._unclaimed: dict[str, tuple[str, str | None]] = {}  # task and agent of calls that nobody is known to make
        self._tasks: dict[str, str] = {}  # open tasks and their kind
        self._settled: set[str] = set()
        self._result: dict[str, Any] | None = None
        self._usage: Usage | None = None
        self._busy = False  # what the CLI says about itself, once it does
        self._woken = False

    @property
    def root(self) -> str:
        """The run id of the root."""
        return self._root.id

    @property
    def ended(self) -> bool:
        """Whether the root has ended and no epoch was begun since."""
        return self._started and not self._root.open

    # Input.

    def push(self, raw: Any) -> list[Event]:
        """The events of one record, SDK message or session line.

        Args:
            raw: the record, decoded. What is not an object becomes a `Fault`.
        """
        out: list[Event] = []
        if type(raw) is dict and raw.get("type") == "stream_event" and self._is_plain(raw):
            self._root.stream_event(raw["event"], out)
            return out
        if raw is None or isinstance(raw, str | bytes | int | float | list):
            out.append(Fault("not_an_object", f"a {type(raw).__name__} where a record was expected", run=self.root))
            return self._hold(out)
        record = record_of(raw)
        kind = word_of(record, "type")
        if kind == "system":
            self._system(record, out)
            return out
        if kind not in _TURN:
            return self._hold([Notice(kind or "untyped", record, run=self.root)])
        run = self._run_of(record, out)
        if run is None:
            return out
        if kind == "stream_event":
            event = record.get("event")
            if isinstance(event, dict):
                run.stream_event(event, out)
        elif kind == "assistant":
            run.assistant(record, out)
            self._note_calls(run, record, out)
        elif kind == "user":
            self._user(run, record, out)
        else:
            self._take_result(record, out)
        return out

    def _is_plain(self, raw: dict[str, Any]) -> bool:
        """Whether the record is the next event of a root that is open: nearly all records of a stream are."""
        root = self._root
        children = raw.get("parent_tool_use_id") or raw.get("agent_id")
        return self._started and root.open and not children and type(raw.get("event")) is dict

    def fault(self, fault: Fault) -> list[Event]:
        """A fault of the bytes beneath, in its place between the events."""
        return self._hold([fault])

    def close(
        self, *, exit_status: int | None = None, detail: str | None = None, finished: bool | None = None
    ) -> list[Event]:
        """End what is open; the second call gives nothing.

        Args:
            exit_status: how the CLI's process ended; negative for a signal.
            detail: what is known about a failure, e.g. the tail of standard error.
            finished: for a transcript, whether something outside it says that the run was finished. None: the input was
                a live stream, whose end record is missing if the root is still open.
        """
        out: list[Event] = []
        if self._closed:
            return out
        self._closed = True
        if not self._started:
            return [event for event in self._held if type(event) is Fault]
        if self._result is not None:
            self._end_root(out)
            return out
        for child in self._open_children():
            self._end_lost(child, out, exit_status=exit_status, detail=detail, finished=finished)
        if self._root.open:
            self._end_lost(self._root, out, exit_status=exit_status, detail=detail, finished=finished)
        return out

    def announce(self, call: str | None, agent_id: str, agent: str | None) -> list[Event]:
        """Begin a child that is known from elsewhere than the stream (its own transcript).

        Args:
            call: the tool call that started it; None where it is not known.
            agent_id: the harness's id of the child.
            agent: its kind.
        """
        out: list[Event] = []
        self._begin(out)
        self._child(call or agent_id, agent_id, agent, out)
        return out

    def retire(self, agent_id: str, *, finished: bool) -> list[Event]:
        """End a child whose own transcript is at its end, and of whose end its parent says nothing.

        Args:
            agent_id: the harness's id of the child.
            finished: whether something outside the transcript says that it was finished.
        """
        out: list[Event] = []
        child = self._agents.get(agent_id)
        if child is not None and child.open:
            self._end_lost(child, out, finished=finished)
        return out

    # Which run, and its beginning.

    def _hold(self, events: list[Event]) -> list[Event]:
        if self._started and self._root.open:
            return events
        self._held += events
        return []

    def _begin(self, out: list[Event], model: str | None = None, time: float | None = None) -> None:
        root = self._root
        if not self._started:
            self._started = True
            parent, agent, call, backend = self._identity
            out.append(RunStarted(parent, agent, backend, model, call=call, time=time, run=root.id))
        elif not root.open and not self._closed:
            root.open = True
            root.epoch += 1
            root.begin_epoch()
            out.append(EpochStarted(root.epoch, run=root.id))
        out += self._held
        self._held.clear()

    def _run_of(self, record: dict[str, Any], out: list[Event]) -> Run | None:
        """The run of a record; None for one that came after its run's end (kept as a `Notice`)."""
        agent_id, call = record.get("agent_id"), record.get("parent_tool_use_id")
        run = self._root
        if isinstance(agent_id, str) or isinstance(call, str):
            known = self._agents.get(agent_id) if isinstance(agent_id, str) else None
            run = known if known is not None else self._child_of(record, agent_id, call, out)
        moment = moment_of(record) if record.get("line") else None
        if run is self._root:
            if self._is_late(record):
                self._hold([Notice(f"late_{record['type']}", record, run=self.root)])
                return None
            self._begin_turn(record, out, moment)
        elif not run.open:
            out += self._hold([Notice(f"late_{record['type']}", record, run=run.id)])
            return None
        run.time = moment or run.time
        return run

    def _child_of(self, record: dict[str, Any], agent_id: Any, call: Any, out: list[Event]) -> Run:
        self._begin(out)
        named = record.get("subagent_type")
        return self._child(
            call if isinstance(call, str) else str(agent_id),
            agent_id if isinstance(agent_id, str) else None,
            named if isinstance(named, str) else None,
            out,
        )

    def _is_late(self, record: dict[str, Any]) -> bool:
        """Whether the record belongs to a turn of the root that has ended: a second result, words of the harness."""
        if not self._started or self._root.open:
            return False
        kind = record["type"]
        return kind == "result" or (kind == "user" and not record.get("isReplay"))

    def _begin_turn(self, record: dict[str, Any], out: list[Event], moment: float | None) -> None:
        if not (self._started and self._root.open):
            inner = record.get("message")
            model = inner.get("model") if isinstance(inner, dict) else None
            self._begin(out, model if isinstance(model, str) and model != "<synthetic>" else None, moment)

    def _child(self, call: str, agent_id: str | None, agent: str | None, out: list[Event]) -> Run:
        child = self._children.get(call)
        if call in self._unclaimed:
            agent_id, agent = self._unclaimed.pop(call)
        if child is None:
            child = self._children[call] = self._runs[call] = Run(call)
            child.call = call
            parent = self._callers.get(call, self._root)
            kind = agent or self._delegations.get(call)
            out.append(
                RunStarted(parent.id, kind, self._identity[3], call=call if call != agent_id else None, run=call)
            )
        if agent_id is not None:
            child.agent_id = agent_id
            self._agents[agent_id] = child
        return child

    def _note_calls(self, run: Run, record: dict[str, Any], out: list[Event]) -> None:
        message = record.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        for part in content if isinstance(content, list) else ():
            if isinstance(part, dict) and part.get("type") == "tool_use" and isinstance(part.get("id"), str):
                self._callers[part["id"]] = run
                if word_of(part, "name") in _DELEGATING:
                    given = part.get("input")
                    agent = given.get("subagent_type") if isinstance(given, dict) else None
                    self._delegations[part["id"]] = agent if isinstance(agent, str) else None
                    if part["id"] in self._unclaimed:
                        self._child(part["id"], None, None, out)

    # User records.

    def _user(self, run: Run, record: dict[str, Any], out: list[Event]) -> None:
        message = record.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        parts = content if isinstance(content, list) else [content]
        results = [p for p in parts if isinstance(p, dict) and p.get("type") == "tool_result"]
        for part in results:
            self._tool_result(run, part, record, out)
        if len(results) < len(parts):
            self._user_text(run, record, out)

    def _user_text(self, run: Run, record: dict[str, Any], out: list[Event]) -> None:
        origin = record.get("origin")
        kind = origin.get("kind") if isinstance(origin, dict) else None
        injected = bool(record.get("isSynthetic"))
        if run is self._root and not record.get("line") and not record.get("isReplay") and kind is None:
            injected = True  # the CLI does not echo what its host wrote: without the mark, it is the harness speaking
        run.settle(out)
        if kind is not None and kind != "human":
            # A finished child, a peer or a schedule wakes the run: a new turn, but no words of the user.
            out.append(Notice("woken", record, run=run.id))
            return
        if injected:
            run.injected(interrupt=bool(record.get("interrupt")))
            record = {**record, "meta": True}
        out.append(Notice("user_message", record, run=run.id))

    def _tool_result(self, run: Run, part: dict[str, Any], record: dict[str, Any], out: list[Event]) -> None:
        call = str(part.get("tool_use_id", ""))
        native = native_of(part, record)
        run.settle(out)
        child = self._children.get(call)
        told = native["tool_use_result"]
        if child is None and call in self._delegations and isinstance(told, dict) and told.get("agentId"):
            agent_id = str(told["agentId"])
            child = self._agents.get(agent_id) or self._child(call, agent_id, None, out)
        if child is not None and is_launch_note(told):
            child.launched = True
        elif child is not None and child.open:
            self._end_child(child, out, native=native)
        content = blocks_of(part.get("content"))
        out.append(ToolResult(call, content, part.get("is_error") is True, native, run=run.id))

    # System records.

    def _system(self, record: dict[str, Any], out: list[Event]) -> None:
        subtype = str(record.get("subtype") or "system")
        if subtype == "init":
            self._init(record, out)
        elif subtype == "session_state_changed":
            self._state(record, out)
        elif subtype.startswith("task_") and isinstance(record.get("task_id"), str):
            if not self._started:
                self._begin(out)
            self._task(subtype, record, out)
        else:
            if subtype == "api_retry" and self._started:
                self._root.retry("api_retry", out)
            out += self._hold([Notice(subtype, record, run=self.root)])

    def _init(self, record: dict[str, Any], out: list[Event]) -> None:
        version, model = record.get("claude_code_version"), record.get("model")
        self.version = version if isinstance(version, str) else self.version
        if self._result is not None:
            if self._woken or self._open_agents():
                out.append(Notice("result", self._result, run=self.root))
                self._result = None
            else:
                self._end_root(out)
        self._woken = False
        if not (self._started and self._root.open):
            self._begin(out, model if isinstance(model, str) else None)
        out.append(Notice("init", record, run=self.root))

    def _state(self, record: dict[str, Any], out: list[Event]) -> None:
        self._busy = record.get("state") != "idle"
        if not record.get("sdk_host_only"):
            out += self._hold([Notice("session_state_changed", record, run=self.root)])
        self._maybe_end_root(out)

    def _task(self, subtype: str, record: dict[str, Any], out: list[Event]) -> None:
        task = record["task_id"]
        run = self._task_run(record, out)
        if subtype == "task_started":
            self._settled.discard(task)
            self._tasks[task] = word_of(record, "task_type")
            out.append(Notice("task_started", {**record, "id": task}, run=self.root))
            return
        patch = record.get("patch")
        status = word_of(patch if isinstance(patch, dict) else record, "status")
        if status in _SETTLED:
            self._settle_task(task, status, run, out)
        if subtype == "task_notification":
            self._notified(run, record, out)
        out += self._hold([Notice(subtype, record, run=self.root)])

    def _task_run(self, record: dict[str, Any], out: list[Event]) -> Run | None:
        """The child that a task runs, begun if need be; None for work that is no agent."""
        task, call = record["task_id"], record.get("tool_use_id")
        known = self._agents.get(task)
        if record.get("subtype") != "task_started":
            if isinstance(call, str) and call in self._unclaimed and word_of(record, "status") in _SETTLED:
                return self._child(call, None, None, out)
            return known or (self._children.get(call) if isinstance(call, str) else None)
        if word_of(record, "task_type") not in _AGENT_TASKS:
            return None
        if known is not None and not known.open:
            known.open = True
            known.epoch += 1
            known.begin_epoch()
            out.append(EpochStarted(known.epoch, run=known.id))
        if known is not None:
            return known
        agent = word_of(record, "subagent_type") or None
        key = call if isinstance(call, str) else task
        depth = record.get("spawn_depth")
        if key not in self._callers and isinstance(depth, int) and depth > 1:
            # A child's child: its task can come before the record of the call (2.1.269), which alone names the parent.
            self._unclaimed[key] = (task, agent)
            return None
        return self._child(key, task, agent, out)

    def _settle_task(self, task: str, status: str, run: Run | None, out: list[Event]) -> None:
        if run is not None and run.status is None:
            run.status = status
        if task in self._settled:
            return
        self._settled.add(task)
        if self._tasks.pop(task, None) in _AGENT_TASKS:
            self._woken = True
        out += self._hold([Notice("task_ended", {"id": task, "status": status}, run=self.root)])

    def _notified(self, run: Run | None, record: dict[str, Any], out: list[Event]) -> None:
        if run is None or not run.open:
            return
        summary = record.get("summary")
        run.status_text = summary if isinstance(summary, str) else None
        if run.launched:
            self._end_child(run, out, native=None)

    # Ends.

    def _take_result(self, record: dict[str, Any], out: list[Event]) -> None:
        turn = usage_of(record.get("usage"))
        if turn is not None:
            self._usage = turn if self._usage is None else summed(self._usage, turn)
        if self._result is not None:
            out.append(Notice("result", self._result, run=self.root))
        self._result = record
        self._maybe_end_root(out)

    def _maybe_end_root(self, out: list[Event]) -> None:
        if self._result is not None and not self._busy and not self._open_agents():
            self._end_root(out)

    def _end_root(self, out: list[Event]) -> None:
        record, self._result = self._result or {}, None
        root, usage = self._root, self._usage
        root.finish(out)
        end = result_end(root, record)
        for child in self._open_children():
            self._end_lost(child, out, aborted=end.stop_reason == ABORTED)
        if usage is not None and usage.output_tokens:  # the result of an interrupt counts nothing
            out.append(UsageReported(usage, run=root.id))
        self._usage = None
        root.open = False
        out.append(end)

    def _end_child(self, child: Run, out: list[Event], native: dict[str, Any] | None) -> None:
        child.finish(out)
        child.open = False
        out.append(child_end(child, native))

    def _end_lost(self, run: Run, out: list[Event], **known: Any) -> None:
        run.finish(out)
        run.open = False
        out.append(lost_end(run, **known))

    def _open_children(self) -> list[Run]:
        return [run for run in reversed(self._runs.values()) if run.open and run is not self._root]

    def _open_agents(self) -> bool:
        return any(kind in _AGENT_TASKS for kind in self._tasks.values())
