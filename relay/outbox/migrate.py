"""Create the outbox table, or what is missing of it; called by ``relay-cli migrate`` only.

The relay itself never needs it: it works on any table that meets the contract. What is missing is read
from the catalog each time, so that running it again, or beside itself on several machines, does nothing twice:

- no table: the table and its indexes are made in one transaction, or nothing is;
- the contract's table with indexes missing: these are built CONCURRENTLY, one by one, while writers go on;
- anything else (a view, a partitioned table, columns that differ): SchemaError says how it differs; nothing is done.

A schema that does not exist is an error and not created: who owns it is the operator's decision.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final

from psycopg import IsolationLevel

from relay.core.errors import SchemaError, StorageBusy
from relay.outbox.options import MIGRATE
from relay.outbox.schema import INDEXES, Step, index_names, steps
from relay.outbox.schemadiff import (
    FoundColumn,
    FoundConstraint,
    FoundIndex,
    column_differences,
    constraint_differences,
    index_differences,
    missing_indexes,
)
from relay.outbox.tablecheck import refuse_kind
from relay.postgres.connect import SyncConnection, connect
from relay.postgres.errors import translating
from relay.postgres.operating import naming_the_grant
from relay.postgres.sql import DEFAULT_SCHEMA, TableName, quote_identifier, statement
from relay.postgres.url import connection_parameters

_POLL: Final = 0.1  # seconds between two looks at whether another migrate has finished


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
    with translating("migrating"), _connect(url) as connection:
        return _plan(connection, table)


def migrate(url: str, table: TableName, *, wait: float = 600.0, on_step: Callable[[Step], None] | None = None) -> Plan:
    """Apply what is missing and return it. ``on_step`` receives each statement that has taken effect.

    Waits up to ``wait`` seconds for another migrate in the same database, then raises StorageBusy. Raises as
    :func:`plan` does, and SchemaError when a right is missing.
    """
    with _naming_the_grant(url, table), translating("migrating"), _connect(url) as guard, _connect(url) as connection:
        _lock(guard, wait)
        migration = _plan(connection, table)
        if migration.live:
            for step in migration.steps:
                connection.execute(step.sql)
                _tell(on_step, step)
        elif migration.steps:
            with connection.transaction():
                for step in migration.steps:
                    connection.execute(step.sql)
            for step in migration.steps:
                _tell(on_step, step)
        guard.rollback()
        return migration


def _naming_the_grant(url: str, table: TableName) -> AbstractContextManager[None]:
    """Name what a user without the right needs: rights on the schema for a new table, else the table's owner."""
    user = connection_parameters(url, MIGRATE).get("user", "the user of STORAGE_URL")
    schema = quote_identifier(table.schema or DEFAULT_SCHEMA)
    grant = f'GRANT USAGE, CREATE ON SCHEMA {schema} TO "{user}"'
    return naming_the_grant(f"run it as the owner of the table, or for a new table first: {grant}")


def _tell(on_step: Callable[[Step], None] | None, step: Step) -> None:
    if on_step is not None:
        on_step(step)


def _connect(url: str) -> SyncConnection:
    parameters = connection_parameters(url, MIGRATE)
    with translating():
        connection = connect(parameters)
    connection.isolation_level = IsolationLevel.READ_COMMITTED
    return connection


def _lock(guard: SyncConnection, wait: float) -> None:
    """Hold the one lock of all migrates until the guard's transaction ends."""
    until = time.monotonic() + wait
    guard.autocommit = False
    while True:
        row = guard.execute(statement("outbox/migrate:lock")).fetchone()
        if row is not None and row[0]:
            return
        guard.rollback()
        if time.monotonic() >= until:
            raise StorageBusy(f"migrating: another migrate has been running in this database for {wait:g} s")
        time.sleep(_POLL)


def _plan(connection: SyncConnection, table: TableName) -> Plan:
    schema = quote_identifier(table.schema) if table.schema else None
    named = {"table": table.quoted, "schema": schema}
    oid, kind, namespace, _ = _rows(connection, "outbox/migrate:relation", named)[0]
    if namespace is None:
        raise SchemaError(_no_schema(table))
    if oid is not None:
        refuse_kind(kind, table)
    names = index_names(table)
    looked_for = {"oid": oid, "schema": namespace, "names": list(names.values())}
    indexes = [FoundIndex(*row) for row in _rows(connection, "outbox/migrate:indexes", looked_for)]
    faults = index_differences(indexes, names)
    if oid is not None:
        columns = [FoundColumn(*row) for row in _rows(connection, "outbox/migrate:columns", {"oid": oid})]
        constraints = [FoundConstraint(*row) for row in _rows(connection, "outbox/migrate:constraints", {"oid": oid})]
        faults = column_differences(columns) + constraint_differences(constraints) + faults
    if faults:
        raise SchemaError("\n  ".join([f"table {table} differs from the contract; nothing was changed:", *faults]))
    wanted = missing_indexes(indexes) if oid is not None else frozenset({"table", *INDEXES})
    return Plan(table, steps(table, live=oid is not None, wanted=wanted), live=oid is not None)


def _no_schema(table: TableName) -> str:
    if table.schema is None:
        return f"no schema of the search_path exists to make table {table} in; name one: schema.{table}"
    return f"schema {table.schema} does not exist; create it first: CREATE SCHEMA {quote_identifier(table.schema)}"


def _rows(connection: SyncConnection, path: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    return connection.execute(statement(path), parameters).fetchall()
