"""Collecting streamed text: the fold against what SDKs do with every delta.

Each party gets the same pieces, already in its own vocabulary, so only its accumulation is measured.
"""

import inspect
import os
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks._events import WORDS
from benchmarks._measure import Effort, Row, cpu, gain_row

from lastsay.events import TextDelta
from lastsay.fold import OutputFold


def ours(count: int) -> Callable[[], str]:
    """The fold, event by event."""
    events = [TextDelta(WORDS[i & 7], "m") for i in range(count)]

    def work() -> str:
        fold = OutputFold()
        for event in events:
            fold.push(event)
        (block,) = fold.collect() or ()
        return block.text  # type: ignore[union-attr]  # a streamed output is one text block

    return work


def anthropic_sdk(count: int) -> Callable[[], str]:
    """anthropic: accumulate_event, which MessageStream calls for every event."""
    from anthropic.lib.streaming import _messages
    from anthropic.types import (
        Message,
        RawContentBlockDeltaEvent,
        RawContentBlockStartEvent,
        RawMessageStartEvent,
        TextBlock,
        Usage,
    )
    from anthropic.types import TextDelta as SdkDelta

    needs = inspect.signature(_messages.accumulate_event).parameters
    message = Message(
        id="m", content=[], model="m", role="assistant", stop_reason=None, stop_sequence=None, type="message",
        usage=Usage(input_tokens=1, output_tokens=1),
    )  # fmt: skip
    block = TextBlock(type="text", text="", citations=None)
    head = [RawContentBlockStartEvent(type="content_block_start", index=0, content_block=block)]
    deltas = [
        RawContentBlockDeltaEvent(
            type="content_block_delta", index=0, delta=SdkDelta(type="text_delta", text=WORDS[i & 7])
        )
        for i in range(count)
    ]

    def work() -> str:
        start = RawMessageStartEvent(type="message_start", message=message.model_copy(deep=True))
        snapshot = None
        more: dict[str, Any] = {"json_bufs": {}} if "json_bufs" in needs else {}
        for event in (start, *(event.model_copy(deep=True) for event in head), *deltas):
            snapshot = _messages.accumulate_event(event=event, current_snapshot=snapshot, **more)
        assert snapshot is not None
        return snapshot.content[0].text

    return work


def pydantic_ai(count: int) -> Callable[[], str]:
    """pydantic-ai: the parts manager that every model adapter feeds."""
    from pydantic_ai._parts_manager import ModelResponsePartsManager

    pieces = [WORDS[i & 7] for i in range(count)]
    needs = inspect.signature(ModelResponsePartsManager).parameters
    extra: dict[str, Any] = {}
    if "model_request_parameters" in needs:
        from pydantic_ai.models import ModelRequestParameters

        extra["model_request_parameters"] = ModelRequestParameters()

    def work() -> str:
        manager = ModelResponsePartsManager(**extra)
        for piece in pieces:
            for _ in manager.handle_text_delta(vendor_part_id="c", content=piece):
                pass
        return manager.get_parts()[0].content

    return work


def openai_sdk(count: int) -> Callable[[], str]:
    """openai: ChatCompletionStreamState, the helper behind its stream() method."""
    from openai.lib.streaming.chat import ChatCompletionStreamState
    from openai.types.chat import ChatCompletionChunk

    chunks = [
        ChatCompletionChunk.model_validate(
            {
                "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
                "choices": [{"index": 0, "delta": {"role": "assistant", "content": WORDS[i & 7]}}],
            }
        )
        for i in range(count)
    ]  # fmt: skip

    def work() -> str:
        state = ChatCompletionStreamState()
        for chunk in chunks:
            for _ in state.handle_chunk(chunk):
                pass
        return state.current_completion_snapshot.choices[0].message.content or ""

    return work


def litellm_builder(count: int) -> Callable[[], str]:
    """litellm: stream_chunk_builder, over all chunks at the end."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # it would fetch a price list from the network
    import litellm
    from litellm.types.utils import Delta, ModelResponseStream, StreamingChoices

    deltas = [Delta(role="assistant", content=WORDS[i & 7]) for i in range(count)]
    chunks = [
        ModelResponseStream(id="c", model="gpt-4o", choices=[StreamingChoices(index=0, delta=delta)])
        for delta in deltas
    ]

    def work() -> str:
        built = litellm.stream_chunk_builder(chunks)
        return built.choices[0].message.content

    return work


def repeated(work: Callable[[], str], times: int) -> Callable[[], object]:
    """The work, done that many times."""
    return lambda: [work() for _ in range(times)]


PARTIES: tuple[tuple[str, str, Callable[[int], Callable[[], str]], float, int], ...] = (
    ("anthropic", "anthropic accumulate_event", anthropic_sdk, 15, 8_000),
    ("pydantic-ai", "pydantic-ai parts manager", pydantic_ai, 15, 8_000),
    ("openai", "openai chat stream state", openai_sdk, 500, 1_000),
    ("litellm", "litellm stream_chunk_builder", litellm_builder, 500, 1_000),
)


def rows(effort: Effort) -> Iterator[Row]:
    """The rows about accumulation."""
    for name, against, make, goal, count in PARTIES:
        mine = ours(count)
        try:
            theirs = make(count)
        except ImportError:
            yield Row("text accumulation", against, goal, "at least", note=f"{name} is not installed")
            continue
        if mine() != theirs():
            raise AssertionError(f"{name} accumulated another text")
        # Ours is too quick to time alone at this size.
        row = gain_row(
            "text accumulation", against, goal, lambda mine=mine: [mine() for _ in range(20)], theirs, effort, count
        )
        row.measured = (row.measured or 0) * 20
        row.note = f"at {count:,} deltas"
        yield row
    small, large = ours(1_000), ours(64_000)
    flat = []
    for _ in range(effort.rounds):
        per_small = cpu(lambda: [small() for _ in range(64)])
        flat.append(cpu(large) / per_small)
    flat.sort()
    yield Row(
        "text accumulation, 64k deltas", "itself at 1k, per delta", 1.35, "at most", measured=flat[len(flat) // 2],
        note="flat",
    )  # fmt: skip
