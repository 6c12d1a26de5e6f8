"""Measurements of subscriptions for Prometheus.

``PrometheusMeter`` measures in the consumer: pass one to ``store.subscribe(..., meter=...)``. ``exposition`` writes
what the database knows, whether a consumer runs or not: ``relay-cli store subscriptions --prometheus`` prints it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, generate_latest

from relay.eventstore.states import SubscriptionState

_LABELS: Final = ("database", "schema", "subscription", "part")
LISTED_AT: Final = "openoutbox_eventstore_listed_timestamp_seconds"
_CHECKPOINTS: Final[dict[str, tuple[str, Callable[[list[SubscriptionState]], float]]]] = {
    "openoutbox_eventstore_checkpoint_active": (
        "1 where an instance holds the lease",
        lambda states: any(state.active for state in states),
    ),
    "openoutbox_eventstore_checkpoint_position": (
        "The checkpoint",
        lambda states: min(state.position for state in states),
    ),
    "openoutbox_eventstore_checkpoint_lag_events": (
        "Events of all tenants and types after the checkpoint, up to 100,000",
        lambda states: sum(state.lag_events for state in states),
    ),
    "openoutbox_eventstore_checkpoint_lag_seconds": (
        "Age of the oldest of them",
        lambda states: max(state.lag_seconds for state in states),
    ),
}
EXPOSED: Final = (*_CHECKPOINTS, LISTED_AT)
"""The names of the metrics of ``exposition``."""


def exposition(
    states: Iterable[SubscriptionState], database: str, schema: str, now: Callable[[], float] = time.time
) -> str:
    """The states as text for a scrape, labelled ``database``, ``schema``, ``subscription`` and ``part``.

    ``part`` is empty for a subscription that is not consumed in parts, for example ``0/2`` for a part of one that is,
    and ``none`` for its slots that no instance holds.
    """
    series: dict[tuple[str, str, str, str], list[SubscriptionState]] = {}
    for state in states:
        part = "" if state.slots is None else "none" if state.part is None else f"{state.part[0]}/{state.part[1]}"
        series.setdefault((database, schema, state.name, part), []).append(state)
    registry = CollectorRegistry()
    for name, (text, measure) in _CHECKPOINTS.items():
        gauge = Gauge(name, text, _LABELS, registry=registry)
        for labels, listed in series.items():
            gauge.labels(*labels).set(measure(listed))
    listed_at = Gauge(LISTED_AT, "When this was written", _LABELS[:2], registry=registry)
    listed_at.labels(database, schema).set(now())
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
