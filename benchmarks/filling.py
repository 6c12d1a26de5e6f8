"""Rows for the benchmarks: 512-byte payloads, a thousand keys, two small headers."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg

_KEYS = 1000
_FILL = """
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, headers, status, delivered_at)
SELECT gen_random_uuid(), (%(event_types)s::text[])[1 + n %% cardinality(%(event_types)s::text[])],
       'key-' || n %% NULLIF(%(keys)s::int, 0), decode(rpad(md5(n::text), 1024, md5(n::text)), 'hex'),
       jsonb_build_object('source', 'benchmark', 'n', n::text), %(status)s::text,
       CASE %(status)s::text WHEN 'DELIVERED' THEN NOW() END
FROM generate_series(1, %(count)s) AS n
"""
_HIDE = """
ALTER TABLE openoutbox_events RENAME TO filled;
CREATE TABLE openoutbox_events (LIKE filled INCLUDING ALL)
"""
_SHOW = """
BEGIN;
DROP TABLE openoutbox_events;
ALTER TABLE filled RENAME TO openoutbox_events;
COMMIT
"""
UNFINISHED = "SELECT EXISTS (SELECT FROM openoutbox_events WHERE status IN ('PENDING', 'DELIVERING'))"
_PACE = """
SELECT count(*) FILTER (WHERE delivered_at > first), extract(epoch FROM max(delivered_at) - min(first))::float8
FROM openoutbox_events, (SELECT min(delivered_at) AS first FROM openoutbox_events) AS start
"""
# A row for each statement, and no copy of what it deleted: a hundredth of what deleting a hundred rows costs.
_NOTE_DELETES = """
CREATE TABLE deletes (at TIMESTAMPTZ);
CREATE FUNCTION note_delete() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO deletes VALUES (NOW());
    RETURN NULL;
END $$;
CREATE TRIGGER note_delete AFTER DELETE ON openoutbox_events FOR EACH STATEMENT EXECUTE FUNCTION note_delete()
"""
_PACE_OF_DELETES = """
SELECT count(DISTINCT at), extract(epoch FROM max(at) - min(at))::float8, (SELECT count(*) FROM openoutbox_events)
FROM deletes
"""


def fill(connection: psycopg.Connection, event_type: str | Sequence[str], count: int, *, keys: int = _KEYS) -> None:
    """Insert pending rows, and leave the table as a busy database's housekeeping would."""
    insert(connection, event_type, count, keys=keys)
    tidy(connection)


def insert(
    connection: psycopg.Connection,
    event_type: str | Sequence[str],
    count: int,
    *,
    status: str = "PENDING",
    keys: int = _KEYS,
) -> None:
    """Insert rows, of several types in turn. ``keys`` is the number of partition keys; with 0 the rows have none."""
    types = [event_type] if isinstance(event_type, str) else list(event_type)
    connection.execute(_FILL, {"event_types": types, "count": count, "status": status, "keys": keys})


def tidy(connection: psycopg.Connection) -> None:
    """Vacuum, analyse, write dirty pages out."""
    connection.execute("VACUUM ANALYZE openoutbox_events")
    connection.execute("CHECKPOINT")


def fill_delivered(connection: psycopg.Connection, count: int) -> None:
    """Insert rows that were delivered before."""
    insert(connection, "history", count, status="DELIVERED")
    tidy(connection)


def pace(url: str) -> float:
    """Events per second between the first and the last delivery, by the database's clock."""
    with psycopg.connect(url) as connection:
        count, seconds = connection.execute(_PACE).fetchone() or (0, 0.0)
        return float(count / seconds)


def hide(connection: psycopg.Connection) -> None:
    """Put an empty table in the place of the full one: relays that start on it do not count their start."""
    connection.execute(_HIDE)


def show(connection: psycopg.Connection) -> None:
    """Undo ``hide``: the relays get the full table all at once."""
    connection.execute(_SHOW)


def note_deletes(connection: psycopg.Connection) -> None:
    """Let the database note when rows are deleted, for ``pace_of_deletes``."""
    connection.execute(_NOTE_DELETES)


def pace_of_deletes(url: str, count: int) -> float:
    """As ``pace``, for ``count`` rows that deliveries deleted. Raises RuntimeError when a row is left.

    How many rows the first transaction deleted is not known: it counts as an average one.
    """
    with psycopg.connect(url) as connection:
        transactions, seconds, left = connection.execute(_PACE_OF_DELETES).fetchone() or (0, 0.0, count)
        if left:
            raise RuntimeError(f"{left} of {count} rows were not deleted")
        return float(count * (1 - 1 / transactions) / seconds)
