"""The audit: what a log says about its tool results."""

from pathlib import Path
from typing import Any

import pytest

from lastsay.errors import SourceError
from lastsay.events import (
    Event,
    Fault,
    Image,
    Message,
    Notice,
    Opaque,
    RunStarted,
    Text,
    ToolCall,
    ToolResult,
    ToolUse,
    encode_many,
)
from lastsay.logs import Log, ReceiptAudit, ReceiptReport, Shown, audit_log, find_logs, format_named
from lastsay.receipts import EXACT

TOOL = "mcp__functions__f"


def audit(*events: Event, **options: Any) -> ReceiptReport:
    """The report on these events."""
    made = ReceiptAudit(**options)
    made.push(list(events))
    return made.report()


def result(call: str, *texts: str, is_error: bool = False, **native: Any) -> ToolResult:
    """A result of text blocks."""
    return ToolResult(call, tuple(map(Text, texts)), is_error, native or None)


def verdict(call: str, word: str, *, kind: str = "function_refused") -> Notice:
    """A notice that confirm left."""
    return Notice(kind, {"call": call, "verdict": word, "detail": "because"})


def test_calls_and_results_are_matched() -> None:
    """By id, from calls of their own or inside messages; what has no partner is listed, and so are doubles."""
    report = audit(
        ToolCall("a", TOOL),
        Message((Text("x"), ToolUse("b", "Bash"), ToolUse("a", TOOL))),
        result("a", "one"),
        result("a", "two", is_error=True),
        result("c", "three", is_error=True),
        result("a", "again", isReplay=True),
    )
    assert (2, 3, 1) == (report.calls, report.results, report.errors)
    assert (("b",), ("c",), ("a",)) == (report.without_result, report.without_call, report.duplicates)


PERSISTED = "<persisted-output>\nOutput too large (58.6KB). Full output saved to: /c/projects/w/s/tool-results/a.json\n"
TRUNCATED = "head\n\n... [1234 characters truncated] ...\n\ntail"


@pytest.mark.parametrize(
    ("event", "shown"),
    [
        (result("a", "x"), Shown.WHOLE),
        (result("a", "x", "y"), Shown.WHOLE),
        (result("a"), Shown.BLANK),
        (result("a", " ", "\ufeff"), Shown.BLANK),
        (ToolResult("a", (Opaque("audio"),)), Shown.WHOLE),
        (ToolResult("a", (Image("eA=="), Text(" "))), Shown.IMAGE),
        (result("a", f"({TOOL} completed with no output)"), Shown.PLACEHOLDER),
        (result("a", "(Bash completed with no output)"), Shown.WHOLE),
        (result("a", "Unknown error", is_error=True), Shown.PLACEHOLDER),
        (result("a", "Command failed with no output", is_error=True), Shown.PLACEHOLDER),
        (result("a", "Unknown error"), Shown.WHOLE),
        (result("a", "why", is_error=True), Shown.WHOLE),
        (result("a", TRUNCATED, is_error=True), Shown.TRUNCATED),
        (result("a", TRUNCATED), Shown.WHOLE),
        (result("a", PERSISTED), Shown.PERSISTED),
        (result("a", "no", is_error=True, non_execution_kind="user-rejected"), Shown.REJECTED),
        (result("a", "no", is_error=True, tool_use_result="User rejected tool use"), Shown.REJECTED),
        (result("a", 'MCP server "s" tool "f" timed out after 3s', is_error=True), Shown.TIMED_OUT),
    ],
)
def test_how_the_model_was_shown_a_result(event: ToolResult, shown: Shown) -> None:
    """Read from the native record, by the profile's own words."""
    assert {shown.value: 1} == audit(ToolCall("a", TOOL), event).shown


def test_results_without_text_are_listed() -> None:
    """Blank ones and placeholders: what the model cannot have learned anything from."""
    report = audit(ToolCall("a", TOOL), result("a", " "), result("b", "Unknown error", is_error=True), result("c", "x"))
    assert ("a", "b") == report.blank


def test_verdicts_are_those_of_the_bridge() -> None:
    """Counted from its notices; a refused one is told with what was found, and spoils the log."""
    report = audit(
        ToolCall("a", TOOL),
        verdict("a", "exact", kind="function_applied"),
        verdict("b", "rejected"),
        Notice("function_applied", None),
        Notice("function_applied", {"call": 3}),
    )
    assert {"exact": 1, "rejected": 1} == report.verdicts
    assert ["b"] == [call.call for call in report.refused]
    assert report.sound
    spoiled = audit(ToolCall("a", TOOL), verdict("a", "mismatch"))
    assert [("a", TOOL, "because")] == [(call.call, call.tool, call.detail) for call in spoiled.refused]
    assert not spoiled.sound


def test_the_profile_is_the_one_of_the_version_or_the_one_given() -> None:
    """A log names its version; a harness that shows everything as it is has no placeholders."""
    events = (Notice("init", {"claude_code_version": "2.1.269"}), result("a", "Unknown error", is_error=True))
    assert {"placeholder": 1} == audit(*events).shown
    assert {"whole": 1} == audit(*events, profile=EXACT).shown
    assert {"whole": 1} == audit(result("a", "x"), profile=EXACT).shown


def test_a_log_is_read_and_its_faults_are_told(tmp_path: Path) -> None:
    """A broken line costs only itself."""
    path = tmp_path / "log.ndjson"
    path.write_bytes(encode_many([RunStarted(), ToolCall("a", TOOL)]) + b"{broken\n" + encode_many([result("a", "x")]))
    (log,), _ = find_logs([path])
    faults: list[Fault] = []
    assert (1, 1) == (audit_log(log, on_fault=faults.append).calls, audit_log(log).results)
    assert ["invalid_json"] == [fault.kind for fault in faults]
    with pytest.raises(SourceError):
        audit_log(Log(format_named("lastsay"), tmp_path / "gone.ndjson"))
