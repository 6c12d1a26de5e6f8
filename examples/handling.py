"""What both consumers do with an event: handle it once, whatever how often it arrives.

The id of an event is recorded in the transaction of its effect. A copy finds the id taken and changes nothing; after
a crash before the commit, neither the effect nor the id is there, and the event is handled when it comes again.
Ids older than the outbox's longest memory (RETRY_MAX_DELAY, or the oldest event you may replay) may be deleted.
"""

from __future__ import annotations

import psycopg

TABLES = """
CREATE TABLE IF NOT EXISTS handled_events (
    event_id UUID PRIMARY KEY,
    handled_at TIMESTAMPTZ NOT NULL DEFAULT NOW()
);
CREATE TABLE IF NOT EXISTS effects (event_id UUID NOT NULL, body BYTEA NOT NULL)
"""


def handle_once(connection: psycopg.Connection, event_id: str, body: bytes) -> bool:
    """Handle an event unless that was done before; whether it was done now. Committed when this returns."""
    with connection.transaction():
        taken = connection.execute(
            "INSERT INTO handled_events (event_id) VALUES (%s) ON CONFLICT DO NOTHING", (event_id,)
        )
        if taken.rowcount == 0:
            return False
        connection.execute("INSERT INTO effects (event_id, body) VALUES (%s, %s)", (event_id, body))  # your work
        return True
