"""The rendering model: what a harness is expected to show for a submitted result.

success, some text or an image   the parts, as submitted
success, nothing but blank text  the harness's placeholder for this tool
error                            one string: the text parts joined and trimmed; a placeholder where nothing is left;
                                 both ends and a count where it is longer than the limit
a profile without such a rule    the parts, as submitted
"""

from typing import Final

import msgspec

from lastsay.events import Block, Image, Text
from lastsay.receipts._admission import FunctionResult, Part
from lastsay.receipts._evidence import substantial
from lastsay.receipts._javascript import elide_middle, js_trim, utf16_length
from lastsay.receipts._profiles import ErrorRule, NativeProfile
from lastsay.receipts._verdicts import Verdict

__all__ = ("Rendering", "record_of", "render")


class Rendering(msgspec.Struct, frozen=True):
    """What the history is expected to hold: the blocks, and the verdict that finding them gives."""

    content: tuple[Block, ...]
    verdict: Verdict


def render(result: FunctionResult, tool: str, profile: NativeProfile) -> Rendering:
    """What the harness is expected to show where the result is neither oversized nor holds an image.

    Args:
        result: the submitted result.
        tool: the native name of the tool, as the model called it.
        profile: the harness's row.
    """
    if result.is_error and profile.error is not None:
        return _render_error([p.text for p in result.parts if type(p) is Text], profile.error)
    if not result.is_error and profile.blank is not None and result.blank:
        return Rendering((Text(profile.blank.format(tool=tool)),), Verdict.PLACEHOLDER)
    return Rendering(substantial(result.parts), Verdict.EXACT)


def _render_error(texts: list[str], rule: ErrorRule) -> Rendering:
    if not texts:
        return Rendering((Text(rule.no_text_part),), Verdict.PLACEHOLDER)
    joined = rule.joiner.join(texts)
    text = js_trim(joined)
    if not text:
        return Rendering((Text(rule.empty),), Verdict.PLACEHOLDER)
    if utf16_length(text) > rule.limit:
        return Rendering((Text(elide_middle(text, rule.keep, rule.elision)),), Verdict.TRUNCATED)
    return Rendering((Text(text),), Verdict.TRIMMED if text != joined else Verdict.EXACT)


_SOURCE: Final = "base64"


def record_of(parts: tuple[Part, ...]) -> list[dict[str, object]]:
    """The parts in the form in which the Claude CLI records and saves them."""
    return [_record_of(part) for part in parts]


def _record_of(part: Part) -> dict[str, object]:
    if type(part) is Image:
        source = {"type": _SOURCE, "media_type": part.media_type, "data": part.data}
        return {"type": "image", "source": source}
    assert type(part) is Text
    return {"type": "text", "text": part.text}
