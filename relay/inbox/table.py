"""The table of an inbox: create it, and see that what stands under its name is one.

It lives in the consumer's own database, since a mark and its effect are one transaction. A table of that name that
differs is never changed. Its extensions are tables beside it, made on request.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, LiteralString

from openoutbox.names import DEFAULT_TRIES, tries_of
from openoutbox.schema import dead_letter_statements, inbox_statements
from relay.core.errors import ConfigError, SchemaError
from relay.postgres.connect import SyncConnection as Connection
from relay.postgres.errors import translating
from relay.postgres.grants import create_in, granting
from relay.postgres.migrate import migrate
from relay.postgres.migrations import Migration, MigrationPlan, Query, Run, Schema
from relay.postgres.operating import fetch
from relay.postgres.operator_connections import operator_connection
from relay.postgres.sql import DEFAULT_INBOX, DEFAULT_SCHEMA, TableName, statement

_DOING: Final = "creating the inbox"
_COLUMNS: Final = ["consumer text", "event_id text", "received_at timestamp with time zone"]
_PRIMARY_KEY: Final = ["consumer", "event_id"]


EXTENSIONS: Final[Mapping[str, tuple[Callable[[TableName], TableName], Callable[[str], list[LiteralString]]]]] = {
    "dead-letters": (tries_of, dead_letter_statements)
}
"""Tables beside an inbox: what each is called, and what makes it."""


def missing(url: str, table: TableName, extensions: Collection[str] = ()) -> tuple[Migration, ...]:
    """What ``create`` would run. Raises as it does."""
    with _connected(url, _DOING) as connection:
        return migrate(connection, _InboxSchema(table, extensions), dry_run=True).pending


def create(url: str, table: TableName, extensions: Collection[str] = ()) -> tuple[Migration, ...]:
    """Create the tables that are missing; what was run, each named by its table. Safe to run again, and beside itself.

    Raises ConfigError for an unknown extension, SchemaError for a table of that name that is no inbox and for a missing
    right, StorageUnavailable.
    """
    with _connected(url, _DOING) as connection:
        return migrate(connection, _InboxSchema(table, extensions)).pending


class _InboxSchema(Schema):
    """A step for each table with its index, for ``relay.postgres.migrations``."""

    doing = _DOING

    def __init__(self, table: TableName, extensions: Collection[str]) -> None:
        for name in extensions:
            if name not in EXTENSIONS:
                raise ConfigError(f"extension {name!r} does not exist; the extensions are {', '.join(EXTENSIONS)}")
        self._table = table
        self._extensions = list(dict.fromkeys(extensions))

    def lock(self) -> Query:
        return Query(statement("inbox/table:lock"))

    def plan(self) -> Run[MigrationPlan]:
        rows = yield Query(statement("inbox/table:describe"), {"table": self._table.quoted})
        pending = []
        if not _is_inbox(rows, self._table):
            pending.append(Migration(1, str(self._table), tuple(inbox_statements(str(self._table)))))
        for number, name in enumerate(self._extensions, 2):
            table_of, statements = EXTENSIONS[name]
            beside = table_of(self._table)
            if not (yield Query(statement("inbox/table:describe"), {"table": beside.quoted})):
                pending.append(Migration(number, str(beside), tuple(statements(str(self._table)))))
        return MigrationPlan(0, recorded=False, pending=tuple(pending), definitions=())

    def remedy(self, user: str) -> str:
        return f"run as the owner of the schema: {create_in(self._table.schema or DEFAULT_SCHEMA, user)}"


@contextmanager
def opened(url: str, table: TableName, doing: str, rights: str, extension: str | None = None) -> Iterator[Connection]:
    """A connection, once ``table`` has been seen to be an inbox, with the table of ``extension`` beside it.

    Raises ConfigError for a wrong URL, SchemaError without the table and for a missing right (naming the GRANT of
    ``rights``), StorageUnavailable, and what ``relay.postgres.errors`` makes of the errors of statements.
    """
    target = table if extension is None else EXTENSIONS[extension][0](table)
    with _connected(url, doing) as connection, granting(rights, target, connection.info.user), translating(doing):
        found = fetch(connection, statement("inbox/table:describe"), {"table": table.quoted})
        if not _is_inbox(found, table):
            raise _missing(doing, table, table)
        if extension and not fetch(connection, statement("inbox/table:describe"), {"table": target.quoted}):
            raise _missing(doing, target, table, f" --with {extension}")
        yield connection


def _missing(doing: str, absent: TableName, inbox: TableName, options: str = "") -> SchemaError:
    options += "" if str(inbox) == DEFAULT_INBOX else f" --table {inbox}"
    return SchemaError(f"{doing}: there is no table {absent}; create it: relay-cli inbox migrate{options}")


def rows(
    connection: Connection, path: str, table: TableName, parameters: Mapping[str, object]
) -> list[tuple[Any, ...]]:
    """The rows that a statement on the inbox returns, for example ``inbox/admin:size``."""
    names = {DEFAULT_INBOX: table}
    if path.startswith("inbox/letters:"):
        names[DEFAULT_TRIES] = tries_of(table)
    return fetch(connection, statement(path, names=names), parameters)


@contextmanager
def _connected(url: str, doing: str) -> Iterator[Connection]:
    with operator_connection(url) as connection, translating(doing):
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
