"""The delivery log in the daemon: its recorder, its metrics, its part of ``/readyz`` and its API.

``relay.app.build`` imports this module only where DELIVERY_LOG_URL is set. A log that fails is degraded; it never makes
the relay unready.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Protocol

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector, CollectorRegistry
from starlette.types import ASGIApp

from relay.core.errors import ConfigError, OutboxError
from relay.core.status import Exposition, Health, Readiness, Stats, StatusView
from relay.deliverylog import DeliveryLog, open_delivery_log
from relay.deliverylog.mapping import Naming
from relay.deliverylog.recorder import Recorder, RecorderOptions
from relay.outbox.replays import OutboxReplays
from relay.settings.settings import Settings

_CLOSE_SHARE = 0.1  # of SHUTDOWN_TIMEOUT, to write what is queued after the relay has ended


class LogState(Protocol):
    """The part of a recorder that is shown."""

    written: int
    dropped: int

    @property
    def trouble(self) -> str:
        """Why the log is degraded."""


class DeliveryLogParts:
    """Everything that the daemon runs for the delivery log."""

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigError without DELIVERY_LOG_URL."""
        self.recorder = build_recorder(settings)
        self._api = LogApi(settings)
        self._relay_id = settings.relay_id

    def apis(self) -> dict[str, ASGIApp]:
        """Return the API by the prefix of its paths; empty without API_TOKEN. Raises ConfigError without the extra."""
        return self._api.application()

    def watched(self, view: StatusView, registry: CollectorRegistry) -> StatusView:
        """Register the log's counters and return ``view`` with the log's state in ``/readyz``."""
        registry.register(LogCollector(self.recorder, self._relay_id))
        return StatusWithLog(view, self.recorder)

    async def close(self) -> None:
        """Write what is queued, within the recorder's deadline, and close. Never raises."""
        await asyncio.gather(self._api.close(), self.recorder.close())


def build_recorder(settings: Settings) -> Recorder:
    """Return the recorder of the DELIVERY_LOG_* variables. Raises ConfigError without DELIVERY_LOG_URL."""
    options = RecorderOptions(
        batch_size=settings.delivery_log_batch_size,
        flush_interval=settings.delivery_log_flush_interval,
        failed_only=settings.delivery_log_record == "failed",
        queue_size=max(20 * settings.delivery_log_batch_size, 20_000),
        close_timeout=settings.shutdown_timeout * _CLOSE_SHARE,
        naming=Naming(
            tenant_header=settings.delivery_log_tenant_header,
            destination_id=settings.publisher_name or settings.publisher_type,
            destination_type=settings.publisher_type,
        ),
    )
    return Recorder(_opener(settings), options, replays=_replays(settings))


def _opener(settings: Settings, connections: int = 4) -> Callable[[], Awaitable[DeliveryLog]]:
    """Return a function that opens the log of the DELIVERY_LOG_* variables."""
    if settings.delivery_log_url is None:
        raise ConfigError("DELIVERY_LOG_URL is not set")
    return partial(
        open_delivery_log,
        settings.delivery_log_url.get_secret_value(),
        schema=settings.delivery_log_schema,
        prefix=settings.delivery_log_prefix,
        retention_days=settings.delivery_log_retention_days,
        connections=connections,
    )


def _replays(settings: Settings) -> OutboxReplays | None:
    if settings.storage_url is None:
        return None
    return OutboxReplays(settings.storage_url.get_secret_value(), settings.relay_id, settings.storage_table_name)


class LogCollector(Collector):
    """The recorder's counters in Prometheus' terms."""

    def __init__(self, state: LogState, relay_id: str) -> None:
        self._state = state
        self._relay_id = relay_id

    def describe(self) -> Iterator[Family]:
        """Return what ``collect`` returns."""
        return self.collect()

    def collect(self) -> Iterator[Family]:
        """Both counters."""
        for name, meaning, value in (
            ("openoutbox_log_dropped_total", "Attempts that were not logged.", self._state.dropped),
            ("openoutbox_log_written_total", "Attempts written to the delivery log.", self._state.written),
        ):
            family = CounterMetricFamily(name, meaning, labels=["relay_id"])
            family.add_metric([self._relay_id], float(value))
            yield family


class StatusWithLog:
    """A view that lists the log among the degraded parts."""

    def __init__(self, view: StatusView, state: LogState) -> None:
        self._view = view
        self._state = state

    def health(self) -> Health:
        """As without the log."""
        return self._view.health()

    def readiness(self) -> Readiness:
        """As without the log; its trouble is listed as degraded."""
        readiness = self._view.readiness()
        return replace(readiness, degraded={**readiness.degraded, "log": self._state.trouble})

    async def stats(self) -> Stats | None:
        """As without the log."""
        return await self._view.stats()

    def metrics(self, accept: str) -> Exposition:
        """As without the log; its counters are in the same registry."""
        return self._view.metrics(accept)


class LogApi:
    """The log's HTTP API with a store of its own, opened at the first request."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store: DeliveryLog | None = None
        self._opening = asyncio.Lock()

    def application(self) -> dict[str, ASGIApp]:
        """Return the application by its prefix; empty without API_TOKEN. Raises ConfigError without the extra."""
        token = self._settings.api_token
        if token is None:
            return {}
        try:
            from relay.deliverylog.api.app import PREFIX, build_api  # noqa: PLC0415 - FastAPI only where there is an API
        except ImportError as error:
            raise ConfigError("API_TOKEN: the API needs FastAPI; install openoutbox-relay[api]") from error
        return {PREFIX: build_api(self._opened, token.get_secret_value())}

    async def close(self) -> None:
        """Close the store, if there is one; never raises."""
        if self._store is not None:
            with suppress(OutboxError):
                await self._store.close()

    async def _opened(self) -> DeliveryLog:
        async with self._opening:  # two requests at once must not open two stores
            if self._store is None:
                self._store = await _opener(self._settings, connections=2)()
            return self._store
