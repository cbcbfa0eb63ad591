"""The durable log of a session (one file, one session) and recorded frames of the SDK protocol, as events.

A log is a header line and one line per event; in generation A, runs of pieces are packed into rows that hold the number
of their first piece (`seq0`). The header names the format version: 0 to 4 were seen. The events are read by their own
shape, so a version that is not known is read as well, after a `Fault` that says so.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from lastsay.backends.dsh._session import Session
from lastsay.backends.dsh._shapes import PackedRow, RowEnvelope, SessionHeader, decoded, typed
from lastsay.backends.dsh._wire import BACKEND, WireNormaliser
from lastsay.backends.dsh._zstd import MAGIC, PlainBytes, first_block
from lastsay.events import MAIN, Event, Fault, LineFramer, RunStarted

__all__ = ("KNOWN_VERSIONS", "LogNormaliser", "LogReader", "events_of", "looks_like", "recognises")

_BLOCK: Final = 1024 * 1024
"""Bytes that are read in one go."""
_TEXT_ROW: Final = b'{"type":"text-chunks",'
"""How the harness writes the beginning of a packed row of text. One that is written otherwise is read all the same."""
_METHODS: Final = frozenset(
    {"session.event", "session.status", "session/prompt", "subagent.finished", "subagent.started"}
)
KNOWN_VERSIONS: Final = range(5)
"""Format versions that were seen: 0 in 0.1.1rc1, 3 in 0.1.5rc1, 4 in 0.2.1rc2; 1 and 2 in their migrations."""


class LogNormaliser:
    """Turns the lines of one log into events: `push` each one, `close` at the end. Without I/O.

    Args:
        resumed: the lines that follow the header begin somewhere after the copied history of a fork.
        pieces: whether each streamed piece becomes an event of its own, see `LogReader`.
    """

    def __init__(self, *, resumed: bool = False, pieces: bool = True) -> None:
        self._resumed = resumed
        self._pieces = pieces
        self._session: Session | None = None
        self._closed = False

    def push(self, raw: Any, number: int | None = None) -> list[Event]:
        """The events of one line, or of the object decoded from it. Never raises.

        Args:
            raw: the line without its LF, or a decoded object.
            number: the line's number, from 1, for a `Fault`.
        """
        session = self._session
        try:
            if session is not None and type(raw) is bytes and raw.startswith(_TEXT_ROW):
                texts = session.push_texts(typed(raw, PackedRow))
                if texts is not None:
                    return texts
            row = typed(raw, RowEnvelope)
            if row.type == "session":
                return self._begin(typed(raw, SessionHeader))
        except (ValueError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            where = f"line {number}: " if number is not None else ""
            kind = "invalid_event" if isinstance(error, msgspec.ValidationError) else "invalid_json"
            text = raw[:200].decode("utf-8", "replace") if isinstance(raw, bytes) else repr(raw)[:200]
            run = session.run if session is not None else MAIN
            return [Fault(kind, f"{where}{error}"[:400], number, text, run=run)]
        out: list[Event] = []
        if session is None:
            session = self._session = Session(MAIN, pieces=self._pieces)
            out = [
                RunStarted(backend=BACKEND),
                Fault("missing_header", "the log does not begin with its header: its session is called main", number),
            ]
        events = session.push(row.type, row.data, row.seq if row.seq0 is None else row.seq0, row.time)
        return [*out, *events] if out else events

    def close(self) -> list[Event]:
        """The end of the run, if the log held one and it is open. A second call gives nothing."""
        if self._closed or self._session is None:
            return []
        self._closed = True
        return self._session.end()

    def _begin(self, header: SessionHeader) -> list[Event]:
        if self._session is not None:
            return [Fault("second_header", f"a second header, of session {header.id}", run=self._session.run)]
        self._session = Session(
            header.id,
            parent=header.parent_session,
            seeded=header.is_seeded and not self._resumed,
            seed_length=None if self._resumed else header.seed_length,
            pieces=self._pieces,
        )
        time = header.created_at / 1000 if header.created_at is not None else None
        started = RunStarted(parent=header.parent_session, backend=BACKEND, run=header.id, time=time)
        if header.version is None or header.version in KNOWN_VERSIONS:
            return [started]
        detail = f"log format version {header.version} is newer than this reader knows; it is read as it looks"
        return [started, Fault("unknown_version", detail, run=header.id)]


class LogReader:
    """Turns the bytes of one file into events: `push` each block, `close` at the end.

    The file is a log, or recorded frames of the SDK protocol (a JSON-RPC object per line, or rows that hold one under
    `frame`), plain or zstd. Only a missing zstandard is raised, everything else becomes a `Fault`.

    Args:
        pieces: whether each streamed piece of text becomes an event of its own. In a log nobody waits for the pieces,
            so by default those that the harness packed together are one event: the text is the same.
    """

    __slots__ = ("_framer", "_pieces", "_plain", "_reader")

    def __init__(self, *, pieces: bool = False) -> None:
        self._pieces = pieces
        self._plain = PlainBytes()
        self._framer = LineFramer()
        self._reader: LogNormaliser | _Frames | None = None

    def push(self, data: bytes) -> list[Event]:
        """The events that are complete with `data`.

        Raises:
            MissingExtraError: the file is compressed, and zstandard is not installed.
        """
        return self._events(self._framer.push(self._plain.push(data)))

    def close(self) -> list[Event]:
        """The events of a last line without LF, and the end of what is open."""
        out = self._events([*self._framer.push(self._plain.close()), *self._framer.close()])
        out = [_as_cut(event) for event in out]
        if self._plain.fault is not None:
            out.append(self._plain.fault)
        return out + (self._reader.close() if self._reader is not None else [])

    def _events(self, lines: list[tuple[int, bytes] | Fault]) -> list[Event]:
        out: list[Event] = []
        for item in lines:
            if isinstance(item, Fault):
                out.append(item)
                continue
            number, line = item
            if self._reader is None:
                self._reader = _Frames() if _holds_frames(line) else LogNormaliser(pieces=self._pieces)
            out += self._reader.push(line, number)
        return out


class _Frames:
    """Reads recorded frames."""

    __slots__ = ("_wire", "close")

    def __init__(self) -> None:
        self._wire = WireNormaliser()
        self.close = self._wire.close

    def push(self, line: bytes, number: int) -> list[Event]:
        try:
            value = decoded(line)
        except (ValueError, RecursionError) as error:
            excerpt = line[:200].decode("utf-8", "replace")
            return [Fault("invalid_json", f"line {number}: not JSON: {error}", number, excerpt)]
        return self._wire.push(value.get("frame", value) if isinstance(value, dict) else value)


def recognises(record: Mapping[str, Any]) -> bool:
    """Whether a decoded line is of a log of this harness, or a recorded frame of its protocol."""
    kind = record.get("type")
    if kind == "session":
        # Other harnesses begin a session log so as well, but stamp it with a text called timestamp.
        return "id" in record and ("createdAt" in record or "delegationDepth" in record)
    if isinstance(kind, str) and isinstance(record.get("data"), dict):
        return ("seq" in record or "seq0" in record) and ("/" in kind or kind.endswith("-chunks"))
    frame = record.get("frame", record)
    if not isinstance(frame, dict) or frame.get("jsonrpc") != "2.0":
        return False
    params = frame.get("params")
    if frame.get("method") == "initialize":
        return isinstance(params, dict) and "provider" in params and "model" in params
    return frame.get("method") in _METHODS


def looks_like(first_bytes: bytes) -> bool:
    """Whether a file that begins with these bytes is a log of this harness, or recorded frames of its protocol.

    A compressed file that cannot be looked into (zstandard is not installed) is taken for one: no other harness that
    lastsay reads compresses its logs.
    """
    plain = first_block(first_bytes)
    if not plain:
        return first_bytes.startswith(MAGIC)
    line = plain.partition(b"\n")[0]
    try:
        head = decoded(line)
    except (ValueError, RecursionError):
        return line.startswith(b'{"type":"session",') and b'"createdAt":' in line  # cut before its end
    return isinstance(head, dict) and recognises(head)


def events_of(path: str | Path, *, pieces: bool = False) -> Iterator[list[Event]]:
    """The events of a log or of recorded frames, in non-empty lists of what was read together.

    Args:
        path: the file: plain or zstd.
        pieces: see `LogReader`.

    Raises:
        MissingExtraError: it is compressed, and zstandard is not installed.
        OSError: it cannot be read.
    """
    reader = LogReader(pieces=pieces)
    with Path(path).open("rb") as file:
        while data := file.read(_BLOCK):
            if events := reader.push(data):
                yield events
    if events := reader.close():
        yield events


def _holds_frames(line: bytes) -> bool:
    try:
        head = decoded(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(head, dict) and ("frame" in head or "jsonrpc" in head)


def _as_cut(event: Event) -> Event:
    if type(event) is not Fault or event.kind != "invalid_json":
        return event
    return Fault("truncated_line", f"the log ends inside {event.detail}", event.line, event.raw, run=event.run)
