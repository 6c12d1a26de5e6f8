"""Connections of drivers and executors to the outbox's database, and what its errors mean.

No text that leaves this module holds the password. A database that has no connection left is waited for: other tasks,
and other programs, give theirs back.
"""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from relay.core.errors import (
    ConfigError,
    EventError,
    OutboxError,
    SchemaError,
    StorageBusy,
    StorageError,
    StorageUnavailable,
)

Connection = psycopg.Connection[tuple[Any, ...]]

_PATIENCE: Final = 600.0
"""Seconds that a full or starting database is waited for."""

_FAREWELL: Final = 5.0  # seconds that the end of a server's process is waited for

_FULL: Final = frozenset({"53300", "57P03"})  # too_many_connections, cannot_connect_now
_UNAVAILABLE: Final = frozenset({"08", "53", "57", "58", "XX"})
_BUSY: Final = frozenset({"40001", "40P01", "55P03", "57014"})
_SCHEMA: Final = frozenset({"42P01", "3F000", "42703", "42501", "42804"})
_KEPT_ALIVE: Final[dict[str, int]] = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}


def check_url(url: str) -> None:
    """Raises ConfigError, without the password, for what is no PostgreSQL URL."""
    try:
        if not url.startswith(("postgres://", "postgresql://")):
            raise ConfigError(_not_a_url())
        conninfo_to_dict(url)
    except psycopg.Error:
        raise ConfigError(_not_a_url()) from None


def connect(url: str, name: str) -> Connection:
    """A connection that commits each statement by itself unless told otherwise; nothing is prepared on the server.

    ``name`` is shown in pg_stat_activity. Raises StorageUnavailable, after ten minutes where the database is full.
    """
    given = {key: value for key, value in conninfo_to_dict(url).items() if value is not None}
    parameters: dict[str, Any] = {**_KEPT_ALIVE, **given, "application_name": name, "client_encoding": "UTF8"}
    until = time.monotonic() + _PATIENCE
    wait = 0.05
    while True:
        try:
            return psycopg.connect(**parameters, autocommit=True, prepare_threshold=None)
        except psycopg.OperationalError as error:
            if not _is_full(error) or time.monotonic() > until:
                raise StorageUnavailable(f"connecting to the database: {_first_line(error)}", error.sqlstate) from None
        time.sleep(wait * random.uniform(0.5, 1.5))
        wait = min(wait * 1.5, 2.0)


def close(connection: Connection) -> None:
    """Close it and return when the server has let go of it, so that whoever connects next does not add to it."""
    if connection.closed:
        return
    with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.settimeout(_FAREWELL)
        connection.close()
        while line.recv(4096):
            pass
    connection.close()


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Driver errors from inside leave as the project's own; ``doing`` says what was tried."""
    try:
        yield
    except psycopg.Error as error:
        raise classify(error, doing) from error


def classify(error: psycopg.Error, doing: str) -> OutboxError:
    """What a failed statement means. Data that the database refuses is an EventError."""
    state = error.sqlstate
    text = f"{doing}: {error.diag.message_primary or _first_line(error)}"
    if state is None:
        return StorageUnavailable(text)
    if state.startswith(("22", "23")):
        return EventError(f"{text} ({state}, column {_column(error)})")
    if state in _BUSY:
        return StorageBusy(text, state)
    if state in _SCHEMA:
        return SchemaError(text, state)
    return (StorageUnavailable if state[:2] in _UNAVAILABLE else StorageError)(text, state)


def _column(error: psycopg.Error) -> str:
    """Which column it was: COPY says it in its context, constraints in a field of their own."""
    told = (error.diag.context or "").rpartition("column ")[2].partition("\n")[0].partition(":")[0]
    return error.diag.column_name or told or "unknown"


def _is_full(error: psycopg.OperationalError) -> bool:
    """Tells a full database: libpq gives no SQLSTATE for a refused connection, only the server's words."""
    text = str(error).lower()
    return error.sqlstate in _FULL or "too many" in text or "slots are reserved" in text or "starting up" in text


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _not_a_url() -> str:
    return (
        "option url: not a PostgreSQL URL; write postgresql://user:password@host:5432/database and percent-encode what "
        "is special in a password"
    )
