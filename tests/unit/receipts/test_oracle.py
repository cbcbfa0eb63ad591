"""The rendering model and the receipt rule against results that the real Claude CLI recorded.

The fixtures are written by scripts/record_receipts.py: one line per generated case, long texts hashed.
"""

import base64
import hashlib
import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lastsay.events import Block, Image, Text, ToolResult
from lastsay.receipts import (
    PROFILES,
    FileCheck,
    FunctionResult,
    Judgement,
    NativeProfile,
    Verdict,
    judge,
    judge_files,
    receipt_of,
    record_of,
    render,
)

FOLDER = Path(__file__).parents[2] / "fixtures" / "receipts"
FIXTURES = {p.version: FOLDER / f"claude-{p.version}.ndjson" for p in PROFILES if p.harness == "claude"}
PROFILE_OF = {p.version: p for p in PROFILES}

VERSIONS = pytest.mark.parametrize("version", sorted(FIXTURES))


def cases(version: str) -> list[dict[str, Any]]:
    """Every recorded case of a version."""
    return [json.loads(line) for line in FIXTURES[version].read_text().splitlines()]


def submitted(case: dict[str, Any]) -> FunctionResult:
    """What a case submitted."""
    output: list[dict[str, Any]] = []
    for part in case["parts"]:
        if isinstance(part, dict):
            output.append({"type": "input_image", "image_url": f"data:image/png;base64,{part['image']}"})
        else:
            text = part if isinstance(part, str) else "".join(piece * count for piece, count in part)
            output.append({"type": "input_text", "text": text})
    return FunctionResult.model_validate({"success": case["success"], "output": output})


def tool(case: dict[str, Any]) -> str:
    """The native name of the function that a case called."""
    return f"mcp__functions__{case['function']}"


def same(expected: Any, stored: Any) -> bool:
    """Whether a value is the stored one, whose long texts are hashes."""
    if isinstance(stored, dict) and "sha256" in stored and isinstance(expected, str):
        digest = hashlib.sha256(expected.encode("utf-8", "surrogatepass")).hexdigest()
        return digest == stored["sha256"] and len(expected) == stored["length"]
    if isinstance(stored, list) and isinstance(expected, list):
        return len(stored) == len(expected) and all(map(same, expected, stored))
    if isinstance(stored, dict) and isinstance(expected, dict):
        return stored.keys() == expected.keys() and all(same(expected[key], stored[key]) for key in stored)
    return bool(expected == stored)


def native_form(content: tuple[Block, ...], *, as_text: bool) -> Any:
    """The texts as the CLI writes them: a string, or a list of parts."""
    texts = [b for b in content if type(b) is Text]
    return texts[0].text if as_text else record_of(tuple(texts))


def is_notice(case: dict[str, Any]) -> bool:
    """Whether the CLI put a file in the place of the content."""
    content = case["content"]
    return isinstance(content, dict) and not case["is_error"] and bool(case["files"])


def restored(stored: Any, whole: Any) -> Any:
    """The stored value, with what was hashed replaced by the text that has this hash, else by its beginning."""
    if isinstance(stored, dict) and "sha256" in stored:
        return whole if isinstance(whole, str) and same(whole, stored) else stored["head"]
    if isinstance(stored, list):
        wholes = whole if isinstance(whole, list) and len(whole) == len(stored) else [None] * len(stored)
        return [restored(s, w) for s, w in zip(stored, wholes, strict=True)]
    if isinstance(stored, dict):
        return {
            key: restored(value, whole.get(key) if isinstance(whole, dict) else None) for key, value in stored.items()
        }
    return stored


def blocks(content: Any) -> tuple[Block, ...]:
    """The blocks of a stored content."""
    if isinstance(content, str):
        return (Text(content),)
    made: list[Block] = []
    for part in content:
        if part["type"] == "image":
            made.append(Image(part["source"]["data"], part["source"]["media_type"]))
        else:
            made.append(Text(part["text"]))
    return tuple(made)


def received(case: dict[str, Any], profile: NativeProfile, *, flipped: bool = False) -> ToolResult:
    """The tool result event of a case."""
    result = submitted(case)
    expected = render(result, tool(case), profile).content
    text = expected[0].text if len(expected) == 1 and type(expected[0]) is Text else None
    whole = text if isinstance(case["content"], str) or "sha256" in case["content"] else record_of(result.parts)
    content = blocks(restored(case["content"], whole))
    record = restored(case["record"], f"Error: {text}" if case["is_error"] else record_of(result.parts))
    native = {"tool_use_result": record, "session_id": case["session"], "parent_tool_use_id": None}
    is_error = case["is_error"] is True
    return ToolResult(f"toolu_{case['case']}", content, is_error != flipped, native)


def file_for(case: dict[str, Any], check: FileCheck) -> tuple[bytes | None, ...]:
    """The bytes of the files that the rule asks for: what was submitted, where the recorded hash says so."""
    contents: list[bytes | None] = []
    for expected in check.expected:
        candidates = [json.dumps(record_of(expected), indent=2, ensure_ascii=False).encode()]
        if len(expected) == 1 and type(expected[0]) is Text:
            candidates.append(expected[0].text.encode())
        if type(expected[0]) is Image:
            candidates.append(base64.b64decode(expected[0].data or ""))
        hashes = {file["sha256"] for file in case["files"]}
        contents.append(next((c for c in candidates if hashlib.sha256(c).hexdigest() in hashes), None))
    return tuple(contents)


def verdict_of(case: dict[str, Any], profile: NativeProfile, *, flipped: bool = False) -> Judgement:
    """The verdict on a case, its files read where the rule asks for them."""
    found = judge(submitted(case), receipt_of(received(case, profile, flipped=flipped)), tool(case), profile)
    return judge_files(found, file_for(case, found)) if isinstance(found, FileCheck) else found


@VERSIONS
def test_the_model_renders_what_the_cli_recorded(version: str) -> None:
    """For every case without a file and without an image, the model gives the native content, byte for byte."""
    profile, compared = PROFILE_OF[version], 0
    for case in cases(version):
        if is_notice(case) or any(isinstance(p, dict) for p in case["parts"]):
            continue
        stored = case["content"]
        as_text = isinstance(stored, str) or (isinstance(stored, dict) and "sha256" in stored)
        if not as_text:
            stored = [part for part in stored if part != {"type": "text", "text": ""}]
        rendering = render(submitted(case), tool(case), profile)
        assert same(native_form(rendering.content, as_text=as_text), stored), case["case"]
        compared += 1
    assert compared >= 250


@VERSIONS
def test_every_recorded_result_is_confirmed(version: str) -> None:
    """The rule confirms every result that the CLI applied, and by which rule is as the size and the blanks say."""
    profile = PROFILE_OF[version]
    verdicts = {case["case"]: verdict_of(case, profile) for case in cases(version)}
    assert {name: v for name, v in verdicts.items() if not v.verdict.confirmed} == {}
    counts = Counter(v.verdict for v in verdicts.values())
    assert set(counts) == {
        Verdict.EXACT, Verdict.PLACEHOLDER, Verdict.TRIMMED, Verdict.TRUNCATED, Verdict.PERSISTED, Verdict.IMAGE,
    }  # fmt: skip


@VERSIONS
def test_a_flipped_flag_is_never_confirmed(version: str) -> None:
    """The same receipts with the error flag flipped are refused, every one."""
    profile = PROFILE_OF[version]
    flipped = {case["case"]: verdict_of(case, profile, flipped=True).verdict for case in cases(version)}
    assert {Verdict.FLAG_CONFLICT} == set(flipped.values())


@VERSIONS
def test_a_receipt_confirms_no_other_result(version: str) -> None:
    """A receipt of one case refuses the result of any other that the model renders differently."""
    profile = PROFILE_OF[version]
    small = [c for c in cases(version) if c["case"].startswith(("matrix", "fuzz"))]
    for one, other in pairwise(small):
        result = submitted(other)
        receipt = receipt_of(received(one, profile))
        ours, theirs = submitted(one), submitted(other)
        equal = ours.is_error == theirs.is_error and (
            render(ours, tool(one), profile) == render(theirs, tool(other), profile)
        )
        found = judge(result, receipt, tool(other), profile)
        assert isinstance(found, Judgement)
        assert equal or not found.verdict.confirmed, (one["case"], other["case"])


EXPECTED = {
    "11024": (Verdict.EXACT, Verdict.EXACT),
    "11025": (Verdict.EXACT, Verdict.TRUNCATED),
    "11024-astral": (Verdict.EXACT, Verdict.EXACT),
    "11026-astral": (Verdict.EXACT, Verdict.TRUNCATED),
    "pair-at-head": (Verdict.EXACT, Verdict.TRUNCATED),
    "pair-at-tail": (Verdict.EXACT, Verdict.TRUNCATED),
    "pairs-at-both": (Verdict.EXACT, Verdict.TRUNCATED),
    "padded-11025": (Verdict.EXACT, Verdict.TRIMMED),
    "joined-11025": (Verdict.EXACT, Verdict.TRUNCATED),
    "50000": (Verdict.EXACT, Verdict.TRUNCATED),
    "50001": (Verdict.PERSISTED, Verdict.TRUNCATED),
    "60000-two": (Verdict.PERSISTED, Verdict.TRUNCATED),
    "25001-astral": (Verdict.PERSISTED, Verdict.TRUNCATED),
    "120000": (Verdict.PERSISTED, Verdict.TRUNCATED),
    "120000-two": (Verdict.PERSISTED, Verdict.TRUNCATED),
    "120000-blank": (Verdict.PERSISTED, Verdict.PLACEHOLDER),
}


@VERSIONS
def test_the_sizes_give_the_verdicts_of_the_table(version: str) -> None:
    """Around every threshold the verdict is the one that the compatibility page names."""
    profile = PROFILE_OF[version]
    by_name = {case["case"]: case for case in cases(version)}
    for name, (success, error) in EXPECTED.items():
        assert success == verdict_of(by_name[f"size-{name}-True"], profile).verdict, name
        assert error == verdict_of(by_name[f"size-{name}-False"], profile).verdict, name
