"""When metrics are exported over OTLP, and that nothing about it can keep the relay from starting."""

from __future__ import annotations

import subprocess
import sys

import pytest

from relay.telemetry.export import export_requested, start_export, start_traces
from relay.telemetry.measurements import Measurements
from relay.telemetry.providers import Providers
from relay.telemetry.tracer import TracedSystems
from tests.support.waiting import patience

SYSTEMS = TracedSystems("null", "openoutbox_events")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, False),
        ({"OTEL_METRICS_EXPORTER": "none"}, False),
        ({"OTEL_METRICS_EXPORTER": "otlp"}, True),
        ({"OTEL_METRICS_EXPORTER": "OTLP, prometheus"}, True),
        ({"OTEL_METRICS_EXPORTER": "prometheus"}, False),
        ({"OTEL_METRICS_EXPORTER": "console"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c:4318/v1/metrics"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_METRICS_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, False),
    ],
)
def test_the_variables_of_the_standard_decide(variables: dict[str, str], expected: bool) -> None:
    assert export_requested("METRICS", variables) is expected


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, False),
        ({"OTEL_TRACES_EXPORTER": "jaeger"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c:4318/v1/metrics"}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "TRUE"}, False),
    ],
)
def test_traces_have_variables_of_their_own(variables: dict[str, str], expected: bool) -> None:
    assert export_requested("TRACES", variables) is expected


def test_other_propagators_leave_traces_off(caplog: pytest.LogCaptureFixture) -> None:
    variables = {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_PROPAGATORS": "b3"}

    assert start_traces(Measurements(), variables, "relay-1", SYSTEMS) is None
    assert "OTEL_PROPAGATORS=b3 leaves out tracecontext" in caplog.text


def test_a_sampler_that_cannot_be_followed_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("opentelemetry.sdk", reason="needs the extra otel")
    variables = {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_TRACES_SAMPLER": "traceidratio"}

    tracing = start_traces(Measurements(), variables, "relay-1", SYSTEMS)

    assert tracing is not None
    tracing.stop()
    assert "OTEL_TRACES_SAMPLER=traceidratio is ignored" in caplog.text


def test_a_missing_extra_leaves_traces_off(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.delitem(sys.modules, "relay.telemetry.otel_traces", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)

    assert start_traces(Measurements(), {"OTEL_TRACES_EXPORTER": "otlp"}, "relay-1", SYSTEMS) is None
    assert "traces are not exported over OTLP" in caplog.text
    assert "pip install ./client '.[otel]'" in caplog.text


def test_a_missing_extra_is_a_warning(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.delitem(sys.modules, "relay.telemetry.otel", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.metrics", None)

    assert start_export(Providers("relay-1"), {"OTEL_METRICS_EXPORTER": "otlp"}) is None
    assert "pip install ./client '.[otel]'" in caplog.text


def test_grpc_has_an_extra_of_its_own(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("opentelemetry.sdk", reason="needs the extra otel")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.grpc.metric_exporter", None)
    variables = {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}

    assert start_export(Providers("relay-1"), variables) is None
    assert "pip install ./client '.[otel-grpc]'" in caplog.text


def test_a_protocol_that_cannot_be_spoken_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("opentelemetry.sdk", reason="needs the extra otel")
    variables = {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}

    assert start_export(Providers("relay-1"), variables) is None
    assert "http/json is not supported" in caplog.text


def test_nothing_is_imported_that_is_not_asked_for() -> None:
    script = (
        "import sys; import relay.server, relay.settings, relay.telemetry.logs, relay.telemetry.prometheus\n"
        "from relay.telemetry.export import start_export, start_traces\n"
        "from relay.telemetry.measurements import Measurements\n"
        "from relay.telemetry.providers import Providers\n"
        "start_export(Providers('r'), {}), start_traces(Measurements(), {}, 'r', ('null', 't'))\n"
        "costly = ('opentelemetry', 'fastapi', 'confluent_kafka', 'nats', 'redis')\n"
        "print([name for name in costly if name in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=patience(), check=True
    )

    assert done.stdout.strip() == "[]"
