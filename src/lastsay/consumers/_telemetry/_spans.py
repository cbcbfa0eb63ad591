"""What the span of a run says: facts at its start (samplers see only those), the outcome at its end.

The outcome decides, never what ended the reading. Two facts have two attributes: `lastsay.stream.end` is how the stream
ended for us, `lastsay.stop_reason.*` what the child said. No name is a namespace of another: Phoenix makes a tree of
them at their dots, and drops what does not fit. The status is ERROR for every stop reason but ``completed`` and the
tolerated ones, and then there is an `error.type`:

| the run                                           | `error.type`                                                    |
|---------------------------------------------------|-----------------------------------------------------------------|
| was ended from outside, or never ended            | the evidence: cancelled, closed_early, consumer_failed,         |
|                                                   | source_failed, parent_ended, teardown_failed, no_end_record     |
| ended with ``error``                              | the harness's own word where it is one, else ``_OTHER``         |
| ended with another word that is not tolerated     | that word                                                       |
| never left its scope, which was dropped           | abandoned                                                       |
"""

import re
from typing import Any, Final

import msgspec
from opentelemetry.trace import Status, StatusCode

from lastsay.consumers._contract import RunEnd, RunStart
from lastsay.consumers._telemetry import _names as n
from lastsay.consumers._telemetry._content import clean, message
from lastsay.consumers._telemetry._options import Options
from lastsay.consumers._telemetry._pulse import Pulse
from lastsay.events import ERROR, Text, Usage
from lastsay.fold import Outcome

__all__ = (
    "ABANDONED",
    "Totals",
    "end_attributes",
    "error_type",
    "first_chunk_seconds",
    "span_name",
    "start_attributes",
    "status",
    "token_attributes",
    "totals",
)

ABANDONED: Final = "abandoned"

_FROM_OUTSIDE: Final = frozenset(
    (
        "cancelled",
        "closed_early",
        "consumer_failed",
        "source_failed",
        "parent_ended",
        "teardown_failed",
        "no_end_record",
    )
)
_WORD: Final = re.compile(r"[A-Za-z_][\w.-]{0,63}", re.ASCII)
"""What may be an `error.type`: few values, so no sentences."""

_DESCRIPTION_LIMIT: Final = 1024
"""Characters of a status description."""

Attributes = dict[str, Any]


class Totals(msgspec.Struct, frozen=True):
    """Tokens as the conventions count them: cached input is part of `input`."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None


def totals(usage: Usage | None) -> Totals:
    """The tokens of a run; fields are None where the harness did not say."""
    if usage is None:
        return Totals()
    parts = [usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens]
    known = [part for part in parts if part is not None]
    return Totals(
        sum(known) if known else None,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
    )


def span_name(start: RunStart) -> str:
    """``invoke_agent``, with the agent's name where it has one."""
    return f"{n.INVOKE_AGENT} {clean(start.agent)}" if start.agent else n.INVOKE_AGENT


def start_attributes(start: RunStart, backend: str | None, options: Options) -> Attributes:
    """What is known of a run when it starts; `backend` drives it, or its parent."""
    attributes: Attributes = {
        n.OPERATION: n.INVOKE_AGENT,
        "lastsay.run.id": start.run_id,
        "lastsay.run.name": start.run,
    }
    for key, value in (
        (n.AGENT, start.agent),
        (n.PROVIDER, options.agent_provider(start, backend)),
        (n.MODEL, start.model),
        (n.CONVERSATION, options.conversation_id),
        ("lastsay.backend", backend),
        ("lastsay.run.parent", start.parent),
        ("lastsay.run.call", start.call),
        ("lastsay.run.epoch", start.epoch or None),
        ("openinference.span.kind", "AGENT" if options.names.openinference else None),
    ):
        if value is not None:
            attributes[key] = clean(value) if type(value) is str else value
    return attributes


def error_type(outcome: Outcome, tolerated: frozenset[str]) -> str | None:
    """The `error.type` of a run, or None for one that is no error."""
    stop = outcome.stop_reason
    if outcome.succeeded or stop in tolerated:
        return None
    for evidence in outcome.evidence:
        if evidence in _FROM_OUTSIDE:
            return evidence
    word = stop if stop != ERROR else outcome.raw_stop_reason
    return word if word is not None and word != ERROR and _WORD.fullmatch(word) else n.OTHER


def status(outcome: Outcome, error: str) -> Status:
    """The status of a span that is an error: the diagnostic where there is one, else the `error.type`."""
    return Status(StatusCode.ERROR, clean((outcome.diagnostic or error)[:_DESCRIPTION_LIMIT]))


def end_attributes(
    end: RunEnd, pulse: Pulse, error: str | None, options: Options, *, usage_told: bool = False
) -> Attributes:
    """What the outcome says, and what was measured; tokens under own names where the calls' spans tell of them."""
    attributes = _outcome_attributes(end)
    if error is not None:
        attributes[n.ERROR_TYPE] = error
    _add_usage(attributes, end, options, told=usage_told)
    _add_timing(attributes, end, pulse)
    if options.capture.spans:
        _add_content(attributes, end.outcome, pulse.prompt, options)
    return attributes


def _outcome_attributes(end: RunEnd) -> Attributes:
    outcome = end.outcome
    attributes: Attributes = {
        n.FINISH_REASONS: (clean(n.finish_reason(outcome.stop_reason)),),
        "lastsay.stream.end": end.how,
        "lastsay.stop_reason.mapped": clean(outcome.stop_reason),
        "lastsay.stop_reason.provenance": outcome.provenance,
        "lastsay.output.source": outcome.source,
        "lastsay.output.policy": outcome.policy,
        "lastsay.output.digest": outcome.digest,
        "lastsay.output.partial": outcome.partial,
        "lastsay.output.complete": outcome.answer_complete,
        "lastsay.output.pieces": outcome.pieces,
        "lastsay.attempts": outcome.attempts,
    }
    if outcome.raw_stop_reason is not None:
        attributes["lastsay.stop_reason.raw"] = clean(outcome.raw_stop_reason)
    if outcome.effective_stop_reason != outcome.stop_reason:
        attributes["lastsay.stop_reason.effective"] = outcome.effective_stop_reason
    if outcome.evidence:
        attributes["lastsay.evidence"] = tuple([clean(evidence) for evidence in outcome.evidence])
    if outcome.none_reason is not None:
        attributes["lastsay.output.none_reason"] = outcome.none_reason
    else:
        attributes["lastsay.output.characters"] = _characters(outcome)
    if outcome.unselected:
        attributes["lastsay.output.unselected"] = len(outcome.unselected)
        attributes["lastsay.output.outweighed"] = outcome.outweighed
    counts = outcome.counts
    for name in counts.__struct_fields__:
        number = getattr(counts, name)
        if number:
            attributes["lastsay.count." + name] = number
    return attributes


def _characters(outcome: Outcome) -> int:
    return sum([len(block.text) for block in outcome.output or () if type(block) is Text])


def token_attributes(usage: Usage | None, names: n.Names, *, local: bool) -> Attributes:
    """The token counts by the profile's names.

    Args:
        usage: None gives none.
        names: the profile.
        local: whether this is the span of an agent in this process, for which some profiles know fewer names.
    """
    tokens = totals(usage)
    rows = [(n.INPUT_TOKENS, tokens.input), (n.OUTPUT_TOKENS, tokens.output)]
    if names.provider_of_local or not local:
        rows += [(n.CACHE_READ, tokens.cache_read), (names.cache_write, tokens.cache_write)]
        rows.append((n.REASONING_TOKENS, tokens.reasoning))
    if names.openinference:
        rows += [("llm.token_count.prompt", tokens.input), ("llm.token_count.completion", tokens.output)]
    return {key: value for key, value in rows if value is not None}


def _add_usage(attributes: Attributes, end: RunEnd, options: Options, *, told: bool) -> None:
    usage = end.outcome.usage
    if not told:
        attributes.update(token_attributes(usage, options.names, local=end.start.local))
        return
    tokens = totals(usage)
    for key in ("input", "output"):
        if getattr(tokens, key) is not None:
            attributes[f"lastsay.usage.{key}_tokens"] = getattr(tokens, key)


def first_chunk_seconds(end: RunEnd, pulse: Pulse) -> float | None:
    """Seconds from the start to the first piece of content; None without one, and for a replay.

    In a replay the source's times and our clock have nothing to do with each other: we then see the first piece after
    the source says that the run was over.
    """
    first = pulse.first_ns
    if first is None or not end.start.time_ns <= first <= end.time_ns:
        return None
    return (first - end.start.time_ns) / 1e9


def _add_timing(attributes: Attributes, end: RunEnd, pulse: Pulse) -> None:
    seconds = first_chunk_seconds(end, pulse)
    if seconds is not None:
        attributes["lastsay.time_to_first_delta"] = seconds
        attributes["lastsay.largest_gap"] = pulse.gap


def _add_content(attributes: Attributes, outcome: Outcome, prompt: str | None, options: Options) -> None:
    limit, truncated = options.content_limit, False
    openinference = options.names.openinference
    if prompt is not None:
        attributes[n.INPUT_MESSAGES], truncated = message("user", (Text(prompt),), limit)
        if openinference:
            attributes["input.value"] = clean(prompt[:limit])
    if outcome.output is not None:
        finish = n.finish_reason(outcome.stop_reason)
        attributes[n.OUTPUT_MESSAGES], cut = message("assistant", outcome.output, limit, clean(finish))
        truncated = truncated or cut
        if openinference:
            attributes["output.value"] = clean((outcome.text or "")[:limit])
    if truncated:
        attributes["lastsay.content.truncated"] = True
