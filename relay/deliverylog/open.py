"""Open the delivery log that a URL names. Only the chosen driver and its libraries are imported."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from relay.core.errors import ConfigError
from relay.deliverylog.options import DeliveryLogOptions
from relay.deliverylog.store import DeliveryLog
from relay.postgres.sql import DEFAULT_LOG_SCHEMA

_CLICKHOUSE = ("clickhouse", "clickhouses", "chdb")
_SCHEMES = ("memory", "postgres", "postgresql", *_CLICKHOUSE)
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


def check_log_url(url: str) -> None:
    """Raise ConfigError for a URL that no driver takes; that of PostgreSQL is read where it is opened."""
    scheme = url.partition(":")[0].lower()
    if scheme not in _SCHEMES:
        raise ConfigError(
            "the URL of a delivery log begins with postgres://, clickhouse://, clickhouses://, chdb:/// or memory://"
        )
    if scheme in _CLICKHOUSE:
        _check_address(url)


def _check_address(url: str) -> None:
    """Refuse a bare special character in a password: the client would read a part of it as the host, and show that."""
    try:
        port_is_valid = urlsplit(url).port != 0
    except ValueError:
        port_is_valid = False
    if not port_is_valid or "@" in _LOGIN_END.sub("/", url.partition("://")[2]).partition("/")[2]:
        raise ConfigError(
            "the URL of the delivery log is invalid; write clickhouse://user:password@host:8123/database and "
            "percent-encode special characters of a password (@ is %40, / is %2F, ? is %3F, # is %23)"
        )
