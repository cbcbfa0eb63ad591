"""The same without any harness: a scripted child whose last message is empty, as real ones often are."""

import anyio

import lastsay
from lastsay.events import Message, RunEnded, RunStarted, Text, TextDelta, ToolUse

CHILD = lastsay.scripted.stream(
    [
        RunStarted(agent="researcher"),
        TextDelta("The ferry leaves "),
        TextDelta("at seven."),
        Message((Text("The ferry leaves at seven."), ToolUse("t1", "note")), stop_reason="tool_use"),
        Message((), stop_reason="max_tokens"),
        RunEnded("max-tokens"),
    ]
)


async def main() -> None:
    """Read the child to its end and print the outcome in its three forms."""
    ends: list[dict[str, object]] = []
    outcome = await lastsay.collect(CHILD, consumers=[lastsay.lifecycle(on_end=ends.append)])
    print(outcome.text, "|", outcome.stop_reason, "|", outcome.source)
    print(lastsay.tool_result(outcome).text)
    print(ends[0]["lastAssistantMessage"])


anyio.run(main)
