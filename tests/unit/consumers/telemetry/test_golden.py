"""What a collector gets through the real exporter, for each profile, as golden JSON.

``LASTSAY_UPDATE_GOLDEN=1`` writes the files anew; read the difference before committing it.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from lastsay.consumers import telemetry
from lastsay.events import (
    Message,
    Notice,
    RunEnded,
    RunStarted,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    ToolUse,
    Usage,
)

GOLDEN = Path(__file__).parent / "golden"
PROFILES = ("genai-1.41", "genai-next", "genai-1.41+openinference", "genai-next+openinference")

NESTED = [
    RunStarted(agent="planner", backend="claude", model="large"),
    Message((Text("I ask."), ToolUse("t1", "Agent", {"prompt": "count the boats"})), "m1", usage=Usage(20, 8, 100, 5)),
    ToolCall("t1", "Agent", {"prompt": "count the boats"}),
    RunStarted(run="child", parent="main", agent="counter", backend="claude", model="small", call="t1"),
    TextDelta("There are ", "c1", run="child"),
    TextDelta("twelve", "c1", run="child"),
    Message((Text("There are twelve"),), "c1", "max_tokens", Usage(10, 5, 30, 2), run="child"),
    Message((), "c2", "max_tokens", Usage(10, 1), run="child"),
    RunEnded("max-tokens", raw="max_tokens", run="child"),
    ToolResult("t1", (Text("There are twelve"),), is_error=True),
    Notice("function_call", {"call": "f1", "function": "add", "tool": "mcp__x__add", "arguments": {"a": 1}}),
    Notice("function_applied", {"call": "f1", "verdict": "exact", "proof": "native", "is_error": False}),
    Notice("function_call", {"call": "f2", "function": "sub", "arguments": None}),
    Notice("function_refused", {"call": "f2", "verdict": "mismatch", "is_error": False, "receipt_seconds": None}),
    Message((Text("Twelve boats \ud83d and some more words than fit"),), "m2", "end_turn", Usage(30, 9)),
    RunEnded("completed", raw="end_turn"),
]


def _value(value: dict[str, Any]) -> Any:
    ((kind, inner),) = value.items()
    if kind == "arrayValue":
        return [_value(item) for item in inner["values"]]
    return int(inner) if kind == "intValue" else inner


MEASURED = ("lastsay.time_to_first_delta", "lastsay.largest_gap")


class Plain:
    """Turns what came over the wire into what can be compared: ids by order, times gone."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}

    def name(self, kind: str, raw: str) -> str:
        return self.ids.setdefault(raw, f"{kind} {sum(v.startswith(kind) for v in self.ids.values()) + 1}")

    def attributes(self, rows: list[Any]) -> dict[str, Any]:
        out = {row["key"]: _value(row["value"]) for row in rows}
        for key in ("lastsay.run.id", "lastsay.runId"):
            if key in out:
                out[key] = self.name("run", out[key])
        for key in MEASURED:
            if key in out:
                assert out[key] >= 0
                out[key] = "seconds"
        return dict(sorted(out.items()))

    def span(self, span: dict[str, Any]) -> dict[str, Any]:
        assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
        self.name("trace", span["traceId"])
        return {
            "name": span["name"],
            "kind": span["kind"],
            "id": self.name("span", span["spanId"]),
            "parent": self.ids[span["parentSpanId"]] if "parentSpanId" in span else None,
            "status": span["status"],
            "attributes": self.attributes(span["attributes"]),
        }

    def metric(self, metric: dict[str, Any]) -> dict[str, Any]:
        data = metric.get("histogram") or metric["sum"]
        points = []
        for point in data["dataPoints"]:
            # Tokens and calls are exact; seconds are only counted.
            number = int(point["count"]) if metric["unit"] == "s" else point.get("sum", point.get("asInt"))
            bounds = point.get("explicitBounds", [])[-1:]
            points.append({"attributes": self.attributes(point.get("attributes", [])), "is": number, "up to": bounds})
        points.sort(key=lambda point: json.dumps(point["attributes"]))
        return {"name": metric["name"], "unit": metric["unit"], "points": points}

    def log(self, record: dict[str, Any]) -> dict[str, Any]:
        return {
            "event": record["eventName"],
            "severity": record["severityText"],
            "span": self.ids[record["spanId"]],
            "trace": self.ids[record["traceId"]],
            "attributes": self.attributes(record["attributes"]),
        }


@pytest.mark.parametrize("profile", PROFILES)
def test_what_arrives_is_golden(profile: str, collector: Any, play: Any) -> None:
    """Spans, metrics and log records of a nested run arrive as the golden file of the profile has them."""
    resource = Resource({"service.name": "golden"})
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{collector.url}/traces")))
    meters = MeterProvider(
        [PeriodicExportingMetricReader(OTLPMetricExporter(f"{collector.url}/metrics"), 60_000)],
        resource=resource,
        shutdown_on_exit=False,
    )
    loggers = LoggerProvider(resource, shutdown_on_exit=False)
    loggers.add_log_record_processor(SimpleLogRecordProcessor(OTLPLogExporter(f"{collector.url}/logs")))
    consumer = telemetry(
        profile=profile,
        content=True,
        content_limit=20,
        prompt="how many boats?",
        conversation_id="talk-1",
        log=True,
        tracer_provider=tracers,
        meter_provider=meters,
        logger_provider=loggers,
    )
    play(NESTED, consumer)
    for provider in (tracers, meters, loggers):
        provider.shutdown()
    plain = Plain()
    spans = sorted(collector.all_of("traces"), key=lambda s: (int(s["startTimeUnixNano"]), "parentSpanId" in s))
    got = {
        "spans": [plain.span(span) for span in _parents_first(spans)],
        "metrics": sorted([plain.metric(m) for m in collector.all_of("metrics")], key=lambda m: m["name"]),
        "logs": [plain.log(record) for record in collector.all_of("logs")],
    }
    assert 0 == consumer.failures
    path = GOLDEN / f"{profile}.json"
    if os.environ.get("LASTSAY_UPDATE_GOLDEN"):
        path.write_text(json.dumps(got, indent=1) + "\n")
    assert json.loads(path.read_text()) == got


@pytest.mark.parametrize("profile", PROFILES)
def test_names_make_a_tree(profile: str) -> None:
    """No attribute is also a namespace: Phoenix nests names at their dots, and loses what stands in the way."""
    golden = json.loads((GOLDEN / f"{profile}.json").read_text())
    for span in golden["spans"]:
        names = list(span["attributes"])
        assert [] == [name for name in names for other in names if other.startswith(f"{name}.")]


def _parents_first(spans: list[dict[str, Any]]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    waiting = list(spans)
    while waiting:
        known = {span["spanId"] for span in out}
        at = next(i for i, span in enumerate(waiting) if span.get("parentSpanId", "") in (known | {""}))
        out.append(waiting.pop(at))
    return out
