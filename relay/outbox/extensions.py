"""The optional parts of the schema under ``outbox/extensions``, here and in the client: made on request, never needed.

Each is a file: one script, or named statements that are applied in their order, each in a transaction of its own. A
further one is a file; where it makes a table, also that table's name in ``openoutbox.names``, its rights in
``sql/outbox/grants.sql``, and what ``sql/outbox/migrate.sql:extension_state`` sees of it.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection
from pathlib import PurePath
from typing import Any, LiteralString

from openoutbox.names import BESIDE
from openoutbox.schema import default_index_names, sql_api, sql_api_functions, tables_beside
from relay.core.errors import ConfigError
from relay.outbox.migrate import connected
from relay.postgres.errors import translating
from relay.postgres.migrate import migrate
from relay.postgres.migrations import Migration, MigrationPlan, Query, Run, Schema
from relay.postgres.sql import (
    DEFAULT_TABLE,
    Name,
    TableName,
    sql_files,
    statement,
    statement_names,
    without_parameters,
)

_FOLDER = "outbox/extensions"
_SQL_API = "sql-api"

ORDER_INDEXES = ("order_waiting", "order_dead", "order_keyless", "order_again")
"""The roles of the indexes of ``key_order``."""


WAKE_SUFFIX = "_wake"
"""What the sequence and the function of ``wake_up.sql`` are called: the table's name and this."""


def extension_names() -> list[str]:
    """What may be asked for, as the command line spells it."""
    return sorted(PurePath(path).stem.replace("_", "-") for path in sql_files(_FOLDER))


def replays_of(table: TableName) -> TableName:
    """The record of the replays of an outbox (``replay_audit.sql``): one for all outboxes of its schema."""
    return tables_beside(table)["openoutbox_replays"]


def changes_of(table: TableName) -> TableName:
    """The record of what the console changed in an outbox (``console.sql``): one for all outboxes of its schema."""
    return tables_beside(table)["openoutbox_changes"]


def cancelled_of(table: TableName) -> TableName:
    """The rows of what the console cancelled in an outbox (``console.sql``): one for all outboxes of its schema."""
    return tables_beside(table)["openoutbox_cancelled"]


def relays_of(table: TableName) -> TableName:
    """The list of the relays of an outbox (``fleet.sql``)."""
    return tables_beside(table)["openoutbox_relays"]


def pauses_of(table: TableName) -> TableName:
    """The pauses of an outbox (``pause.sql``)."""
    return tables_beside(table)["openoutbox_pauses"]


def watched_tables(table: TableName) -> dict[str, str]:
    """The parameters of ``outbox/table:ping``: optional tables that a relay looks for while it runs, and its own."""
    placed = tables_beside(table)
    return {**{role: placed[f"openoutbox_{role}"].quoted for role in BESIDE}, "outbox": table.quoted}


def located(url: str, table: TableName, extensions: Collection[str]) -> TableName:
    """For ``sql-api``, whose functions name it: the table with the schema that it is in or would be made in.

    Reads the catalog. Raises StorageError; ConfigError for a wrong URL.
    """
    if table.schema is not None or _SQL_API not in extensions:
        return table
    values = {"table": table.quoted, "schema": None}
    with translating("finding the table"), connected(url) as connection:
        row = connection.execute(statement("outbox/migrate:relation"), values).fetchone()
    return TableName(table.table, row[3] if row else None)


def extension_sql(name: str, table: TableName) -> list[LiteralString]:
    """The statements of one extension, as psql takes them. Raises ConfigError for an unknown name.

    Those of ``sql-api`` look for a table that names no schema (``located``) in ``public``.
    """
    if name not in extension_names():
        near = difflib.get_close_matches(name, extension_names(), 1)
        suggestion = f"; did you mean {near[0]}?" if near else ""
        raise ConfigError(
            f"extension {name!r} does not exist; the extensions are {', '.join(extension_names())}{suggestion}"
        )
    if name == _SQL_API:
        return sql_api(table)
    place = f"{_FOLDER}/{name.replace('-', '_')}"
    names: dict[str, Name] = {**tables_beside(table), **default_index_names(table, ORDER_INDEXES)}
    if name == "wake-up":
        TableName.parse(f"{table}{WAKE_SUFFIX}")  # refuses a name that is too long
        names[f"{DEFAULT_TABLE}{WAKE_SUFFIX}"] = _wake(table)
    if not (parts := statement_names(place)):
        return [without_parameters(statement(f"{place}.sql", table, names))]
    return [without_parameters(statement(f"{place}:{part}", table, names)).rstrip() + ";" for part in parts]


def add_extension(url: str, table: TableName, name: str) -> bool:
    """Apply one extension; whether that changed anything.

    Applying it again does nothing, and goes on where a time before was interrupted. Waits for a migrate in the same
    database. Raises SchemaError for a missing right, which names who has it.
    """
    schema = _Extension(located(url, table, [name]), name)
    with translating(schema.doing), connected(url) as connection, connected(url) as beside:
        migrate(connection, schema, beside=beside)
    return schema.changed


class _Extension(Schema):
    """All statements of an extension: they may be repeated, and what they changed is seen in the catalog."""

    def __init__(self, table: TableName, name: str) -> None:
        self.doing = f"adding {name}"
        self.changed = False
        self._table = table
        self._statements = extension_sql(name, table)
        self._before: list[tuple[Any, ...]] = []

    def lock(self) -> Query:
        return Query(statement("outbox/migrate:lock"))

    def plan(self) -> Run[MigrationPlan]:
        self._before = yield self._state()
        steps = tuple(Migration(number, "", (sql,), alone=True) for number, sql in enumerate(self._statements, 1))
        return MigrationPlan(0, recorded=False, pending=steps, definitions=())

    def apply(self, plan: MigrationPlan) -> Run[None]:
        yield from super().apply(plan)
        self.changed = (yield self._state()) != self._before

    def remedy(self, user: str) -> str:  # noqa: ARG002 - the owner has them
        return f"run it as the owner of table {self._table}, who has the right to create in its schema"

    def _state(self) -> Query:
        table = self._table
        names = {
            "outbox": table.quoted,
            **watched_tables(table),
            "replays": replays_of(table).quoted,
            "changes": changes_of(table).quoted,
            "cancelled": cancelled_of(table).quoted,
            "functions": [function.quoted for function in (_wake(table), *sql_api_functions(table).values())],
        }
        return Query(statement("outbox/migrate:extension_state"), names)


def _wake(table: TableName) -> TableName:
    return TableName(f"{table.table}{WAKE_SUFFIX}", table.schema)
