"""Session files: what Claude Code left on disk, as events of the same kind as its live stream.

A session is ``<session>.jsonl``; its subagents are ``<session>/subagents/**/agent-<id>.jsonl``, each with a
``agent-<id>.meta.json`` that names the tool call that started it. A child's lines are read where its result stands in
its parent, so that its run lies inside the parent's, as it does live. Older versions wrote children into the session
file itself (``isSidechain``); those without an agent id are known by their chain of parent lines, and belong to the
call whose prompt they begin with, if there is exactly one.

There is no end record on disk: the end is recovered (`ending_of_transcript`). Lines of unknown types become `Notice`,
broken ones `Fault`, and a line whose uuid was read before (a resumed session restates its history) is left out.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lastsay.backends.claude._lines import decode_line
from lastsay.backends.claude._normaliser import Normaliser
from lastsay.backends.claude._wire import word_of
from lastsay.events import Event, Fault, LineFramer

__all__ = ("events_of", "looks_like", "read", "session_of")

_CHUNK: Final = 1024 * 1024
"""Bytes of one read."""
_FIRST_LINES: Final = 50
"""Lines that detection looks at."""
_STREAM_TYPES: Final = frozenset({"assistant", "result", "stream_event", "system", "user"})
_FINISHED: Final = frozenset({"stop_hook_summary", "turn_duration"})
"""System lines that an interactive session writes after a turn that came to its end."""
_DELEGATING: Final = frozenset({"Agent", "Task"})

OnRead = Callable[[int], None]


def events_of(path: Path, on_read: OnRead | None = None) -> Iterator[list[Event]]:
    """The events of one session with its subagents, of one subagent's file, or of a recorded stream of the CLI.

    Args:
        path: the file. The root's run id is the session's id; a child's is the tool call that started it.
        on_read: told now and then how many more bytes were read.

    Yields:
        non-empty lists of what was read together.

    Raises:
        OSError: it cannot be read.
    """
    return _Session(path, set(), on_read or _nobody).batches()


def read(paths: Iterable[Path]) -> Iterator[list[Event]]:
    """The events of several sessions, one after the other; a line that was read before is left out.

    Raises:
        OSError: a file cannot be read.
    """
    seen: set[str] = set()
    for path in paths:
        yield from _Session(path, seen, _nobody).batches()


def looks_like(start: bytes) -> bool:
    """Whether a file that begins with these bytes is a session file, or a recorded stream of the CLI."""
    framer = LineFramer()
    lines = framer.push(start) or framer.close()
    records = [decode_line(*item) for item in lines[:_FIRST_LINES] if not isinstance(item, Fault)]
    objects = [record for record in records if not isinstance(record, Fault)]
    known = sum(_is_ours(record) for record in objects)
    return bool(known) and 2 * known >= len(objects)


def _is_ours(record: dict[str, Any]) -> bool:
    kind = record.get("type")
    if not isinstance(kind, str):
        return False
    if isinstance(record.get("sessionId"), str) or kind in ("summary", "file-history-snapshot"):
        return "uuid" in record or "leafUuid" in record or "message" not in record
    return kind in _STREAM_TYPES and isinstance(record.get("session_id"), str)


def session_of(path: Path) -> Path | None:
    """The session file that a subagent's file belongs to, if it is there; None for any other file."""
    folder = next((above for above in path.parents if above.name == "subagents"), None)
    main = folder.parent.with_suffix(".jsonl") if folder is not None else None
    return main if main is not None and path.name.startswith("agent-") and main.is_file() else None


def _nobody(size: int) -> None:
    """Nobody listens."""


@dataclass(slots=True)
class _Child:
    """A subagent's file, and what stands beside it."""

    path: Path
    agent_id: str
    agent: str | None
    call: str | None
    finished: bool
    read: bool = False

    @staticmethod
    def of(path: Path) -> "_Child":
        meta: Any = None
        with suppress(OSError, ValueError):  # older versions write none
            meta = json.loads(path.with_suffix(".meta.json").read_bytes())
        fields = meta if isinstance(meta, dict) else {}
        agent, call = fields.get("agentType"), fields.get("toolUseId")
        return _Child(
            path,
            path.stem.removeprefix("agent-"),
            agent if isinstance(agent, str) else None,
            call if isinstance(call, str) else None,
            fields.get("finished") is True,
        )


class _Session:
    def __init__(self, path: Path, seen: set[str], on_read: OnRead) -> None:
        self._path = path
        self._seen = seen
        self._on_read = on_read
        self._normaliser: Normaliser | None = None
        self._early: list[Fault] = []
        self._on_disk = False  # session lines were seen, not a recorded stream
        self._finished = False
        folder = path.with_suffix("") / "subagents"
        self._children = [_Child.of(p) for p in sorted(folder.rglob("agent-*.jsonl"))] if folder.is_dir() else []
        self._by_call = {child.call: child for child in self._children if child.call is not None}
        self._prompts: dict[str, list[str]] = {}  # prompts of delegating calls that no chain has claimed
        self._chains: dict[str, str] = {}  # uuid of a line without agent id -> its child

    def batches(self) -> Iterator[list[Event]]:
        yield from self._file(self._path)
        for child in self._children:
            if not child.read:
                yield from self._read_child(child)
                yield from _some(self._retire(child))
        normaliser = self._ready({})
        yield from _some(normaliser.close(finished=self._finished if self._on_disk else None))

    def _file(self, path: Path) -> Iterator[list[Event]]:
        """The events of one file, and of the children whose results stand in it, in lists of what was read together."""
        for items in self._blocks(path):
            batch: list[Event] = []
            for item in items:
                for child in self._children_before(item):
                    yield from _some(batch)
                    batch = []
                    yield from self._read_child(child)
                batch += self._take(item)
            yield from _some(batch)

    def _blocks(self, path: Path) -> Iterator[list[dict[str, Any] | Fault]]:
        framer = LineFramer()
        with path.open("rb") as stream:
            while data := stream.read(_CHUNK):
                yield [_decoded(item) for item in framer.push(data)]
                self._on_read(len(data))
        yield [_truncated(_decoded(item)) for item in framer.close()]

    def _children_before(self, item: dict[str, Any] | Fault) -> list[_Child]:
        """The children whose results the line holds, and that were not read yet."""
        found = [self._by_call.get(call) for call in _results_in(item)] if self._by_call else []
        return [child for child in found if child is not None and not child.read]

    def _take(self, item: dict[str, Any] | Fault) -> list[Event]:
        if isinstance(item, Fault):
            if self._normaliser is None:
                self._early.append(item)  # whose line it is, is not known yet
                return []
            return self._normaliser.fault(item)
        normaliser = self._ready(item)
        if "sessionId" in item:
            self._on_disk = True
            uuid = item.get("uuid")
            if isinstance(uuid, str):
                if uuid in self._seen:
                    return []
                self._seen.add(uuid)
        if item.get("isSidechain") is True and "agentId" not in item:
            item = self._chained(item)
        events = normaliser.push(item)
        for call in _results_in(item):
            if call in self._by_call:
                events += self._retire(self._by_call[call])
        self._note(item)
        return events

    def _ready(self, item: dict[str, Any]) -> Normaliser:
        if self._normaliser is None:
            session = item.get("sessionId") or item.get("session_id")
            name = session if isinstance(session, str) else self._path.stem
            agent_id = item.get("agentId")
            if item.get("isSidechain") is True and isinstance(agent_id, str):
                own = _Child.of(self._path)
                self._normaliser = Normaliser(
                    own.call or agent_id, parent=name, agent=own.agent, call=own.call, agent_id=agent_id
                )
                self._finished = own.finished
            else:
                self._normaliser = Normaliser(name)
            for fault in self._early:
                self._normaliser.fault(fault)  # held until the run begins
        return self._normaliser

    def _read_child(self, child: _Child) -> Iterator[list[Event]]:
        child.read = True
        yield from _some(self._ready({"type": "child"}).announce(child.call, child.agent_id, child.agent))
        yield from self._file(child.path)

    def _retire(self, child: _Child) -> list[Event]:
        assert self._normaliser is not None
        return self._normaliser.retire(child.agent_id, finished=child.finished)

    def _note(self, item: dict[str, Any]) -> None:
        kind = word_of(item, "type")
        if kind == "assistant":
            for part in _parts(item):
                given = part.get("input")
                if (
                    word_of(part, "name") in _DELEGATING
                    and isinstance(given, dict)
                    and isinstance(given.get("prompt"), str)
                ):
                    self._prompts.setdefault(given["prompt"], []).append(str(part.get("id")))
        if item.get("isSidechain") is True:
            return
        if kind in ("assistant", "user"):
            self._finished = False
        elif kind == "system" and word_of(item, "subtype") in _FINISHED:
            self._finished = True

    def _chained(self, item: dict[str, Any]) -> dict[str, Any]:
        """The line of an older version's child with the id of its chain as agent id."""
        above, uuid = item.get("parentUuid"), str(item.get("uuid"))
        chain = self._chains.get(above) if isinstance(above, str) else None
        if chain is None:
            message = item.get("message")
            prompt = message.get("content") if isinstance(message, dict) else None
            calls = self._prompts.get(prompt, []) if isinstance(prompt, str) else []
            call = calls.pop() if len(calls) == 1 else None
            chain = f"sidechain-{uuid}"
            if call is not None:
                item = {**item, "parentToolUseID": call}
        self._chains[uuid] = chain
        return {**item, "agentId": chain}


def _some(events: list[Event]) -> Iterator[list[Event]]:
    if events:
        yield events


def _decoded(item: tuple[int, bytes] | Fault) -> dict[str, Any] | Fault:
    return item if isinstance(item, Fault) else decode_line(*item)


def _truncated(item: dict[str, Any] | Fault) -> dict[str, Any] | Fault:
    if isinstance(item, Fault) and item.kind == "invalid_json":
        return Fault("truncated_line", f"the input ends inside {item.detail}", item.line, item.raw)
    return item


def _parts(item: dict[str, Any]) -> list[dict[str, Any]]:
    message = item.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _results_in(item: dict[str, Any] | Fault) -> list[str]:
    if isinstance(item, Fault) or item.get("type") != "user":
        return []
    return [str(part.get("tool_use_id")) for part in _parts(item) if part.get("type") == "tool_result"]
