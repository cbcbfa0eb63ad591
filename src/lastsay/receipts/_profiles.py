"""Native profiles: how a harness shows a function result in its history, as data, one row per harness and version.

Every row says where its rules were measured. A profile is only ever used to *confirm*: where it is wrong, a result is
refused that could have been confirmed, never the reverse.
"""

from typing import Final

import msgspec

__all__ = ("CLAUDE_2_1_269", "CLAUDE_2_1_332", "EXACT", "PROFILES", "ErrorRule", "NativeProfile", "profile_for")


class ErrorRule(msgspec.Struct, frozen=True, kw_only=True):
    """How the texts of a failed result become one string; all lengths are UTF-16 code units."""

    joiner: str = "\n"
    no_text_part: str
    """Shown where the result had no text part at all."""
    empty: str
    """Shown where the joined text trims to nothing."""
    limit: int
    """The longest text that is shown whole."""
    keep: int
    """What is shown of both ends of a longer one."""
    elision: str
    """What stands between the ends; ``{count}`` is what was left out."""


class NativeProfile(msgspec.Struct, frozen=True, kw_only=True):
    """How one harness shows a function result.

    A field that is None means that the harness has no such rule: blocks are shown as they were submitted.
    """

    name: str
    harness: str
    version: str | None = None
    source: str
    """Where the rules of this row come from."""
    blank: str | None = None
    """Shown for a success without text and image; ``{tool}`` is the native tool name."""
    error: ErrorRule | None = None
    record_of_error: str | None = None
    """Begins the harness's own record of a failed result, before the rendered text. None: there are no records."""
    persisted: tuple[str, ...] = ()
    """Patterns of a notice that stands for content in a file; group ``path`` is the file."""
    folder: tuple[str, str] | None = None
    """Names of the folder of all sessions and, below the session's own, of the folder with the results' files."""
    image_note: str | None = None
    """Pattern of a text block that the harness adds after an image; group ``path`` is the file with its bytes."""
    rejections: tuple[str, ...] = ()
    """Records that say that a call was not executed."""
    timeout: str | None = None
    """Pattern of the text that says that the harness stopped waiting for the function."""
    outcome_only: bool = False
    """Confirm by error flag and the presence of text where nothing better fits. Never a blank error."""


_BY_SIZE: Final = r"<persisted-output>\nOutput too large \([^)\n]{1,32}\)\. Full output saved to: (?P<path>[^\n]+)\n"
_BY_TOKENS: Final = (
    r"Error: result \([\d,]+ characters(?: across [\d,]+ lines?)?\) exceeds maximum allowed tokens\. "
    r"Output has been saved to (?P<path>[^\n]+?)\.?\n"
)

_CLAUDE: Final = NativeProfile(
    name="claude-2.1.269",
    harness="claude",
    version="2.1.269",
    source="Claude Code 2.1.269 (npm native package 0.3.269), 254 generated cases and the size matrix",
    blank="({tool} completed with no output)",
    error=ErrorRule(
        no_text_part="Unknown error",
        empty="Command failed with no output",
        # The limit is 10,000 and a slack of 1,024; only beyond both is the middle left out.
        limit=11_024,
        keep=5_000,
        elision="\n\n... [{count} characters truncated] ...\n\n",
    ),
    record_of_error="Error: ",
    persisted=(_BY_SIZE, _BY_TOKENS),
    folder=("projects", "tool-results"),
    rejections=("User rejected tool use",),
    timeout=r'MCP server "[^"\n]*" tool "[^"\n]*" timed out after [\d.]+ ?m?s',
)

CLAUDE_2_1_269: Final = _CLAUDE

CLAUDE_2_1_332: Final = msgspec.structs.replace(
    _CLAUDE,
    name="claude-2.1.332",
    version="2.1.332",
    source="Claude Code 2.1.332 (claude-agent-sdk 0.2.189); recorded by scripts/record_receipts.py",
    image_note=r"\[Image: source: (?P<path>[^\],]+)[^\]]*\]",
)

EXACT: Final = NativeProfile(
    name="exact",
    harness="any",
    source="a harness that keeps the submitted blocks as they are, in order, blank ones included",
)

PROFILES: Final = (CLAUDE_2_1_269, CLAUDE_2_1_332, EXACT)


def profile_for(version: str | None, *, harness: str = "claude", outcome_only: bool = False) -> NativeProfile:
    """The row for a harness's version: the newest that is not newer, else the oldest.

    Args:
        version: as the harness reports it, e.g. ``2.1.332``; None for the newest row.
        harness: ``claude``; any other name gives `EXACT`.
        outcome_only: for a version without a row of its own, also confirm by outcome where no rule fits.
    """
    rows = sorted((p for p in PROFILES if p.harness == harness), key=lambda p: _ordered(p.version))
    if not rows:
        return EXACT
    if version is None:
        return rows[-1]
    wanted = _ordered(version)
    row = next((p for p in reversed(rows) if _ordered(p.version) <= wanted), rows[0])
    known = row.version == version
    return row if known or not outcome_only else msgspec.structs.replace(row, outcome_only=True)


def _ordered(version: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in (version or "").split(".") if part.isdecimal())
