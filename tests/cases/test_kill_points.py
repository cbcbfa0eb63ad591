"""Kill points: recorded sessions of real harnesses, cut after every record.

Under ANSWER the selected output has something to read whenever the model had written any text before the cut, and never
when it had not. What the model had written is read from the raw records here, with none of the library's own code.
CI cuts every session, `make test` a quarter of them.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.properties.scale import FULL

from lastsay.fold import ANSWER
from lastsay.logs import FoldedRun, find_logs, fold_log

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
CLAUDE = sorted((FIXTURES / "claude").rglob("*.jsonl"))[:: 1 if FULL else 4]
DSH = sorted((FIXTURES / "dsh").rglob("*.session.jsonl"))[:: 1 if FULL else 4]


def name_of(path: Path) -> str:
    """A short name for the test."""
    return str(path.relative_to(FIXTURES))


def cuts(path: Path, folder: Path) -> Iterator[tuple[list[dict[str, Any]], list[FoldedRun]]]:
    """For each cut the records before it, and the runs that a log of them folds to."""
    lines = path.read_bytes().splitlines(keepends=True)
    records = [json.loads(line) for line in lines]
    cut = folder / "cut.jsonl"
    for size in range(1, len(lines) + 1):
        cut.write_bytes(b"".join(lines[:size]))
        logs, complaints = find_logs([cut])
        if complaints:
            continue  # the first records of a session alone do not show what it is
        yield records[:size], fold_log(logs[0], ANSWER)


def blank(text: object) -> bool:
    """Whether there is nothing to read."""
    return not isinstance(text, str) or not text.strip()


def claude_texts(record: dict[str, Any]) -> Iterator[str]:
    """Text of the main thread's model in one record of a session file or of the stream."""
    if record.get("parent_tool_use_id") is not None or record.get("isApiErrorMessage"):
        return
    message = record.get("message", {})
    if record["type"] == "assistant" and message.get("model") != "<synthetic>":
        yield from [part["text"] for part in message["content"] if part["type"] == "text"]
    delta = record.get("event", {}).get("delta", {})
    if record["type"] == "result" and not record["is_error"]:
        yield record["result"]  # the third source: some texts stand nowhere else
    if record["type"] == "stream_event" and delta.get("type") == "text_delta":
        yield delta["text"]


def dsh_texts(record: dict[str, Any]) -> Iterator[str]:
    """Text of the model in one record of a session log: of messages and of the streams in them, of chunks, of rows."""
    data = record.get("data", {})
    if record["type"] == "assistant/message":
        yield from [part["text"] for part in data["message"]["content"] if part["type"] == "text"]
    if record["type"] == "assistant/chunk" and data["chunk"]["type"] == "text-delta":
        yield data["chunk"]["text"]
    for row in [*data.get("stream", ()), record]:
        if row["type"] == "text-chunks":
            yield from row["texts"] if "texts" in row else row["data"]["texts"]
        if row["type"] == "chunk" and row["chunk"]["type"] == "text-delta":
            yield row["chunk"]["text"]


def own(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records of a DeepSeek Harness session that are its own, and not the seed of a fork."""
    if not records[0].get("isSeeded"):
        return records
    ends = [at for at, record in enumerate(records) if record["type"] == "session/end-seed"]
    return records[ends[0] :] if ends else []


@pytest.mark.parametrize("path", CLAUDE, ids=name_of)
def test_claude_has_text_whenever_there_was_any(path: Path, tmp_path: Path) -> None:
    """Claude Code: sessions, those of subagents, and recorded streams."""
    seen = 0
    for records, runs in cuts(path, tmp_path):
        written = any(not blank(text) for record in records for text in claude_texts(record))
        assert written is not blank(runs[0].outcome.text if runs else None), records[-1]
        seen += 1
    assert seen > 0


@pytest.mark.parametrize("path", DSH, ids=name_of)
def test_dsh_has_text_whenever_there_was_any(path: Path, tmp_path: Path) -> None:
    """DeepSeek Harness: session logs of all generations; text of any activation counts."""
    for records, runs in cuts(path, tmp_path):
        written = any(not blank(text) for record in own(records) for text in dsh_texts(record))
        assert written is any(not blank(run.outcome.text) for run in runs), records[-1]
