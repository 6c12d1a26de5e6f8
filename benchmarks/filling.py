"""Rows for the benchmarks: 512-byte payloads, a thousand keys, two small headers."""

from __future__ import annotations

import psycopg

FILL = """
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, headers, status, delivered_at)
SELECT gen_random_uuid(), %(event_type)s, 'key-' || n %% 1000, decode(rpad(md5(n::text), 1024, md5(n::text)), 'hex'),
       jsonb_build_object('source', 'benchmark', 'n', n::text), %(status)s::text,
       CASE %(status)s::text WHEN 'DELIVERED' THEN NOW() END
FROM generate_series(1, %(count)s) AS n
"""
UNFINISHED = "SELECT EXISTS (SELECT FROM openoutbox_events WHERE status IN ('PENDING', 'DELIVERING'))"
_PACE = """
SELECT count(*) FILTER (WHERE delivered_at > first), extract(epoch FROM max(delivered_at) - min(first))::float8
FROM openoutbox_events, (SELECT min(delivered_at) AS first FROM openoutbox_events) AS start
"""


def fill(connection: psycopg.Connection, event_type: str, count: int) -> None:
    """Insert pending rows, and leave the table as a busy database's housekeeping would."""
    connection.execute(FILL, {"event_type": event_type, "count": count, "status": "PENDING"})
    tidy(connection)


def tidy(connection: psycopg.Connection) -> None:
    """Vacuum, analyse, write dirty pages out."""
    connection.execute("VACUUM ANALYZE openoutbox_events")
    connection.execute("CHECKPOINT")


def fill_delivered(connection: psycopg.Connection, count: int) -> None:
    """Insert rows that were delivered before."""
    connection.execute(FILL, {"event_type": "history", "count": count, "status": "DELIVERED"})
    tidy(connection)


def pace(url: str) -> float:
    """Events per second between the first and the last delivery, by the database's clock."""
    with psycopg.connect(url) as connection:
        count, seconds = connection.execute(_PACE).fetchone() or (0, 0.0)
        return float(count / seconds)
