"""From what a person names (files, folders, standard input) to logs: which files there are, and what is in them.

A folder is searched for ``*.jsonl`` and ``*.ndjson``; what is in it and is no log is left out silently, because a
folder holds all sorts of things. A file that was named must be a log. Files that are parts of another log in the
same list (the subagents of a Claude session) are read with it and not twice.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

from lastsay.errors import SourceError
from lastsay.events import Event, Fault, LineFramer
from lastsay.logs._formats import FORMATS, LogFormat
from lastsay.logs._json_lines import record_of

__all__ = ("Log", "detect", "find_logs", "from_stream")

SUFFIXES: Final = (".jsonl", ".ndjson")
CHUNK: Final = 1024 * 1024
"""Bytes of one read."""

_SNIFF_RECORDS: Final = 50
"""Records that detection looks at."""
_SNIFF_CHUNK: Final = 64 * 1024
"""Bytes of one read while detecting."""
_SNIFF_BYTES: Final = 16 * 1024 * 1024
"""Bytes that detection reads at most: one line may be megabytes long."""


@dataclass(frozen=True, slots=True)
class Log:
    """One log: its format and its files, the main one first. `path` is None for standard input."""

    format: LogFormat
    path: Path | None
    parts: tuple[Path, ...] = ()
    chunks: Iterator[bytes] | None = field(default=None, compare=False)

    @property
    def size(self) -> int:
        """Bytes of all files together; 0 for standard input."""
        return sum(path.stat().st_size for path in self._files())

    def _files(self) -> tuple[Path, ...]:
        return () if self.path is None else (self.path, *self.parts)

    def batches(self) -> Iterator[tuple[str, int, list[Event]]]:
        """The events, batch by batch, each with its file's name and the number of bytes that were read for it.

        Raises:
            SourceError: a file cannot be read.
        """
        if self.chunks is not None:
            yield from _read(self.chunks, "standard input", self.format, None)
        for path in self._files():
            try:
                with path.open("rb") as stream:
                    yield from _read(_chunks(stream), str(path), self.format, path)
            except OSError as error:
                raise SourceError(f"{path}: cannot be read: {error.strerror or error}") from error


def _chunks(stream: BinaryIO, size: int = CHUNK) -> Iterator[bytes]:
    while data := stream.read(size):
        yield data


def _read(
    chunks: Iterator[bytes], name: str, log_format: LogFormat, path: Path | None
) -> Iterator[tuple[str, int, list[Event]]]:
    reader = log_format.reader(path)
    for data in chunks:
        yield name, len(data), reader.push(data)
    yield name, 0, reader.close()


def detect(chunks: Iterable[bytes]) -> LogFormat | None:
    """The format of a log that begins with these chunks, or None; takes no more of them than needed."""
    framer = LineFramer(_SNIFF_BYTES)
    votes = dict.fromkeys(FORMATS, 0)
    seen = read = 0
    for data in chain(chunks, (b"",)):
        read += len(data)
        for item in framer.push(data) if data else framer.close():
            seen += 1
            record = item if isinstance(item, Fault) else record_of(item[1], item[0])
            if not isinstance(record, Fault):
                for log_format in FORMATS:
                    votes[log_format] += log_format.recognises(record)
        if seen >= _SNIFF_RECORDS or read >= _SNIFF_BYTES:
            break
    best = max(FORMATS, key=votes.__getitem__)
    return best if votes[best] else None


def _detect_file(path: Path) -> LogFormat | None:
    try:
        with path.open("rb") as stream:
            return detect(_chunks(stream, _SNIFF_CHUNK))
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror or error}") from error


def from_stream(stream: BinaryIO, log_format: LogFormat | None = None) -> Log:
    """The log that comes from a stream, which is read once.

    Raises:
        SourceError: the format was not given and what comes is of none.
    """
    chunks = _chunks(stream, _SNIFF_CHUNK)
    if log_format is not None:
        return Log(log_format, None, chunks=chunks)
    kept: list[bytes] = []

    def keeping() -> Iterator[bytes]:
        for data in chunks:
            kept.append(data)
            yield data

    found = detect(keeping())
    if found is None:
        raise SourceError(f"standard input: {_why_not(anything=bool(kept))}")
    return Log(found, None, chunks=chain(kept, chunks))


def find_logs(paths: Iterable[Path], log_format: LogFormat | None = None) -> tuple[list[Log], list[str]]:
    """The logs that the paths name, in order and none twice, and a sentence for every named file that is no log.

    Args:
        paths: files, or folders to search.
        log_format: what they are; None to detect it for each.
    """
    logs: dict[Path, Log] = {}
    complaints: list[str] = []
    taken: set[Path] = set()
    for named in paths:
        searched = named.is_dir()
        before = len(logs)
        for path in _files_of(named):
            try:
                log = _log_of(path, log_format, alone=not searched)
            except SourceError as error:
                complaints.append(str(error))
                continue
            if log is not None and log.path is not None:
                logs.setdefault(log.path, log)
                taken.update(part.resolve() for part in log.parts)
            elif not searched:
                complaints.append(f"{path}: {_why_not(anything=path.stat().st_size > 0)}")
        if searched and len(logs) == before:
            complaints.append(f"{named}: no logs in this folder")
    return [log for path, log in logs.items() if path.resolve() not in taken], complaints


def _files_of(named: Path) -> list[Path]:
    if not named.is_dir():
        return [named]
    return sorted(path for path in named.rglob("*") if path.suffix in SUFFIXES and path.is_file())


def _log_of(path: Path, log_format: LogFormat | None, *, alone: bool) -> Log | None:
    found = log_format or _detect_file(path)
    if found is None:
        return None
    owner = None if alone else found.belongs_to(path)
    main = owner or path
    return Log(found, main, tuple(found.parts(main)))


def _why_not(*, anything: bool) -> str:
    if not anything:
        return "empty: no events in it"
    return f"not a log of a known format ({', '.join(f.name for f in FORMATS)})"
