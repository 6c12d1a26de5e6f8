"""The delivery log in the daemon: its recorder, its metrics and its part of ``/readyz``.

``relay.app.run`` imports this module only where DELIVERY_LOG_URL is set. A log that fails is degraded; it never makes
the relay unready.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector, CollectorRegistry

from relay.app import build
from relay.deliverylog.recorder import Recorder
from relay.settings.settings import Settings

_RECORDER_CONNECTIONS: Final = 2
"""One that writes, and one that tells whether the database answers."""
READY_UNTIL: Final = "openoutbox_log_ready_until_timestamp_seconds"
"""The metric of ``deploy/prometheus``'s alert on a month without tables."""


class LogCounters(Protocol):
    """The counters of a recorder."""

    written: int
    dropped: int
    quarantined: int
    ready_until: datetime | None


class DeliveryLogParts:
    """Everything that the daemon runs for the delivery log."""

    def __init__(self, settings: Settings, destination_of: build.DestinationOf | None = None) -> None:
        """Raises ConfigError without DELIVERY_LOG_URL."""
        self.recorder = Recorder(
            build.delivery_log_opener(settings, _RECORDER_CONNECTIONS),
            build.recorder_options(settings, destination_of),
            replays=build.build_replays(settings),
        )
        self._relay_id = settings.relay_id

    def register(self, registry: CollectorRegistry) -> None:
        """Add the log's counters to ``registry``."""
        registry.register(LogCollector(self.recorder, self._relay_id))

    def degraded(self) -> dict[str, str]:
        """Return the log's part of ``/readyz``: why it is degraded, empty when it works."""
        return {"log": self.recorder.trouble}

    async def close(self) -> None:
        """Write the queued entries, within the recorder's deadline, and close. Never raises."""
        await self.recorder.close()


class LogCollector(Collector):
    """The recorder's counters and gauge in Prometheus' terms."""

    def __init__(self, counters: LogCounters, relay_id: str) -> None:
        self._counters = counters
        self._relay_id = relay_id

    def describe(self) -> Iterator[Family]:
        """Return what ``collect`` returns."""
        return self.collect()

    def collect(self) -> Iterator[Family]:
        """All counters."""
        for name, meaning, value in (
            ("openoutbox_log_dropped_total", "Attempts that were dropped instead of logged.", self._counters.dropped),
            ("openoutbox_log_quarantined_total", "Attempts that the log could not store.", self._counters.quarantined),
            ("openoutbox_log_written_total", "Attempts written to the delivery log.", self._counters.written),
        ):
            family = CounterMetricFamily(name, meaning, labels=["relay_id"])
            family.add_metric([self._relay_id], float(value))
            yield family
        ready_until = GaugeMetricFamily(
            READY_UNTIL, "Unix time until which the log has tables for new attempts.", labels=["relay_id"]
        )
        if self._counters.ready_until is not None:
            ready_until.add_metric([self._relay_id], self._counters.ready_until.timestamp())
        yield ready_until
