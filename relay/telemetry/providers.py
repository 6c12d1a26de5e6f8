"""Who provides the samples of the metrics: the parts of one process, read by every exporter.

``relay.app`` adds a provider for each part that runs. An exporter (Prometheus, OTLP) reads them from a thread of its
own, at each scrape or export: a provider reads numbers from memory, never waits and never raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from relay.telemetry.catalogue import Metric, MetricType
from relay.telemetry.histogram import Distribution

BOUNDED_LABEL: Final = "destination"
"""The label whose values come from configuration and events in any number."""
MOST_VALUES: Final = 1000
"""Series of a metric with that label; the rest is one series."""
OTHER: Final = "other"


class Sample(NamedTuple):
    """One series of a metric: the values of its labels, and its value."""

    labels: tuple[str, ...]
    value: float | Distribution


Reading = tuple[Metric, list[Sample]]
Provider = Callable[[], Iterable[Reading]]
"""Returns the metrics of one part, with all their series; label values without ``relay_id``."""


class Providers:
    """All providers of one relay."""

    def __init__(self, relay_id: str, *providers: Provider) -> None:
        self.relay_id = relay_id
        self._providers = list(providers)

    def add(self, *providers: Provider) -> None:
        """Show these metrics, too, from now on."""
        self._providers.extend(providers)

    def read(self) -> Iterator[Reading]:
        """Every metric with all its series, in the order of the providers; label values in that of ``all_labels``."""
        for provider in self._providers:
            for metric, samples in provider():
                yield metric, [self._labelled(metric, sample) for sample in _bounded(metric, samples)]

    def _labelled(self, metric: Metric, sample: Sample) -> Sample:
        if metric.all_labels is metric.labels:
            return sample
        return Sample((*sample.labels, self.relay_id), sample.value)


def single(value: float) -> list[Sample]:
    """The only series of a metric without labels."""
    return [Sample((), float(value))]


def by_label(**values: float) -> list[Sample]:
    """The series of a metric with one label."""
    return [Sample((label,), float(value)) for label, value in values.items()]


def _bounded(metric: Metric, samples: list[Sample]) -> list[Sample]:
    """At most ``MOST_VALUES`` destinations by name. Of the rest the sum of a counter, the largest of a gauge."""
    if metric.labels != (BOUNDED_LABEL,) or len(samples) <= MOST_VALUES:
        return samples
    rest = [sample.value for sample in samples[MOST_VALUES:] if isinstance(sample.value, float)]
    value = sum(rest) if metric.type is MetricType.COUNTER else max(rest)
    return [*samples[:MOST_VALUES], Sample((OTHER,), value)]
