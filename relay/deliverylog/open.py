"""Open the delivery log that a URL names. Only the chosen driver and its libraries are imported."""

from __future__ import annotations

from relay.deliverylog.address import check_log_url
from relay.deliverylog.interface import DeliveryLog
from relay.deliverylog.log_options import DeliveryLogOptions
from relay.postgres.sql import DEFAULT_LOG_SCHEMA


async def open_delivery_log(
    url: str,
    *,
    schema: str = DEFAULT_LOG_SCHEMA,
    prefix: str = "",
    retention_days: int | None = None,
    months_ahead: int = 3,
    connections: int = 4,
) -> DeliveryLog:
    """Connect to the log at ``postgres://…``, ``clickhouse://…``, ``chdb:///folder`` or ``memory://``.

    The options are those of ``DeliveryLogOptions``.

    Raises ConfigError for an invalid URL or option, and for a missing extra; DeliveryLogUnavailable when the database
    does not answer, or when another process uses the folder of an embedded ClickHouse.
    """
    check_log_url(url)
    options = DeliveryLogOptions(schema, prefix, retention_days, months_ahead, connections)
    match url.partition(":")[0].lower():
        case "memory":
            from relay.deliverylog.memory import MemoryDeliveryLog  # noqa: PLC0415 - only the chosen driver

            return MemoryDeliveryLog()
        case "postgres" | "postgresql":
            from relay.deliverylog.postgres.driver import PostgresDeliveryLog  # noqa: PLC0415 - only the chosen driver

            return await PostgresDeliveryLog.open(url, options)
        case _:
            from relay.deliverylog.clickhouse.driver import (  # noqa: PLC0415 - only the chosen driver
                ClickHouseDeliveryLog,
            )

            return await ClickHouseDeliveryLog.open(url, options)
