"""Metrics over OTLP, received by a real HTTP server that speaks the protocol."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the extra otel")

from relay.core.storage import Backlog
from relay.core.telemetry import EngineCounter
from relay.telemetry.export import start_export
from relay.telemetry.measurements import Measurements
from relay.telemetry.providers import Providers
from tests.support.servers.otlp import Collector, attributes_of, running_collector
from tests.support.waiting import wait_until


@pytest.fixture
def collector() -> Iterator[Collector]:
    with running_collector() as server:
        yield server


def test_every_metric_arrives_with_its_numbers(collector: Collector) -> None:
    measurements = Measurements()
    measurements.settled(3, 1)
    measurements.acknowledged([0.02, 0.02, 7.0], [1.0, 2.0, 400.0])
    measurements.backlog(Backlog(10, 2, 5.0, 4.0, 1))
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20x",
        "OTEL_METRIC_EXPORT_INTERVAL": "50",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test,service.name=overridden",
        "OTEL_SERVICE_NAME": "relay",
    }

    export = start_export(Providers("relay-1", measurements.read), variables)
    assert export is not None
    wait_until(lambda: len(collector.requests) >= 2, what="two exports")
    export.stop()

    path, headers, request = collector.requests[0]
    assert (path, headers["authorization"]) == ("/v1/metrics", "Bearer x")
    resource = attributes_of(list(request.resource_metrics[0].resource.attributes))
    assert (resource["service.name"], resource["service.instance.id"]) == ("relay", "relay-1")
    assert resource["deployment.environment"] == "test"
    metrics = collector.latest()
    events = {
        attributes_of(list(point.attributes))["status"]: point.as_double
        for point in metrics["openoutbox_events_total"].sum.data_points
    }
    assert events == {"success": 3, "failed": 1}
    [latency] = metrics["openoutbox_events_e2e_latency_seconds"].histogram.data_points
    assert (latency.count, latency.sum, latency.bucket_counts[-1]) == (3, 403, 1)
    assert len(latency.bucket_counts) == len(latency.explicit_bounds) + 1
    [age] = metrics["openoutbox_backlog_oldest_due_age_seconds"].gauge.data_points
    assert (age.as_double, attributes_of(list(age.attributes))) == (4.0, {"relay_id": "relay-1"})


def test_the_last_numbers_are_sent_at_the_end(collector: Collector) -> None:
    measurements = Measurements()
    export = start_export(
        Providers("relay-1", measurements.read), {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": f"{collector.url}/own"}
    )
    assert export is not None
    measurements.count(EngineCounter.RELEASED, 9)

    export.stop()

    assert collector.requests[-1][0] == "/own"
    assert collector.latest()["openoutbox_events_released_total"].sum.data_points[0].as_double == 9


@pytest.mark.filterwarnings("default::ResourceWarning")
def test_a_collector_that_refuses_or_is_absent_is_a_line_in_the_log(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    collector.status = 400
    refused = start_export(Providers("relay-1", Measurements().read), {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url})
    absent = start_export(
        Providers("relay-1", Measurements().read), {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
    )
    assert refused is not None
    assert absent is not None

    refused.stop()
    absent.stop()

    assert any(getattr(record, "action", "") == "otel_export_failed" for record in caplog.records)
