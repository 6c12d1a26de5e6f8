"""The metrics of docs/reference/metrics.md by name, type and label, with what the engine reported."""

from __future__ import annotations

import random

import pytest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from relay.core.clock import steady_seconds
from relay.core.storage import Backlog, Upkeep
from relay.core.telemetry import EngineCounter, RelayState, Telemetry
from relay.core.tracecontext import TraceContext
from relay.telemetry.catalogue import CATALOGUE, COUNTED, DESTINATION_AWAY, Section
from relay.telemetry.histogram import Histogram
from relay.telemetry.measurements import Measurements
from relay.telemetry.prometheus import PrometheusTelemetry

CONTRACT = {
    "openoutbox_events": ("counter", {"status", "relay_id"}),
    "openoutbox_events_batch_size": ("histogram", {"relay_id"}),
    "openoutbox_events_e2e_latency_seconds": ("histogram", {"relay_id"}),
    "openoutbox_storage_latency_seconds": ("histogram", {"op", "status", "relay_id"}),
    "openoutbox_publisher_latency_seconds": ("histogram", {"status", "relay_id"}),
    "openoutbox_backlog_pending_count": ("gauge", {"status", "relay_id"}),
    "openoutbox_backlog_oldest_age_seconds": ("gauge", {"relay_id"}),
    "openoutbox_relay_state": ("gauge", {"relay_id"}),
}


@pytest.fixture
def telemetry() -> PrometheusTelemetry:
    return PrometheusTelemetry("relay-1")


def families(telemetry: PrometheusTelemetry) -> dict[str, Family]:
    text = telemetry.exposition()[0].decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(telemetry: PrometheusTelemetry, name: str, **labels: str) -> float:
    value = telemetry.registry.get_sample_value(name, {**labels, "relay_id": "relay-1"})
    assert value is not None, f"no series {name}{labels}"
    return value


def test_it_is_what_the_engine_reports_to(telemetry: PrometheusTelemetry) -> None:
    port: Telemetry = telemetry

    port.state(RelayState.PAUSED, "no answer")

    assert value(telemetry, "openoutbox_relay_state") == 2


@pytest.mark.parametrize("name", sorted(CONTRACT))
def test_a_metric_of_the_contract_has_its_type_and_labels(telemetry: PrometheusTelemetry, name: str) -> None:
    kind, labels = CONTRACT[name]
    family = families(telemetry)[name]

    assert family.type == kind
    assert family.samples
    assert all(set(sample.labels) - {"le"} == labels for sample in family.samples)
    assert all(sample.labels["relay_id"] == "relay-1" for sample in family.samples)


def test_every_listed_metric_is_there_from_the_start_and_no_other_but_the_process(
    telemetry: PrometheusTelemetry,
) -> None:
    shown = {name for name in families(telemetry) if not name.startswith("process_")}

    engine = {metric.name for metric in CATALOGUE if metric.section is Section.RELAY} | {DESTINATION_AWAY.name}
    assert shown == {name.removesuffix("_total") for name in engine}
    assert not any("_created" in sample.name for family in families(telemetry).values() for sample in family.samples)


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        *(("openoutbox_events_total", {"status": status}) for status in ("success", "failed")),
        *(("openoutbox_publisher_latency_seconds_count", {"status": status}) for status in ("success", "failed")),
        *(("openoutbox_backlog_pending_count", {"status": status}) for status in ("new", "retrying")),
        *(
            ("openoutbox_storage_latency_seconds_count", {"op": op, "status": status})
            for op in ("claim", "mark_delivered", "mark_failed", "release", "renew", "reap", "stats")
            for status in ("success", "failed")
        ),
        *(("openoutbox_leases_reaped_total", {"result": result}) for result in ("retried", "dead")),
    ],
)
def test_what_has_not_happened_is_zero_and_not_absent(
    telemetry: PrometheusTelemetry, name: str, labels: dict[str, str]
) -> None:
    assert value(telemetry, name, **labels) == 0


def test_what_upkeep_leaves_is_a_number_and_stays_where_it_was_not_read(telemetry: PrometheusTelemetry) -> None:
    assert value(telemetry, "openoutbox_oldest_delivered_age_seconds") == 0
    telemetry.upkeep(Upkeep(700.0, 0.0))
    telemetry.upkeep(Upkeep(None, 60.0))
    assert value(telemetry, "openoutbox_oldest_delivered_age_seconds") == 700
    assert value(telemetry, "openoutbox_horizon_held_seconds") == 60
    assert value(telemetry, "openoutbox_times_ahead_rows", column="locked_at") == 0
    telemetry.upkeep(Upkeep(None, 0.0, {"locked_at": 3, "created_at": 0}))
    assert value(telemetry, "openoutbox_times_ahead_rows", column="locked_at") == 3


def test_the_backlog_says_when_it_was_read_and_the_lag_alone_does_not_make_it_younger() -> None:
    times = iter((1000.0, 2000.0))
    measurements = Measurements(lambda: next(times))
    measurements.backlog(Backlog(1, 0, 3.0, 3.0, 0))
    measurements.oldest_due_age(4.0)
    readings = {metric.name: samples[0].value for metric, samples in measurements.read() if samples}
    assert readings["openoutbox_backlog_read_timestamp_seconds"] == 1000.0
    assert readings["openoutbox_backlog_oldest_due_age_seconds"] == 4.0


@pytest.mark.parametrize("what", EngineCounter)
def test_what_is_counted_is_a_counter(telemetry: PrometheusTelemetry, what: EngineCounter) -> None:
    telemetry.count(what, 4)
    telemetry.count(what, 3)
    assert {one: value(telemetry, metric.name) for one, metric in COUNTED.items()} == {
        **dict.fromkeys(EngineCounter, 0),
        what: 7,
    }


def test_reports_become_numbers(telemetry: PrometheusTelemetry) -> None:
    telemetry.claimed(0)
    telemetry.claimed(40)
    telemetry.storage_op("claim", ok=True, seconds=0.2)
    telemetry.storage_op("claim", ok=False, seconds=5)
    telemetry.acknowledged([0.01, 0.02, 0.03], [1.0, 2.0, 400.0])
    telemetry.refused([0.5])
    telemetry.settled(3, 1)
    telemetry.settled(2, 0)
    telemetry.reaped(5, 6)
    telemetry.in_flight(8)
    telemetry.backlog(Backlog(10, 11, 12.5, 3.5, 13))
    telemetry.oldest_due_age(4.5)

    expected = {
        ("openoutbox_events_total", "success"): 5,
        ("openoutbox_events_total", "failed"): 1 + 11,
        ("openoutbox_publisher_latency_seconds_count", "success"): 3,
        ("openoutbox_publisher_latency_seconds_count", "failed"): 1,
        ("openoutbox_backlog_pending_count", "new"): 10,
        ("openoutbox_backlog_pending_count", "retrying"): 11,
    }
    assert {key: value(telemetry, key[0], status=key[1]) for key in expected} == expected
    assert value(telemetry, "openoutbox_events_batch_size_count") == 1
    assert value(telemetry, "openoutbox_events_e2e_latency_seconds_sum") == 403
    assert value(telemetry, "openoutbox_events_e2e_latency_seconds_bucket", le="1.0") == 1
    assert value(telemetry, "openoutbox_events_e2e_latency_seconds_bucket", le="300.0") == 2
    assert value(telemetry, "openoutbox_events_e2e_latency_seconds_bucket", le="+Inf") == 3
    assert value(telemetry, "openoutbox_storage_latency_seconds_sum", op="claim", status="failed") == 5
    assert value(telemetry, "openoutbox_backlog_oldest_age_seconds") == 12.5
    assert value(telemetry, "openoutbox_backlog_oldest_due_age_seconds") == 4.5
    assert value(telemetry, "openoutbox_backlog_dead_events") == 13
    assert value(telemetry, "openoutbox_in_flight_events") == 8
    assert value(telemetry, "openoutbox_leases_reaped_total", result="dead") == 6
    assert value(telemetry, "openoutbox_last_successful_claim_timestamp_seconds") > 1.7e9


def test_an_operation_that_is_not_listed_is_counted_too(telemetry: PrometheusTelemetry) -> None:
    telemetry.storage_op("vacuum", ok=True, seconds=0.1)

    assert value(telemetry, "openoutbox_storage_latency_seconds_count", op="vacuum", status="success") == 1


def test_openmetrics_is_given_to_those_who_ask(telemetry: PrometheusTelemetry) -> None:
    text, content_type = telemetry.exposition("application/openmetrics-text; version=1.0.0")

    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    parsed = parse_openmetrics(text.decode())  # type: ignore[no-untyped-call]
    assert {"openoutbox_events", "openoutbox_relay_state"} <= {family.name for family in parsed}


def test_a_sampled_event_is_an_exemplar_where_openmetrics_is_asked_for(telemetry: PrometheusTelemetry) -> None:
    telemetry.acknowledged([0.1, 0.1, 0.1], [0.3, 0.4, 400.0])
    telemetry.exemplify(0.3, TraceContext("a" * 32, "b" * 16))
    telemetry.exemplify(400.0, TraceContext("c" * 32, "d" * 16))
    text = telemetry.exposition("application/openmetrics-text; version=1.0.0")[0].decode()

    exemplars = {
        sample.labels["le"]: sample.exemplar
        for family in parse_openmetrics(text)  # type: ignore[no-untyped-call]
        for sample in family.samples
        if sample.exemplar is not None
    }

    assert set(exemplars) == {"0.5", "+Inf"}
    assert exemplars["0.5"].labels == {"trace_id": "a" * 32, "span_id": "b" * 16}
    assert (exemplars["0.5"].value, exemplars["+Inf"].value) == (0.3, 400.0)
    assert float(exemplars["0.5"].timestamp) > 1.7e9
    assert "trace_id" not in telemetry.exposition()[0].decode()


def test_a_label_survives_any_relay_id() -> None:
    telemetry = PrometheusTelemetry('a"b\\c\nd')

    samples = families(telemetry)["openoutbox_relay_state"].samples

    assert samples[0].labels["relay_id"] == 'a"b\\c\nd'


def test_a_batch_is_counted_as_its_values_one_by_one() -> None:
    values = [random.Random(7).choice([0.5, 1.0, 2.0, 2.5, 10.0, 11.0]) for _ in range(500)]
    batch, single = Histogram((1.0, 2.0, 10.0)), Histogram((1.0, 2.0, 10.0))

    batch.observe_many(values)
    for one in values:
        single.observe(one)

    assert batch.read() == single.read()
    assert batch.read().total == 500
    assert batch.read().counts == (
        sum(v <= 1 for v in values),
        sum(1 < v <= 2 for v in values),
        sum(2 < v <= 10 for v in values),
        sum(v > 10 for v in values),
    )


def test_how_far_the_databases_clock_is_from_the_hosts_is_exported(telemetry: PrometheusTelemetry) -> None:
    assert value(telemetry, "openoutbox_clock_offset_seconds") == 0.0
    clock, now = telemetry.database_clock, steady_seconds()
    clock.measured(clock.now() + 600.0, now, now)
    assert value(telemetry, "openoutbox_clock_offset_seconds") == pytest.approx(600.0, abs=2.0)
