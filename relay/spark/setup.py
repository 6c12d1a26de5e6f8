"""Makes Spark's schema and ledger, and grants a role what it needs for a purpose; called by ``relay-cli spark setup``.

Whoever calls it owns what is made; it is safe to repeat, and beside writers.
"""

from __future__ import annotations

from relay.postgres.errors import translating
from relay.postgres.sql import TableName
from relay.spark.connecting import connect
from relay.spark.options import DEFAULT_SCHEMA
from relay.spark.runs import APPLICATION, make_ledger
from relay.spark.statements import SparkStatements


def setup(
    url: str, outbox: TableName, role: str | None, schema: str = DEFAULT_SCHEMA, purpose: str = "write"
) -> list[str]:
    """Make what is missing and grant; the grants, for showing. Raises SchemaError where a right or table is missing."""
    statements = SparkStatements(outbox, schema)
    grants = statements.grants(role, purpose) if role is not None else []
    with translating("setting up"), connect(url, APPLICATION) as connection:
        make_ledger(connection, statements)
        with connection.transaction():
            for grant in grants:
                connection.execute(grant)
    return [_last_line(grant) for grant in grants]


def _last_line(statement: str) -> str:
    return statement.rstrip().rpartition("\n")[2]
