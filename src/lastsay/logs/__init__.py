"""What is kept: record and replay, and readers of the transcripts of others."""

from lastsay.logs._find import Log, detect, find_logs
from lastsay.logs._formats import FORMATS, LogFormat, format_named
from lastsay.logs._runs import FoldedRun, Runs, fold_log

__all__ = (
    "FORMATS",
    "FoldedRun",
    "Log",
    "LogFormat",
    "Runs",
    "detect",
    "find_logs",
    "fold_log",
    "format_named",
)
