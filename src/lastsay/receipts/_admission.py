"""Admission: which function results are taken in, and when two of them are the same.

A result says `success` and may carry `output` and `error`. Keys are exact, at part level too; nothing is converted.
A text with a lone surrogate is refused: it has no UTF-8 form. ``""``, ``[]`` and ``None`` are admitted wherever the
type allows them. Absent, null and empty are three presences: they render to the same content, but they are different
results when a retry is compared.

The content is the output parts in order (a string is one text part), then a non-null `error` as one last text part,
whatever `success` says. The error flag is `not success` and nothing else.

Images are inline PNG or JPEG in canonical base64, and only with success: native harnesses drop the images of an error
without a word, and a remote address cannot be compared with what the harness fetched.
"""

import base64
import binascii
import hashlib
from typing import Annotated, ClassVar, Final, Literal, Self

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from lastsay.errors import ReceiptError
from lastsay.events import Image, Text
from lastsay.receipts._javascript import is_blank

__all__ = ("FunctionResult", "InputImage", "InputText", "Limits", "Part", "Submission", "admit")

Part = Text | Image
"""One part of a rendered result."""

MAX_CALL_ID: Final = 512
"""Bytes of a call id in UTF-8."""

_SIGNATURES: Final = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}


def _encodable(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("a lone surrogate cannot be sent: JSON for a harness is UTF-8") from None
    return value


_Text = Annotated[str, AfterValidator(_encodable)]


class _Strict(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


class InputText(_Strict):
    """A text part of a result."""

    type: Literal["input_text"]
    text: _Text


class InputImage(_Strict):
    """An image part of a result: `image_url` is a data URL with canonical base64, PNG or JPEG."""

    type: Literal["input_image"]
    image_url: _Text

    @field_validator("image_url")
    @classmethod
    def _inline(cls, url: str) -> str:
        _image_from(url)
        return url


def _image_from(url: str) -> Image:
    head, comma, data = url.partition(",")
    media_type = head.removeprefix("data:").removesuffix(";base64")
    if not comma or head != f"data:{media_type};base64" or media_type not in _SIGNATURES:
        raise ValueError("an image must be inline: data:image/png;base64,... or data:image/jpeg;base64,...")
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"the image is not base64: {error}") from None
    if base64.b64encode(raw).decode() != data:
        raise ValueError("the image is not in canonical base64: encode it again")
    if not raw.startswith(_SIGNATURES[media_type]):
        raise ValueError(f"the image does not begin as {media_type} does")
    return Image(data=data, media_type=media_type)


class FunctionResult(_Strict):
    """What a function gave back, exactly as its host says it.

    Args:
        success: whether the function succeeded; the error flag of the tool result is its negation.
        output: a string, or text and image parts, or None, or left out.
        error: a text, or None, or left out. It becomes the last text part also when `success` is true.
    """

    success: bool
    output: _Text | list[Annotated[InputText | InputImage, Field(discriminator="type")]] | None = None
    error: _Text | None = None

    @model_validator(mode="after")
    def _no_image_in_an_error(self) -> Self:
        if not self.success and any(type(part) is Image for part in self.parts):
            raise ValueError("an image cannot travel with success=false: the harness would drop it without a word")
        return self

    @property
    def parts(self) -> tuple[Part, ...]:
        """The content parts in order: the output, then a non-null error as one last text."""
        output = self.output
        parts: list[Part] = []
        if isinstance(output, str):
            parts.append(Text(output))
        elif output is not None:
            parts.extend(Text(p.text) if isinstance(p, InputText) else _image_from(p.image_url) for p in output)
        if self.error is not None:
            parts.append(Text(self.error))
        return tuple(parts)

    @property
    def is_error(self) -> bool:
        """The error flag of the tool result: `not success`."""
        return not self.success

    @property
    def blank(self) -> bool:
        """Whether there is neither an image nor any text that JavaScript's trim leaves something of."""
        return all(type(part) is Text and is_blank(part.text) for part in self.parts)

    @property
    def identity(self) -> str:
        """SHA-256 over the fields and their presence: equal for a true retry, different for anything else."""
        present = self.model_dump(mode="json", include=self.model_fields_set)
        return hashlib.sha256(msgspec.json.encode(present, order="sorted")).hexdigest()


class Submission(FunctionResult):
    """A result addressed to its call, as it comes over an API.

    Args:
        call_id: the native id of the call; not blank, at most 512 bytes.
        turn_id: the turn that the call belongs to, where the host names turns.
    """

    call_id: _Text
    turn_id: _Text | None = None

    @field_validator("call_id", "turn_id")
    @classmethod
    def _usable(cls, value: str | None) -> str | None:
        if value is not None:
            check_call_id(value)
        return value

    @property
    def result(self) -> FunctionResult:
        """The result alone, presences kept."""
        fields = self.model_fields_set - {"call_id", "turn_id"}
        return FunctionResult.model_construct(_fields_set=fields, **{name: getattr(self, name) for name in fields})


def check_call_id(value: str) -> None:
    """Pass for an id that can address a call.

    Raises:
        ValueError: it is blank or over 512 bytes.
    """
    if is_blank(value) or not value.strip():
        raise ValueError("an id must not be blank")
    if len(value.encode("utf-8", "surrogatepass")) > MAX_CALL_ID:
        raise ValueError(f"an id must not be longer than {MAX_CALL_ID} bytes")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What the bridge takes in at most. The figures are those of the hosted API that the rules come from."""

    functions: int = 64
    name: int = 512
    """Bytes of a function name in UTF-8."""
    result: int = 4 * 1024 * 1024
    """Bytes of one result as JSON. A reader of the harness's stream must take about twice this in one line."""
    batch: int = 256
    """Results submitted together."""


def admit(raw: object, *, limits: Limits | None = None) -> Submission:
    """The submission that a decoded JSON object holds.

    Raises:
        ReceiptError: it is not one; the message names each field and what is wrong. Nothing was consumed.
    """
    try:
        submission = Submission.model_validate(raw)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'result'}: {e['msg']}" for e in error.errors())
        raise ReceiptError(f"function result refused: {problems}") from None
    check_size(submission, limits or Limits())
    return submission


def check_size(result: FunctionResult, limits: Limits) -> None:
    """Pass for a result within the limit.

    Raises:
        ReceiptError: the result is larger than `limits.result` bytes of JSON.
    """
    size = len(result.model_dump_json(exclude_unset=True).encode())
    if size > limits.result:
        raise ReceiptError(f"function result refused: {size} bytes of JSON, over the limit of {limits.result}")
