"""A subscription's measurements for Prometheus, in the consumer's process: ``store.subscribe(..., meter=...)``.

What the database knows, whether a consumer runs or not, is in the daemon's /metrics: ``relay.app.subscriptions``.
"""

from __future__ import annotations

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge


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
        self._active.labels(subscription).set(is_active)

    def delivered(self, subscription: str, events: int) -> None:
        self._events.labels(subscription).inc(events)

    def lag(self, subscription: str, positions: int, seconds: float) -> None:
        self._positions.labels(subscription).set(positions)
        self._seconds.labels(subscription).set(seconds)

    def blocked(self, subscription: str, seconds: float) -> None:
        self._blocked.labels(subscription).set(seconds)
