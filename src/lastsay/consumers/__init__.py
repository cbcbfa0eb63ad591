"""Where the answer goes: tool result, lifecycle events, telemetry."""

from lastsay.consumers._contract import AWAIT_LIMIT, Consumer, RunEnd, RunStart, StreamEnd
from lastsay.consumers._lifecycle import Lifecycle, end_event, lifecycle, start_event
from lastsay.consumers._panel import Panel, rendered
from lastsay.consumers._tool_result import DelegationResult, tool_result

__all__ = (
    "AWAIT_LIMIT",
    "Consumer",
    "DelegationResult",
    "Lifecycle",
    "Panel",
    "RunEnd",
    "RunStart",
    "StreamEnd",
    "end_event",
    "lifecycle",
    "rendered",
    "start_event",
    "tool_result",
)
