"""Create the outbox table, or what is missing of it; called by ``relay-cli migrate`` only.

The relay itself never needs it: it works on any table that meets the contract. What is missing is read
from the catalog each time, so that running it again, or beside itself on several machines, does nothing twice:

- no table: the table and its indexes are made in one transaction, or nothing is;
- the contract's table with indexes missing: these are built CONCURRENTLY, one by one, while writers go on;
- anything else (a view, a partitioned table, columns that differ): SchemaError says how it differs; nothing is done.

A schema that does not exist is an error and not created: who owns it is the operator's decision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from psycopg import IsolationLevel

from openoutbox.schema import Step, index_names, steps
from relay.core.errors import SchemaError
from relay.outbox.outbox_options import MIGRATE
from relay.outbox.schema import INDEXES
from relay.outbox.schema_diff import (
    FoundColumn,
    FoundConstraint,
    FoundIndex,
    column_differences,
    constraint_differences,
    index_differences,
    missing_indexes,
)
from relay.outbox.table_check import refuse_kind
from relay.postgres.connect import SyncConnection, connect
from relay.postgres.errors import translating
from relay.postgres.grants import create_in
from relay.postgres.migrate import migrate as run
from relay.postgres.migrations import LONGEST_WAIT, Migration, MigrationPlan, Query, Run, Schema
from relay.postgres.sql import DEFAULT_SCHEMA, TableName, quote_identifier, statement
from relay.postgres.url import connection_parameters


@dataclass(frozen=True, slots=True)
class Plan:
    """What is missing. ``live`` says that the table exists, so that its indexes are built CONCURRENTLY."""

    table: TableName
    steps: tuple[Step, ...]
    live: bool

    @property
    def up_to_date(self) -> bool:
        """Nothing is missing."""
        return not self.steps


def plan(url: str, table: TableName) -> Plan:
    """What :func:`migrate` would do now. Reads the catalog only.

    Raises SchemaError for a table that differs, ConfigError for a wrong URL, StorageUnavailable.
    """
    schema = OutboxSchema(table)
    with translating("migrating"), connected(url) as connection:
        run(connection, schema, dry_run=True)
    return schema.missing


def migrate(
    url: str, table: TableName, *, wait: float = LONGEST_WAIT, on_step: Callable[[Step], None] | None = None
) -> Plan:
    """Apply what is missing and return it. ``on_step`` receives each statement that has taken effect.

    Waits up to ``wait`` seconds for another migrate in the same database, then raises StorageBusy. Raises as
    :func:`plan` does, and SchemaError when a right is missing.
    """
    schema = OutboxSchema(table)

    def report(applied: Migration) -> None:
        if on_step is not None:
            on_step(next(step for step in schema.missing.steps if step.number == applied.number))

    with translating("migrating"), connected(url) as connection, connected(url) as beside:
        run(connection, schema, wait=wait, beside=beside, on_step=report)
    return schema.missing


def connected(url: str) -> SyncConnection:
    """A connection for a migration of an outbox or its extensions."""
    parameters = connection_parameters(url, MIGRATE)
    with translating():
        connection = connect(parameters)
    connection.isolation_level = IsolationLevel.READ_COMMITTED
    return connection


class OutboxSchema(Schema):
    """The table and its indexes, for ``relay.postgres.migrations``."""

    def __init__(self, table: TableName) -> None:
        self._table = table
        self.missing = Plan(table, (), live=False)
        """Known after ``plan``."""

    def lock(self) -> Query:
        """One for all outboxes of the database."""
        return Query(statement("outbox/migrate:lock"))

    def plan(self) -> Run[MigrationPlan]:
        """The table, or its missing indexes. Raises SchemaError for a table that differs from the contract."""
        table = self._table
        yield Query(statement("outbox/migrate:plain_names"))
        schema = quote_identifier(table.schema) if table.schema else None
        named = {"table": table.quoted, "schema": schema}
        oid, kind, namespace, _ = (yield Query(statement("outbox/migrate:relation"), named))[0]
        if namespace is None:
            raise SchemaError(_no_schema(table))
        if oid is not None:
            refuse_kind(kind, table)
        names = index_names(table)
        looked_for = {"oid": oid, "schema": namespace, "names": list(names.values())}
        indexes = [FoundIndex(*row) for row in (yield Query(statement("outbox/migrate:indexes"), looked_for))]
        faults = (yield from _table_faults(oid)) + index_differences(indexes, names)
        if faults:
            raise SchemaError("\n  ".join([f"table {table} differs from the contract; nothing was changed:", *faults]))
        live = oid is not None
        wanted = missing_indexes(indexes) if live else frozenset({"table", *INDEXES})
        self.missing = Plan(table, steps(table, live=live, wanted=wanted), live)
        pending = tuple(Migration(step.number, step.creates, (step.sql,), alone=live) for step in self.missing.steps)
        return MigrationPlan(0, recorded=False, pending=pending, definitions=())

    def remedy(self, user: str) -> str:
        """The table's owner has the rights; a new table needs rights on the schema."""
        grant = create_in(self._table.schema or DEFAULT_SCHEMA, user)
        return f"run it as the owner of the table, or for a new table first: {grant}"


def _table_faults(oid: int | None) -> Run[list[str]]:
    if oid is None:
        return []
    columns = yield Query(statement("outbox/migrate:columns"), {"oid": oid})
    constraints = yield Query(statement("outbox/migrate:constraints"), {"oid": oid})
    return column_differences([FoundColumn(*row) for row in columns]) + constraint_differences(
        [FoundConstraint(*row) for row in constraints]
    )


def _no_schema(table: TableName) -> str:
    if table.schema is None:
        return f"no schema of the search_path exists to make table {table} in; name one: schema.{table}"
    return f"schema {table.schema} does not exist; create it first: CREATE SCHEMA {quote_identifier(table.schema)}"
