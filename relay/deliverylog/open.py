"""Opens the store that a URL names. Driver libraries are imported only for the driver that is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from relay.core.errors import ConfigError
from relay.deliverylog.memory import MemoryDeliveryLog
from relay.deliverylog.store import DeliveryLog

DEFAULT_SCHEMA = "openoutbox_log"


@dataclass(frozen=True, slots=True)
class DeliveryLogOptions:
    """How a store is laid out; each driver takes what concerns it."""

    schema: str = DEFAULT_SCHEMA
    """PostgreSQL: the schema of the tables."""
    prefix: str = ""
    """ClickHouse: what every table's name begins with."""
    retention_days: int | None = None
    """How long to keep attempts and events; None: for ever."""
    months_ahead: int = 3
    """PostgreSQL: how many months' partitions to keep ready beside this one."""
    connections: int = 4
    """PostgreSQL: most connections of this process; ClickHouse server: most queries at once."""


async def open_delivery_log(
    url: str,
    *,
    schema: str = DEFAULT_SCHEMA,
    prefix: str = "",
    retention_days: int | None = None,
    months_ahead: int = 3,
    connections: int = 4,
) -> DeliveryLog:
    """The store at ``postgres://…``, ``clickhouse://…``, ``chdb:///folder`` or ``memory://``, connected.

    The options are those of ``DeliveryLogOptions``.

    Raises ConfigError for a URL or option that can never work, and for a missing extra; DeliveryLogUnavailable when the
    database does not answer, or when the folder of an embedded ClickHouse is in use by another process.
    """
    chosen = DeliveryLogOptions(schema, prefix, retention_days, months_ahead, connections)
    scheme = urlsplit(url).scheme
    match scheme:
        case "memory":
            return MemoryDeliveryLog()
        case "postgres" | "postgresql":
            from relay.deliverylog.postgres import PostgresDeliveryLog  # noqa: PLC0415 - only the chosen driver

            return await PostgresDeliveryLog.open(url, chosen)
        case "clickhouse" | "clickhouses" | "chdb":
            from relay.deliverylog.clickhouse import ClickHouseDeliveryLog  # noqa: PLC0415 - only the chosen driver

            return await ClickHouseDeliveryLog.open(url, chosen)
        case _:
            raise ConfigError(
                f"a delivery log URL cannot begin with {scheme!r}; "
                "write postgres://…, clickhouse://…, chdb:///folder or memory://"
            )
