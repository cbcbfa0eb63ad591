"""The durable log of a session (one file, one session) and recorded frames of the SDK protocol, as events.

A log is a header line and one line per event; in generation A, runs of pieces are packed into rows that hold the number
of their first piece (`seq0`). The header names the format version: 0 to 4 were seen. The events are read by their own
shape, so a version that is not known is read as well, after a `Fault` that says so.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from lastsay.backends.dsh._session import Session
from lastsay.backends.dsh._shapes import RowEnvelope, SessionHeader, loads_loosely, typed
from lastsay.backends.dsh._wire import BACKEND, WireNormaliser
from lastsay.backends.dsh._zstd import MAGIC, TornFrameError, first_block, forward_blocks
from lastsay.events import MAIN, Event, Fault, LineFramer, RunStarted

__all__ = ("KNOWN_VERSIONS", "CaptureReader", "LogNormaliser", "events_of", "looks_like")

KNOWN_VERSIONS: Final = range(5)
"""Format versions that were seen: 0 in 0.1.1rc1, 3 in 0.1.5rc1, 4 in 0.2.1rc2; 1 and 2 in their migrations."""


class LogNormaliser:
    """Turns the lines of one log into events: `push` each one, `close` at the end. Without I/O.

    Args:
        resumed: the lines that follow the header begin somewhere after the copied history of a fork.
    """

    def __init__(self, *, resumed: bool = False) -> None:
        self._resumed = resumed
        self._session: Session | None = None
        self._closed = False

    def push(self, raw: Any, number: int | None = None) -> list[Event]:
        """The events of one line, or of the object decoded from it. Never raises.

        Args:
            raw: the line without its LF, or a decoded object.
            number: the line's number, from 1, for a `Fault`.
        """
        try:
            row = typed(raw, RowEnvelope)
            if row.type == "session":
                return self._begin(typed(raw, SessionHeader))
        except (ValueError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            where = f"line {number}: " if number is not None else ""
            kind = "invalid_event" if isinstance(error, msgspec.ValidationError) else "invalid_json"
            text = raw[:200].decode("utf-8", "replace") if isinstance(raw, bytes) else repr(raw)[:200]
            run = self._session.run if self._session is not None else MAIN
            return [Fault(kind, f"{where}{error}"[:400], number, text, run=run)]
        session = self._session
        out: list[Event] = []
        if session is None:
            session = self._session = Session(MAIN)
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
            seeded=header.is_seeded and not self._resumed,
            seed_length=None if self._resumed else header.seed_length,
        )
        time = header.created_at / 1000 if header.created_at is not None else None
        started = RunStarted(parent=header.parent_session, backend=BACKEND, run=header.id, time=time)
        if header.version is None or header.version in KNOWN_VERSIONS:
            return [started]
        detail = f"log format version {header.version} is newer than this reader knows; it is read as it looks"
        return [started, Fault("unknown_version", detail, run=header.id)]


class CaptureReader:
    """Turns recorded frames into events: a JSON-RPC object per line, or rows that hold one under `frame`."""

    def __init__(self) -> None:
        self._wire = WireNormaliser()

    def push(self, raw: bytes, number: int | None = None) -> list[Event]:
        """The events of one line. Never raises."""
        try:
            value = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            try:
                value = loads_loosely(raw)
            except (ValueError, RecursionError) as error:
                return [Fault("invalid_json", f"not JSON: {error}", number, raw[:200].decode("utf-8", "replace"))]
        frame = value.get("frame", value) if isinstance(value, dict) else value
        return self._wire.push(frame)

    def close(self) -> list[Event]:
        """The ends of all that is open."""
        return self._wire.close()


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
        head = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return line.startswith(b'{"type":"session"') and b'"createdAt":' in line
    return isinstance(head, dict) and (_is_header(head) or _is_frame(head))


def _is_header(head: dict[str, Any]) -> bool:
    # Other harnesses begin a session log with `type: session` as well, but stamp it with a text called timestamp.
    return head.get("type") == "session" and "id" in head and ("createdAt" in head or "delegationDepth" in head)


def _is_frame(head: dict[str, Any]) -> bool:
    frame = head.get("frame", head)
    if not isinstance(frame, dict) or frame.get("jsonrpc") != "2.0":
        return False
    params = frame.get("params")
    params = params if isinstance(params, dict) else {}
    if frame.get("method") == "initialize":
        return "provider" in params and "model" in params
    return frame.get("method") in ("session.event", "session.status", "subagent.started", "session/prompt")


def events_of(path: str | Path) -> Iterator[list[Event]]:
    """The events of a log or of recorded frames, in non-empty lists of what was read together.

    Args:
        path: the file: plain or zstd.

    Raises:
        MissingExtraError: it is compressed, and zstandard is not installed.
        OSError: it cannot be read.
    """
    framer = LineFramer()
    reader: LogNormaliser | CaptureReader | None = None
    torn: list[Event] = []
    blocks = forward_blocks(Path(path))
    while True:
        try:
            block = next(blocks, None)
        except TornFrameError as error:
            torn = [Fault("torn_frame", f"the compressed log is cut: {error}")]
            block = None
        lines = framer.close() if block is None else framer.push(block)
        out: list[Event] = []
        for item in lines:
            if isinstance(item, Fault):
                out.append(item)
                continue
            number, line = item
            if reader is None:
                reader = _reader_for(line)
            out += reader.push(line, number)
        if block is None:
            out = [_as_cut(event) for event in out] + torn + (reader.close() if reader is not None else [])
        if out:
            yield out
        if block is None:
            return


def _reader_for(line: bytes) -> LogNormaliser | CaptureReader:
    try:
        head = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return LogNormaliser()
    return CaptureReader() if isinstance(head, dict) and ("frame" in head or "jsonrpc" in head) else LogNormaliser()


def _as_cut(event: Event) -> Event:
    if type(event) is not Fault or event.kind != "invalid_json":
        return event
    return Fault("truncated_line", f"the log ends inside {event.detail}", event.line, event.raw, run=event.run)
