"""The migrations of the log's schema in PostgreSQL, oldest first. The mechanism is ``relay.postgres.migrations``.

A change of a table is a new migration here and a new file below ``sql/deliverylog/postgres/migrations``. A change of a
function is an edit of its definition, and a new migration as well, which brings it to the logs that exist.
"""

from __future__ import annotations

from relay.deliverylog.postgres.statements import PostgresStatements
from relay.postgres.migrations import Migration, SchemaHistory
from relay.postgres.sql import DEFAULT_SCHEMA


def schema_history(statements: PostgresStatements) -> SchemaHistory:
    """The history of a log in the schema of ``statements``."""
    migrations = (
        Migration(1, "tables", statements.file("migrations/0001_tables")),
        Migration(2, "indexes of the quarantine, bounds in ISO 8601", statements.file("migrations/0002_quarantine")),
        Migration(3, "indexes of attempts by code", statements.file("migrations/0003_codes")),
    )
    return SchemaHistory(
        {DEFAULT_SCHEMA: statements.schema},
        migrations,
        statements.file("definitions"),
        statements.text("migrate:adopted_version"),
    )
