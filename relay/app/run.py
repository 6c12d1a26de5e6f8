"""The daemon's life: build the rooms from the settings, serve HTTP, run the relay until a signal, report how it ended.

Wrong settings end it before anything connects. It waits for a database or broker that is not reachable yet.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING

from relay.app import build
from relay.app.build import optional_parts, read_degraded
from relay.app.collector import set_collector
from relay.app.destinations import Destinations
from relay.core.errors import ConfigError, OutboxError, SchemaError
from relay.core.status import Exposition
from relay.engine.relay import Relay
from relay.engine.status import RelayStatus
from relay.outbox.storage import PostgresOutbox
from relay.server import ServerOptions, StatusServer
from relay.settings.settings import Settings
from relay.telemetry.export import start_export, start_traces
from relay.telemetry.prometheus import PrometheusTelemetry
from relay.telemetry.tracer import TracedSystems
from relay.version import __version__

if TYPE_CHECKING:
    from relay.app.delivery_log import DeliveryLogParts
    from relay.app.subscriptions import SubscriptionLag

logger = logging.getLogger(__name__)

_CLOSED_WITHIN = 0.15  # of SHUTDOWN_TIMEOUT, for what is around the relay; the relay itself takes 0.8 at most

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_CONFIG = 2
"""A setting or the table is wrong; a restart does not help."""


async def run(settings: Settings) -> int:
    """Run the relay until SIGTERM or SIGINT; the exit code. A second signal ends the process at once."""
    _warn(settings.warnings)
    logger.info(
        "relay %s starting: table %s, publisher %s",
        __version__,
        settings.storage_table_name,
        settings.publisher_type if settings.destinations_file is None else f"of {settings.destinations_file}",
        extra={"action": "starting", "pid": os.getpid()},
    )
    try:
        await _live(settings)
    except OutboxError as error:
        known = isinstance(error, ConfigError | SchemaError)  # its message says what to do; a traceback adds nothing
        cause = None if known else error.__cause__
        logger.critical("the relay ended: %s", error, exc_info=cause, extra={"action": "failed"})
        return EXIT_CONFIG if known else EXIT_FAILED
    return EXIT_OK


async def _live(settings: Settings) -> None:
    """Build the rooms, run the relay until a signal, and close them."""
    telemetry = PrometheusTelemetry(settings.relay_id)
    destinations = Destinations(settings, telemetry.database_clock.now)
    _warn(destinations.warnings)
    plan = destinations.plan
    options = build.storage_options(settings, fan_out=plan.fan_out, transactions=plan.transactions)
    storage = PostgresOutbox(options, telemetry.database_clock)
    log = build_delivery_log(settings, destinations.logged)
    recorder = log.recorder if log is not None else None
    systems = TracedSystems(settings.publisher_type, str(settings.storage_table_name), destinations.traced)
    tracing = start_traces(telemetry, settings.otel, settings.relay_id, systems)
    engine = build.engine_options(settings, destinations.connection_timeout)
    parts = optional_parts(settings, storage)
    relay = Relay(
        storage, destinations.publisher, telemetry, engine, recorder, tracer=tracing and tracing.tracer, parts=parts
    )
    view = RelayStatus(
        relay,
        settings.relay_id,
        lambda accept: Exposition(*telemetry.exposition(accept)),
        lambda: {**storage.degraded(), **(log.degraded() if log is not None else {})},
        lambda: {name: one.condition for name, one in destinations.by_name(relay.destination.each).items()},
    )
    optional = [part for part in (log, build_subscription_lag(settings)) if part is not None]
    telemetry.providers.add(lambda: destinations.read(relay.destination.each), lambda: read_degraded(view.beside()))
    server = StatusServer(view, ServerOptions(settings.server_port.host, settings.server_port.port))
    _stop_on_signals(relay)
    await server.start()
    for part in optional:
        telemetry.providers.add(part.read)
        part.start()
    exporter = start_export(telemetry.providers, settings.otel)
    set_collector()
    try:
        await relay.run()
    finally:
        closing = [server.stop(), *(part.close() for part in optional)]
        closing += [asyncio.to_thread(one.stop) for one in (exporter, tracing) if one is not None]
        await _close(closing, settings.shutdown_timeout * _CLOSED_WITHIN)


def build_delivery_log(
    settings: Settings, destination_of: build.DestinationOf | None = None
) -> DeliveryLogParts | None:
    """Return the delivery log of DELIVERY_LOG_URL; None without one, and then nothing of it is imported.

    ``destination_of`` names the destination of each event where there are several.
    """
    if settings.delivery_log_url is None:
        return None
    from relay.app.delivery_log import DeliveryLogParts

    return DeliveryLogParts(settings, destination_of)


def build_subscription_lag(settings: Settings) -> SubscriptionLag | None:
    """Return what shows the subscriptions of EVENT_STORE_SCHEMA; None without one, and then nothing is imported."""
    if settings.event_store_schema is None:
        return None
    from relay.app.subscriptions import SubscriptionLag

    return SubscriptionLag(settings.required("STORAGE_URL"), settings.event_store_schema)


async def _close(closing: Iterable[Awaitable[None]], timeout: float) -> None:
    """At the same time, and bounded together: a broken log or exporter must not take the server's share of the time."""
    await asyncio.wait([asyncio.ensure_future(one) for one in closing], timeout=timeout)


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        logger.warning("%s", warning, extra={"action": "setting_warning"})


def _stop_on_signals(relay: Relay) -> None:
    loop = asyncio.get_running_loop()
    signals: list[int] = []

    def on_signal(number: int) -> None:
        if signals:
            logger.warning("second signal: ending at once", extra={"action": "killed", "signal": number})
            os._exit(128 + number)
        signals.append(number)
        relay.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
