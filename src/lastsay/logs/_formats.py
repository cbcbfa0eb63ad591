"""The log formats that can be read: one row each.

A new format is one more `LogFormat` in `FORMATS`: how the beginning of a file is recognised, how a file becomes events,
and which files belong together. Detection is by content, never by name: the first format of the table that recognises
the beginning is taken.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lastsay.backends import dsh
from lastsay.errors import UsageError
from lastsay.events import EVENT_TYPES, Event, EventDecoder
from lastsay.logs._json_lines import OnRead, read_through, records_of

__all__ = ("FORMATS", "LogFormat", "format_named", "mostly")


def _alone(path: Path) -> Path | None:  # noqa: ARG001 - the signature of the table
    return None


def _no_parts(path: Path) -> list[Path]:  # noqa: ARG001 - the signature of the table
    return []


@dataclass(frozen=True, slots=True)
class LogFormat:
    """One kind of log.

    Args:
        name: what it is called on the command line.
        about: one line for people.
        looks_like: whether a file that begins with these bytes (at least one whole line, unless there is none) is one.
        events: the events of one file, in lists; told is, now and then, how many more bytes were read.
        belongs_to: the log file that a file is a part of, or None where it stands for itself.
        parts: the further files of the log at a path, in reading order.
    """

    name: str
    about: str
    looks_like: Callable[[bytes], bool]
    events: Callable[[Path, OnRead], Iterator[list[Event]]]
    belongs_to: Callable[[Path], Path | None] = _alone
    parts: Callable[[Path], list[Path]] = _no_parts


def mostly(recognises: Callable[[Mapping[str, Any]], bool]) -> Callable[[bytes], bool]:
    """A `looks_like`: at least half of the first records are recognised."""

    def looks_like(start: bytes) -> bool:
        known = [recognises(record) for record in records_of(start)]
        return bool(known) and 2 * sum(known) >= len(known)

    return looks_like


_TAGS: Final = frozenset(str(kind.__struct_config__.tag) for kind in EVENT_TYPES)


def _is_event(record: Mapping[str, Any]) -> bool:
    tag = record.get("type")
    # Others have records of type "message" too, and put an object under that name where ours has an id.
    return isinstance(tag, str) and tag in _TAGS and not isinstance(record.get("message"), dict)


def _own_events(path: Path, on_read: OnRead) -> Iterator[list[Event]]:
    return read_through(EventDecoder(), path, on_read)


def _dsh_events(path: Path, on_read: OnRead) -> Iterator[list[Event]]:
    yield from dsh.events_of(path)
    on_read(path.stat().st_size)


FORMATS: Final[tuple[LogFormat, ...]] = (
    LogFormat("lastsay", "events recorded by lastsay, one JSON object a line", mostly(_is_event), _own_events),
    LogFormat("dsh", "DeepSeek Harness: session logs and recorded frames", dsh.looks_like, _dsh_events),
)


def format_named(name: str) -> LogFormat:
    """The format of that name.

    Raises:
        UsageError: there is none; the message lists the names.
    """
    for log_format in FORMATS:
        if log_format.name == name:
            return log_format
    raise UsageError(f"no log format named {name!r}; known are {', '.join(f.name for f in FORMATS)}")
