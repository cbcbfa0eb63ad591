"""From what a person names (files, folders, standard input) to logs: which files there are, and what is in them.

A folder is searched for ``*.jsonl``, ``*.ndjson`` and compressed ones; what is in it and is no log is left out
silently, because a folder holds all sorts of things. A file that was named must be a log. Files that are parts of
another log in the same list (the subagents of a Claude session) are read with it and not twice.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lastsay.errors import SourceError
from lastsay.events import Event
from lastsay.logs._formats import FORMATS, LogFormat
from lastsay.logs._own import OnRead

__all__ = ("Log", "detect", "find_logs")

SUFFIXES: Final = (".jsonl", ".ndjson", ".jsonl.zst", ".ndjson.zst", ".jsonl.zstd")

_FIRST_BYTES: Final = 64 * 1024
"""Bytes that detection looks at."""
_FIRST_BYTES_MOST: Final = 64 * 1024 * 1024
"""Bytes that detection looks at where the first line is longer than that."""


@dataclass(frozen=True, slots=True)
class Log:
    """One log: its format and its files, the main one first."""

    format: LogFormat
    path: Path
    parts: tuple[Path, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all files together, as far as they can be known."""
        total = 0
        for path in (self.path, *self.parts):
            with suppress(OSError):
                total += path.stat().st_size
        return total

    def batches(self, on_read: OnRead | None = None) -> Iterator[list[Event]]:
        """The events in non-empty lists.

        Args:
            on_read: told now and then how many more bytes were read.

        Raises:
            SourceError: a file cannot be read.
        """
        try:
            yield from self.format.events(self.path, on_read or _nobody)
        except OSError as error:
            raise _unreadable(self.path, error) from error


def _nobody(size: int) -> None:
    """Nobody listens."""


def _unreadable(path: Path, error: OSError) -> SourceError:
    return SourceError(f"{path}: cannot be read: {error.strerror or error}")


def detect(path: Path) -> LogFormat | None:
    """The format of the file, or None where it is of none that is known.

    Raises:
        SourceError: it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            start = stream.read(_FIRST_BYTES)
            if b"\n" not in start:  # one line may be megabytes long
                start += stream.read(_FIRST_BYTES_MOST)
    except OSError as error:
        raise _unreadable(path, error) from error
    return next((log_format for log_format in FORMATS if log_format.looks_like(start)), None)


def find_logs(paths: Iterable[Path], log_format: LogFormat | None = None) -> tuple[list[Log], list[str]]:
    """The logs that the paths name, in order and none twice, and a sentence for every one that is no log.

    Args:
        paths: files, or folders to search.
        log_format: what they are; None to detect it for each.
    """
    logs: dict[Path, Log] = {}
    complaints: list[str] = []
    parts: set[Path] = set()
    for named in paths:
        searched = named.is_dir()
        found = False
        for path in _files_of(named):
            try:
                log = _log_of(path, log_format, alone=not searched)
            except SourceError as error:
                complaints.append(str(error))
                continue
            if log is not None:
                found = True
                logs.setdefault(log.path.resolve(), log)
                parts.update(part.resolve() for part in log.parts)
            elif not searched:
                complaints.append(_why_not(path))
        if searched and not found:
            complaints.append(f"{named}: no logs in this folder")
    return [log for path, log in logs.items() if path not in parts], complaints


def _files_of(named: Path) -> list[Path]:
    if not named.is_dir():
        return [named]
    return sorted(path for path in named.rglob("*") if path.name.endswith(SUFFIXES) and path.is_file())


def _log_of(path: Path, log_format: LogFormat | None, *, alone: bool) -> Log | None:
    found = log_format or detect(path)
    if found is None:
        return None
    main = path if alone else found.belongs_to(path) or path
    return Log(found, main, tuple(found.parts(main)))


def _why_not(path: Path) -> str:
    if path.stat().st_size == 0:
        return f"{path}: empty: no events in it"
    return f"{path}: not a log of a known format ({', '.join(f.name for f in FORMATS)})"
