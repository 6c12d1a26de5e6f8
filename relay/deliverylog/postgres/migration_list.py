"""The migrations of the log's schema in PostgreSQL, oldest first. The mechanism is ``relay.postgres.migrations``.

A change of a table is a new migration here and a new file below ``sql/deliverylog/postgres/migrations``. A change of a
function is an edit of its definition, and a new migration as well, which brings it to the logs that exist.
"""

from __future__ import annotations

from relay.deliverylog.postgres.statements import PostgresStatements
from relay.postgres.grants import create_schema_remedy
from relay.postgres.migrations import Migration, MigrationPlan, Query, Run, SchemaHistory, record_statements
from relay.postgres.sql import DEFAULT_SCHEMA


class LogSchema(SchemaHistory):
    """The history of a log in the schema of ``statements``, which it creates."""

    doing = "migrating the delivery log"

    def __init__(self, statements: PostgresStatements) -> None:
        file = statements.file
        migrations = (
            Migration(1, "tables", file("migrations/0001_tables")),
            Migration(2, "indexes of the quarantine, bounds in ISO 8601", file("migrations/0002_quarantine")),
            Migration(3, "indexes of attempts by code", file("migrations/0003_codes")),
            Migration(4, "indexes of a destination's failed attempts", file("migrations/0004_failed")),
            Migration(5, "an index of a destination's attempts with a topic", file("migrations/0005_dest_topic")),
        )
        super().__init__(
            record_statements({DEFAULT_SCHEMA: statements.schema}),
            migrations,
            file("definitions"),
            statements.text("migrate:adopted_version"),
        )
        self._sql = statements

    def apply(self, plan: MigrationPlan) -> Run[None]:
        """Create the schema first."""
        exists = yield Query(self._sql.text("migrate:schema_exists"), {"schema": self._sql.schema})
        if not exists[0][0]:
            yield Query(self._sql.text("migrate:create_schema"), reads=False)
        yield from super().apply(plan)

    def remedy(self, user: str) -> str:
        """Its owner has the rights."""
        return create_schema_remedy(self._sql.schema, user)
