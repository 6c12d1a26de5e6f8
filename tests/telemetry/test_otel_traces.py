"""Spans over OTLP, received by real servers that speak the protocol over HTTP and gRPC."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the extra otel")

from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from relay.core.event import EventId, OutboxEvent
from relay.core.outcome import Transient
from relay.core.tracecontext import TraceContext
from relay.core.verdict import Retry
from relay.telemetry.export import Tracing, start_traces
from relay.telemetry.measurements import Measurements
from relay.telemetry.tracer import Span, SpanKind, TracedSystems
from tests.support.servers.otlp import (
    Collector,
    attributes_of,
    running_collector,
    running_trace_service,
    spans_of,
)
from tests.support.waiting import wait_until

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
HEADERS = f'{{"traceparent": "00-{TRACE}-{SPAN}-01", "tracestate": "a=b,c=d"}}'
EVENT = OutboxEvent(EventId("e1"), "orders", None, b"123", HEADERS, 2, 1.5)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with running_collector() as server:
        yield server


def started(variables: dict[str, str], measurements: Measurements | None = None) -> Tracing:
    systems = TracedSystems("kafka", "openoutbox_events")
    tracing = start_traces(measurements or Measurements(), variables, "relay-1", systems)
    assert tracing is not None
    return tracing


def publish(tracing: Tracing, events: int = 1, error: str = "") -> None:
    """One claim of sampled events, delivered or failed."""
    claimed = [EVENT._replace(event_id=EventId(f"e{number}")) for number in range(1, events + 1)]
    batch = tracing.tracer.claim(claimed, 0.25)
    assert batch is not None
    batch.hand_over(claimed)
    if error:
        batch.decide(claimed[0].event_id, Retry(1.0, error), Transient(error, ""))
    else:
        batch.acknowledge([event.event_id for event in claimed], 2.5)


def test_a_span_arrives_with_its_place_its_times_and_its_attributes(collector: Collector) -> None:
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "authorization=Bearer%20x",
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        "OTEL_SERVICE_NAME": "relay",
    }
    tracing = started(variables)
    publish(tracing)
    wait_until(lambda: len(collector.spans()) == 2, what="the spans of a claim and a delivery")
    tracing.stop()
    claim, span = collector.spans()
    headers, request = collector.traces[0]
    assert headers["authorization"] == "Bearer x"
    resource = attributes_of(list(request.resource_spans[0].resource.attributes))
    assert (resource["service.name"], resource["service.instance.id"]) == ("relay", "relay-1")
    assert (span.trace_id.hex(), span.parent_span_id.hex(), span.trace_state) == (TRACE, SPAN, "a=b,c=d")
    assert (span.name, span.kind, span.status.code) == (
        "publish orders",
        WireSpan.SPAN_KIND_PRODUCER,
        Status.STATUS_CODE_UNSET,
    )
    assert [link.span_id for link in span.links] == [claim.span_id]
    assert [(link.trace_id.hex(), link.span_id.hex()) for link in claim.links] == [(TRACE, SPAN)]
    assert (claim.name, claim.kind, claim.parent_span_id) == ("claim openoutbox_events", WireSpan.SPAN_KIND_CLIENT, b"")
    assert claim.end_time_unix_nano - claim.start_time_unix_nano == 250_000_000
    assert claim.end_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
    attributes = attributes_of(list(span.attributes))
    assert (attributes["messaging.system"], attributes["openoutbox.attempt"]) == ("kafka", 3)
    assert (attributes["messaging.destination.name"], attributes["messaging.message.id"]) == ("orders", "e1")


def test_a_failure_is_an_error_with_its_reason(collector: Collector) -> None:
    tracing = started({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{collector.url}/own/traces"})
    publish(tracing, error="BUSY: come back later")
    tracing.stop()
    span = collector.spans()[-1]
    assert (span.status.code, span.status.message) == (Status.STATUS_CODE_ERROR, "BUSY: come back later")
    assert attributes_of(list(span.attributes))["error.type"] == "BUSY"


def test_grpc_carries_the_same() -> None:
    with running_trace_service() as service:
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": service.url, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
        tracing = started(variables)
        publish(tracing)
        tracing.stop()
    assert [span.name for span in spans_of(service.requests)] == ["claim openoutbox_events", "publish orders"]


def test_a_full_batch_is_exported_before_its_time(collector: Collector) -> None:
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "10"}
    tracing = started(variables)
    publish(tracing, 24)
    wait_until(lambda: len(collector.spans()) == 20, 4.0, "full batches, before the 5 s of the default are over")
    tracing.stop()
    assert [len(spans_of([request])) for _, request in collector.traces] == [10, 10, 5]


def test_a_full_queue_drops_spans_and_says_how_many(collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_MAX_QUEUE_SIZE": "4"}
    tracing = started(variables)
    collector.may_answer.clear()
    publish(tracing, 3)
    wait_until(lambda: collector.traces, what="the request that has emptied the queue")
    publish(tracing, 10)
    collector.may_answer.set()
    tracing.stop()
    assert len(collector.spans()) == 8
    assert [getattr(record, "spans", None) for record in caplog.records] == [7]


@pytest.mark.filterwarnings("default::ResourceWarning")
def test_a_collector_that_hangs_holds_up_neither_a_span_nor_the_stop(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    collector.may_answer.clear()
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_EXPORTER_OTLP_TIMEOUT": "600000",  # a stop that waited for it would not end within the test
        "OTEL_BSP_MAX_QUEUE_SIZE": "4",
        "OTEL_BSP_SCHEDULE_DELAY": "20",
    }
    tracing = started(variables)
    publish(tracing)
    wait_until(lambda: collector.traces, what="the request that gets no answer")
    first = len(collector.spans())
    publish(tracing, 10)
    tracing.stop()
    assert [getattr(record, "spans", None) for record in caplog.records] == [2 + 11 - first]


@pytest.mark.filterwarnings("default::ResourceWarning")
def test_a_collector_that_refuses_or_is_absent_is_a_line_in_the_log(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    collector.status = 400
    refused = started({"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url})
    publish(refused)
    refused.stop()
    assert [record.message for record in caplog.records if getattr(record, "action", "") == "otel_export_failed"]
    caplog.clear()
    absent = started({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_TIMEOUT": "200"})
    publish(absent)
    absent.stop()
    wait_until(lambda: any(getattr(record, "action", "") == "otel_export_failed" for record in caplog.records))


def test_what_is_not_valid_unicode_loses_that_and_not_the_request(collector: Collector) -> None:
    tracing = started({"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url})
    context = TraceContext("a" * 32, "b" * 16)
    tracing.tracer.sink(Span("publish \ud800", SpanKind.PRODUCER, context, None, (), 1, 2, {"k": "\ud800"}, "\ud800"))
    tracing.stop()
    [span] = collector.spans()
    assert (span.name, attributes_of(list(span.attributes))["k"], span.status.message) == ("publish ?", "?", "?")


def test_a_span_is_named_in_2000_characters(collector: Collector) -> None:
    tracing = started({"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url})
    long = "a" * 100_000
    tracing.tracer.sink(
        Span(long, SpanKind.PRODUCER, TraceContext("a" * 32, "b" * 16), None, (), 1, 2, {"k": long}, long)
    )
    tracing.stop()
    [span] = collector.spans()
    texts = (span.name, str(attributes_of(list(span.attributes))["k"]), span.status.message)
    assert [len(text) for text in texts] == [2000] * 3


def test_a_clock_that_was_set_back_ends_no_span_before_its_start(collector: Collector) -> None:
    tracing = started({"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url})
    tracing.tracer.sink(Span("a", SpanKind.CLIENT, TraceContext("a" * 32, "b" * 16), None, (), 7, 3, {}))
    tracing.stop()
    [span] = collector.spans()
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (7, 7)
