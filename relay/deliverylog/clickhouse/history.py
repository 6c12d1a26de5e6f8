"""The migrations of the log's tables in ClickHouse, oldest first, and the version that the server has recorded.

As in PostgreSQL (``relay.postgres.migrations``) a released migration is never edited. ClickHouse has neither
transactions nor locks for this, so each statement must be repeatable: a log without a record, or whose migration was
interrupted, runs the migration again from its first statement, and so do two processes at once.
"""

from __future__ import annotations

from relay.deliverylog.clickhouse.client import ClickHouseClient
from relay.deliverylog.clickhouse.statements import ClickHouseStatements
from relay.postgres.migrations import Migration, MigrationPlan

_RECORD = "event_log_migration"


def migrations(statements: ClickHouseStatements) -> tuple[Migration, ...]:
    """All migrations under the prefix of ``statements``."""
    return (
        Migration(1, "tables", statements.file("migrations/0001_tables")),
        Migration(2, "events listed by each delivery", statements.file("migrations/0002_events_by_delivery")),
        Migration(3, "attempts listed by code", statements.file("migrations/0003_codes")),
    )


async def plan(client: ClickHouseClient, statements: ClickHouseStatements) -> MigrationPlan:
    """What ``apply`` would do now. Reads only."""
    answer = await client.rows(statements.text("migrate:exists"), {"name": statements.table(_RECORD)})
    recorded = bool(answer[0][0])
    version = int((await client.rows(statements.text("migrate:version")))[0][0]) if recorded else 0
    return MigrationPlan(version, recorded, migrations(statements)[version:], ())


async def apply(client: ClickHouseClient, statements: ClickHouseStatements) -> MigrationPlan:
    """Apply and record what is pending; returns it."""
    pending = await plan(client, statements)
    if pending.up_to_date:
        return pending
    await client.command(statements.text("migrate:create"))
    for migration in pending.pending:
        for sql in migration.statements:
            await client.command(sql)
        await client.insert(statements.table(_RECORD), ("number", "name"), [[migration.number], [migration.name]])
    return pending
