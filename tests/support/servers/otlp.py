"""An OTLP collector over HTTP or gRPC that keeps what it gets."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector(ThreadingHTTPServer):
    """Takes metrics and traces over HTTP; answers ``status``, once ``may_answer`` is set, as it is at first."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Receive)
        self.status = 200
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.requests: list[tuple[str, dict[str, str], ExportMetricsServiceRequest]] = []
        self.traces: list[tuple[dict[str, str], ExportTraceServiceRequest]] = []

    @property
    def url(self) -> str:
        """The endpoint, without a signal's path."""
        return f"http://127.0.0.1:{self.server_port}"

    def latest(self) -> dict[str, Metric]:
        """The metrics of the last request, by name."""
        [resource] = self.requests[-1][2].resource_metrics
        [scope] = resource.scope_metrics
        return {metric.name: metric for metric in scope.metrics}

    def spans(self) -> list[Span]:
        """Every span, in the order of arrival."""
        return spans_of([request for _, request in self.traces])


class _Receive(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        """Keep one request."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        if self.path.endswith("/traces"):
            self.server.traces.append((headers, ExportTraceServiceRequest.FromString(body)))
        else:
            self.server.requests.append((self.path, headers, ExportMetricsServiceRequest.FromString(body)))
        self.server.may_answer.wait()
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


@contextmanager
def running_collector() -> Iterator[Collector]:
    """A collector over HTTP."""
    server = Collector()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.may_answer.set()
        server.shutdown()
        server.server_close()
        thread.join()


class TraceService(trace_service_pb2_grpc.TraceServiceServicer):
    """Takes traces over gRPC."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[ExportTraceServiceRequest] = []

    def Export(self, request: ExportTraceServiceRequest, context: object) -> ExportTraceServiceResponse:  # noqa: N802
        """Keep one request."""
        self.requests.append(request)
        return ExportTraceServiceResponse()


@contextmanager
def running_trace_service() -> Iterator[TraceService]:
    """A collector over gRPC."""
    server = grpc.server(ThreadPoolExecutor(max_workers=1))
    service = TraceService()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(service, server)  # type: ignore[no-untyped-call]
    service.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield service
    finally:
        server.stop(None).wait()


def spans_of(requests: Sequence[ExportTraceServiceRequest]) -> list[Span]:
    """The spans of requests, in order."""
    return [
        span
        for request in requests
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def attributes_of(attributes: Sequence[KeyValue]) -> dict[str, str | int]:
    """Attributes by name, texts and whole numbers."""
    return {
        one.key: one.value.int_value if one.value.HasField("int_value") else one.value.string_value
        for one in attributes
    }
