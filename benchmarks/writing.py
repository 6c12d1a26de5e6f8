"""Events as applications write them, one a transaction: as a backlog in one go, or at a steady rate.

Every table gets a function ``write_event`` of its own, so that tables of different columns are filled alike. A payload
is 512 bytes of JSON in the form that PostgreSQL prints, the same in BYTEA and in JSONB.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

import psycopg
from psycopg import sql

PAYLOAD: Final = """'{"data": "' || rpad(md5(n::text), 500, md5(n::text)) || '"}'"""
"""An SQL expression; ``n`` is the event's number."""
_FUNCTION: Final = "CREATE FUNCTION write_event(n BIGINT) RETURNS UUID LANGUAGE sql AS {}"
_BACKLOG: Final = """
DO $$
BEGIN
    FOR n IN 1..{} LOOP
        PERFORM write_event(n);
        COMMIT;
    END LOOP;
END $$
"""


def define_write(connection: psycopg.Connection, insert: str) -> None:
    """Create ``write_event``. ``insert`` is an INSERT of event ``n`` that returns its id."""
    connection.execute(sql.SQL(_FUNCTION).format(sql.Literal(insert)))


def write_backlog(connection: psycopg.Connection, count: int) -> None:
    """Commit ``count`` events, each in a transaction of its own, and let the database do its housekeeping.

    For speed no commit waits for the disk; the checkpoint at the end does.
    """
    connection.execute("SET synchronous_commit = off")
    connection.execute(sql.SQL(_BACKLOG).format(sql.Literal(count)))
    connection.execute("RESET synchronous_commit")
    connection.execute("VACUUM ANALYZE")
    connection.execute("CHECKPOINT")


def write_steadily(connection: psycopg.Connection, moments: Iterable[float]) -> dict[str, float]:
    """Commit an event at each moment (``time.monotonic``); event id to the time that its COMMIT returned (Unix, s)."""
    committed: dict[str, float] = {}
    for number, due in enumerate(moments):
        time.sleep(max(due - time.monotonic(), 0))
        (event_id,) = connection.execute("SELECT write_event(%s)::text", (number,)).fetchone() or ("",)
        committed[event_id] = time.time()
    return committed
