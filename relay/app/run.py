"""The daemon's life: build the rooms from the settings, serve HTTP, run the relay until a signal, and say how
it ended. What can be known to be wrong is said before anything connects; a database or broker that is not there yet
is waited for.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time

from relay.app import build, delivery_log
from relay.core.errors import ConfigError, OutboxError, SchemaError
from relay.core.status import Exposition, StatusView
from relay.engine.relay import Relay
from relay.engine.status import RelayStatus
from relay.outbox.storage import PostgresOutbox
from relay.server import ServerOptions, StatusServer
from relay.settings import Settings
from relay.telemetry.export import start_export
from relay.telemetry.prometheus import PrometheusTelemetry
from relay.version import __version__

logger = logging.getLogger(__name__)

_CLOSED_WITHIN = 0.15  # of SHUTDOWN_TIMEOUT, for what is around the relay; the relay itself takes 0.8 at most

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_CONFIG = 2
"""A setting, or the table, is not as it must be; starting again will not help."""


async def run(settings: Settings) -> int:
    """Run the relay until SIGTERM or SIGINT; the exit code. A second signal ends the process at once."""
    for warning in settings.warnings:
        logger.warning("%s", warning, extra={"action": "setting_warning"})
    logger.info(
        "relay %s starting: table %s, publisher %s",
        __version__,
        settings.storage_table_name,
        settings.publisher_type,
        extra={"action": "starting", "pid": os.getpid()},
    )
    try:
        await _live(settings)
    except OutboxError as error:
        known = isinstance(error, ConfigError | SchemaError)  # its text says what to do; a traceback would say less
        cause = None if known else error.__cause__
        logger.critical("the relay ended: %s", error, exc_info=cause, extra={"action": "failed"})
        return EXIT_CONFIG if known else EXIT_FAILED
    return EXIT_OK


async def _live(settings: Settings) -> None:
    """Build the rooms, run the relay until it is told to stop, and close what was opened around it."""
    telemetry = PrometheusTelemetry(settings.relay_id)
    storage = PostgresOutbox(build.storage_options(settings))
    recorder = delivery_log.build_recorder(settings)
    wake_ups = build.build_wake_ups(settings)
    publisher = build.build_publisher(settings)
    relay = Relay(storage, publisher, telemetry, build.engine_options(settings), recorder, wake_ups=wake_ups)
    view: StatusView = RelayStatus(relay, settings.relay_id, lambda accept: Exposition(*telemetry.exposition(accept)))
    if recorder is not None:
        telemetry.registry.register(delivery_log.LogCollector(recorder, settings.relay_id))
        view = delivery_log.StatusWithLog(view, recorder)
    api = delivery_log.LogApi(settings)
    options = ServerOptions(settings.server_port.host, settings.server_port.port)
    server = StatusServer(view, options, api.application())
    _stop_on_signals(relay)
    await server.start()
    if recorder is not None:
        recorder.start()
    exporter = start_export(telemetry, settings.otel, settings.relay_id)
    try:
        await relay.run()
    finally:
        closing = [asyncio.ensure_future(server.stop()), asyncio.ensure_future(api.close())]
        if recorder is not None:
            closing.append(asyncio.ensure_future(recorder.close()))
        if exporter is not None:
            closing.append(asyncio.ensure_future(asyncio.to_thread(exporter.stop)))
        await asyncio.wait(closing, timeout=settings.shutdown_timeout * _CLOSED_WITHIN)


def _stop_on_signals(relay: Relay) -> None:
    loop = asyncio.get_running_loop()
    asked: list[float] = []

    def on_signal(number: int) -> None:
        if asked:
            logger.warning("second signal: ending at once", extra={"action": "killed", "signal": number})
            os._exit(128 + number)
        asked.append(time.monotonic())
        relay.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
