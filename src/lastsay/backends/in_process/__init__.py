"""Your own agent loop as a source: an async generator, a coroutine that pushes, or a child that can be continued.

    async def agent():                       # pulled: whatever it yields
        yield "Looking it up. "
        yield {"role": "assistant", "content": "The harbour opens at six."}

    stream = in_process.stream(agent)

    async def agent(handle):                 # pushed: for code with callbacks
        handle.push("Looking it up. ")
        return "The harbour opens at six."

    stream = in_process.pushed(agent)

    child = in_process.Continuable(reply)    # continued: `reply(prompt)` is called for every message, an epoch each
    child.send("When does it open?")
    stream = child.stream()

What is yielded or pushed may be an event, a text, or a plain dict:

| item | event |
|---|---|
| an event | itself; the run id ``main`` becomes this run's |
| a str | TextDelta, of no message |
| ``{"type": "text_delta", ...}``, any event's tag | that event |
| ``{"role": "assistant", "content": ...}``, and tool_calls, usage, stop_reason, finish_reason | Message |
| ``{"role": "tool", "tool_call_id": ..., "content": ..., "is_error": ...}`` | ToolResult |
| ``{"role": "user", ...}`` | Notice ``user_message`` |
| ``{"text": ...}``, ``{"reasoning": ...}`` | TextDelta, ReasoningDelta |
| None | nothing |
| anything else | Notice, kept |

The start is made from the arguments, and the end is added where the loop gives none. How the loop ends is how the run
ends: by return, completed, unless its last message was cut at a token limit or refused; by an exception, error, with
the exception as diagnostic (it goes no further: a child that fails is an outcome). A cancellation goes through.
"""

from lastsay.backends.in_process._continued import Continuable
from lastsay.backends.in_process._plain import PlainNormaliser
from lastsay.backends.in_process._pulled import stream
from lastsay.backends.in_process._pushed import Handle, pushed

__all__ = ("Continuable", "Handle", "PlainNormaliser", "pushed", "stream")
