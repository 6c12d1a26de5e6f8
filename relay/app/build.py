"""Settings into rooms: which options each part of the daemon gets, in one readable place.

The daemon (``relay.app.run``) and ``relay-cli check`` (``relay.app.doctor``) build from here, so that both mean the
same by a variable. Nothing connects here.
"""

from __future__ import annotations

from collections.abc import Callable

from pydantic import SecretStr

from relay.core.backoff import RetryPolicy
from relay.core.errors import ConfigError
from relay.core.ports import Publisher
from relay.engine.options import EngineOptions
from relay.outbox.options import KeyOrder, PostgresOptions
from relay.outbox.wakeup import WakeUps
from relay.settings import Settings


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
    from relay.brokers.kafka.options import KafkaOptions
    from relay.brokers.kafka.publisher import KafkaPublisher

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
    from relay.brokers.nats.options import NatsOptions
    from relay.brokers.nats.publisher import NatsPublisher

    return NatsPublisher(
        NatsOptions(
            receipts=_wants_receipts(settings),
            url=_required(settings.publisher_url, "PUBLISHER_URL"),
            publish_timeout=settings.nats_publish_timeout,
            connection_timeout=settings.nats_connection_timeout,
        )
    )


def _redis(settings: Settings) -> Publisher:
    from relay.brokers.redis.options import RedisOptions
    from relay.brokers.redis.publisher import RedisPublisher

    return RedisPublisher(
        RedisOptions(
            receipts=_wants_receipts(settings),
            url=_required(settings.publisher_url, "PUBLISHER_URL"),
            connection_timeout=settings.redis_connection_timeout,
            write_timeout=settings.redis_write_timeout,
        )
    )


def _stdout(_settings: Settings) -> Publisher:
    from relay.brokers.stdout import StdoutPublisher

    return StdoutPublisher()


def _wants_receipts(settings: Settings) -> bool:
    """Whether where the broker put a message is recorded: of deliveries, and so not where only failures are."""
    return settings.log_store_url is not None and settings.log_store_record == "all"


def _null(_settings: Settings) -> Publisher:
    from relay.brokers.null import NullPublisher

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
