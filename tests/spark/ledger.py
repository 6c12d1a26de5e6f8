"""What Spark has left in a database besides events."""

from __future__ import annotations

from tests.support.fixtures.outbox import Outbox


def staging_tables(outbox: Outbox) -> list[str]:
    """Names of the staging tables."""
    rows = outbox.database.run(r"SELECT relname FROM pg_class WHERE relname LIKE 'stage\_%' AND relkind = 'r'")
    return [str(name) for (name,) in rows]


def runs(outbox: Outbox) -> list[tuple[object, ...]]:
    """State, rows written and rows that were new of every run, in order."""
    return outbox.database.run(
        "SELECT state, written_rows, inserted_rows FROM openoutbox_spark.runs ORDER BY started_at, run_id"
    )
