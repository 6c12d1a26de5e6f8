"""A server whose queue of notifications is full: a transaction that announces something fails at its COMMIT."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg
import pytest

from relay.localservers.postgres import NEWEST_BUILD, PostgresServer
from tests.support.fixtures.database import Database


def small_queue() -> PostgresServer:
    """A server whose queue is soon full; of the newest build, since PostgreSQL 16 does not know the setting."""
    return PostgresServer(build=NEWEST_BUILD, settings={"max_notify_queue_pages": "64"})


@contextmanager
def full_queue(database: Database) -> Iterator[None]:
    """Fill the queue; a session that listens within a transaction holds all that was announced since."""
    with database.connect() as holder:
        holder.execute("LISTEN other")
        holder.execute("BEGIN")
        holder.execute("SELECT 1")
        with pytest.raises(psycopg.errors.ProgramLimitExceeded):
            database.run("SELECT pg_notify('other', n || repeat('x', 7900)) FROM generate_series(1, 100) AS n")
        with suppress(psycopg.errors.ProgramLimitExceeded):
            while True:
                database.run("SELECT pg_notify('other', gen_random_uuid() || repeat('x', 7900))")
        yield
