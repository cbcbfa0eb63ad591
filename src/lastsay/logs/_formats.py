"""The log formats that can be read: one row each.

A new format is one more `LogFormat` in `FORMATS`: how its records are recognised, how its bytes become events, and
which files belong together. Detection is by content: the format that recognises most of a file's first records is
taken, in a draw the first of the table.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from lastsay.errors import UsageError
from lastsay.events import EVENT_TYPES, Event, EventDecoder

__all__ = ("FORMATS", "LogFormat", "Reader", "format_named")


class Reader(Protocol):
    """Turns the bytes of one file into events; never raises, whatever the bytes are."""

    def push(self, data: bytes) -> list[Event]:
        """The events that are complete with `data`."""
        ...

    def close(self) -> list[Event]:
        """The events that were held back, and the end of what is open."""
        ...


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
        recognises: whether a decoded record (always an object) is of this format.
        reader: a reader for one file; the path is None for standard input.
        belongs_to: the log file that a file is a part of, or None where it stands for itself.
        parts: the further files of the log at a path, in reading order.
    """

    name: str
    about: str
    recognises: Callable[[Mapping[str, Any]], bool]
    reader: Callable[[Path | None], Reader]
    belongs_to: Callable[[Path], Path | None] = _alone
    parts: Callable[[Path], list[Path]] = _no_parts


_TAGS: Final = frozenset(str(kind.__struct_config__.tag) for kind in EVENT_TYPES)


def _is_event(record: Mapping[str, Any]) -> bool:
    tag = record.get("type")
    # Others have records of type "message" too, and put an object under that name where ours has an id.
    return isinstance(tag, str) and tag in _TAGS and not isinstance(record.get("message"), dict)


def _own_reader(path: Path | None) -> Reader:  # noqa: ARG001 - the signature of the table
    return EventDecoder()


FORMATS: Final[tuple[LogFormat, ...]] = (
    LogFormat("lastsay", "events recorded by lastsay, one JSON object a line", _is_event, _own_reader),
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
