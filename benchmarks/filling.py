"""Rows for the benchmarks: 512-byte payloads, a thousand keys, two small headers."""

from __future__ import annotations

import psycopg

FILL = """
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, headers)
SELECT gen_random_uuid(), %(event_type)s, 'key-' || n %% 1000, decode(rpad(md5(n::text), 1024, md5(n::text)), 'hex'),
       jsonb_build_object('source', 'benchmark', 'n', n::text)
FROM generate_series(1, %(count)s) AS n
"""
UNFINISHED = "SELECT EXISTS (SELECT FROM openoutbox_events WHERE status IN ('PENDING', 'DELIVERING'))"
_PACE = """
SELECT count(*) FILTER (WHERE delivered_at > first), extract(epoch FROM max(delivered_at) - min(first))::float8
FROM openoutbox_events, (SELECT min(delivered_at) AS first FROM openoutbox_events) AS start
"""
_DELIVER = """
UPDATE openoutbox_events SET status = 'DELIVERED', delivered_at = NOW(), updated_at = NOW() WHERE status = 'PENDING'
"""


def fill(connection: psycopg.Connection, event_type: str, count: int) -> None:
    """Insert pending rows, and leave the table as a busy database's housekeeping would."""
    connection.execute(FILL, {"event_type": event_type, "count": count})
    tidy(connection)


def tidy(connection: psycopg.Connection) -> None:
    """Vacuum, analyse, write dirty pages out."""
    connection.execute("VACUUM ANALYZE openoutbox_events")
    connection.execute("CHECKPOINT")


def fill_delivered(connection: psycopg.Connection, count: int, at_once: int = 500_000) -> None:
    """Insert rows that were delivered before."""
    for start in range(0, count, at_once):
        connection.execute(FILL, {"event_type": "history", "count": min(at_once, count - start)})
        connection.execute(_DELIVER)
        connection.execute("VACUUM openoutbox_events")
    tidy(connection)


def pace(url: str) -> float:
    """Events per second between the first and the last delivery, by the database's clock."""
    with psycopg.connect(url) as connection:
        count, seconds = connection.execute(_PACE).fetchone() or (0, 0.0)
        return float(count / seconds)
