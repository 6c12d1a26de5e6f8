"""The table of an inbox: create it, and see that what stands under its name is one.

It lives in the consumer's own database, since a mark and its effect are one transaction. A table of that name that
differs is never changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, LiteralString

from openoutbox.schema import inbox_statements
from relay.core.errors import SchemaError
from relay.postgres.codec import MOMENTS
from relay.postgres.connect import SyncConnection as Connection
from relay.postgres.connect import connect
from relay.postgres.errors import translating
from relay.postgres.grants import create_in, granting
from relay.postgres.migrate import migrate
from relay.postgres.migrations import Migration, MigrationPlan, Query, Run, Schema
from relay.postgres.operating import OPERATOR, fetch
from relay.postgres.sql import DEFAULT_INBOX, DEFAULT_SCHEMA, TableName, statement
from relay.postgres.url import connection_parameters

_DOING: Final = "creating the inbox"
_COLUMNS: Final = ["consumer text", "event_id text", "received_at timestamp with time zone"]
_PRIMARY_KEY: Final = ["consumer", "event_id"]


def is_created(url: str, table: TableName) -> bool:
    """Whether the inbox exists. Raises SchemaError for a table that is none, StorageUnavailable."""
    with _connected(url, _DOING) as connection:
        return migrate(connection, _InboxSchema(table), dry_run=True).up_to_date


def create(url: str, table: TableName) -> bool:
    """Create the table unless it exists; whether it was created. Safe to run again, and beside itself.

    Raises SchemaError for a table of that name that is no inbox and for a missing right, StorageUnavailable.
    """
    with _connected(url, _DOING) as connection:
        return not migrate(connection, _InboxSchema(table)).up_to_date


class _InboxSchema(Schema):
    """One step, the table with its index, for ``relay.postgres.migrations``."""

    doing = _DOING

    def __init__(self, table: TableName) -> None:
        self._table = table

    def lock(self) -> Query:
        return Query(statement("inbox/table:lock"))

    def plan(self) -> Run[MigrationPlan]:
        found = yield Query(statement("inbox/table:describe"), {"table": self._table.quoted})
        missing = (
            () if _is_inbox(found, self._table) else (Migration(1, "table", tuple(inbox_statements(str(self._table)))),)
        )
        return MigrationPlan(0, recorded=False, pending=missing, definitions=())

    def remedy(self, user: str) -> str:
        return f"run as the owner of the schema: {create_in(self._table.schema or DEFAULT_SCHEMA, user)}"


@contextmanager
def opened(url: str, table: TableName, doing: str, rights: str) -> Iterator[Connection]:
    """A connection, once ``table`` has been seen to be an inbox.

    Raises ConfigError for a wrong URL, SchemaError without the table and for a missing right (naming the GRANT of
    ``rights``), StorageUnavailable, and what ``relay.postgres.errors`` makes of the errors of statements.
    """
    with _connected(url, doing) as connection, granting(rights, table, connection.info.user), translating(doing):
        found = fetch(connection, statement("inbox/table:describe"), {"table": table.quoted})
        if not _is_inbox(found, table):
            option = "" if str(table) == DEFAULT_INBOX else f" --table {table}"
            raise SchemaError(f"{doing}: there is no table {table}; create it: relay-cli inbox migrate{option}")
        yield connection


def rows(
    connection: Connection, path: str, table: TableName, parameters: Mapping[str, object]
) -> list[tuple[Any, ...]]:
    """The rows that a statement on the inbox returns, for example ``inbox/admin:size``."""
    return fetch(connection, _sql(path, table), parameters)


@contextmanager
def _connected(url: str, doing: str) -> Iterator[Connection]:
    parameters = connection_parameters(url, OPERATOR)
    with translating():
        connected = connect(parameters, MOMENTS)
    with translating(doing), connected as connection:
        yield connection


def _is_inbox(found: Sequence[tuple[Any, ...]], table: TableName) -> bool:
    """Whether there is such a table, as ``describe`` found it. Raises SchemaError when it is no inbox."""
    if not found:
        return False
    kind, columns, primary_key, indexed = found[0]
    faults = []
    if kind != "r":
        faults.append("it is not a plain table")
    if columns != _COLUMNS:
        faults.append(f"its columns are {', '.join(columns)}, not {', '.join(_COLUMNS)}")
    if primary_key != _PRIMARY_KEY:
        faults.append(f"its primary key is not ({', '.join(_PRIMARY_KEY)})")
    if not indexed:
        faults.append(f"it lacks an index: CREATE INDEX CONCURRENTLY ON {table.quoted} (received_at)")
    if faults:
        raise SchemaError(f"table {table} is not an inbox; nothing was changed: {'; '.join(faults)}")
    return True


def _sql(path: str, table: TableName) -> LiteralString:
    return statement(path, names={DEFAULT_INBOX: table})
