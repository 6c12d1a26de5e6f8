"""Very many rows for the console, quickly: without WAL, ids in their order, indexes built when the rows are there.

Two thirds of the deliveries lie a hundredth of a second apart, and the others share one time a month ago. Three
hundredths of the rows are dead, and as many are tried again, of the same thousand causes. Seven hundredths wait: half
of these since the last hour, the others scheduled for tomorrow.
"""

from __future__ import annotations

from typing import LiteralString

import psycopg

_DEFINITIONS = """
SELECT indexname, indexdef FROM pg_indexes
WHERE schemaname = 'public' AND tablename = 'openoutbox_events' AND indexname <> 'openoutbox_events_pkey'
"""
_COLUMNS: LiteralString = """
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, status, attempts, last_error, created_at,
                               available_at, delivered_at, updated_at)
SELECT lpad(to_hex(n + %(first)s), 32, '0')::uuid, 't' || n %% 20, 'key-' || n %% 1000, %(payload)s, %(status)s::text,
"""
_SPREAD: LiteralString = """0, NULL, at - interval '80 ms', at - interval '80 ms', at, at
FROM generate_series(1, %(count)s) AS n, LATERAL (SELECT now() - make_interval(secs => n * 0.01) AS at) AS time
"""
_ALIKE: LiteralString = """0, NULL, at, at, at, at
FROM generate_series(1, %(count)s) AS n, (SELECT now() - interval '30 days' AS at) AS time
"""
_DEAD: LiteralString = """25, 'HTTP_503: partner' || n %% 1000 || '.example.com answered 503', at, at, NULL, at
FROM generate_series(1, %(count)s) AS n, LATERAL (SELECT now() - make_interval(secs => n) AS at) AS time
"""
_RETRYING: LiteralString = """3, 'HTTP_503: partner' || n %% 1000 || '.example.com answered 503', at,
       at + interval '1 hour', NULL, at
FROM generate_series(1, %(count)s) AS n, LATERAL (SELECT now() - make_interval(secs => n %% 3500) AS at) AS time
"""
_WAITING: LiteralString = """0, NULL, at, CASE n %% 2 WHEN 0 THEN at ELSE at + interval '1 day' END, NULL, at
FROM generate_series(1, %(count)s) AS n, LATERAL (SELECT now() - make_interval(secs => n %% 3600) AS at) AS time
"""


def fill_for_console(connection: psycopg.Connection, rows: int) -> None:
    """Fill an empty outbox, which is unlogged from then on. ``connection`` is in autocommit mode, as the owner."""
    definitions = connection.execute(_DEFINITIONS).fetchall()
    for name, _ in definitions:
        connection.execute(f'DROP INDEX "{name}"'.encode())
    connection.execute("ALTER TABLE openoutbox_events DROP CONSTRAINT openoutbox_events_pkey")
    connection.execute("ALTER TABLE openoutbox_events SET UNLOGGED")
    dead, waiting = rows * 3 // 100, rows * 7 // 100
    delivered = rows - 2 * dead - waiting
    spread = delivered * 2 // 3
    parts: list[tuple[LiteralString, str, int]] = [
        (_SPREAD, "DELIVERED", spread),
        (_DEAD, "DEAD", dead),
        (_RETRYING, "PENDING", dead),
        (_WAITING, "PENDING", waiting),
        (_ALIKE, "DELIVERED", delivered - spread),
    ]
    first = 0
    for part, status, count in parts:
        values = {"first": first, "count": count, "status": status, "payload": b"x" * 64}
        connection.execute(_COLUMNS + part, values)
        first += count
    connection.execute("SET maintenance_work_mem = '512MB'")
    connection.execute("ALTER TABLE openoutbox_events ADD PRIMARY KEY (event_id)")
    for _, definition in definitions:
        connection.execute(definition.encode())
    connection.execute("VACUUM ANALYZE openoutbox_events")


def waiting_id(rows: int) -> int:
    """The number of an event that waits, of a table of so many rows."""
    dead, waiting = rows * 3 // 100, rows * 7 // 100
    return (rows - 2 * dead - waiting) * 2 // 3 + 2 * dead + waiting
