"""Turn settings into the options of each room, in one place. Default values stand in ``relay.settings`` only.

The daemon (``relay.app.run``), ``relay-cli check`` (``relay.app.doctor``) and the other commands build from here, so
that a variable means the same for all of them. Nothing connects here. What the publisher needs:
``relay.app.publishers``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from relay.app.relay_identity import build_fleet
from relay.core.backoff import RetryPolicy
from relay.core.optional_parts import OptionalParts
from relay.engine.engine_options import EngineOptions
from relay.outbox.outbox_options import LONGEST_STATEMENT, KeyOrder, PostgresOptions
from relay.outbox.pausewatch import OutboxPauses
from relay.outbox.replays import OutboxReplays
from relay.outbox.series import OutboxSeries
from relay.outbox.storage import PostgresOutbox
from relay.outbox.wakeup import OutboxWakeUps
from relay.postgres.prepared import Preparation
from relay.settings.settings import Settings
from relay.telemetry import catalogue as metrics
from relay.telemetry.providers import Reading, Sample

if TYPE_CHECKING:
    from relay.core.event import OutboxEvent
    from relay.deliverylog import DeliveryLog
    from relay.deliverylog.log_options import RecorderOptions

DestinationOf = Callable[["OutboxEvent"], tuple[str, str]]
"""The name and type of an event's destination."""
_PARTS = ("fan-out", "fleet", "pauses", "series", "wake-up")
_RECORDER_SHARE = 0.1
"""Share of SHUTDOWN_TIMEOUT in which the recorder writes its queue after the relay has ended."""
_QUEUED_BATCHES = 20
"""Batches that may wait for the delivery log."""
_SMALLEST_QUEUE = 20_000
"""Attempts that may wait for the delivery log, even with a small DELIVERY_LOG_BATCH_SIZE."""


def retry_policy(settings: Settings) -> RetryPolicy:
    """The RETRY_* variables."""
    return RetryPolicy(
        max_attempts=settings.retry_max_attempts,
        base_delay=settings.retry_base_delay,
        max_delay=settings.retry_max_delay,
        jitter=settings.retry_jitter,
    )


def storage_options(settings: Settings, *, fan_out: bool = False, transactions: bool = False) -> PostgresOptions:
    """The STORAGE_* variables, and the others that the statements use.

    ``fan_out``: routes send events to several destinations each. ``transactions``: one of them leaves proofs.
    """
    return PostgresOptions(
        url=settings.required("STORAGE_URL"),
        relay_id=settings.relay_id,
        table=settings.storage_table_name,
        lease_timeout=settings.lease_timeout,
        retry=retry_policy(settings),
        key_order=KeyOrder(settings.ordering_on_dead) if settings.ordering == "key" else None,
        # A claim that is answered after its lease has run out brings events that must not be offered any more.
        statement_timeout=min(LONGEST_STATEMENT, settings.lease_timeout / 2),
        delete_delivered=settings.on_delivered == "delete",
        fan_out=fan_out,
        durable_claims=transactions,
        prepared=Preparation(settings.storage_prepared),
    )


def build_wake_ups(settings: Settings) -> OutboxWakeUps | None:
    """Return the listener for wake-ups; None unless WAKE_UP is on."""
    if not settings.wake_up:
        return None
    return OutboxWakeUps(settings.required("STORAGE_URL"), settings.relay_id, settings.storage_table_name)


def optional_parts(settings: Settings, storage: PostgresOutbox) -> OptionalParts:
    """What the relay uses of the table's extensions, where these are there."""
    table = settings.storage_table_name
    pauses, series = OutboxPauses(storage, table), OutboxSeries(storage, table)
    return OptionalParts(build_wake_ups(settings), pauses, build_fleet(settings, storage), series)


def read_degraded(degraded: Mapping[str, str]) -> Iterator[Reading]:
    """The provider of the metric on what is used of extensions and does not work."""
    yield metrics.DEGRADED, [Sample((part,), float(part in degraded)) for part in _PARTS]


def engine_options(settings: Settings, connection_timeout: float = 0.0) -> EngineOptions:
    """The variables that set the sizes and intervals of the loops; the timeout is the destinations' longest."""
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
        connection_timeout=connection_timeout,
        shutdown_timeout=settings.shutdown_timeout,
        retry=retry_policy(settings),
        allowed_types=settings.allowed_event_types,
    )


def recorder_options(settings: Settings, destination_of: DestinationOf | None = None) -> RecorderOptions:
    """The DELIVERY_LOG_* variables that the recorder uses, and the names of the destination."""
    from relay.deliverylog.log_options import RecorderOptions
    from relay.deliverylog.mapping import Naming

    return RecorderOptions(
        batch_size=settings.delivery_log_batch_size,
        flush_interval=settings.delivery_log_flush_interval,
        failed_only=settings.delivery_log_record == "failed",
        queue_size=max(_QUEUED_BATCHES * settings.delivery_log_batch_size, _SMALLEST_QUEUE),
        close_timeout=settings.shutdown_timeout * _RECORDER_SHARE,
        naming=Naming(
            tenant_header=settings.delivery_log_tenant_header,
            destination_id=settings.publisher_name,
            destination_type=settings.publisher_type,
            destination_of=destination_of,
        ),
    )


def delivery_log_opener(settings: Settings, connections: int) -> Callable[[], Awaitable[DeliveryLog]]:
    """Return a function that opens the log of DELIVERY_LOG_URL. Raises ConfigError without it."""
    from relay.deliverylog import open_delivery_log

    return partial(
        open_delivery_log,
        settings.required("DELIVERY_LOG_URL"),
        schema=settings.delivery_log_schema,
        prefix=settings.delivery_log_prefix,
        retention_days=settings.delivery_log_retention_days,
        connections=connections,
    )


def build_replays(settings: Settings) -> OutboxReplays:
    """Return the reader of replays, which marks an operator's replays in the delivery log."""
    return OutboxReplays(settings.required("STORAGE_URL"), settings.relay_id, settings.storage_table_name)
