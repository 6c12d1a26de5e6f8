"""Rows of any age, made on the server's side."""

from __future__ import annotations

from tests.support.fixtures.outbox import Outbox

_AGED = """
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, status, attempts, last_error,
                               delivered_at, updated_at, created_at)
SELECT gen_random_uuid(), %(status)s || '-' || n, 'key-' || n %% 10, 'x', %(status)s,
       CASE WHEN %(status)s = 'DEAD' THEN 25 ELSE 0 END, CASE WHEN %(status)s = 'DEAD' THEN 'FATAL: no ' || n END,
       CASE WHEN %(status)s = 'DELIVERED' THEN NOW() - make_interval(hours => n) END,
       NOW() - make_interval(hours => n), NOW() - INTERVAL '400 days'
FROM generate_series(1, %(count)s) AS n
"""
_OLD = """
INSERT INTO openoutbox_events (event_id, event_type, payload, status, delivered_at, updated_at)
SELECT gen_random_uuid(), 'old', 'x', %(status)s,
       CASE WHEN %(status)s = 'DELIVERED' THEN NOW() - INTERVAL '9 days' END, NOW() - INTERVAL '40 days'
FROM generate_series(1, %(count)s)
"""


def fill_aged(outbox: Outbox, status: str, count: int) -> None:
    """Rows that reached ``status`` 1, 2, 3 … hours ago; the hours end their event type."""
    with outbox.database.connect() as connection:
        connection.execute(_AGED, {"status": status, "count": count})


def fill_old(outbox: Outbox, status: str, count: int) -> None:
    """Rows delivered 9 days ago, or dead for 40."""
    with outbox.database.connect() as connection:
        connection.execute(_OLD, {"status": status, "count": count})


def left(outbox: Outbox, status: str) -> list[int]:
    """Hours of age of the rows of ``status`` that are left of ``fill_aged``."""
    rows = outbox.database.run("SELECT event_type FROM openoutbox_events WHERE status = %s", [status])
    return sorted(int(name.rpartition("-")[2]) for (name,) in rows)
