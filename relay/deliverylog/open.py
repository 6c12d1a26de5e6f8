"""Open the delivery log that a URL names. Only the chosen driver and its libraries are imported."""

from __future__ import annotations

import re

from relay.core.errors import ConfigError
from relay.deliverylog.options import DeliveryLogOptions
from relay.deliverylog.store import DeliveryLog
from relay.postgres.sql import DEFAULT_LOG_SCHEMA

_LOGIN_END = re.compile(r"[/?#]")


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
    options = DeliveryLogOptions(schema, prefix, retention_days, months_ahead, connections)
    match url.partition(":")[0].lower():
        case "memory":
            from relay.deliverylog.memory import MemoryDeliveryLog  # noqa: PLC0415 - only the chosen driver

            return MemoryDeliveryLog()
        case "postgres" | "postgresql":
            from relay.deliverylog.postgres.driver import PostgresDeliveryLog  # noqa: PLC0415 - only the chosen driver

            return await PostgresDeliveryLog.open(url, options)
        case "clickhouse" | "clickhouses" | "chdb":
            _check_login(url)
            from relay.deliverylog.clickhouse.driver import (  # noqa: PLC0415 - only the chosen driver
                ClickHouseDeliveryLog,
            )

            return await ClickHouseDeliveryLog.open(url, options)
        case _:
            raise ConfigError(
                "the URL of a delivery log begins with postgres://, clickhouse://, clickhouses://, chdb:/// or memory://"
            )


def _check_login(url: str) -> None:
    """Refuse a bare special character in a password: the client would read a part of it as the host, and show that."""
    if "@" in _LOGIN_END.sub("/", url.partition("://")[2]).partition("/")[2]:
        raise ConfigError(
            "the URL of the delivery log is invalid; write clickhouse://user:password@host:8123/database and "
            "percent-encode special characters of a password (@ is %40, / is %2F, ? is %3F, # is %23)"
        )
