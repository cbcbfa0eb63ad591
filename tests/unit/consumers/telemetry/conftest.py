"""What these tests share: an SDK that keeps what it is given, and a collector on loopback."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anyio
import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from lastsay.backends import scripted
from lastsay.consumers import Consumer
from lastsay.fold import Outcome
from lastsay.run import open_run


@dataclass
class Kept:
    """An SDK whose ended spans are kept."""

    exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    provider: TracerProvider = field(default_factory=TracerProvider)

    def __post_init__(self) -> None:
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        """The ended spans by name."""
        return {span.name: span for span in self.exporter.get_finished_spans()}

    def attributes(self, name: str) -> dict[str, Any]:
        """The attributes of the span with that name."""
        return dict(self.spans[name].attributes or {})


@pytest.fixture
def kept() -> Kept:
    """An SDK whose ended spans are kept."""
    return Kept()


Play = Callable[..., Outcome]


@pytest.fixture
def play() -> Play:
    """Reads a script to its end with these consumers; the root's outcome."""

    def run_of(steps: Sequence[scripted.Step], *consumers: Consumer) -> Outcome:
        async def read() -> Outcome:
            async with open_run(scripted.stream(steps), consumers=consumers) as run:
                async for _ in run:
                    pass
            return run.outcome

        return anyio.run(read)

    return run_of


@dataclass
class Collector:
    """An OTLP endpoint on loopback that keeps what it was sent, as plain data."""

    url: str
    received: dict[str, list[Any]]

    def all_of(self, kind: str) -> list[Any]:
        """Everything of ``traces``, ``metrics`` or ``logs`` that came, without the wrapping by resource and scope."""
        outer, inner, rows = {
            "traces": ("resourceSpans", "scopeSpans", "spans"),
            "metrics": ("resourceMetrics", "scopeMetrics", "metrics"),
            "logs": ("resourceLogs", "scopeLogs", "logRecords"),
        }[kind]
        scopes = [s for request in self.received[kind] for r in request[outer] for s in r[inner]]
        return [row for scope in scopes for row in scope[rows]]


_REQUESTS: dict[str, Any] = {
    "traces": ExportTraceServiceRequest,
    "metrics": ExportMetricsServiceRequest,
    "logs": ExportLogsServiceRequest,
}


@pytest.fixture
def collector() -> Iterator[Collector]:
    """An OTLP collector, as far as tests need one."""
    received: dict[str, list[Any]] = {kind: [] for kind in _REQUESTS}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            kind = self.path.rpartition("/")[2]
            request = _REQUESTS[kind]()
            request.ParseFromString(self.rfile.read(int(self.headers["content-length"])))
            received[kind].append(json.loads(json.dumps(MessageToDict(request))))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Collector(f"http://127.0.0.1:{server.server_port}/v1", received)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
