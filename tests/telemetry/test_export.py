"""When metrics are exported over OTLP, and that nothing about it can keep the relay from starting."""

from __future__ import annotations

import subprocess
import sys

import pytest

from relay.telemetry.export import export_requested, start_export
from relay.telemetry.measurements import Measurements
from tests.support.waiting import patience


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
    assert export_requested(variables) is expected


def test_a_missing_extra_is_a_warning(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.delitem(sys.modules, "relay.telemetry.otel", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.metrics", None)

    assert start_export(Measurements(), {"OTEL_METRICS_EXPORTER": "otlp"}, "relay-1") is None
    assert "pip install '.[otel]'" in caplog.text


def test_grpc_has_an_extra_of_its_own(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("opentelemetry.sdk", reason="needs the extra otel")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.grpc.metric_exporter", None)
    variables = {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}

    assert start_export(Measurements(), variables, "relay-1") is None
    assert "pip install '.[otel-grpc]'" in caplog.text


def test_a_protocol_that_cannot_be_spoken_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("opentelemetry.sdk", reason="needs the extra otel")
    variables = {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}

    assert start_export(Measurements(), variables, "relay-1") is None
    assert "http/json is not supported" in caplog.text


def test_nothing_is_imported_that_is_not_asked_for() -> None:
    script = (
        "import sys; import relay.server, relay.settings, relay.telemetry.logs, relay.telemetry.prometheus\n"
        "from relay.telemetry.export import start_export\n"
        "from relay.telemetry.measurements import Measurements\n"
        "start_export(Measurements(), {}, 'r')\n"
        "costly = ('opentelemetry', 'fastapi', 'confluent_kafka', 'nats', 'redis')\n"
        "print([name for name in costly if name in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=patience(), check=True
    )

    assert done.stdout.strip() == "[]"
