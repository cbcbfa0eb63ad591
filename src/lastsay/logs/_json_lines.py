"""Bytes to records to events, for logs that hold one JSON object a line."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from lastsay.events import MAX_LINE, Event, Fault, LineFramer

__all__ = ("JsonLines", "Normaliser", "OnRead", "Reader", "read_through", "record_of", "records_of")

CHUNK: Final = 1024 * 1024
"""Bytes of one read."""

_FIRST_RECORDS: Final = 50
"""Records that detection looks at."""

OnRead: TypeAlias = Callable[[int], None]


class Normaliser(Protocol):
    """What turns one harness's records into events; never raises on odd input."""

    def push(self, raw: Any, /) -> list[Event]:
        """The events that the record means."""
        ...

    def close(self) -> list[Event]:
        """The end of what is open."""
        ...


class Reader(Protocol):
    """Turns the bytes of one file into events; never raises, whatever the bytes are."""

    def push(self, data: bytes, /) -> list[Event]:
        """The events that are complete with `data`."""
        ...

    def close(self) -> list[Event]:
        """The events that were held back, and the end of what is open."""
        ...


def record_of(line: bytes, number: int) -> dict[str, Any] | Fault:
    """The object that a line holds, or the fault that it is. Invalid UTF-8 and lone surrogates inside are kept."""
    try:
        value = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        text = line.decode("utf-8", "surrogateescape")
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            return Fault("invalid_json", f"line {number}: not JSON: {error}"[:600], number, _excerpt(line))
    if isinstance(value, dict):
        return value
    detail = f"line {number}: a JSON {type(value).__name__} where an object was expected"
    return Fault("not_an_object", detail, number, _excerpt(line))


def _excerpt(line: bytes) -> str:
    return line[:200].decode("utf-8", "replace")


def records_of(start: bytes) -> list[dict[str, Any]]:
    """The first records in the beginning of a file; broken lines are left out."""
    framer = LineFramer()
    lines = framer.push(start) or framer.close()
    found = (record_of(item[1], item[0]) for item in lines[:_FIRST_RECORDS] if not isinstance(item, Fault))
    return [record for record in found if not isinstance(record, Fault)]


class JsonLines:
    """A reader for one file: lines, then records, then the normaliser's events.

    Args:
        normaliser: a fresh one.
        max_line: cap of one line, in bytes.
    """

    __slots__ = ("_framer", "_normaliser")

    def __init__(self, normaliser: Normaliser, max_line: int = MAX_LINE) -> None:
        self._normaliser = normaliser
        self._framer = LineFramer(max_line)

    def push(self, data: bytes) -> list[Event]:
        """The events that are complete with `data`."""
        return self._events(self._framer.push(data))

    def close(self) -> list[Event]:
        """The events of a last line without LF, and the end of what is open. A cut line becomes a `Fault`."""
        last: list[Event] = [
            Fault("truncated_line", f"the input ends inside {event.detail}", event.line, event.raw)
            if type(event) is Fault and event.kind == "invalid_json"
            else event
            for event in self._events(self._framer.close())
        ]
        return last + self._normaliser.close()

    def _events(self, lines: list[tuple[int, bytes] | Fault]) -> list[Event]:
        events: list[Event] = []
        for item in lines:
            record = item if isinstance(item, Fault) else record_of(item[1], item[0])
            if isinstance(record, Fault):
                events.append(record)
            else:
                events += self._normaliser.push(record)
        return events


def read_through(reader: Reader, path: Path, on_read: OnRead) -> Iterator[list[Event]]:
    """The events of a file, in non-empty lists of what was read together.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as stream:
        while data := stream.read(CHUNK):
            if events := reader.push(data):
                yield events
            on_read(len(data))
    if events := reader.close():
        yield events
