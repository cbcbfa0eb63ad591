"""The receipt rule: one submitted result and one receipt in, one verdict out.

In this order, and the first that applies decides:

1. The record says that the call was not executed: `rejected`. A provenance field says so, or the record is the
   harness's own word for it; the wording shown to the model is never asked. Without this step a rejection could pass
   for a failed result without text: both are an error with some text of the harness's own.
2. The error flags differ: `timed_out` where the text is the harness's own, else `flag_conflict`.
3. An error: its text must be what the rendering model gives, and the record, where there is one, the same text after
   its prefix.
4. A success: the blocks must be what the rendering model gives; a recorded list of parts must equal the submitted one.
   A placeholder in unknown words is accepted where the record proves the blank parts. A notice that stands for a file
   is accepted where the record or the file holds exactly what was submitted.
5. A success with an image: the parts are walked in order. Every text must be there unchanged; every image takes one
   image block, and after it one note of the harness where its version writes such notes. An image that came back
   re-encoded is compared by the file that the note names, else by its shape alone.
6. Nothing fits: `timed_out` where the text is the harness's own; `outcome_only` where the profile allows it and the
   result is not a blank error; else `mismatch`.

A file counts only when it lies in the result folder of the receipt's own session.
"""

import base64
import binascii
import json
import re
from pathlib import PurePosixPath
from typing import Final

import msgspec

from lastsay.events import Block, Image, Text
from lastsay.receipts._admission import FunctionResult, Part
from lastsay.receipts._evidence import Receipt, substantial
from lastsay.receipts._profiles import NativeProfile
from lastsay.receipts._rendering import Rendering, record_of, render
from lastsay.receipts._verdicts import Proof, Verdict

__all__ = ("FileCheck", "Judgement", "is_rejection", "judge", "judge_files", "persisted_path", "stopped_waiting")


class Judgement(msgspec.Struct, frozen=True):
    """A verdict: what it rests on where it confirms, and what was found where it refuses."""

    verdict: Verdict
    proof: Proof | None = None
    detail: str | None = None


class FileCheck(msgspec.Struct, frozen=True):
    """Files that must be read before there is a verdict.

    Args:
        paths: the files, in order.
        expected: the parts that each file must hold: all of them for a persisted result, one image otherwise.
        session: the session whose folder the files must lie in.
    """

    paths: tuple[str, ...]
    expected: tuple[tuple[Part, ...], ...]
    session: str | None = None
    verdict: Verdict = Verdict.PERSISTED


_EXCERPT: Final = 80
"""Characters of the harness's text that a refusal quotes."""


def judge(result: FunctionResult, receipt: Receipt, tool: str, profile: NativeProfile) -> Judgement | FileCheck:
    """The verdict on a live receipt, or the files to read first.

    Args:
        result: what was submitted for this call.
        receipt: what the history says.
        tool: the native name of the tool.
        profile: the harness's row.
    """
    if receipt.not_executed or is_rejection(receipt, profile):
        return Judgement(Verdict.REJECTED, detail=receipt.not_executed or str(receipt.record))
    if receipt.is_error != result.is_error:
        if stopped_waiting(receipt, profile):
            return Judgement(Verdict.TIMED_OUT, detail=_excerpt(receipt.content))
        said = "an error" if receipt.is_error else "no error"
        return Judgement(Verdict.FLAG_CONFLICT, detail=f"the harness shows {said}: {_excerpt(receipt.content)}")
    found = (_judge_error if result.is_error else _judge_success)(result, receipt, tool, profile)
    if isinstance(found, Judgement) and found.verdict is Verdict.MISMATCH:
        return _judge_rest(result, receipt, profile, found)
    return found


def is_rejection(receipt: Receipt, profile: NativeProfile) -> bool:
    """Whether the record is the harness's own word for a call that was not executed."""
    return isinstance(receipt.record, str) and receipt.record in profile.rejections


def stopped_waiting(receipt: Receipt, profile: NativeProfile) -> bool:
    """Whether the receipt is the harness's own note that the function took too long."""
    text = _only_text(receipt.content)
    pattern = profile.timeout
    return receipt.is_error and pattern is not None and text is not None and bool(re.fullmatch(pattern, text))


def _judge_rest(result: FunctionResult, receipt: Receipt, profile: NativeProfile, mismatch: Judgement) -> Judgement:
    if stopped_waiting(receipt, profile):
        return Judgement(Verdict.TIMED_OUT, detail=mismatch.detail)
    blank_error = result.is_error and result.blank
    if profile.outcome_only and not blank_error and any(type(b) is Text for b in receipt.content):
        return Judgement(Verdict.OUTCOME_ONLY, "outcome", mismatch.detail)
    return mismatch


def _judge_error(result: FunctionResult, receipt: Receipt, tool: str, profile: NativeProfile) -> Judgement:
    expected = render(result, tool, profile)
    if receipt.content != expected.content:
        return _mismatch("the error text differs", receipt)
    if profile.record_of_error is None or not isinstance(receipt.record, str):
        return Judgement(expected.verdict, "content")
    text = _only_text(expected.content)
    if receipt.record != f"{profile.record_of_error}{text}":
        return _mismatch("the recorded error differs from the one shown", receipt)
    return Judgement(expected.verdict, "record")


def _judge_success(
    result: FunctionResult, receipt: Receipt, tool: str, profile: NativeProfile
) -> Judgement | FileCheck:
    if any(type(part) is Image for part in result.parts):
        return _walk(substantial(result.parts), receipt, profile)
    expected = render(result, tool, profile)
    recorded = profile.record_of_error is not None and isinstance(receipt.record, list)
    agrees = recorded and receipt.record == record_of(result.parts)
    if receipt.content == expected.content:
        if recorded and not agrees:
            return _mismatch("the recorded parts differ from those shown", receipt)
        return Judgement(expected.verdict, "record" if agrees else "content")
    if agrees and expected.verdict is Verdict.PLACEHOLDER and _only_text(receipt.content) is not None:
        return Judgement(Verdict.PLACEHOLDER, "record")
    return _judge_notice(expected, result.parts, receipt, profile, agrees=agrees)


def _judge_notice(
    expected: Rendering, parts: tuple[Part, ...], receipt: Receipt, profile: NativeProfile, *, agrees: bool
) -> Judgement | FileCheck:
    path = persisted_path(receipt, profile)
    if path is None:
        what = "the placeholder differs" if expected.verdict is Verdict.PLACEHOLDER else "the blocks differ"
        return _mismatch(what, receipt)
    if agrees:
        return Judgement(Verdict.PERSISTED, "record")
    if not _in_session(path, receipt, profile):
        return _mismatch("the file lies outside the session's result folder", receipt)
    return FileCheck((path,), (parts,), receipt.session)


def persisted_path(receipt: Receipt, profile: NativeProfile) -> str | None:
    """The file that a notice names in the place of the content; None where there is no such notice."""
    text = _only_text(receipt.content)
    if text is None:
        return None
    matches = (re.match(pattern, text) for pattern in profile.persisted)
    return next((match["path"] for match in matches if match), None)


def _in_session(path: str, receipt: Receipt, profile: NativeProfile) -> bool:
    if profile.folder is None or receipt.session is None or not path.startswith("/"):
        return False
    sessions, results = profile.folder
    parts = PurePosixPath(path).parts
    return ".." not in parts and parts[-5:-4] == (sessions,) and parts[-3:-1] == (receipt.session, results)


def _walk(parts: tuple[Block, ...], receipt: Receipt, profile: NativeProfile) -> Judgement | FileCheck:
    blocks = list(receipt.content)
    reencoded: list[Image] = []
    paths: list[str | None] = []
    for part in parts:
        block = blocks.pop(0) if blocks else None
        if type(part) is Text:
            if block != part:
                return _mismatch("a text beside an image differs", receipt)
            continue
        assert type(part) is Image
        if type(block) is not Image or not _decodable(block):
            return _mismatch("an image is not where it was submitted", receipt)
        note = _note_path(blocks, profile)
        if block.data != part.data:
            reencoded.append(part)
            paths.append(note if note is not None and _in_session(note, receipt, profile) else None)
    if blocks:
        return _mismatch("there are more blocks than were submitted", receipt)
    if not reencoded:
        return Judgement(Verdict.IMAGE, "content")
    known = [path for path in paths if path is not None]
    if len(known) != len(reencoded):
        return Judgement(Verdict.IMAGE, "shape", "an image was re-encoded")
    return FileCheck(tuple(known), tuple((image,) for image in reencoded), receipt.session, Verdict.IMAGE)


def _note_path(blocks: list[Block], profile: NativeProfile) -> str | None:
    """Take the harness's note off the front of the blocks, where there is one."""
    if profile.image_note is None or not blocks or type(blocks[0]) is not Text:
        return None
    match = re.fullmatch(profile.image_note, blocks[0].text)
    if match is None:
        return None
    blocks.pop(0)
    return match["path"]


def _decodable(image: Image) -> bool:
    try:
        return bool(base64.b64decode(image.data or "", validate=True))
    except (binascii.Error, ValueError):
        return False


def judge_files(check: FileCheck, contents: tuple[bytes | None, ...]) -> Judgement:
    """The verdict once the files were read.

    Args:
        check: what `judge` asked for.
        contents: the bytes of each file in order; None for one that could not be read or lies outside the folder.
    """
    missing = len(contents) != len(check.paths) or None in contents
    if missing and check.verdict is Verdict.IMAGE:
        return Judgement(Verdict.IMAGE, "shape", "an image was re-encoded and its file cannot be read")
    if missing:
        return Judgement(Verdict.MISMATCH, detail=f"the file cannot be read: {check.paths[0]}")
    for path, expected, content in zip(check.paths, check.expected, contents, strict=True):
        assert content is not None
        if not _holds(content, expected):
            return Judgement(Verdict.MISMATCH, detail=f"the file holds something else: {path}")
    return Judgement(check.verdict, "file")


def _holds(content: bytes, parts: tuple[Part, ...]) -> bool:
    """Whether a file holds the parts: the bytes of one image, the raw text of one part, or all parts as JSON."""
    if len(parts) == 1:
        only = parts[0]
        if type(only) is Image:
            return content == base64.b64decode(only.data or "")
        assert type(only) is Text
        if content == only.text.encode("utf-8", "surrogatepass"):
            return True
    try:
        return bool(json.loads(content) == record_of(parts))
    except ValueError:
        return False


def _only_text(content: tuple[Block, ...]) -> str | None:
    return content[0].text if len(content) == 1 and type(content[0]) is Text else None


def _mismatch(what: str, receipt: Receipt) -> Judgement:
    return Judgement(Verdict.MISMATCH, detail=f"{what}: {_excerpt(receipt.content)}")


def _excerpt(content: tuple[Block, ...]) -> str:
    shown = [repr(b.text[:_EXCERPT]) if type(b) is Text else type(b).__name__.lower() for b in content[:4]]
    return ", ".join(shown) or "no block"
