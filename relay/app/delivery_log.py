"""The delivery log in the daemon: its recorder, its metrics and its part of ``/readyz``.

``relay.app.run`` imports this module only where DELIVERY_LOG_URL is set. A log that fails is degraded; it never makes
the relay unready.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final, Protocol

from relay.app import build
from relay.deliverylog.recorder import Recorder
from relay.settings.settings import Settings
from relay.telemetry import catalogue as metrics
from relay.telemetry.providers import Reading, single

_RECORDER_CONNECTIONS: Final = 2
"""One that writes, and one that tells whether the database answers."""


class LogCounters(Protocol):
    """The counters of a recorder."""

    written: int
    dropped: int
    quarantined: int
    ready_until: datetime | None

    @property
    def trouble(self) -> str:
        """Why the log is degraded; empty while it works."""


class DeliveryLogParts:
    """Everything that the daemon runs for the delivery log."""

    def __init__(self, settings: Settings, destination_of: build.DestinationOf | None = None) -> None:
        """Raises ConfigError without DELIVERY_LOG_URL."""
        self.recorder = Recorder(
            build.delivery_log_opener(settings, _RECORDER_CONNECTIONS),
            build.recorder_options(settings, destination_of),
            replays=build.build_replays(settings),
        )

    def read(self) -> Iterator[Reading]:
        """The provider of the log's metrics."""
        return readings(self.recorder)

    def start(self) -> None:
        """Begin to record."""
        self.recorder.start()

    def degraded(self) -> dict[str, str]:
        """Return the log's part of ``/readyz``: why it is degraded, empty when it works."""
        return {"log": self.recorder.trouble}

    async def close(self) -> None:
        """Write the queued entries, within the recorder's deadline, and close. Never raises."""
        await self.recorder.close()


def readings(counters: LogCounters) -> Iterator[Reading]:
    """The recorder's counters, and until when there are tables where they are needed."""
    yield metrics.LOG_WRITTEN, single(counters.written)
    yield metrics.LOG_DROPPED, single(counters.dropped)
    yield metrics.LOG_QUARANTINED, single(counters.quarantined)
    yield metrics.LOG_DEGRADED, single(bool(counters.trouble))
    ready_until = counters.ready_until
    yield metrics.LOG_READY_UNTIL, [] if ready_until is None else single(ready_until.timestamp())
