"""The floor of ``benchmarks.drain``: a claim and a settle in their plainest form, in turn on one connection.

Nothing is published. The statements stand here and not in ``sql/``: the floor is the same whatever the relay's own
statements become, so that figures of two versions compare.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import psycopg

from benchmarks.filling import pace
from benchmarks.measured import Cell
from benchmarks.parts import Parts
from benchmarks.servers import Servers

CLAIM: Final = """
UPDATE openoutbox_events
SET status = 'DELIVERING', locked_by = 'floor', locked_at = NOW(), updated_at = NOW()
WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM openoutbox_events
    WHERE status = 'PENDING' AND available_at <= NOW()
    ORDER BY available_at, created_at
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
))
RETURNING event_id::text, event_type, partition_key, payload, headers::text, attempts, created_at, locked_at
"""
SETTLE: Final = """
UPDATE openoutbox_events
SET status = 'DELIVERED', delivered_at = NOW(), locked_by = NULL, locked_at = NULL, updated_at = NOW()
WHERE event_id = ANY(%(ids)s::uuid[]) AND status = 'DELIVERING' AND locked_by = 'floor' AND locked_at = %(fence)s
"""


def claim_and_settle(connection: psycopg.Connection, batch: int) -> Iterator[tuple[int, float]]:
    """Drain the table; after each settle how many are done, and the seconds of the claim.

    Raises RuntimeError when a settle misses a row.
    """
    cursor, count = connection.cursor(binary=True), 0
    while True:
        began = time.perf_counter()
        rows = cursor.execute(CLAIM, {"limit": batch}).fetchall()
        seconds = time.perf_counter() - began
        if not rows:
            return
        cursor.execute(SETTLE, {"ids": [row[0] for row in rows], "fence": rows[0][-1]})
        if cursor.rowcount != len(rows):
            raise RuntimeError(f"{cursor.rowcount} of {len(rows)} rows were settled")
        count += len(rows)
        yield count, seconds


def floor(servers: Servers, url: str, batch: int, *, with_parts: bool = False) -> Cell:
    """Drain the table; raises RuntimeError when a settle misses a row."""
    parts = Parts(servers, url) if with_parts else None
    count, wal, before, cpu = 0, servers.postgres_wal(), servers.postgres_cpu(), time.process_time()
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        for done, _ in claim_and_settle(connection, batch):
            count = done
        own = (time.process_time() - cpu) / count * 1e6
        postgres = (servers.postgres_cpu() - before) / count * 1e6
        of_parts = parts.per_event(count) if parts else {}
    wal_bytes = (servers.postgres_wal() - wal) / count
    return Cell("floor", "", batch, pace(url), own, postgres, wal_bytes_per_event=wal_bytes, parts=of_parts)
