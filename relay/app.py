"""The composition root: the only module that knows every room.

``run`` is the daemon's life: build the rooms from the settings, serve HTTP, run the relay until a signal, and say how
it ended. What can be known to be wrong is said before anything connects; a database or broker that is not there yet
is waited for.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable

from pydantic import SecretStr

from relay import delivery_log
from relay.core.backoff import RetryPolicy
from relay.core.errors import ConfigError, OutboxError, SchemaError
from relay.core.ports import Publisher
from relay.core.status import Exposition, StatusView
from relay.engine.options import EngineOptions
from relay.engine.relay import Relay
from relay.engine.status import RelayStatus
from relay.server import ServerOptions, StatusServer
from relay.settings import Settings
from relay.storage.options import KeyOrder, PostgresOptions
from relay.storage.postgres import PostgresOutbox
from relay.storage.wakeup import WakeUps
from relay.telemetry.export import start_export
from relay.telemetry.prometheus import PrometheusTelemetry
from relay.version import __version__

logger = logging.getLogger(__name__)

_CLOSED_WITHIN = 0.15  # of SHUTDOWN_TIMEOUT, for what is around the relay; the relay itself takes 0.8 at most

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_CONFIG = 2
"""A setting, or the table, is not as it must be; starting again will not help."""


def retry_policy(settings: Settings) -> RetryPolicy:
    """The RETRY_* variables."""
    return RetryPolicy(
        max_attempts=settings.retry_max_attempts,
        base_delay=settings.retry_base_delay,
        max_delay=settings.retry_max_delay,
        jitter=settings.retry_jitter,
    )


def storage_options(settings: Settings) -> PostgresOptions:
    """The STORAGE_* variables and what the statements need beside them."""
    return PostgresOptions(
        url=_required(settings.storage_url, "STORAGE_URL"),
        relay_id=settings.relay_id,
        table=settings.storage_table_name,
        lease_timeout=settings.lease_timeout,
        retry=retry_policy(settings),
        key_order=KeyOrder(settings.ordering_on_dead) if settings.ordering == "key" else None,
    )


def build_wake_ups(settings: Settings) -> WakeUps | None:
    """The listener for wake-ups, where WAKE_UP asks for it."""
    if not settings.wake_up:
        return None
    return WakeUps(_required(settings.storage_url, "STORAGE_URL"), settings.relay_id, settings.storage_table_name)


def engine_options(settings: Settings) -> EngineOptions:
    """The variables that set the sizes and paces of the loops."""
    return EngineOptions(
        batch_size=settings.batch_size,
        batch_bytes=settings.batch_bytes,
        max_in_flight=settings.max_in_flight,
        in_order=settings.ordering == "key",
        poll_interval=settings.poll_interval,
        lease_timeout=settings.lease_timeout,
        reap_batch_size=settings.reap_batch_size,
        health_check_interval=settings.health_check_interval,
        connect_retry_interval=settings.publisher_connect_retry_interval,
        shutdown_timeout=settings.shutdown_timeout,
        retry=retry_policy(settings),
    )


def build_publisher(settings: Settings) -> Publisher:
    """The chosen publisher; only its own module, and so only its own client library, is imported."""
    return _PUBLISHERS[settings.publisher_type](settings)


def _kafka(settings: Settings) -> Publisher:
    from relay.publishers.kafka import KafkaPublisher
    from relay.publishers.kafka_options import KafkaOptions

    return KafkaPublisher(
        KafkaOptions(
            receipts=_wants_receipts(settings),
            url=_required(settings.publisher_url, "PUBLISHER_URL"),
            batch_size=settings.kafka_batch_size,
            batch_bytes=settings.kafka_batch_bytes,
            batch_timeout=settings.kafka_batch_timeout,
            compression=settings.kafka_compression,
            required_acks="one" if settings.kafka_required_acks == "one" else "all",
            write_timeout=settings.kafka_write_timeout,
            read_timeout=settings.kafka_read_timeout,
            connection_timeout=settings.kafka_connection_timeout,
            max_attempts=settings.kafka_max_attempts,
        )
    )


def _nats(settings: Settings) -> Publisher:
    from relay.publishers.nats import NatsPublisher
    from relay.publishers.nats_options import NatsOptions

    return NatsPublisher(
        NatsOptions(
            receipts=_wants_receipts(settings),
            url=_required(settings.publisher_url, "PUBLISHER_URL"),
            publish_timeout=settings.nats_publish_timeout,
            connection_timeout=settings.nats_connection_timeout,
        )
    )


def _redis(settings: Settings) -> Publisher:
    from relay.publishers.redis import RedisOptions, RedisPublisher

    return RedisPublisher(
        RedisOptions(
            receipts=_wants_receipts(settings),
            url=_required(settings.publisher_url, "PUBLISHER_URL"),
            connection_timeout=settings.redis_connection_timeout,
            write_timeout=settings.redis_write_timeout,
        )
    )


def _stdout(_settings: Settings) -> Publisher:
    from relay.publishers.stdout import StdoutPublisher

    return StdoutPublisher()


def _wants_receipts(settings: Settings) -> bool:
    """Whether where the broker put a message is recorded: of deliveries, and so not where only failures are."""
    return settings.log_store_url is not None and settings.log_store_record == "all"


def _null(_settings: Settings) -> Publisher:
    from relay.publishers.null import NullPublisher

    return NullPublisher()


_PUBLISHERS: dict[str, Callable[[Settings], Publisher]] = {
    "kafka": _kafka,
    "nats": _nats,
    "redis": _redis,
    "stdout": _stdout,
    "null": _null,
}


def _required(secret: SecretStr | None, name: str) -> str:
    if secret is None:
        raise ConfigError(f"{name}: is required")
    return secret.get_secret_value()


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
    storage = PostgresOutbox(storage_options(settings))
    recorder = delivery_log.build_recorder(settings)
    wake_ups = build_wake_ups(settings)
    relay = Relay(storage, build_publisher(settings), telemetry, engine_options(settings), recorder, wake_ups=wake_ups)
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
