"""The measurements in Prometheus' text format, by the names, types and labels of docs/reference/metrics.md."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar
from prometheus_client.utils import floatToGoString

from relay.telemetry.catalogue import CATALOGUE, Metric, MetricType
from relay.telemetry.histogram import Distribution, ExemplarValue
from relay.telemetry.measurements import Measurements, Sample


class PrometheusTelemetry(Measurements):
    """The engine's Telemetry, and the text of ``/metrics``.

    ``registry`` is this relay's own: another collector of this process may be registered with it, and nothing of
    the client library's global registry shows up.
    """

    def __init__(self, relay_id: str) -> None:
        super().__init__()
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(_Bridge(self, relay_id))
        ProcessCollector(registry=self.registry)

    def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """The metrics and their content type: Prometheus' text, or OpenMetrics where ``accept`` asks for it."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type


class _Bridge(Collector):
    """Shows the measurements to the client library at each scrape; no ``_created`` series."""

    def __init__(self, measurements: Measurements, relay_id: str) -> None:
        self._measurements = measurements
        self._relay_id = relay_id

    def describe(self) -> Iterator[Family]:
        """What may be there, without any series."""
        for metric in CATALOGUE:
            yield _family(metric)

    def collect(self) -> Iterator[Family]:
        """The current samples."""
        for metric, samples in self._measurements.read():
            family = _family(metric)
            for sample in samples:
                self._add(family, sample)
            yield family

    def _add(self, family: Family, sample: Sample) -> None:
        labels = [*sample.labels, self._relay_id]
        if isinstance(family, HistogramMetricFamily) and isinstance(sample.value, Distribution):
            family.add_metric(labels, _cumulated(sample.value), sample.value.sum)
        elif isinstance(family, (CounterMetricFamily, GaugeMetricFamily)) and isinstance(sample.value, float):
            family.add_metric(labels, sample.value)


def _family(metric: Metric) -> Family:
    labels = [*metric.labels, "relay_id"]
    match metric.type:
        case MetricType.COUNTER:
            return CounterMetricFamily(metric.name, metric.meaning, labels=labels)
        case MetricType.GAUGE:
            return GaugeMetricFamily(metric.name, metric.meaning, labels=labels)
        case MetricType.HISTOGRAM:
            return HistogramMetricFamily(metric.name, metric.meaning, labels=labels)


def _cumulated(distribution: Distribution) -> list[tuple[str, float] | tuple[str, float, Exemplar]]:
    """The buckets, with their exemplars, which only OpenMetrics shows."""
    bounds = [*map(floatToGoString, distribution.bounds), "+Inf"]
    buckets = [(bound, float(count)) for bound, count in zip(bounds, accumulate(distribution.counts), strict=True)]
    exemplars = distribution.exemplars
    return [
        (*bucket, _exemplar(exemplars[place])) if place in exemplars else bucket for place, bucket in enumerate(buckets)
    ]


def _exemplar(exemplar: ExemplarValue) -> Exemplar:
    labels = {"trace_id": exemplar.trace_id, "span_id": exemplar.span_id}
    return Exemplar(labels, exemplar.value, exemplar.observed_at)
