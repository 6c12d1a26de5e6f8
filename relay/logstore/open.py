"""Opens the store that a URL names. Driver libraries are imported only for the driver that is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from relay.core.errors import ConfigError
from relay.logstore.memory import MemoryLogStore
from relay.logstore.store import LogStore

DEFAULT_SCHEMA = "openoutbox_log"


@dataclass(frozen=True, slots=True)
class LogStoreOptions:
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


async def open_logstore(
    url: str,
    *,
    schema: str = DEFAULT_SCHEMA,
    prefix: str = "",
    retention_days: int | None = None,
    months_ahead: int = 3,
    connections: int = 4,
) -> LogStore:
    """The store at ``postgres://…``, ``clickhouse://…``, ``chdb:///folder`` or ``memory://``, connected.

    The options are those of ``LogStoreOptions``.

    Raises ConfigError for a URL or option that can never work, and for a missing extra; LogStoreUnavailable when the
    database does not answer, or when the folder of an embedded ClickHouse is in use by another process.
    """
    chosen = LogStoreOptions(schema, prefix, retention_days, months_ahead, connections)
    scheme = urlsplit(url).scheme
    match scheme:
        case "memory":
            return MemoryLogStore()
        case "postgres" | "postgresql":
            from relay.logstore.postgres import PostgresLogStore  # noqa: PLC0415 - only the chosen driver

            return await PostgresLogStore.open(url, chosen)
        case "clickhouse" | "clickhouses" | "chdb":
            from relay.logstore.clickhouse import ClickHouseLogStore  # noqa: PLC0415 - only the chosen driver

            return await ClickHouseLogStore.open(url, chosen)
        case _:
            raise ConfigError(
                f"a log store URL cannot begin with {scheme!r}; "
                "write postgres://…, clickhouse://…, chdb:///folder or memory://"
            )
