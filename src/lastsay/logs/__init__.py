"""What is kept: record and replay, and readers of the transcripts of others."""

from lastsay.logs._find import Log, detect, find_logs
from lastsay.logs._formats import FORMATS, LogFormat, format_named
from lastsay.logs._receipts import AuditedCall, ReceiptAudit, ReceiptReport, Shown, audit_log
from lastsay.logs._runs import FoldedRun, Runs, fold_log

__all__ = (
    "FORMATS",
    "AuditedCall",
    "FoldedRun",
    "Log",
    "LogFormat",
    "ReceiptAudit",
    "ReceiptReport",
    "Runs",
    "Shown",
    "audit_log",
    "detect",
    "find_logs",
    "fold_log",
    "format_named",
)
