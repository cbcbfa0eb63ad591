"""Logs that lastsay recorded itself: one event a line."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

from lastsay.events import EVENT_TYPES, Event, EventDecoder, Fault, LineFramer

__all__ = ("OnRead", "events_of", "looks_like")

OnRead: TypeAlias = Callable[[int], None]
"""Told now and then how many more bytes were read."""

_CHUNK: Final = 1024 * 1024
"""Bytes of one read."""
_FIRST_LINES: Final = 50
"""Lines that detection looks at."""
_TAGS: Final = frozenset(str(kind.__struct_config__.tag) for kind in EVENT_TYPES)


def looks_like(start: bytes) -> bool:
    """Whether at least half of the first records in a file that begins with these bytes are events."""
    framer = LineFramer()
    lines = framer.push(start) or framer.close()
    records = [_record_of(item[1]) for item in lines[:_FIRST_LINES] if not isinstance(item, Fault)]
    known = sum(_is_event(record) for record in records if record is not None)
    return known > 0 and 2 * known >= sum(record is not None for record in records)


def _record_of(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _is_event(record: dict[str, Any]) -> bool:
    tag = record.get("type")
    # Others have records of type "message" too, and put an object under that name where ours has an id.
    return isinstance(tag, str) and tag in _TAGS and not isinstance(record.get("message"), dict)


def events_of(path: Path, on_read: OnRead) -> Iterator[list[Event]]:
    """The events of a file, in non-empty lists of what was read together.

    Raises:
        OSError: it cannot be read.
    """
    decoder = EventDecoder()
    with path.open("rb") as stream:
        while data := stream.read(_CHUNK):
            if events := decoder.push(data):
                yield events
            on_read(len(data))
    if events := decoder.close():
        yield events
