"""The pages about receipts say what the code does, and the Chinese page is a translation of the present English one."""

import hashlib
import re
from pathlib import Path

import pytest

from lastsay.receipts import CLAUDE_2_1_332, PROFILES, STRAY, Verdict

DOCS = Path(__file__).parents[3] / "docs"
ENGLISH, CHINESE = DOCS / "compatibility.md", DOCS / "zh" / "compatibility.md"


def test_the_chinese_page_translates_the_present_english_one() -> None:
    """The hash in its first line is that of the English page: change one, translate, then record the hash anew."""
    first = CHINESE.read_text(encoding="utf-8").splitlines()[0]
    digest = hashlib.sha256(ENGLISH.read_bytes()).hexdigest()
    assert f"<!-- source: docs/compatibility.md sha256: {digest} -->" == first


def test_both_pages_have_the_same_shape() -> None:
    """As many headings of each level, table rows and list items, and the same words in code style."""
    english, chinese = (page.read_text(encoding="utf-8") for page in (ENGLISH, CHINESE))
    for pattern in (r"^#+ ", r"^\|", r"^\* "):
        assert re.findall(pattern, english, re.MULTILINE) == re.findall(pattern, chinese, re.MULTILINE)
    assert sorted(re.findall(r"`[^`]+`", english)) == sorted(re.findall(r"`[^`]+`", chinese))


@pytest.mark.parametrize("page", [ENGLISH, CHINESE])
def test_the_page_names_the_rules_of_the_profile(page: Path) -> None:
    """The literals and the limits, and every version that has a row."""
    text = page.read_text(encoding="utf-8")
    rule = CLAUDE_2_1_332.error
    assert rule is not None
    assert CLAUDE_2_1_332.blank is not None
    for words in (rule.no_text_part, rule.empty, CLAUDE_2_1_332.blank.format(tool="mcp__functions__NAME")):
        assert f"`{words}`" in text
    assert f"{rule.limit:,}" in text
    assert f"{rule.keep:,}" in text
    assert rule.elision.strip().format(count="N") in text
    assert all(profile.version in text for profile in PROFILES if profile.version is not None)


def test_every_verdict_is_explained() -> None:
    """A row in the table, or a word about the ones that no call gets."""
    text = (DOCS / "functions.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `(\w+)` \| (?:confirmed|ends)", text, re.MULTILINE))
    assert {verdict.value for verdict in Verdict if verdict not in STRAY} == rows
    assert all(f"`{verdict.value}`" in text for verdict in STRAY)
