"""Your own loop: pulled, pushed and continued."""

import asyncio
import threading

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from lastsay.backends import in_process
from lastsay.consumers import lifecycle, tool_result
from lastsay.errors import UsageError
from lastsay.events import (
    EpochStarted,
    Fault,
    Image,
    Message,
    Notice,
    Opaque,
    Reasoning,
    ReasoningDelta,
    RunEnded,
    RunStarted,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    ToolUse,
    Usage,
)
from lastsay.run import collect, open_run
from lastsay.testing._backends import check_backend


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    """Both event loops."""
    return request.param


async def events_of(stream):
    """All events of a stream."""
    async with stream as events:
        return [event async for event in events]


def yielding(*items):
    """A loop that yields these items."""

    async def agent():
        for item in items:
            if isinstance(item, BaseException):
                raise item
            yield item

    return agent


@pytest.mark.anyio
async def test_a_loop_that_yields_has_a_start_its_events_and_an_end():
    """Text, a message, and what was added around them."""
    stream = in_process.stream(yielding("so ", {"role": "assistant", "content": "so far"}), agent="mine", model="m")
    assert [
        RunStarted(agent="mine", backend="in_process", model="m"),
        TextDelta("so "),
        Message((Text("so far"),)),
        RunEnded("completed"),
    ] == await events_of(stream)


@pytest.mark.anyio
async def test_a_twenty_line_agent_gets_its_outcome_its_tool_result_and_its_end_event():
    """One run scope around the loop: all consumers agree."""
    ends = []
    stream = in_process.stream(yielding({"text": "Let me see. "}, {"role": "assistant", "content": "At six."}))
    async with open_run(stream, consumers=[lifecycle(on_end=ends.append)]) as run:
        async for _ in run:
            pass
    assert ("At six.", "completed") == (run.outcome.text, run.outcome.stop_reason)
    assert "At six." == tool_result(run.outcome).text
    assert [run.outcome.digest] == [end["digest"] for end in ends]


@pytest.mark.anyio
async def test_a_loop_that_raises_is_an_error_with_its_text_so_far():
    """The exception goes no further: it is the diagnostic."""
    outcome = await collect(in_process.stream(yielding("half ", "an answer", ValueError("no more"))))
    assert ("half an answer", "error", "ValueError: no more", "ValueError") == (
        outcome.text,
        outcome.stop_reason,
        outcome.diagnostic,
        outcome.raw_stop_reason,
    )


@pytest.mark.anyio
async def test_an_exception_that_cannot_be_rendered_is_an_error_too():
    """Its name is enough."""

    class BadError(Exception):
        def __str__(self):
            raise RuntimeError("no")

    outcome = await collect(in_process.stream(yielding(BadError())))
    assert ("error", "BadError: (cannot be rendered)") == (outcome.stop_reason, outcome.diagnostic)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("stop", "expected"),
    [("length", "max-tokens"), ("max_tokens", "max-tokens"), ("content_filter", "refusal"), ("end_turn", "completed"),
     ("tool_use", "completed"), ("strange", "completed"), (None, "completed")],
)  # fmt: skip
async def test_a_loop_that_returns_after_a_cut_message_is_not_completed(stop, expected):
    """Token limits and refusals of the last message are the run's; other words say nothing about its end."""
    outcome = await collect(in_process.stream(yielding({"role": "assistant", "content": "x", "stop_reason": stop})))
    assert expected == outcome.stop_reason


@pytest.mark.anyio
async def test_an_end_of_its_own_is_kept_and_nothing_follows_it():
    """What the loop says about its end holds; what it says after that is dropped."""
    stream = in_process.stream(yielding(RunStarted(agent="own"), "x", RunEnded("refusal", raw="no"), "late"), agent="a")
    events = await events_of(stream)
    assert [RunStarted(agent="a", backend="in_process"), TextDelta("x"), RunEnded("refusal", raw="no")] == events


@pytest.mark.anyio
async def test_a_run_id_of_its_own_and_the_events_of_children():
    """``main`` becomes the run's id; events of other runs stay theirs."""
    child = [RunStarted(parent="me", run="c"), TextDelta("from the child", run="c"), RunEnded("completed", run="c")]
    events = await events_of(in_process.stream(yielding(*child, TextDelta("mine")), run="me", parent="boss"))
    assert [("me", "boss"), ("c", "me")] == [(e.run, e.parent) for e in events if type(e) is RunStarted]
    assert ["c", "me"] == [e.run for e in events if type(e) is TextDelta]
    assert ["c", "me"] == [e.run for e in events if type(e) is RunEnded]


OPENAI = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}],
    "finish_reason": "tool_calls",
    "usage": {"prompt_tokens": 3, "completion_tokens": 2},
}
AUDIO = {"type": "audio", "data": "x"}
TOOL = {"role": "tool", "tool_call_id": "c", "content": "out", "is_error": True}
MIXED = {"role": "assistant", "content": [Image(url="u"), "x", 3]}
ANTHROPIC = {
    "id": "m",
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": ""},
        {"type": "text", "text": "t"},
        {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}},
        AUDIO,
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 3, "output_tokens": 2, "cache_read_input_tokens": 1},
}


@pytest.mark.parametrize(
    ("item", "event"),
    [
        ("text", TextDelta("text")),
        ({"text": "t"}, TextDelta("t")),
        ({"reasoning": "r"}, ReasoningDelta("r")),
        ({"type": "text_delta", "text": "t", "message": "m"}, TextDelta("t", "m")),
        ({"type": "tool_call", "id": "c", "name": "f", "input": {}}, ToolCall("c", "f", {})),
        (OPENAI, Message((ToolUse("c", "f", {"a": 1}),), None, "tool_calls", Usage(3, 2))),
        (
            ANTHROPIC,
            Message(
                (Reasoning("hm"), Text("t"), ToolUse("c", "f", {"a": 1}), Opaque("audio", AUDIO)),
                "m",
                "tool_use",
                Usage(3, 2, 1),
            ),
        ),
        (MIXED, Message((Image(url="u"), Text("x"), Opaque("int", 3)))),
        (TOOL, ToolResult("c", (Text("out"),), True, TOOL)),
        ({"role": "user", "content": "go"}, Notice("user_message", {"role": "user", "content": "go"})),
        ({"type": "custom", "x": 1}, Notice("custom", {"type": "custom", "x": 1})),
        ({}, Notice("untyped", {})),
        (3.5, Notice("float", 3.5)),
        (TextDelta("e", "m"), TextDelta("e", "m")),
    ],
)  # fmt: skip
def test_each_form_of_an_item_is_an_event(item, event):
    """One row per row of the module's table."""
    plain = in_process.PlainNormaliser()
    plain.begin()
    assert [event] == plain.push(item)


@pytest.mark.parametrize(
    "item",
    [{"type": "text_delta", "text": 5}, {"role": "assistant", "tool_calls": [None]}, {"type": "message", "content": 7}],
)
def test_a_form_that_is_broken_is_kept_or_named(item):
    """Nothing is raised, and nothing is made up."""
    (event,) = in_process.PlainNormaliser().push(item)[1:]
    assert type(event) in (Notice, Fault)


def test_nothing_pushed_is_no_run():
    """A normaliser that was given nothing ends nothing."""
    plain = in_process.PlainNormaliser()
    assert [] == plain.push(None)
    assert [] == plain.close()


@pytest.mark.anyio
async def test_leaving_early_closes_the_generator():
    """A break reaches the loop's own finally."""
    closed = []

    async def agent():
        try:
            while True:
                yield "x"
        finally:
            closed.append(True)

    async with in_process.stream(agent) as events:
        async for event in events:
            if type(event) is TextDelta:
                break
    assert [True] == closed


@pytest.mark.anyio
async def test_a_cancellation_keeps_the_text_so_far():
    """Aborted, with what was said."""

    async def agent():
        yield "so far"
        await anyio.sleep_forever()

    with anyio.CancelScope() as scope:
        async with open_run(in_process.stream(agent)) as run:
            async for event in run:
                if type(event) is TextDelta:
                    scope.cancel()
    assert ("so far", "aborted") == (run.outcome.text, run.outcome.stop_reason)


@pytest.mark.anyio
@pytest.mark.parametrize("use", [in_process.stream, in_process.pushed])
async def test_giving_the_made_object_instead_of_its_maker_is_told(use):
    """The message says what to give."""
    with pytest.raises(UsageError, match="function itself"):
        use(object())


@pytest.mark.anyio
async def test_a_pushed_loop_gives_its_pushes_and_its_answer():
    """Callbacks push; what is returned is the answer."""

    async def agent(handle):
        handle.push("thinking aloud ")
        await anyio.lowlevel.checkpoint()
        handle.push({"type": "tool_call", "id": "c", "name": "f"})
        return "The answer."

    events = await events_of(in_process.pushed(agent, agent="mine"))
    assert [RunStarted, TextDelta, ToolCall, Message, RunEnded] == [type(event) for event in events]
    assert "The answer." == (await collect(in_process.pushed(agent))).text


@pytest.mark.anyio
async def test_a_pushed_loop_may_end_with_a_reason_of_its_own():
    """Stop reason, diagnostic and structured result go into the end record."""

    async def agent(handle):
        handle.push("partial")
        handle.end("out_of_budget", diagnostic="3 of 3 used", structured={"n": 3})

    outcome = await collect(in_process.pushed(agent))
    assert ("partial", "out_of_budget", "3 of 3 used", {"n": 3}, False) == (
        outcome.text,
        outcome.stop_reason,
        outcome.diagnostic,
        outcome.structured,
        outcome.succeeded,
    )


@pytest.mark.anyio
async def test_a_pushed_loop_that_raises_is_an_error():
    """As for a loop that yields."""

    async def agent(handle):
        handle.push("so far")
        raise KeyError("gone")

    outcome = await collect(in_process.pushed(agent))
    assert ("so far", "error", "KeyError: 'gone'") == (outcome.text, outcome.stop_reason, outcome.diagnostic)


@pytest.mark.anyio
async def test_pushes_from_other_threads_arrive_in_order():
    """A callback of a worker thread is as good as one of the loop."""

    def work(handle):
        for number in range(200):
            handle.push(f"{number} ")

    async def agent(handle):
        await anyio.to_thread.run_sync(work, handle)

    outcome = await collect(in_process.pushed(agent))
    assert "".join(f"{number} " for number in range(200)) == outcome.text


@pytest.mark.anyio
async def test_send_waits_for_a_slow_reader():
    """What waits in the handle stays bounded, and nothing is lost."""
    highest = 0

    async def agent(handle):
        nonlocal highest
        for _ in range(5000):
            await handle.send("x")
            highest = max(highest, len(handle._items))

    count = 0
    async with in_process.pushed(agent).batches() as batches:
        async for batch in batches:
            await anyio.sleep(0.001)
            count += sum(type(event) is TextDelta for event in batch)
    assert 5000 == count
    assert 1024 >= highest


@pytest.mark.anyio
async def test_leaving_a_pushed_loop_cancels_it_and_keeps_the_readers_exception():
    """The loop is gone when the block is left, and no group wraps the error."""
    ended = []

    async def agent(handle):
        handle.push("x")
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(True)

    with pytest.raises(ZeroDivisionError):
        async with in_process.pushed(agent) as events:
            async for event in events:
                if type(event) is TextDelta:
                    raise ZeroDivisionError
    assert [True] == ended


@pytest.mark.anyio
async def test_a_pushed_loop_may_have_epochs():
    """Each ends, and the next is judged on its own."""

    async def agent(handle):
        handle.push("one")
        handle.begin_epoch()
        handle.push("two")

    async with open_run(in_process.pushed(agent)) as run:
        async for _ in run:
            pass
    assert [("one", 0), ("two", 1)] == [(a.outcome.text, a.outcome.epoch) for a in run.activations]


@pytest.mark.anyio
async def test_a_continued_child_has_a_start_and_an_end_for_every_message():
    """Answered, failed, and silent: three epochs, three outcomes, three end events; no output is no field."""

    async def reply(message):
        if message == "fail":
            raise RuntimeError("cannot")
        if message != "quiet":
            yield f"Re: {message}"

    child = in_process.Continuable(reply, agent="clerk")
    child.send("first")
    child.send("fail")
    ends = []
    async with open_run(child.stream(), consumers=[lifecycle(on_end=ends.append)]) as run:
        async for event in run:
            if type(event) is RunEnded and event.stop_reason == "error":
                child.send("quiet")
                child.close()
    assert [("Re: first", "completed"), (None, "error"), (None, "completed")] == [
        (activation.outcome.text, activation.outcome.stop_reason) for activation in run.activations
    ]
    assert 3 == len(ends)


@pytest.mark.anyio
async def test_a_continued_child_waits_for_messages_and_takes_none_after_its_close():
    """A message sent while the stream waits is answered."""

    async def reply(message):
        yield message

    child = in_process.Continuable(reply)

    async def later():
        for text in ("a", "b"):
            await anyio.sleep(0.01)
            child.send(text)
        child.close()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(later)
        events = await events_of(child.stream())
    assert ["a", "b"] == [event.text for event in events if type(event) is TextDelta]
    assert [EpochStarted(1)] == [event for event in events if type(event) is EpochStarted]
    with pytest.raises(UsageError, match="no more"):
        child.send("c")
    with pytest.raises(UsageError, match="once"):
        await events_of(child.stream())


@pytest.mark.asyncio
@pytest.mark.parametrize("form", ["pulled", "pushed"])
async def test_both_forms_keep_the_contract_of_a_backend(form):
    """The shipped checks, as for every other backend."""

    async def pulled():
        yield "Hello "
        await asyncio.sleep(0)
        yield {"role": "assistant", "content": "Hello there."}

    async def pushing(handle):
        handle.push("Hello ")
        await asyncio.sleep(0.01)
        return "Hello there."

    make = (lambda: in_process.stream(pulled)) if form == "pulled" else (lambda: in_process.pushed(pushing))
    frames = ["Hello ", {"role": "assistant", "content": "Hello there."}]
    passed = await check_backend(make, normaliser=in_process.PlainNormaliser, frames=frames)
    assert {"complete", "cancelled", "total"} <= set(passed)


@pytest.mark.asyncio
async def test_no_thread_is_left_behind():
    """Neither form starts one."""
    before = threading.active_count()
    await collect(in_process.stream(yielding("x")))
    assert before == threading.active_count()
