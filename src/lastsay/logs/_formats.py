"""The log formats that can be read: one row each.

A new format is one more `LogFormat` in `FORMATS`: how the beginning of a file is recognised, how a file becomes events,
and which files belong together. Detection is by content, never by name: the first format of the table that recognises
the beginning is taken.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lastsay.backends import claude, dsh
from lastsay.errors import UsageError
from lastsay.events import Event
from lastsay.logs import _own
from lastsay.logs._own import OnRead

__all__ = ("FORMATS", "LogFormat", "format_named")


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
        events: the events of the log at a path, its parts included, in non-empty lists.
        belongs_to: the log file that a file is a part of, or None where it stands for itself.
        parts: the further files of the log at a path.
    """

    name: str
    about: str
    looks_like: Callable[[bytes], bool]
    events: Callable[[Path, OnRead], Iterator[list[Event]]]
    belongs_to: Callable[[Path], Path | None] = _alone
    parts: Callable[[Path], list[Path]] = _no_parts


def _subagents(path: Path) -> list[Path]:
    return sorted((path.with_suffix("") / "subagents").glob("agent-*.jsonl"))


def _dsh_events(path: Path, on_read: OnRead) -> Iterator[list[Event]]:
    yield from dsh.events_of(path)
    on_read(path.stat().st_size)


FORMATS: Final[tuple[LogFormat, ...]] = (
    LogFormat("lastsay", "events recorded by lastsay", _own.looks_like, _own.events_of),
    LogFormat(
        "claude",
        "Claude Code: sessions with their subagents, and recorded streams",
        claude.looks_like,
        claude.events_of,
        claude.session_of,
        _subagents,
    ),
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
