"""Create Spark's schema and ledgers, and grant a role its rights for a purpose; called by ``relay-cli spark setup``.

The calling role owns the schema and the ledgers. Safe to repeat, and while writers run.
"""

from __future__ import annotations

from typing import Final

from relay.postgres.connect import SyncConnection
from relay.postgres.errors import translating
from relay.postgres.sql import TableName
from relay.spark.connection import connect
from relay.spark.statements import DEFAULT_SCHEMA, SparkStatements

_ADDED: Final = ["checkpoint", "bytes", "retries"]
"""Columns of the ledger of runs that earlier releases did not create."""


def setup(
    url: str, outbox: TableName, role: str | None, schema: str = DEFAULT_SCHEMA, purpose: str = "write"
) -> list[str]:
    """Create the missing objects and grant the rights; returns the grants.

    Raises SchemaError for a missing right, and StorageUnavailable at once: an operator waits for the answer.
    """
    statements = SparkStatements(outbox, schema)
    grants = statements.grants(role, purpose) if role is not None else []
    with translating("setting up"), connect(url, writes=True, max_wait=0) as connection:
        create_ledger(connection, statements)
        with connection.transaction():
            for grant in grants:
                connection.execute(grant)
    return [_last_line(grant) for grant in grants]


def create_ledger(connection: SyncConnection, statements: SparkStatements) -> None:
    """Create the schema and the ledgers if they are missing, and their missing columns; may run beside itself."""
    with connection.transaction():
        connection.execute(statements.query("setup:lock_setup"))
        for statement in statements.setup():
            connection.execute(statement)
        if not has_ledger(connection, statements):  # only then: it waits for commits in flight
            connection.execute(statements.query("setup:extend_runs"))


def has_ledger(connection: SyncConnection, statements: SparkStatements) -> bool:
    """Whether the ledger of runs exists with all of its columns."""
    values = {"relation": statements.runs, "columns": _ADDED}
    row = connection.execute(statements.query("setup:missing_columns"), values).fetchone()
    return row is not None and row[0] == []


def _last_line(statement: str) -> str:
    return statement.rstrip().rpartition("\n")[2]
