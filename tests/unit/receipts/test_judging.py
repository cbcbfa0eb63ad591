"""The receipt rule, branch by branch; that the CLI really writes so is shown by test_oracle and the live tests."""

import base64
import json
from typing import Any

import msgspec
import pytest

from lastsay.events import Block, Image, Text, ToolResult
from lastsay.receipts import (
    CLAUDE_2_1_269,
    CLAUDE_2_1_332,
    EXACT,
    FileCheck,
    FunctionResult,
    Judgement,
    NativeProfile,
    Verdict,
    judge,
    judge_files,
    profile_for,
    receipt_of,
    record_of,
)

TOOL = "mcp__functions__f"
FOLDER = "/home/config/projects/-work/s1/tool-results"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGM4wcUFRAwQCgAbFgNxOExuRAAAAABJRU5ErkJggg=="
OTHER_IMAGE = base64.b64encode(b"\x89PNG\r\n\x1a\nre-encoded").decode()
NOTE = f"[Image: source: {FOLDER}/mcp-functions-blob-1.png]"


def success(*texts: str) -> FunctionResult:
    """A success with these text parts."""
    return FunctionResult.model_validate(
        {"success": True, "output": [{"type": "input_text", "text": text} for text in texts]}
    )


def failure(*texts: str) -> FunctionResult:
    """A failure with these text parts."""
    return success(*texts).model_copy(update={"success": False})


def with_image(*parts: str | None) -> FunctionResult:
    """A success with these texts, and an image for every None."""
    url = f"data:image/png;base64,{PNG}"
    output = [
        {"type": "input_image", "image_url": url} if part is None else {"type": "input_text", "text": part}
        for part in parts
    ]
    return FunctionResult.model_validate({"success": True, "output": output})


def found(
    result: FunctionResult,
    *content: str | Block,
    is_error: bool | None = None,
    profile: NativeProfile = CLAUDE_2_1_332,
    **native: Any,
) -> Judgement | FileCheck:
    """What the rule finds for a receipt with this content."""
    blocks = tuple(Text(c) if isinstance(c, str) else c for c in content)
    flag = result.is_error if is_error is None else is_error
    event = ToolResult("c1", blocks, flag, {"session_id": "s1", **native})
    return judge(result, receipt_of(event), TOOL, profile)


def verdict(*args: Any, **native: Any) -> tuple[Verdict, str | None]:
    """The verdict and what it rests on, where no file is needed."""
    judgement = found(*args, **native)
    assert isinstance(judgement, Judgement)
    return judgement.verdict, judgement.proof


def test_a_success_rests_on_the_record_or_on_the_content() -> None:
    """The record is the better proof; without one the content decides; a record that differs refuses."""
    result = success(" a ", "b")
    recorded = record_of(result.parts)
    assert (Verdict.EXACT, "record") == verdict(result, " a ", "b", tool_use_result=recorded)
    assert (Verdict.EXACT, "content") == verdict(result, " a ", "b")
    assert (Verdict.MISMATCH, None) == verdict(result, " a ", "b", tool_use_result=recorded[:1])
    assert (Verdict.MISMATCH, None) == verdict(result, " a b", tool_use_result=recorded)
    assert (Verdict.MISMATCH, None) == verdict(result)


def test_empty_text_parts_are_compared_by_the_record_only() -> None:
    """A border that drops empty blocks costs no confirmation."""
    result = success("x", "", "y")
    assert (Verdict.EXACT, "record") == verdict(result, "x", "y", tool_use_result=record_of(result.parts))
    assert (Verdict.EXACT, "content") == verdict(result, "x", "", "y")


def test_a_blank_success_is_the_placeholder_of_its_own_tool() -> None:
    """Another tool's placeholder is nothing; unknown words count where the record proves the blank parts."""
    blank = success(" ")
    assert (Verdict.PLACEHOLDER, "content") == verdict(blank, f"({TOOL} completed with no output)")
    assert (Verdict.MISMATCH, None) == verdict(blank, "(mcp__functions__g completed with no output)")
    assert (Verdict.PLACEHOLDER, "record") == verdict(blank, "nothing", tool_use_result=record_of(blank.parts))
    assert (Verdict.MISMATCH, None) == verdict(blank, "nothing", tool_use_result=record_of(success("").parts))
    assert (Verdict.MISMATCH, None) == verdict(blank, "two", "blocks", tool_use_result=record_of(blank.parts))


def test_an_error_is_joined_and_trimmed() -> None:
    """The text must be the rendered one, and the record the same after its prefix."""
    result = failure(" a ", "", "b\ufeff")
    assert (Verdict.TRIMMED, "record") == verdict(result, "a \n\nb", tool_use_result="Error: a \n\nb")
    assert (Verdict.TRIMMED, "content") == verdict(result, "a \n\nb")
    assert (Verdict.MISMATCH, None) == verdict(result, "a \n\nb", tool_use_result="Error: other")
    assert (Verdict.EXACT, "content") == verdict(failure("a"), "a")
    assert (Verdict.PLACEHOLDER, "content") == verdict(failure("\ufeff"), "Command failed with no output")
    assert (Verdict.PLACEHOLDER, "content") == verdict(failure(), "Unknown error")
    assert (Verdict.MISMATCH, None) == verdict(failure(), "Command failed with no output")
    assert (Verdict.MISMATCH, None) == verdict(failure("\x85"), "Command failed with no output")


def test_a_rejection_is_never_a_blank_error() -> None:
    """Whatever the wording, the provenance of a rejection decides; the wording alone confirms nothing either."""
    words = "The user doesn't want to proceed with this tool use."
    for result in (failure(), failure(" "), failure(words), success("x")):
        for native in (
            {"tool_use_result": "User rejected tool use"},
            {"non_execution_kind": "user-rejected"},
            {"tool_result_meta": [None, {"id": "c2"}, {"id": "c1", "non_execution_kind": "user-rejected"}]},
            {"tool_result_meta": {"non_execution_kind": "user-rejected"}},
        ):
            assert (Verdict.REJECTED, None) == verdict(result, words, is_error=True, **native)
    assert (Verdict.MISMATCH, None) == verdict(failure(), words)
    other = [{"id": "c2", "non_execution_kind": "user-rejected"}]
    assert (Verdict.PLACEHOLDER, "content") == verdict(failure(), "Unknown error", tool_result_meta=other)


def test_a_flag_that_differs_is_never_confirmed() -> None:
    """Not even where the content is exactly what was submitted, nor under a profile that confirms by outcome."""
    loose = profile_for("9.9.9", outcome_only=True)
    for profile in (CLAUDE_2_1_332, EXACT, loose):
        assert (Verdict.FLAG_CONFLICT, None) == verdict(success("x"), "x", is_error=True, profile=profile)
        assert (Verdict.FLAG_CONFLICT, None) == verdict(failure("x"), "x", is_error=False, profile=profile)


def test_the_harness_that_stopped_waiting_is_named() -> None:
    """Its own text is a timeout for a success and for an error, and no text of a success."""
    text = 'MCP server "functions" tool "f" timed out after 3s'
    assert (Verdict.TIMED_OUT, None) == verdict(success("x"), text, is_error=True)
    assert (Verdict.TIMED_OUT, None) == verdict(failure("x"), text)
    assert (Verdict.MISMATCH, None) == verdict(success("x"), text)
    assert (Verdict.FLAG_CONFLICT, None) == verdict(success("x"), text, is_error=True, profile=EXACT)


def test_by_outcome_only_where_asked_for_and_never_a_blank_error() -> None:
    """A version without a row of its own may be confirmed by flag and text; a blank error may not."""
    loose = profile_for("9.9.9", outcome_only=True)
    assert (Verdict.OUTCOME_ONLY, "outcome") == verdict(success("x"), "other words", profile=loose)
    assert (Verdict.OUTCOME_ONLY, "outcome") == verdict(failure("x"), "other words", profile=loose)
    assert (Verdict.OUTCOME_ONLY, "outcome") == verdict(success(), "other words", profile=loose)
    assert (Verdict.MISMATCH, None) == verdict(failure(" "), "other words", profile=loose)
    assert (Verdict.MISMATCH, None) == verdict(failure(), "other words", profile=loose)
    assert (Verdict.MISMATCH, None) == verdict(success("x"), profile=loose)
    assert (Verdict.EXACT, "content") == verdict(success("x"), "x", profile=loose)
    assert (Verdict.MISMATCH, None) == verdict(success("x"), "other words", profile=profile_for("9.9.9"))
    assert (Verdict.MISMATCH, None) == verdict(
        success("x"), "other words", profile=profile_for("2.1.332", outcome_only=True)
    )


def test_an_exact_harness_shows_everything_as_it_was() -> None:
    """Blank and padded, success and error: the blocks themselves, and nothing else."""
    assert (Verdict.EXACT, "content") == verdict(success(" "), " ", profile=EXACT)
    assert (Verdict.EXACT, "content") == verdict(failure(" a ", "b"), " a ", "b", profile=EXACT)
    assert (Verdict.EXACT, "content") == verdict(success(), profile=EXACT)
    assert (Verdict.MISMATCH, None) == verdict(failure(), "rejected", profile=EXACT)
    assert (Verdict.MISMATCH, None) == verdict(success("a"), "a ", profile=EXACT, tool_use_result=[{"type": "text"}])


def frame(path: str) -> str:
    """A notice of the size gate."""
    return (
        f"<persisted-output>\nOutput too large (58.6KB). Full output saved to: {path}\n\nPreview\n</persisted-output>"
    )


def notice(path: str, lines: str = " across 1 line") -> str:
    """A notice of the token gate."""
    head = f"Error: result (120,000 characters{lines}) exceeds maximum allowed tokens."
    return f"{head} Output has been saved to {path}.\nFormat: Plain text\n"


@pytest.mark.parametrize("lines", ["", " across 1 line", " across 60,000 lines"])
def test_a_persisted_result_is_proved_by_record_or_file(lines: str) -> None:
    """An equal record needs no file; else the file must hold the text, or the parts as JSON."""
    result = success("x" * 60_000)
    by_record = verdict(result, frame(f"{FOLDER}/c1.json"), tool_use_result=record_of(result.parts))
    assert (Verdict.PERSISTED, "record") == by_record
    text = notice(f"{FOLDER}/mcp-functions-f-1.txt", lines)
    check = found(result, text, tool_use_result=text)
    assert isinstance(check, FileCheck)
    assert (f"{FOLDER}/mcp-functions-f-1.txt",) == check.paths
    as_json = json.dumps(record_of(result.parts), indent=2).encode()
    for content in (b"x" * 60_000, as_json):
        assert Judgement(Verdict.PERSISTED, "file") == judge_files(check, (content,))
    for content in (b"x" * 59_999, b"[]", b"\xff", None):
        assert Verdict.MISMATCH == judge_files(check, (content,)).verdict
    assert Verdict.MISMATCH == judge_files(check, ()).verdict


def test_two_parts_are_compared_as_json_only() -> None:
    """The raw text of a file cannot say where one part ends."""
    result = success("x" * 60_000, "é")
    check = found(result, notice(f"{FOLDER}/mcp-functions-f-1.txt"))
    assert isinstance(check, FileCheck)
    assert Verdict.MISMATCH == judge_files(check, (b"x" * 60_000 + "é".encode(),)).verdict
    as_json = json.dumps(record_of(result.parts), indent=2, ensure_ascii=False).encode()
    assert Judgement(Verdict.PERSISTED, "file") == judge_files(check, (as_json,))


@pytest.mark.parametrize(
    "path",
    [
        "/home/config/projects/-work/s2/tool-results/c1.json",
        "/home/config/projects/-work/s1/other/c1.json",
        "/home/config/other/-work/s1/tool-results/c1.json",
        "/home/config/projects/-work/s1/tool-results/../tool-results/c1.json",
        "home/config/projects/-work/s1/tool-results/c1.json",
        "/etc/passwd",
    ],
)
def test_a_file_elsewhere_is_never_read(path: str) -> None:
    """Only the result folder of the receipt's own session counts."""
    assert (Verdict.MISMATCH, None) == verdict(success("x"), frame(path))


def test_without_a_session_or_a_folder_no_file_is_read() -> None:
    """A receipt that names no session cannot name a file, nor can a harness that has none."""
    assert (Verdict.MISMATCH, None) == verdict(success("x"), frame(f"{FOLDER}/c1.json"), session_id=None)
    folderless = msgspec.structs.replace(CLAUDE_2_1_332, folder=None)
    assert (Verdict.MISMATCH, None) == verdict(success("x"), frame(f"{FOLDER}/c1.json"), profile=folderless)


def test_an_image_that_came_back_as_it_was() -> None:
    """With and without the note that newer versions add; a submitted text that looks like one is still matched."""
    same = Image(PNG, "image/png")
    assert (Verdict.IMAGE, "content") == verdict(with_image("a", None, "b"), "a", same, NOTE, "b")
    assert (Verdict.IMAGE, "content") == verdict(with_image("a", None, "", "b"), "a", same, "b")
    assert (Verdict.IMAGE, "content") == verdict(with_image(None, NOTE), same, NOTE, NOTE)
    assert (Verdict.IMAGE, "content") == verdict(with_image(None), same)
    assert (Verdict.IMAGE, "content") == verdict(with_image(None, None), same, NOTE, same, NOTE)
    assert (Verdict.IMAGE, "content") == verdict(with_image(None, NOTE), same, NOTE, profile=CLAUDE_2_1_269)
    assert (Verdict.MISMATCH, None) == verdict(with_image(None), same, NOTE, profile=CLAUDE_2_1_269)


def test_an_image_in_the_wrong_place_is_refused() -> None:
    """Texts, count and order must be as submitted, and an image must be one."""
    same = Image(PNG, "image/png")
    assert (Verdict.MISMATCH, None) == verdict(with_image("a", None), same, NOTE, "a")
    assert (Verdict.MISMATCH, None) == verdict(with_image("a", None), "a")
    assert (Verdict.MISMATCH, None) == verdict(with_image(None), "[Image]")
    assert (Verdict.MISMATCH, None) == verdict(with_image(None), same, "more")
    assert (Verdict.MISMATCH, None) == verdict(with_image(None), same, same)
    assert (Verdict.MISMATCH, None) == verdict(with_image(None), Image("&", "image/png"))
    assert (Verdict.MISMATCH, None) == verdict(with_image(None), Image(None, "image/png", "https://example.org"))


def test_a_reencoded_image_is_compared_by_its_file() -> None:
    """The file that the note names holds the submitted bytes; without one only the shape is known."""
    changed = Image(OTHER_IMAGE, "image/png")
    check = found(with_image(None), changed, NOTE)
    assert isinstance(check, FileCheck)
    assert Judgement(Verdict.IMAGE, "file") == judge_files(check, (base64.b64decode(PNG),))
    assert Verdict.MISMATCH == judge_files(check, (b"other",)).verdict
    assert (Verdict.IMAGE, "shape") == (judge_files(check, (None,)).verdict, judge_files(check, (None,)).proof)
    assert (Verdict.IMAGE, "shape") == verdict(with_image(None), changed)
    assert (Verdict.IMAGE, "shape") == verdict(with_image(None), changed, NOTE.replace("/s1/", "/s2/"))
    scaled = NOTE[:-1] + ", original 3000x10, displayed at 2000x7. Multiply coordinates by 1.50 to map.]"
    assert isinstance(found(with_image(None), changed, scaled), FileCheck)


def test_profiles_are_chosen_by_version() -> None:
    """The row of the version, else the newest that is not newer, else the oldest; other harnesses are exact."""
    assert CLAUDE_2_1_269 is profile_for("2.1.269")
    assert CLAUDE_2_1_269 is profile_for("2.1.300")
    assert CLAUDE_2_1_269 is profile_for("1.0.0")
    assert CLAUDE_2_1_332 is profile_for("2.1.332")
    assert CLAUDE_2_1_332 is profile_for("3.0.0")
    assert CLAUDE_2_1_332 is profile_for(None)
    assert EXACT is profile_for("1", harness="other")
    assert not profile_for("2.1.332", outcome_only=True).outcome_only
    assert profile_for("2.1.333", outcome_only=True).outcome_only


@pytest.mark.parametrize("native", [None, "text", 3, [], {"tool_result_meta": 3}, {"session_id": 3}])
def test_odd_records_never_raise(native: Any) -> None:
    """A backend that says nothing, or nonsense, loses the stronger proofs and nothing else."""
    receipt = receipt_of(ToolResult("c1", (Text("x"),), False, native))
    assert Judgement(Verdict.EXACT, "content") == judge(success("x"), receipt, TOOL, CLAUDE_2_1_332)
