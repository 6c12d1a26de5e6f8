"""The measurements in Prometheus' text format, by the names, types and labels of docs/reference/metrics.md."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar
from prometheus_client.utils import floatToGoString

from relay.telemetry.catalogue import MetricType
from relay.telemetry.histogram import Distribution, ExemplarValue
from relay.telemetry.measurements import Measurements
from relay.telemetry.providers import Provider, Providers, Sample

_FAMILIES: Final = {
    MetricType.COUNTER: CounterMetricFamily,
    MetricType.GAUGE: GaugeMetricFamily,
    MetricType.HISTOGRAM: HistogramMetricFamily,
}


class PrometheusTelemetry(Measurements):
    """The engine's Telemetry, and the text of ``/metrics``.

    ``providers`` is all that is shown; nothing of the client library's global registry is, beside the process itself.
    """

    def __init__(self, relay_id: str) -> None:
        super().__init__()
        self.providers = Providers(relay_id, self.read)
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(_Bridge(self.providers))
        ProcessCollector(registry=self.registry)

    def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """The metrics and their content type: Prometheus' text, or OpenMetrics where ``accept`` asks for it."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type


def exposition_of(provider: Provider, relay_id: str = "") -> str:
    """The metrics of one provider as text for a scrape."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Bridge(Providers(relay_id, provider)))
    return generate_latest(registry).decode()


class _Bridge(Collector):
    """Shows the samples to the client library at each scrape; no ``_created`` series."""

    def __init__(self, providers: Providers) -> None:
        self._providers = providers

    def collect(self) -> Iterator[Family]:
        """The current samples."""
        for metric, samples in self._providers.read():
            family = _FAMILIES[metric.type](metric.name, metric.meaning, labels=metric.all_labels)
            for sample in samples:
                self._add(family, sample)
            yield family

    @staticmethod
    def _add(family: Family, sample: Sample) -> None:
        labels = sample.labels
        if isinstance(family, HistogramMetricFamily) and isinstance(sample.value, Distribution):
            family.add_metric(labels, _cumulated(sample.value), sample.value.sum)
        elif isinstance(family, (CounterMetricFamily, GaugeMetricFamily)) and isinstance(sample.value, float):
            family.add_metric(labels, sample.value)


def _cumulated(distribution: Distribution) -> list[tuple[str, float] | tuple[str, float, Exemplar]]:
    """The buckets, with their exemplars, which only OpenMetrics shows."""
    bounds = [*map(floatToGoString, distribution.bounds), "+Inf"]
    buckets = [(bound, float(count)) for bound, count in zip(bounds, accumulate(distribution.counts), strict=True)]
    exemplars = distribution.exemplars
    return [
        (*bucket, _exemplar(exemplars[index])) if index in exemplars else bucket for index, bucket in enumerate(buckets)
    ]


def _exemplar(exemplar: ExemplarValue) -> Exemplar:
    labels = {"trace_id": exemplar.trace_id, "span_id": exemplar.span_id}
    return Exemplar(labels, exemplar.value, exemplar.observed_at)
