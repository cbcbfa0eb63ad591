"""The outcome: the one frozen value that every consumer is handed."""

import hashlib
import json
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from pydantic import BaseModel, ConfigDict, PlainSerializer, PlainValidator, WithJsonSchema

from lastsay.events import COMPLETED, Block, Provenance, Text, Usage
from lastsay.fold._select import Source
from lastsay.fold._tally import Counts

__all__ = ("DIAGNOSTIC_LIMIT", "NoneReason", "Outcome", "Unselected", "digest_of", "limited_diagnostic")

DIAGNOSTIC_LIMIT: Final = 4096
"""UTF-8 bytes of a diagnostic; the limit of the origin (DeepSeek Harness, SubagentResult)."""

_CUT: Final = "\n[diagnostic cut]"

NoneReason = Literal[
    "never_spoke", "reasoning_only", "tools_only", "blank", "empty_final", "refused", "source_missing", "reader_dead"
]
"""Why there is no output: nothing came at all; only reasoning; only tool calls; only blank text; messages without
content; the model declined; the source could not be read; the reader died before the child."""


def _as_blocks(value: Any) -> tuple[Block, ...]:
    return msgspec.convert(value, tuple[Block, ...], from_attributes=True)


def _as_struct(kind: type[Any]) -> Any:
    return PlainValidator(lambda value: value if isinstance(value, kind) else msgspec.convert(value, kind))


def _plain(value: Any) -> Any:
    """The value fit for JSON. What JSON has no form for (objects of an SDK, odd keys) is there as Python writes it."""
    try:
        return msgspec.to_builtins(value, enc_hook=repr, str_keys=True)
    except (TypeError, ValueError, RecursionError):
        return [repr(value)]


_BLOCKS_SCHEMA: Final = {"type": "array", "items": {"type": "object", "properties": {"type": {"type": "string"}}}}

Blocks = Annotated[
    tuple[Block, ...], PlainValidator(_as_blocks), PlainSerializer(_plain), WithJsonSchema(dict(_BLOCKS_SCHEMA))
]
_UsageField = Annotated[Usage, _as_struct(Usage), PlainSerializer(_plain), WithJsonSchema({"type": "object"})]
_CountsField = Annotated[Counts, _as_struct(Counts), PlainSerializer(_plain), WithJsonSchema({"type": "object"})]


class Unselected(BaseModel):
    """A text that was not selected: enough to see that it exists, and to ask for it."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    ordinal: int
    """Position among the candidates that the fold has kept, from 1. A fold that keeps everything, as the one that
    `lastsay explain` uses, also numbers streamed text that others drop as soon as it cannot be selected."""
    length: int
    """Characters."""
    stop_reason: str | None = None
    message: str | None = None


class Outcome(BaseModel):
    """What a child finally said and why it stopped: decided once, frozen, and the same for every consumer."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    output: Blocks | None
    """The selected content, or None where there is none; never an empty tuple."""
    source: Source
    """Where the output comes from."""
    none_reason: NoneReason | None = None
    """Why there is no output; None where there is one."""
    stop_reason: str
    """``completed``, ``aborted``, ``error``, ``max-tokens``, ``refusal`` or a backend's own word. Only ``completed`` is
    a success."""
    raw_stop_reason: str | None = None
    """The harness's own word, or None where it said nothing."""
    provenance: Provenance = "reported"
    """Whether `stop_reason` was reported, recovered by a rule of the backend, or is unknown."""
    effective_stop_reason: str
    """What the evidence says; equal to `stop_reason` unless a claimed success is contradicted."""
    evidence: tuple[str, ...] = ()
    """The evidence found, the deciding one first."""
    answer_complete: bool = False
    """Whether the output is a whole answer, whatever ended the run."""
    diagnostic: str | None = None
    """About the failure, for people; never assistant text. At most 4,096 UTF-8 bytes."""
    structured: Annotated[Any, PlainSerializer(_plain, when_used="json")] = None
    """The declared structured result, or None."""
    partial: bool = False
    """The output was cut: interrupted, at max-tokens, or streamed and never completed."""
    pieces: int = 1
    """Messages that the output was joined from."""
    beside: Blocks | None = None
    """The last complete message where the output is newer partial text, or the other way round."""
    attempts: int = 0
    """Model calls seen, the aborted ones included."""
    usage: _UsageField | None = None
    """Tokens: by message id the last report, added up; the run's own report where messages have none."""
    counts: _CountsField
    unselected: tuple[Unselected, ...] = ()
    """The texts that were not selected, in order."""
    outweighed: bool = False
    """The selected text is under a quarter of the longest one that was not: worth a look."""
    policy: str
    """The name of the policy that selected."""
    epoch: int = 0
    """Of a continuable child: which activation this is, from 0."""
    final: bool = True
    """False for a snapshot of a run that goes on."""
    digest: str
    """SHA-256 of output and stop reason, in hex: equal exactly when both are."""

    @property
    def text(self) -> str | None:
        """The output's text blocks, joined; None without output."""
        if self.output is None:
            return None
        return "".join([block.text for block in self.output if type(block) is Text])

    @property
    def succeeded(self) -> bool:
        """Whether the run completed. An unknown stop reason is a failure."""
        return self.stop_reason == COMPLETED


def digest_of(output: Sequence[Block] | None, stop_reason: str) -> str:
    """SHA-256 over the output and the stop reason, in hex."""
    plain = [None if output is None else _plain(tuple(output)), stop_reason]
    data = json.dumps(plain, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(data.encode("ascii")).hexdigest()


def limited_diagnostic(text: str | None) -> str | None:
    """The diagnostic within its limit: cut at a character, and marked where it was."""
    if text is None or not text.strip():
        return None
    data = text.encode("utf-8", "replace")
    if len(data) <= DIAGNOSTIC_LIMIT:
        return data.decode()
    return data[: DIAGNOSTIC_LIMIT - len(_CUT)].decode("utf-8", "ignore") + _CUT
