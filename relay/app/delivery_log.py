"""The delivery log in the daemon: its recorder, its metrics, its part of ``/readyz`` and its API.

``relay.app.build`` imports this module only where DELIVERY_LOG_URL is set. A log that fails is degraded; it never makes
the relay unready.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Final, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector, CollectorRegistry
from starlette.types import ASGIApp

from relay.app import build
from relay.core.errors import OutboxError
from relay.core.extras import requires
from relay.deliverylog import DeliveryLog
from relay.deliverylog.recorder import Recorder
from relay.settings.kinds import tenant_tokens
from relay.settings.settings import Settings

if TYPE_CHECKING:
    from relay.deliverylog.api.apart import ApartApp

_RECORDER_CONNECTIONS: Final = 2
"""One that writes, and one that tells whether the database answers."""
_API_CONNECTIONS: Final = 2
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

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigError without DELIVERY_LOG_URL."""
        self.recorder = Recorder(
            build.delivery_log_opener(settings, _RECORDER_CONNECTIONS),
            build.recorder_options(settings),
            replays=build.build_replays(settings),
        )
        self._api = LogApi(settings)
        self._relay_id = settings.relay_id

    def apis(self) -> dict[str, ASGIApp]:
        """Return the API by the prefix of its paths; empty without API_TOKEN. Raises ConfigError without the extra."""
        return self._api.application()

    def register(self, registry: CollectorRegistry) -> None:
        """Add the log's counters to ``registry``."""
        registry.register(LogCollector(self.recorder, self._relay_id))

    def degraded(self) -> dict[str, str]:
        """Return the log's part of ``/readyz``: why it is degraded, empty when it works."""
        return {"log": self.recorder.trouble}

    async def close(self) -> None:
        """Write the queued entries, within the recorder's deadline, and close. Never raises."""
        await asyncio.gather(self._api.close(), self.recorder.close())


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
            ("openoutbox_log_dropped_total", "Attempts that were not logged.", self._counters.dropped),
            ("openoutbox_log_quarantined_total", "Attempts that the log could not store.", self._counters.quarantined),
            ("openoutbox_log_written_total", "Attempts written to the delivery log.", self._counters.written),
        ):
            family = CounterMetricFamily(name, meaning, labels=["relay_id"])
            family.add_metric([self._relay_id], float(value))
            yield family
        ready_until = GaugeMetricFamily(
            READY_UNTIL, "Until when the log has tables for new attempts.", labels=["relay_id"]
        )
        if self._counters.ready_until is not None:
            ready_until.add_metric([self._relay_id], self._counters.ready_until.timestamp())
        yield ready_until


class LogApi:
    """The log's HTTP API with a store of its own, opened at the first request."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store: DeliveryLog | None = None
        self._opening = asyncio.Lock()
        self._app: ApartApp | None = None

    def application(self) -> dict[str, ASGIApp]:
        """Return the application by its prefix; empty without a token. Raises ConfigError without the extra.

        It runs in a thread of its own: a page or a count of the log takes longer than the engine's loop may be held.
        """
        tokens = _tokens(self._settings)
        if not tokens:
            return {}
        with requires("api", "API_TOKEN"):
            from relay.deliverylog.api.apart import ApartApp  # noqa: PLC0415 - FastAPI only where there is an API
            from relay.deliverylog.api.app import PREFIX, build_api  # noqa: PLC0415 - the same
        self._app = ApartApp(build_api(self._opened, tokens), self._close_store)
        return {PREFIX: self._app}

    async def close(self) -> None:
        """Close the store, if there is one, and end the thread; never raises."""
        if self._app is not None:
            await self._app.close()

    async def _close_store(self) -> None:
        if self._store is not None:
            with suppress(OutboxError):
                await self._store.close()

    async def _opened(self) -> DeliveryLog:
        async with self._opening:  # two requests at once must not open two stores
            if self._store is None:
                self._store = await build.delivery_log_opener(self._settings, _API_CONNECTIONS)()
            return self._store


def _tokens(settings: Settings) -> dict[str, str | None]:
    """The API's tokens and the tenant that each is tied to; None for the operator's, which wins over an equal one."""
    secret = settings.api_tenant_tokens
    pairs = {} if secret is None else tenant_tokens(secret.get_secret_value())
    tokens: dict[str, str | None] = {token: tenant for tenant, token in pairs.items()}
    if settings.api_token is not None:
        tokens[settings.api_token.get_secret_value()] = None
    return tokens
