"""Writers that insert events in transactions of their own while everything else breaks.

They behave as a careful application does: an insert whose commit was not confirmed is repeated with the same event
ids, which the primary key makes safe, until it is. Some transactions roll back on purpose. What was confirmed, and
what was rolled back, is what a test holds the broker's messages against.
"""

from __future__ import annotations

import random
import threading
import uuid
from types import TracebackType
from typing import Self

import psycopg

from tests.support.waiting import pace, patience

_INSERT = """
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload)
VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING
"""
_ROLL_BACK_EVERY = 7  # transactions


class Writers:
    """Some threads that insert ``rows`` rows each in one transaction, ``per_second`` rows in all, until stopped."""

    def __init__(
        self,
        url: str,
        event_type: str,
        *,
        per_second: float = 300.0,
        threads: int = 2,
        rows: int = 10,
        hold: float = 0.0,
    ) -> None:
        """``hold`` is the longest that a transaction stays open after its inserts; each draws its own time."""
        self._url = url
        self._event_type = event_type
        self._rows = rows
        self._hold = hold
        self._pause = threads * rows / per_second
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, name=f"writer-{n}", daemon=True) for n in range(threads)]
        self.committed: set[str] = set()
        """Ids whose commit was confirmed."""
        self.rolled_back: set[str] = set()
        self.errors = 0
        """Transactions that had to be repeated."""

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Finish the transactions under way, repeating those that are not confirmed, and end."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(patience(90))
            assert not thread.is_alive(), "a writer could not finish its last transaction"

    def _run(self) -> None:
        connection: psycopg.Connection | None = None
        number = 0
        while not self._stopping.is_set():
            number += 1
            ids = [str(uuid.uuid4()) for _ in range(self._rows)]
            give_up = number % _ROLL_BACK_EVERY == 0
            while True:
                try:
                    if connection is None or connection.closed:
                        connection = psycopg.connect(self._url, connect_timeout=5)
                    self._insert(connection, ids, give_up=give_up)
                    break
                except psycopg.Error:
                    with self._lock:
                        self.errors += 1
                    if connection is not None:
                        connection.close()
                    pace(0.2)  # the application's own pause before it repeats a transaction
            self._stopping.wait(self._pause)
        if connection is not None:
            connection.close()

    def _insert(self, connection: psycopg.Connection, ids: list[str], *, give_up: bool) -> None:
        with connection.cursor() as cursor:
            cursor.executemany(_INSERT, [(one, self._event_type, f"key-{one[:2]}", one.encode()) for one in ids])
        if self._hold:
            self._stopping.wait(random.uniform(0.0, self._hold))
        if give_up:
            connection.rollback()
        else:
            connection.commit()
        with self._lock:
            (self.rolled_back if give_up else self.committed).update(ids)
