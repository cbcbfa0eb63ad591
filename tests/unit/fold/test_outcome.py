"""The outcome: its digest, its diagnostic, its JSON."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from lastsay.events import Block, Image, Message, Opaque, RunEnded, Text, ToolUse
from lastsay.fold import DIAGNOSTIC_LIMIT, Outcome, RunFold, digest_of, limited_diagnostic


def outcome_of(*content: Block, **ended: Any) -> Outcome:
    """The outcome of a run of one message."""
    fold = RunFold()
    fold.push(Message(content))
    fold.push(RunEnded("completed", **ended))
    return fold.outcome()


def test_the_digest_is_the_same_for_the_same_answer() -> None:
    """Two processes that agree on output and stop reason have one digest, whatever the order of keys."""
    one, two = ToolUse("c", "t", {"a": 1, "b": 2}), ToolUse("c", "t", {"b": 2, "a": 1})
    assert digest_of((one,), "completed") == digest_of([two], "completed")
    assert "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" != digest_of(None, "completed")


def test_the_digest_tells_none_from_empty_and_text_from_reason() -> None:
    """Everything that differs in output or stop reason differs in the digest."""
    rows = [(None, "completed"), ((), "completed"), ((Text(""),), "completed"), (None, "error")]
    rows += [((Text("ab"),), "c"), ((Text("a"),), "bc"), ((Text("a"), Text("b")), "c")]
    assert len(rows) == len({digest_of(output, stop) for output, stop in rows})


@pytest.mark.parametrize("value", [{1: "a", "b": 2}, {(1, 2): 3}, datetime(2026, 1, 1, tzinfo=UTC), {1, 2}, b"x"])
def test_values_without_a_form_in_json_do_not_stop_an_outcome(value: Any) -> None:
    """An adapter that leaves an SDK's own objects in an event gets an outcome, a digest and JSON."""
    found = outcome_of(ToolUse("c", "t", value), Opaque("odd", value), structured={"v": [1]})
    assert 64 == len(found.digest)
    assert {"v": [1]} == found.model_dump(mode="json")["structured"]


def test_objects_of_an_sdk_are_written_as_python_does() -> None:
    """Nothing is lost in silence: what JSON has no form for is there in words."""

    class Custom:
        def __repr__(self) -> str:
            return "Custom()"

    found = outcome_of(ToolUse("c", "t", {"x": Custom()}), structured=Custom())
    plain = found.model_dump(mode="json")
    assert ("Custom()", "Custom()") == (plain["output"][0]["input"]["x"], plain["structured"])
    fold = RunFold()
    fold.push(Message((ToolUse("c", "t", {"x": Custom()}),)))
    assert fold.state()["output"][0]["content"][0]["input"] == {"x": "Custom()"}


def test_an_outcome_is_frozen_and_strict() -> None:
    """No consumer can change what the others are told."""
    found = outcome_of(Text("Yes."))
    with pytest.raises(ValidationError):
        found.stop_reason = "error"  # type: ignore[misc]  # the point of the test
    with pytest.raises(ValidationError):
        Outcome.model_validate({**found.model_dump(mode="json"), "made_up": 1})


def test_an_outcome_read_from_json_is_the_same() -> None:
    """Blocks of every kind come back as they were, and the schema names the fields."""
    blocks = (Text("Yes."), Image(data="aGk="), ToolUse("c", "t", {"a": [1]}), Opaque("odd", {"b": None}))
    found = outcome_of(*blocks, diagnostic="slow")
    assert found == Outcome.model_validate_json(found.model_dump_json())
    assert {"output", "digest", "policy"} <= set(Outcome.model_json_schema(mode="serialization")["properties"])


def test_text_is_the_text_blocks_joined() -> None:
    """Other blocks have none; without output there is none."""
    assert "Yes. No." == outcome_of(Text("Yes. "), Image(data="aGk="), Text("No.")).text
    assert RunFold().outcome().text is None


def test_a_diagnostic_stays_within_its_limit() -> None:
    """At the limit it is whole; over it, it is cut at a character and marked, and never longer than the limit."""
    assert "x" * DIAGNOSTIC_LIMIT == limited_diagnostic("x" * DIAGNOSTIC_LIMIT)
    for text in ("x" * (DIAGNOSTIC_LIMIT + 1), "你" * DIAGNOSTIC_LIMIT, "🙂" * DIAGNOSTIC_LIMIT):
        found = limited_diagnostic(text) or ""
        assert len(found.encode()) <= DIAGNOSTIC_LIMIT
        assert found.endswith("\n[diagnostic cut]")
        assert text.startswith(found.removesuffix("\n[diagnostic cut]"))


@pytest.mark.parametrize("text", [None, "", " \n"])
def test_a_blank_diagnostic_is_none(text: str | None) -> None:
    """Nothing to say is not an empty line."""
    assert limited_diagnostic(text) is None


def test_a_diagnostic_with_half_a_character_can_be_sent() -> None:
    """A lone surrogate, as JavaScript writes it, becomes a question mark."""
    assert "bad ? text" == limited_diagnostic("bad \ud800 text")
