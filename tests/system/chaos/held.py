"""A transaction that holds the xmin horizon, and the dead entries that add up meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from tests.support.fixtures.outbox import Outbox

_DELIVERED = """
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, available_at, created_at)
SELECT gen_random_uuid(), 'before', 'key-' || n %% 1000, '-1', now() - interval '1 minute', now() - interval '1 minute'
FROM generate_series(1, %s) AS n
"""
_SETTLED = (
    "UPDATE openoutbox_events SET status = 'DELIVERING', locked_by = 'before', locked_at = now()",
    "UPDATE openoutbox_events SET status = 'DELIVERED', locked_by = NULL, locked_at = NULL, delivered_at = now()",
)


@contextmanager
def held_horizon(outbox: Outbox, delivered: int = 50_000) -> Iterator[None]:
    """Keep a snapshot open, as a dump does, in which so many events of 1,000 keys are then delivered."""
    with psycopg.connect(outbox.url, application_name="pg_dump") as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM pg_class")
        outbox.database.run(_DELIVERED, [delivered])
        for statement in _SETTLED:
            outbox.database.run(statement)
        yield
