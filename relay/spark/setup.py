"""Create Spark's schema and ledgers, and grant a role its rights for a purpose; called by ``relay-cli spark setup``.

The calling role owns the schema and the ledgers. Safe to repeat, and while writers run.
"""

from __future__ import annotations

from typing import Final

from relay.core.errors import SchemaError
from relay.postgres.connect import SyncConnection
from relay.postgres.errors import translating
from relay.postgres.grants import create_schema_remedy
from relay.postgres.migrate import migrate
from relay.postgres.migrations import Migration, MigrationPlan, Query, Run, Schema
from relay.postgres.sql import TableName
from relay.spark.connection import Wait, connect, transaction
from relay.spark.statements import DEFAULT_SCHEMA, SparkStatements

_ADDED: Final = ["checkpoint", "bytes", "retries", "outbox_oid", "id_sum", "stream_run"]
"""Columns of the ledger of runs that earlier releases did not create."""


def setup(
    url: str,
    outbox: TableName,
    role: str | None,
    schema: str = DEFAULT_SCHEMA,
    purpose: str = "write",
    *,
    adopt: bool = False,
) -> list[str]:
    """Create the missing objects and grant the rights; returns what was granted, and how many runs it has adopted.

    With ``adopt`` the ledger's runs of this table's name, or of the table itself under another name, become its own.
    Raises SchemaError for a missing right, and StorageUnavailable at once: an operator waits for the answer.
    """
    statements = SparkStatements(outbox, schema)
    grants = statements.grants(role, purpose) if role is not None else []
    with translating("setting up"), connect(url, writes=True, wait=Wait(0)) as connection:
        create_ledger(connection, statements)
        with transaction(connection):
            if role is not None and purpose == "write" and may_compare(connection, statements):
                grants.append(statements.comparing(role))
            for grant in grants:
                connection.execute(grant)
            adopted = [f"{_adopt(connection, statements)} runs adopted"] if adopt else []
    return [*(_last_line(grant) for grant in grants), *adopted]


def create_ledger(connection: SyncConnection, statements: SparkStatements) -> None:
    """Create the schema and the ledgers if they are missing, and their missing columns; may run beside itself."""
    with transaction(connection):
        migrate(connection, LedgerSchema(statements))


class LedgerSchema(Schema):
    """Spark's schema and ledgers, for ``relay.postgres.migrations``.

    Every object is created if it is missing, so one that an operator has dropped comes back.
    """

    doing = "setting up"
    lock_timeout = 600.0  # its indexes and columns wait for commits in flight, which may be long

    def __init__(self, statements: SparkStatements) -> None:
        self._statements = statements

    def lock(self) -> Query:
        """One for all ledgers of the database."""
        return Query(self._statements.query("setup:lock_setup"), {})

    def plan(self) -> Run[MigrationPlan]:
        """The objects; the columns of an earlier release's ledger as well."""
        values = {"relation": self._statements.runs, "columns": _ADDED}
        lacking = (yield Query(self._statements.query("setup:missing_columns"), values))[0][0]
        steps = [Migration(1, "ledgers", tuple(self._statements.setup()))]
        if lacking:  # only then: it waits for commits in flight
            extend = self._statements.query("setup:extend_runs")
            steps.append(Migration(2, "columns of the ledger of runs", (extend,)))
        return MigrationPlan(0, recorded=False, pending=tuple(steps), definitions=())

    def remedy(self, user: str) -> str:
        """Its owner has the rights."""
        return create_schema_remedy(self._statements.schema, user)


def has_ledger(connection: SyncConnection, statements: SparkStatements) -> bool:
    """Whether the ledger of runs exists with all of its columns."""
    values = {"relation": statements.runs, "columns": _ADDED}
    row = connection.execute(statements.query("setup:missing_columns"), values).fetchone()
    return row is not None and row[0] == []


def _adopt(connection: SyncConnection, statements: SparkStatements) -> int:
    """The number of runs in the ledger that the table has adopted."""
    given = statements.outbox
    query = statements.query("outbox:describe_outbox")
    ((schema, name, *_),) = connection.execute(query, {"outbox": given.quoted}).fetchall()
    if name is None:
        raise SchemaError(f"there is no table {given}, or this role may not see its schema")
    values = {"outbox": TableName(name, schema).quoted, "names": [given.quoted, TableName(name).quoted]}
    return connection.execute(statements.query("runs:adopt_runs"), values).rowcount


def may_compare(connection: SyncConnection, statements: SparkStatements) -> bool:
    """Whether this role may call the function that compares repeats with what is there; its owner may."""
    row = connection.execute(statements.query("direct:may_compare")).fetchone()
    return row is not None and bool(row[0])


def _last_line(statement: str) -> str:
    return statement.rstrip().rpartition("\n")[2]
