"""The end of a run as an OpenTelemetry log record, for pipelines that alert on logs.

The event name is a private one (`lastsay.subagent.end`): the conventions have none for the end of an agent. The fields
are those of the lifecycle event, and the record stands in the trace of the run's span.
"""

from typing import Any

from opentelemetry.context import Context

from lastsay.consumers._contract import RunEnd
from lastsay.consumers._lifecycle import end_event
from lastsay.consumers._telemetry import _names as n
from lastsay.consumers._telemetry._content import clean, message
from lastsay.consumers._telemetry._options import Options

__all__ = ("EndLog",)

_OUTPUT = "lastAssistantMessage"


class EndLog:
    """Emits one record per run that ended."""

    __slots__ = ("_logger", "_options", "_record")

    def __init__(self, provider: Any, options: Options) -> None:
        # The logs API is still behind an underscore upstream: imported only where it was asked for.
        from opentelemetry._logs import LogRecord, SeverityNumber, get_logger  # noqa: PLC0415

        self._logger = get_logger("lastsay", logger_provider=provider)
        self._options = options

        def record(attributes: dict[str, Any], *, failed: bool, time_ns: int, context: Context) -> LogRecord:
            return LogRecord(
                timestamp=time_ns,
                context=context,
                severity_number=SeverityNumber.WARN if failed else SeverityNumber.INFO,
                severity_text="WARN" if failed else "INFO",
                body=n.LOG_EVENT,
                attributes=attributes,
                event_name=n.LOG_EVENT,
            )

        self._record = record

    def emit(self, end: RunEnd, error: str | None, context: Context) -> None:
        """Emit the record of a run that ended."""
        event = end_event(end)
        output = event.pop(_OUTPUT, None)
        attributes = {f"lastsay.{key}": clean(v) if type(v) is str else v for key, v in event.items() if v is not None}
        if error is not None:
            attributes[n.ERROR_TYPE] = error
        if output is not None and self._options.capture.events:
            finish = clean(n.finish_reason(end.outcome.stop_reason))
            blocks = end.outcome.output or ()
            attributes[n.OUTPUT_MESSAGES] = message("assistant", blocks, self._options.content_limit, finish)[0]
        self._logger.emit(self._record(attributes, failed=error is not None, time_ns=end.time_ns, context=context))
