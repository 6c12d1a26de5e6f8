"""The connection that an operation works on: synchronous, in autocommit mode, with nothing prepared on the server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from relay.core.errors import SchemaError
from relay.outbox.table_check import UNDEFINED_TABLE, creation, refuse_kind, refuse_missing
from relay.postgres.codec import Moment
from relay.postgres.connect import SyncConnection as Connection
from relay.postgres.errors import translating
from relay.postgres.grants import granting
from relay.postgres.operating import database_time, fetch, short_transaction
from relay.postgres.operator_connections import operator_connection
from relay.postgres.sql import TableName, statement

__all__ = [
    "Connection",
    "Moment",
    "database_time",
    "fetch",
    "operating",
    "operating_beside",
    "rows",
    "short_transaction",
]


@contextmanager
def operating(url: str, table: TableName, doing: str, rights: str = "SELECT") -> Iterator[Connection]:
    """A connection, once ``table`` has been seen to be a plain table with the contract's columns.

    Raises ConfigError for a wrong URL, SchemaError for a wrong table and for a missing right (naming the GRANT of
    ``rights``), StorageUnavailable, and what ``relay.postgres.errors`` makes of the errors of statements.
    """
    with (
        operator_connection(url) as connection,
        granting(rights, table, connection.info.user),
        translating(doing),
    ):
        _check_table(connection, table)
        yield connection


@contextmanager
def operating_beside(
    url: str, table: TableName, doing: str, extension: str, place: TableName, rights: str
) -> Iterator[Connection]:
    """As ``operating``, for statements on ``place``, the table of an extension.

    Raises SchemaError without it (``sqlstate`` 42P01) or without the ``rights`` on it, and says what to run.
    """
    with operating(url, table, doing) as connection:
        try:
            with granting(rights, place, connection.info.user), translating(doing):
                yield connection
        except SchemaError as error:
            if error.sqlstate != UNDEFINED_TABLE:
                raise
            advice = f"add it as the owner: {creation(table)} --with {extension}"
            raise SchemaError(
                f"{doing}: table {table} lacks the extension {extension}; {advice}", error.sqlstate
            ) from error


def rows(
    connection: Connection, path: str, table: TableName, parameters: Mapping[str, object], *tags: str
) -> list[tuple[Any, ...]]:
    """The rows that a statement returns, for example ``outbox/admin:show``, in the variant of ``tags``."""
    return fetch(connection, statement(path, table, tags=tags), parameters)


def _check_table(connection: Connection, table: TableName) -> None:
    description = fetch(connection, statement("outbox/table:describe"), {"table": table.quoted})
    if not description:
        raise SchemaError(f"there is no table {table} for this user; create it with: {creation(table)}")
    kind, _, columns, *_ = description[0]
    refuse_kind(kind, table)
    refuse_missing(columns, table)
