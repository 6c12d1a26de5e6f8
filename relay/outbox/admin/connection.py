"""The connection that an operation works on: synchronous, in autocommit mode, with nothing prepared on the server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from struct import Struct
from typing import Any, Final, LiteralString

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Loader
from psycopg.pq import Format

from relay.core.errors import SchemaError
from relay.outbox.tablecheck import creation, refuse_kind, refuse_missing
from relay.postgres.errors import classify
from relay.postgres.sql import TableName, statement
from relay.postgres.url import connection_parameters

Connection = psycopg.Connection[tuple[Any, ...]]
Moment = datetime | str
"""A time in UTC, or ``infinity``, ``-infinity`` or a year that Python's calendar does not have, as text."""

LOCK_TIMEOUT: Final = 0.5  # seconds; an operation stands back behind whoever changes the table itself

_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECONDS: Final = Struct("!q")
_INFINITE: Final = {2**63 - 1: "infinity", -(2**63): "-infinity"}


class _MomentLoader(Loader):
    """A timestamp with time zone, whatever is in it: a row that somebody made by hand must not end an operation."""

    format = Format.BINARY

    def load(self, data: Buffer) -> Moment:
        microseconds = _MICROSECONDS.unpack(data)[0]
        if microseconds in _INFINITE:
            return _INFINITE[microseconds]
        try:
            return _EPOCH + timedelta(microseconds=microseconds)
        except OverflowError:
            return "infinity" if microseconds > 0 else "-infinity"


def _adapters() -> AdaptersMap:
    adapters = AdaptersMap(psycopg.adapters)
    adapters.register_loader("timestamptz", _MomentLoader)
    return adapters


_ADAPTERS: Final = _adapters()


@contextmanager
def operating(url: str, table: TableName, doing: str) -> Iterator[Connection]:
    """A connection, once ``table`` has been seen to be a plain table with the contract's columns.

    Raises ConfigError for a wrong URL, SchemaError for a wrong table, StorageUnavailable, and for errors of the
    statements inside what ``relay.postgres.errors`` makes of them.
    """
    parameters = {**connection_parameters(url, "cli"), "application_name": "openoutbox-relay-cli"}
    try:
        made = psycopg.Connection.connect(
            **parameters,  # type: ignore[arg-type]  # libpq's own parameters, by name
            autocommit=True,
            prepare_threshold=None,
            context=_ADAPTERS,
        )
    except psycopg.Error as error:
        raise classify(error) from error
    try:
        with made as connection:
            _check_table(connection, table)
            yield connection
    except psycopg.Error as error:
        raise classify(error, doing) from error


def rows(
    connection: Connection, name: str, table: TableName, parameters: Mapping[str, object]
) -> list[tuple[Any, ...]]:
    """The rows that ``sql/outbox/queries/<name>.sql`` returns."""
    return fetch(connection, statement(f"outbox/queries/{name}.sql", table), parameters)


def fetch(connection: Connection, sql: LiteralString, parameters: Mapping[str, object]) -> list[tuple[Any, ...]]:
    """The rows that a statement returns, decoded from the binary protocol."""
    with connection.cursor(binary=True) as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall() if cursor.description else []


@contextmanager
def short_transaction(connection: Connection) -> Iterator[None]:
    """One transaction that waits ``LOCK_TIMEOUT`` for a lock at most, then fails with StorageBusy."""
    with connection.transaction():
        milliseconds = f"{LOCK_TIMEOUT * 1000:.0f}"
        connection.execute(statement("outbox/queries/lock_guard.sql"), {"timeout": milliseconds})
        yield


def database_time(connection: Connection) -> datetime:
    """The database's clock, by which every age is counted."""
    [(now,)] = fetch(connection, statement("outbox/queries/clock.sql"), {})
    if not isinstance(now, datetime):
        raise TypeError(f"the database says it is {now}")
    return now


def _check_table(connection: Connection, table: TableName) -> None:
    found = fetch(connection, statement("outbox/queries/describe_table.sql"), {"table": table.quoted})
    if not found:
        raise SchemaError(f"there is no table {table} for this user; create it with: {creation(table)}")
    kind, _, columns, _ = found[0]
    refuse_kind(kind, table)
    refuse_missing(columns, table)
