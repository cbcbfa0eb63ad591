"""Hypothesis strategies for events, for testing whatever consumes them.

Hypothesis is imported when a strategy is asked for, not before.
"""

from typing import TYPE_CHECKING

from lastsay.errors import MissingExtraError
from lastsay.events import (
    MAIN,
    AttemptAborted,
    Event,
    Image,
    Message,
    MessageRetracted,
    MessageStarted,
    Notice,
    Opaque,
    Reasoning,
    ReasoningDelta,
    RunEnded,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    ToolUse,
    Usage,
    UsageReported,
)

if TYPE_CHECKING:
    from hypothesis import strategies as st

__all__ = ("run_events",)

_IDS = (None, "m1", "m2", "m3")
_TEXTS = ("", " ", "\n", "A", "bc", "The answer.", "\u00e9\u4f60", "\ud800")
_STOPS = (None, "end_turn", "max_tokens", "tool_use", "refusal", "made_up")


def run_events(*, run: str = MAIN, max_size: int = 30, ended: bool | None = None) -> "st.SearchStrategy[list[Event]]":
    """Lists of events of one run, in any order a harness could send them, and in some that none does.

    Args:
        run: the run id that all of them carry.
        max_size: events at most, the end record not counted.
        ended: True for lists that close with an end record, False for lists without one, None for both.
    """
    try:
        from hypothesis import strategies as st  # noqa: PLC0415  # tests only
    except ImportError:
        raise MissingExtraError("tests", "generating events") from None

    texts, ids = st.sampled_from(_TEXTS), st.sampled_from(_IDS)
    real_ids = st.sampled_from([name for name in _IDS if name is not None])
    block = st.one_of(
        texts.map(Text),
        texts.map(Reasoning),
        real_ids.map(lambda name: ToolUse(f"call-{name}", "tool")),
        st.just(Image(data="aGk=", media_type="image/png")),
        st.just(Opaque("unknown", {"a": 1})),
    )
    message = st.builds(
        Message,
        st.lists(block, max_size=3).map(tuple),
        message=ids,
        stop_reason=st.sampled_from(_STOPS),
        usage=st.none() | st.builds(Usage, st.integers(0, 9), st.integers(0, 9)),
        interrupted=st.booleans(),
        origin=st.sampled_from(("model", "model", "model", "synthetic", "notice", "replay")),
        phase=st.sampled_from((None, None, None, "commentary", "final_answer")),
        run=st.just(run),
    )
    same = {"run": st.just(run)}
    event = st.one_of(
        st.builds(TextDelta, texts, ids, **same),
        st.builds(TextDelta, texts, ids, **same),
        message,
        st.builds(ReasoningDelta, texts, ids, **same),
        st.builds(MessageStarted, ids, **same),
        st.builds(MessageRetracted, real_ids, **same),
        st.builds(AttemptAborted, ids, st.sampled_from((None, "retry")), **same),
        st.builds(ToolCall, real_ids.map("call-{}".format), st.just("tool"), **same),
        st.builds(ToolResult, real_ids.map("call-{}".format), **same),
        st.builds(UsageReported, st.builds(Usage, st.integers(0, 9)), ids, **same),
        st.builds(Notice, st.just("user_message"), st.sampled_from((None, {"meta": True})), **same),
        st.builds(Notice, st.just("error"), st.just({"message": "MAX_TURNS"}), **same),
    )
    events: st.SearchStrategy[list[Event]] = st.lists(event, max_size=max_size)
    end = st.builds(
        RunEnded,
        st.sampled_from(("completed", "aborted", "error", "max-tokens", "refusal", "made_up")),
        terminal=st.none() | texts,
        **same,
    )
    if ended is None:
        return events | st.builds(lambda rows, last: [*rows, last], events, end)
    return st.builds(lambda rows, last: [*rows, last], events, end) if ended else events
