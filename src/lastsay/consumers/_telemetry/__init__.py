"""What is told: spans, metrics, a log record and counters, all decided by the fold."""

from lastsay.consumers._telemetry._consumer import Telemetry, telemetry
from lastsay.consumers._telemetry._content import CAPTURE_VARIABLE, CONTENT_LIMIT
from lastsay.consumers._telemetry._counters import Counters
from lastsay.consumers._telemetry._names import DEFAULT_PROFILE

__all__ = ("CAPTURE_VARIABLE", "CONTENT_LIMIT", "DEFAULT_PROFILE", "Counters", "Telemetry", "telemetry")
