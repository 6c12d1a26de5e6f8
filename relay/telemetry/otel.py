"""The measurements over OTLP: converted from the same numbers that Prometheus sees, at export time only.

The engine pays nothing for it: no instrument is touched while events flow. A thread of its own reads the numbers
every OTEL_METRIC_EXPORT_INTERVAL and sends them; a collector that is slow, absent or refuses costs that thread its
time and the log a line, nothing else. Imported only by ``relay.telemetry.export``; needs the extra ``otel``.

Names are those of Prometheus, so that a dashboard works whichever way its numbers came.
"""

from __future__ import annotations

import importlib
import logging
import threading
import time
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from opentelemetry.sdk.metrics import export as sdk
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from relay.telemetry.catalogue import Metric, MetricType
from relay.telemetry.histogram import Distribution
from relay.telemetry.measurements import Measurements, Sample
from relay.version import __version__

logger = logging.getLogger(__name__)

_CUMULATIVE = sdk.AggregationTemporality.CUMULATIVE
_SCOPE = InstrumentationScope("relay", __version__)
_INTERVAL_MS, _TIMEOUT_MS = 60_000.0, 10_000.0
_STOP_SECONDS = 1.5


class OtlpExport:
    """Exports from its construction on. Raises ValueError or ImportError for variables with unusable values."""

    def __init__(self, measurements: Measurements, variables: Mapping[str, str], relay_id: str) -> None:
        self._measurements = measurements
        self._relay_id = relay_id
        self._resource = Resource(resource_attributes(variables, relay_id))
        self._exporter = _make_exporter(variables)
        self._timeout_ms = _number(_setting(variables, "TIMEOUT"), _TIMEOUT_MS)
        self._interval = _number(variables.get("OTEL_METRIC_EXPORT_INTERVAL", ""), _INTERVAL_MS) / 1000
        self._started_at = time.time_ns()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="relay-otel", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Export a last time and end, within two seconds."""
        self._ending.set()
        self._thread.join(_STOP_SECONDS)
        self._exporter.shutdown(timeout_millis=100)

    def _run(self) -> None:
        while not self._ending.wait(self._interval):
            self._export()
        self._export()

    def _export(self) -> None:
        try:
            result = self._exporter.export(self._read(), timeout_millis=self._timeout_ms)
        except Exception:  # whatever a collector or the library does, the relay goes on
            logger.exception("the metrics could not be exported", extra={"action": "otel_export_failed"})
            return
        if result is not sdk.MetricExportResult.SUCCESS:
            logger.warning("the collector did not take the metrics", extra={"action": "otel_export_failed"})

    def _read(self) -> sdk.MetricsData:
        metrics = [self._metric(metric, samples) for metric, samples in self._measurements.read()]
        scope = sdk.ScopeMetrics(scope=_SCOPE, metrics=metrics, schema_url="")
        return sdk.MetricsData([sdk.ResourceMetrics(self._resource, [scope], schema_url="")])

    def _metric(self, metric: Metric, samples: list[Sample]) -> sdk.Metric:
        data: sdk.DataT
        match metric.type:
            case MetricType.COUNTER:
                data = sdk.Sum(list(self._numbers(metric, samples)), _CUMULATIVE, is_monotonic=True)
            case MetricType.GAUGE:
                data = sdk.Gauge(list(self._numbers(metric, samples)))
            case MetricType.HISTOGRAM:
                data = sdk.Histogram(list(self._distributions(metric, samples)), _CUMULATIVE)
        unit = "s" if metric.name.endswith("_seconds") else ""
        return sdk.Metric(metric.name, metric.meaning, unit, data)

    def _attributes(self, metric: Metric, sample: Sample) -> dict[str, str]:
        return {**dict(zip(metric.labels, sample.labels, strict=True)), "relay_id": self._relay_id}

    def _numbers(self, metric: Metric, samples: list[Sample]) -> Iterator[sdk.NumberDataPoint]:
        now = time.time_ns()
        for sample in samples:
            if isinstance(sample.value, float):
                yield sdk.NumberDataPoint(self._attributes(metric, sample), self._started_at, now, sample.value)

    def _distributions(self, metric: Metric, samples: list[Sample]) -> Iterator[sdk.HistogramDataPoint]:
        now = time.time_ns()
        for sample in samples:
            if isinstance(value := sample.value, Distribution):
                yield sdk.HistogramDataPoint(
                    attributes=self._attributes(metric, sample),
                    start_time_unix_nano=self._started_at,
                    time_unix_nano=now,
                    count=value.total,
                    sum=value.sum,
                    bucket_counts=value.counts,
                    explicit_bounds=value.bounds,
                    # optional in the protocol, and left out: cumulative extremes tell nothing
                    min=None,  # type: ignore[arg-type]
                    max=None,  # type: ignore[arg-type]
                )


def _make_exporter(variables: Mapping[str, str]) -> sdk.MetricExporter:
    """The exporter of the chosen protocol; what is not given here it reads from the standard's variables itself."""
    protocol = _setting(variables, "PROTOCOL") or "http/protobuf"
    if protocol not in ("http/protobuf", "grpc"):
        raise ValueError(f"OTEL_EXPORTER_OTLP_PROTOCOL={protocol} is not supported; write http/protobuf or grpc")
    grpc = protocol == "grpc"
    module = importlib.import_module(f"opentelemetry.exporter.otlp.proto.{'grpc' if grpc else 'http'}.metric_exporter")
    headers = dict(_pairs(_setting(variables, "HEADERS")))
    exporter: sdk.MetricExporter = module.OTLPMetricExporter(
        endpoint=_endpoint(variables, grpc=grpc),
        headers=headers or None,
        timeout=_number(_setting(variables, "TIMEOUT"), _TIMEOUT_MS) / 1000,
    )
    return exporter


def _endpoint(variables: Mapping[str, str], *, grpc: bool) -> str | None:
    """The URL; a general one is completed by the signal's path, a metrics one is taken as it stands."""
    if own := variables.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"):
        return own
    general = variables.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    return general if grpc or not general else f"{general.rstrip('/')}/v1/metrics"


def resource_attributes(variables: Mapping[str, str], relay_id: str) -> dict[str, str]:
    """Who speaks: ours, overridden by OTEL_RESOURCE_ATTRIBUTES, and that by OTEL_SERVICE_NAME."""
    ours = {"service.name": "openoutbox-relay", "service.version": __version__, "service.instance.id": relay_id}
    attributes = dict(_pairs(variables.get("OTEL_RESOURCE_ATTRIBUTES", "")))
    named = variables.get("OTEL_SERVICE_NAME")
    return {**ours, **attributes, **({"service.name": named} if named else {})}


def _setting(variables: Mapping[str, str], name: str) -> str:
    """The metrics' own variable, or the general one."""
    general = variables.get(f"OTEL_EXPORTER_OTLP_{name}", "")
    return (variables.get(f"OTEL_EXPORTER_OTLP_METRICS_{name}") or general).strip()


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if equals and name.strip():
            yield name.strip(), unquote(value.strip())


def _number(text: str, otherwise: float) -> float:
    """Milliseconds above 0; the standard asks that anything else be warned about and ignored."""
    if not text:
        return otherwise
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        logger.warning("%r is not a number of milliseconds and is ignored", text, extra={"action": "otel_unavailable"})
        return otherwise
    return number
