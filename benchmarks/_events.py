"""The event list that the pipelines are measured with: 94 % text deltas of about 5 characters, numbered."""

from lastsay.events import (
    Event,
    Message,
    MessageStarted,
    ReasoningDelta,
    RunEnded,
    RunStarted,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    Usage,
    UsageReported,
)

WORDS = ("the ", "agent", " said", " no", "thing", ", and", " then", " left")


def conversation(events: int) -> list[Event]:
    """About `events` events of one run: turns of 188 deltas and 12 other events, with four parallel tool calls."""
    out: list[Event] = [RunStarted(seq=0)]
    turns = max(1, events // 200)
    for turn in range(turns):
        for event in _turn(turn):
            fields = {name: getattr(event, name) for name in event.__struct_fields__ if name != "seq"}
            out.append(type(event)(**fields, seq=len(out)))
    out.append(RunEnded("completed", seq=len(out)))
    return out


def _turn(turn: int) -> list[Event]:
    message = f"m{turn}"
    words = [WORDS[i & 7] for i in range(188)]
    calls = [f"t{turn}.{i}" for i in range(4)]
    return [
        MessageStarted(message),
        ReasoningDelta("hm", message),
        *[TextDelta(word, message) for word in words],
        UsageReported(Usage(input_tokens=10, output_tokens=188), message),
        Message((Text("".join(words)),), message),
        *[ToolCall(call, "look") for call in calls],
        *[ToolResult(call) for call in calls],
    ]


def lists(events: list[Event], size: int) -> list[list[Event]]:
    """The events in lists of `size`."""
    return [events[i : i + size] for i in range(0, len(events), size)]
