"""Where the answer goes: tool result, lifecycle events, telemetry."""

from lastsay.consumers._contract import AWAIT_LIMIT, Consumer, RunEnd, RunStart, StreamEnd
from lastsay.consumers._lifecycle import Lifecycle, end_event, lifecycle, start_event
from lastsay.consumers._panel import Panel, rendered
from lastsay.consumers._telemetry import Counters, Telemetry, telemetry
from lastsay.consumers._tool_result import DelegationResult, tool_result

__all__ = (
    "AWAIT_LIMIT",
    "Consumer",
    "Counters",
    "DelegationResult",
    "Lifecycle",
    "Panel",
    "RunEnd",
    "RunStart",
    "StreamEnd",
    "Telemetry",
    "end_event",
    "lifecycle",
    "rendered",
    "start_event",
    "telemetry",
    "tool_result",
)
