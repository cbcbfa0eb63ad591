"""What is admitted as a function result, and when two results are the same."""

from typing import Any

import pytest

from lastsay.errors import ReceiptError
from lastsay.events import Image, Text
from lastsay.receipts import FunctionResult, Limits, Submission, admit

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGM4wcUFRAwQCgAbFgNxOExuRAAAAABJRU5ErkJggg=="


def text(value: str) -> dict[str, Any]:
    """A text part."""
    return {"type": "input_text", "text": value}


def image(data: str = PNG, media: str = "image/png") -> dict[str, Any]:
    """An image part."""
    return {"type": "input_image", "image_url": f"data:{media};base64,{data}"}


def submission(**fields: Any) -> dict[str, Any]:
    """A submission for one call, as decoded JSON."""
    return {"call_id": "toolu_1", "success": True, **fields}


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        ({}, ()),
        ({"turn_id": None}, ()),
        ({"output": None}, ()),
        ({"output": ""}, (Text(""),)),
        ({"output": []}, ()),
        ({"output": "x"}, (Text("x"),)),
        ({"output": [text("a"), text("")]}, (Text("a"), Text(""))),
        ({"output": "x", "error": "e"}, (Text("x"), Text("e"))),
        ({"error": ""}, (Text(""),)),
        ({"error": None}, ()),
        ({"output": [image(), text("a")]}, (Image(PNG, "image/png"), Text("a"))),
    ],
)
def test_the_content_is_the_output_and_then_the_error(fields: dict[str, Any], parts: tuple[Any, ...]) -> None:
    """Parts in order, a string as one part, a non-null error last; the flag is `not success` alone."""
    result = admit(submission(**fields)).result
    assert parts == result.parts
    assert not result.is_error


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"success": 1}, "success"),
        ({"success": "true"}, "success"),
        ({"Success": True}, "Success"),
        ({"output": 3}, "output"),
        ({"output": ["x"]}, "output"),
        ({"output": [{"type": "text", "text": "x"}]}, "output"),
        ({"output": [{**text("x"), "extra": 1}]}, "extra"),
        ({"output": [{"type": "input_text", "image_url": "x"}]}, "output"),
        ({"error": 0}, "error"),
        ({"call_id": ""}, "blank"),
        ({"call_id": "\ufeff"}, "blank"),
        ({"call_id": "é" * 257}, "512 bytes"),
        ({"turn_id": " "}, "blank"),
        ({"output": "\ud800"}, "output"),
        ({"output": [image(media="image/gif")]}, "inline"),
        ({"output": [{"type": "input_image", "image_url": "https://example.org/x.png"}]}, "inline"),
        ({"output": [image(data="$$$$")]}, "not base64"),
        ({"output": [image(data="iVBORw0KGgp=")]}, "canonical"),
        ({"output": [image(media="image/jpeg")]}, "does not begin"),
        ({"success": False, "output": [image()]}, "image"),
    ],
)
def test_anything_else_is_refused_by_name(fields: dict[str, Any], said: str) -> None:
    """A wrong type, an unknown key or an image that cannot be confirmed is refused, and the message names it."""
    with pytest.raises(ReceiptError, match=said):
        admit(submission(**fields))


def test_success_and_call_id_are_required() -> None:
    """Nothing stands in for what was left out."""
    with pytest.raises(ReceiptError, match="success"):
        admit({"call_id": "x"})
    with pytest.raises(ReceiptError, match="call_id"):
        admit({"success": True})
    with pytest.raises(ReceiptError, match="result"):
        admit([])


def test_presence_is_part_of_the_identity() -> None:
    """Absent, null and empty give the same content and are three different results; a true retry is the same one."""
    variants = [
        {},
        {"output": None},
        {"output": ""},
        {"output": []},
        {"error": None},
        {"error": ""},
        {"output": [text("")]},
    ]
    identities = [admit(submission(**fields)).result.identity for fields in variants]
    assert len(variants) == len(set(identities))
    assert identities == [admit(submission(**fields)).result.identity for fields in variants]


def test_the_identity_of_a_result_is_that_of_its_submission() -> None:
    """Addressing a result to a call changes nothing about it."""
    assert FunctionResult(success=True, output="x").identity == admit(submission(output="x")).result.identity
    assert isinstance(admit(submission(turn_id="t")), Submission)


@pytest.mark.parametrize(
    ("fields", "blank"),
    [({}, True), ({"output": " \ufeff"}, True), ({"output": "\u0085"}, False), ({"output": [image()]}, False)],
)
def test_blank_is_what_javascript_trims_to_nothing(fields: dict[str, Any], blank: bool) -> None:
    """No image, and no text that the trim leaves anything of."""
    assert blank == admit(submission(**fields)).result.blank


def test_a_result_over_the_limit_is_refused() -> None:
    """The size is that of the result as JSON."""
    assert admit(submission(output="x" * 50), limits=Limits(result=200)).output
    with pytest.raises(ReceiptError, match="over the limit of 200"):
        admit(submission(output="x" * 300), limits=Limits(result=200))
