"""The migrations of the log's tables in ClickHouse, oldest first. The mechanism is ``relay.postgres.migrations``.

ClickHouse has neither transactions nor locks for this, so each statement must be repeatable: a log without a record, or
whose migration was interrupted, runs the migration again from its first statement, and so do two processes at once.
"""

from __future__ import annotations

from relay.deliverylog.clickhouse.client import ClickHouseClient
from relay.deliverylog.clickhouse.statements import RECORD, ClickHouseStatements
from relay.postgres.migrations import (
    Item,
    Migration,
    MigrationPlan,
    Query,
    Rows,
    Run,
    SchemaHistory,
    drive_async,
    migrating,
)


class ClickHouseSchema(SchemaHistory):
    """All migrations under the prefix of ``statements``."""

    def __init__(self, statements: ClickHouseStatements) -> None:
        migrations = (
            Migration(1, "tables", statements.file("migrations/0001_tables")),
            Migration(2, "events listed by each delivery", statements.file("migrations/0002_events_by_delivery")),
            Migration(3, "attempts listed by code", statements.file("migrations/0003_codes")),
        )
        self._record = statements.table(RECORD)
        super().__init__(lambda name: statements.text(f"migrate:{name}"), migrations, (), None)

    def lock(self) -> None:
        """There is none."""

    def _exists(self) -> Query:
        return super()._exists()._replace(values={"name": self._record})

    def _bound_waits(self) -> Run[None]:
        yield from ()


async def migrate(client: ClickHouseClient, statements: ClickHouseStatements, *, dry_run: bool) -> MigrationPlan:
    """Apply and record what is pending, or only read it; returns it."""

    async def answer(item: Item) -> Rows:
        if not isinstance(item, Query):
            return []
        values = dict(item.values or {})
        if item.reads:
            return [tuple(row) for row in await client.rows(item.sql, values)]
        await client.command(item.sql, values)
        return []

    return await drive_async(migrating(ClickHouseSchema(statements), dry_run=dry_run), answer)
