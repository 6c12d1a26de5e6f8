"""Measurements of subscriptions for Prometheus.

``PrometheusMeter`` measures in the consumer: pass one to ``store.subscribe(..., meter=...)``. ``CheckpointCollector``
shows what the database knows, whether a consumer runs or not: in the daemon's /metrics with EVENT_STORE_SCHEMA, and by
``relay-cli store subscriptions --prometheus`` for a textfile collector.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from relay.eventstore.states import SubscriptionState

_LABELS: Final = ("database", "schema", "subscription", "part")
LISTED_AT: Final = "openoutbox_eventstore_listed_timestamp_seconds"
_CHECKPOINTS: Final[dict[str, tuple[str, Callable[[list[SubscriptionState]], float]]]] = {
    "openoutbox_eventstore_checkpoint_active": (
        "1 where an instance holds the lease",
        lambda states: any(state.active for state in states),
    ),
    "openoutbox_eventstore_checkpoint_position": (
        "Position of the checkpoint",
        lambda states: min(state.position for state in states),
    ),
    "openoutbox_eventstore_checkpoint_lag_events": (
        "Events of all tenants and types after the checkpoint, up to 100,000",
        lambda states: sum(state.lag_events for state in states),
    ),
    "openoutbox_eventstore_checkpoint_lag_seconds": (
        "Age of the oldest event after the checkpoint",
        lambda states: max(state.lag_seconds for state in states),
    ),
}
EXPOSED: Final = (*_CHECKPOINTS, LISTED_AT)
"""The names of the metrics of ``exposition``."""


class CheckpointCollector(Collector):
    """The subscriptions of one store as they were listed last, in Prometheus' terms.

    Labelled ``database``, ``schema``, ``subscription`` and ``part``. ``part`` is empty for a subscription that is not
    consumed in parts, for example ``0/2`` for a part of one that is, and ``none`` for its slots that no instance holds.
    """

    def __init__(self, database: str, schema: str) -> None:
        self._store = (database, schema)
        self._series: dict[tuple[str, str], list[SubscriptionState]] = {}
        self._listed_at: float | None = None

    def show(self, states: Iterable[SubscriptionState], listed_at: float) -> None:
        """Show these from now on; ``listed_at`` is in seconds since 1970."""
        series: dict[tuple[str, str], list[SubscriptionState]] = {}
        for state in states:
            part = "" if state.slots is None else "none" if state.part is None else f"{state.part[0]}/{state.part[1]}"
            series.setdefault((state.name, part), []).append(state)
        self._series, self._listed_at = series, listed_at

    def describe(self) -> Iterator[Family]:
        """What ``collect`` yields."""
        return self.collect()

    def collect(self) -> Iterator[Family]:
        """All gauges."""
        for name, (text, measure) in _CHECKPOINTS.items():
            family = GaugeMetricFamily(name, text, labels=_LABELS)
            for labels, listed in self._series.items():
                family.add_metric([*self._store, *labels], measure(listed))
            yield family
        listed_at = GaugeMetricFamily(LISTED_AT, "Unix time at which the subscriptions were listed", labels=_LABELS[:2])
        if self._listed_at is not None:
            listed_at.add_metric(self._store, self._listed_at)
        yield listed_at


def exposition(
    states: Iterable[SubscriptionState], database: str, schema: str, now: Callable[[], float] = time.time
) -> str:
    """The states as text for a scrape, as ``CheckpointCollector`` labels them."""
    collector = CheckpointCollector(database, schema)
    collector.show(states, now())
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry).decode()


class PrometheusMeter:
    """A ``Meter`` over prometheus_client. One a process and registry; it serves all subscriptions."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        labels = ["subscription"]
        name = "openoutbox_eventstore_subscription"
        self._active = Gauge(f"{name}_active", "1 where this instance is the active one", labels, registry=registry)
        self._events = Counter(f"{name}_events_total", "Events acknowledged", labels, registry=registry)
        self._positions = Gauge(
            f"{name}_lag_positions", "Positions between the checkpoint and the newest one", labels, registry=registry
        )
        self._seconds = Gauge(
            f"{name}_lag_seconds", "Age of the oldest event not yet acknowledged", labels, registry=registry
        )
        self._blocked = Gauge(
            f"{name}_blocked_seconds",
            "Time spent waiting for an older open transaction",
            labels,
            registry=registry,
        )

    def active(self, subscription: str, is_active: bool) -> None:
        """Set the gauge."""
        self._active.labels(subscription).set(is_active)

    def delivered(self, subscription: str, events: int) -> None:
        """Count."""
        self._events.labels(subscription).inc(events)

    def lag(self, subscription: str, positions: int, seconds: float) -> None:
        """Set the gauges."""
        self._positions.labels(subscription).set(positions)
        self._seconds.labels(subscription).set(seconds)

    def blocked(self, subscription: str, seconds: float) -> None:
        """Set the gauge."""
        self._blocked.labels(subscription).set(seconds)
