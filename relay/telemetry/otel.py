"""The metrics over OTLP: converted from the same numbers that Prometheus sees, at export time only.

The engine pays nothing for it: no instrument is touched while events flow. A thread of its own reads the numbers
every OTEL_METRIC_EXPORT_INTERVAL and sends them; a collector that is slow, absent or refuses costs that thread its
time and the log a line, nothing else. Imported only by ``relay.telemetry.export``; needs the extra ``otel``.

Names are those of Prometheus, so that a dashboard works whichever way its numbers came.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping

from opentelemetry.sdk.metrics import export as sdk
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from relay.telemetry.catalogue import Metric, MetricType
from relay.telemetry.histogram import Distribution
from relay.telemetry.otlp import TIMEOUT_MS, make_exporter, number, resource_attributes, setting
from relay.telemetry.providers import Providers, Sample
from relay.version import __version__

logger = logging.getLogger(__name__)

_CUMULATIVE = sdk.AggregationTemporality.CUMULATIVE
_SCOPE = InstrumentationScope("relay", __version__)
_INTERVAL_MS = 60_000.0
_STOP_SECONDS = 1.5


class OtlpExport:
    """Exports from its construction on. Raises ValueError or ImportError for variables with unusable values."""

    def __init__(self, providers: Providers, variables: Mapping[str, str]) -> None:
        self._providers = providers
        self._resource = Resource(resource_attributes(variables, providers.relay_id))
        self._exporter: sdk.MetricExporter = make_exporter("METRICS", variables)
        self._timeout_ms = number(setting("METRICS", variables, "TIMEOUT"), TIMEOUT_MS)
        self._interval = number(variables.get("OTEL_METRIC_EXPORT_INTERVAL", ""), _INTERVAL_MS) / 1000
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
        metrics = [self._metric(metric, samples) for metric, samples in self._providers.read()]
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

    @staticmethod
    def _attributes(metric: Metric, sample: Sample) -> dict[str, str]:
        return dict(zip(metric.all_labels, sample.labels, strict=True))

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
