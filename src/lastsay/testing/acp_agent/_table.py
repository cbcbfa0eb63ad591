"""All modes by name, and what a client must make of them."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from . import _faults, _modes
from ._agent import Agent, Mode
from ._faults import broken, unreached

__all__ = ("EXPECTED", "MODES", "Expected")


class Expected(NamedTuple):
    """What a client must make of a mode.

    Attributes:
        output: the text of the answer, or None.
        stop: the mapped stop reason.
        faults: the kinds of the faults, in order.
    """

    output: str | None = "Hello there."
    stop: str = "completed"
    faults: tuple[str, ...] = ()


_BROKEN: Final[Mapping[str, tuple[bytes, str]]] = {
    "text_line": (b"Loading configuration...\n", "not_json"),
    "ansi_line": (b"\x1b[32minfo\x1b[0m ready\n", "not_json"),
    "invalid_utf8_line": (b"\xff\xfe\xfa\n", "not_json"),
    "glued_text": (b"npm warn deprecated ", "glued_text"),
    "number": (b"42\n", "not_an_object"),
    "string": (b'"x"\n', "not_an_object"),
    "empty_array": (b"[]\n", "not_an_object"),
    "false": (b"false\n", "not_an_object"),
    "null": (b"null\n", "not_an_object"),
    "empty_object": (b"{}\n", "not_jsonrpc"),
    "log_object": (b'{"level":"info","msg":"ready"}\n', "not_jsonrpc"),
    "deep_nesting": (b"[" * 20_000 + b"\n", "not_json"),
}


def _plain(agent: Agent) -> str:
    """Prints what is no frame before its first one, then behaves."""
    agent.hello()
    return "end_turn"


_FAILED: Final = Expected(stop="error")

MODES: Final[Mapping[str, Mode]] = {
    **{mode.__name__: mode for mode in (*_modes.MODES, *_faults.MODES)},
    **{name: broken(data) for name, (data, _) in _BROKEN.items()},
    "banner_before_first_frame": _plain,
    "exit_at_start": unreached,
    "hang_at_start": unreached,
    "refuse_config": unreached,
    "refuse_session": unreached,
}
"""By name."""

EXPECTED: Final[Mapping[str, Expected]] = {
    **{name: Expected(faults=(kind,)) for name, (_, kind) in _BROKEN.items()},
    "normal": Expected(),
    "no_ids": Expected(),
    "two_steps": Expected(),
    "tool_then_empty": Expected(),
    "tool_then_max_tokens": Expected(stop="max-tokens"),
    "max_tokens": Expected(stop="max-tokens"),
    "refusal": Expected(None, "refusal"),
    "empty": Expected(None),
    "error": _FAILED,
    "thoughts": Expected(),
    "interleaved_ids": Expected(),
    "permission": Expected("no"),
    "client_files": Expected(),
    "children": Expected(),
    "second_messages": Expected(),
    "second_cleared": Expected(),
    "second_error": _FAILED,
    "second_back_to_work": Expected(),
    "log_object_with_the_prompts_id": Expected(faults=("not_jsonrpc",)),
    "glued_answer": Expected(faults=("glued_text",)),
    "two_frames_in_one_line": Expected(),
    "invalid_utf8_in_text": Expected("Hello \ufffd", faults=("invalid_utf8",)),
    "character_cut_in_two": Expected("Hello \U0001f600."),
    "string_id": Expected(),
    "unknown_update": Expected(),
    "update_without_kind": Expected(faults=("invalid_update", "invalid_update")),
    "unknown_content": Expected(),
    "content_as_list": Expected(),
    "unknown_stop_reason": Expected(stop="out_of_coffee"),
    "empty_result": _FAILED,
    "null_result": _FAILED,
    "bad_usage": Expected(),
    "meta_with_the_fields_names": Expected(),
    "answer_to_nothing": Expected(faults=("unmatched_response",)),
    "early_update": Expected("Early. Hello there."),
    "late_text": Expected(),
    "warnings_without_ids": Expected(),
    "retry": Expected(),
    "half_a_line_then_exit": Expected(stop="error", faults=("truncated_line",)),
    "exit_zero": _FAILED,
    "crash": _FAILED,
    "closes_stdout": _FAILED,
    "answer_without_line_end": Expected(),
    "stderr_flood": Expected(),
    "orphan_then_exit": _FAILED,
    "banner_before_first_frame": Expected(
        faults=("not_json", "not_json", "not_an_object", "not_an_object", "not_an_object", "glued_text")
    ),
}
"""By mode, for those whose outcome does not depend on what the client does meanwhile."""
