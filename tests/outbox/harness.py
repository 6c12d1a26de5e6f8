"""The two outboxes behind the storage's conformance suite: in memory, and a table of a real PostgreSQL."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID

import psycopg
import pytest

from relay.core.backoff import RetryPolicy
from relay.core.event import EventId, Fence
from relay.core.storage import OutboxStorage
from relay.outbox.extensions import add_extension
from relay.outbox.outbox_options import KeyOrder
from relay.outbox.storage import PostgresOutbox
from relay.postgres.sql import TableName
from tests.support.doubles.memory_storage import MemoryOutbox, MemoryTable
from tests.support.fixtures.outbox import Outbox
from tests.support.options import storage_options

TABLES = [
    "memory",
    "memory in order",
    pytest.param("postgres", marks=pytest.mark.postgres),
    pytest.param("postgres in order", marks=pytest.mark.postgres),
    pytest.param("postgres behind PgBouncer", marks=pytest.mark.postgres),
]
"""What the conformance suites are run on: parameters of the fixture ``table``."""
DELETING = ["memory deleting", pytest.param("postgres deleting", marks=pytest.mark.postgres)]
IN_ORDER = [
    "memory in order",
    "memory in order deleting",
    pytest.param("postgres in order", marks=pytest.mark.postgres),
    pytest.param("postgres in order deleting", marks=pytest.mark.postgres),
]
"""For the cases of order per key, in both modes."""
both_modes = pytest.mark.parametrize("table", [*TABLES, *DELETING], indirect=True)
"""For the cases that settle: with ON_DELIVERED=keep and with ON_DELIVERED=delete."""
LEASE = 60.0
DELETED = "DELETED"
RETRY = RetryPolicy(max_attempts=3, base_delay=10.0, max_delay=30.0, jitter=0.5)


class StorageHarness(Protocol):
    """What a case needs around the port: rows to begin with, rows to look at, time that passes."""

    key_order: KeyOrder | None
    """How its relays claim; a test may change it."""
    delete_delivered: bool
    """Whether its relays delete what is delivered."""

    def relay(self, relay_id: str = "relay-a", retry: RetryPolicy = RETRY) -> OutboxStorage:
        """One more relay on the table; closed with the harness."""

    async def close(self) -> None:
        """Close all relays."""

    def insert(
        self,
        payload: bytes = b"{}",
        *,
        due_in: float = 0.0,
        attempts: int = 0,
        headers: str = "{}",
        key: str | None = None,
    ) -> EventId:
        """One PENDING event, inserted in its own transaction."""

    def row(self, event_id: EventId) -> dict[str, Any]:
        """Every column of an event."""

    def status(self, event_id: EventId) -> str:
        """The status of an event; ``DELETED`` when it has no row."""

    def advance(self, seconds: float) -> None:
        """Let that much time pass."""

    def aged(self, fence: Fence, seconds: float) -> Fence:
        """What a fence from before ``advance(seconds)`` is called now."""

    def lock(self, *event_ids: EventId) -> AbstractContextManager[object]:
        """Another session has locked these rows, as long as the context lasts."""


class MemoryHarness:
    """The outbox in memory; its clock is the test's."""

    def __init__(self, key_order: KeyOrder | None = None, *, delete_delivered: bool = False) -> None:
        self.key_order = key_order
        self.delete_delivered = delete_delivered
        self._table = MemoryTable()

    def relay(self, relay_id: str = "relay-a", retry: RetryPolicy = RETRY) -> OutboxStorage:
        deletes = self.delete_delivered
        return MemoryOutbox(self._table, relay_id, LEASE, retry, self.key_order, delete_delivered=deletes)

    async def close(self) -> None:
        return

    def insert(
        self,
        payload: bytes = b"{}",
        *,
        due_in: float = 0.0,
        attempts: int = 0,
        headers: str = "{}",
        key: str | None = None,
    ) -> EventId:
        return self._table.insert(payload=payload, due_in=due_in, attempts=attempts, headers=headers, partition_key=key)

    def row(self, event_id: EventId) -> dict[str, Any]:
        return dataclasses.asdict(self._table.rows[event_id])

    def status(self, event_id: EventId) -> str:
        return self._table.rows[event_id].status if event_id in self._table.rows else DELETED

    def advance(self, seconds: float) -> None:
        self._table.advance(seconds)

    def aged(self, fence: Fence, seconds: float) -> Fence:
        return fence

    @contextmanager
    def lock(self, *event_ids: EventId) -> Iterator[None]:
        self._table.locked.update(event_ids)
        yield
        self._table.locked.difference_update(event_ids)


_INSERT = """
INSERT INTO openoutbox_events (event_id, event_type, payload, headers, attempts, partition_key, available_at)
VALUES (%s, 'test', %s, %s, %s, %s, now() + make_interval(secs => %s))
"""

_ADVANCE = """
UPDATE openoutbox_events SET
    available_at = available_at - d, locked_at = locked_at - d, delivered_at = delivered_at - d,
    created_at = created_at - d, updated_at = updated_at - d
FROM make_interval(secs => %s) AS d
"""


class PostgresHarness:
    """A real table. Time passes by moving every row into the past, so no test waits."""

    def __init__(self, outbox: Outbox, key_order: KeyOrder | None = None, *, delete_delivered: bool = False) -> None:
        self.key_order = key_order
        self.delete_delivered = delete_delivered
        self._outbox = outbox
        if delete_delivered:
            outbox.database.run("GRANT DELETE ON openoutbox_events TO openoutbox_relay")
        if key_order is not None:
            add_extension(outbox.url, TableName(), "key-order")
        self._relays: list[PostgresOutbox] = []
        self._connection = outbox.database.connect()

    @property
    def url(self) -> str:
        """The relays' URL of the database."""
        return self._outbox.relay_url

    def relay(self, relay_id: str = "relay-a", retry: RetryPolicy = RETRY) -> OutboxStorage:
        options = storage_options(
            self._outbox.relay_url,
            relay_id,
            lease_timeout=LEASE,
            retry=retry,
            key_order=self.key_order,
            delete_delivered=self.delete_delivered,
        )
        self._relays.append(PostgresOutbox(options))
        return self._relays[-1]

    async def close(self) -> None:
        for relay in self._relays:
            await relay.close()
        self._connection.close()

    def empty(self) -> None:
        """Delete every row."""
        self._connection.execute("TRUNCATE openoutbox_events")

    def insert(
        self,
        payload: bytes = b"{}",
        *,
        due_in: float = 0.0,
        attempts: int = 0,
        headers: str = "{}",
        key: str | None = None,
    ) -> EventId:
        event_id = EventId(str(uuid.uuid4()))
        self._connection.execute(_INSERT, (event_id, payload, headers, attempts, key, due_in))
        return event_id

    def row(self, event_id: EventId) -> dict[str, Any]:
        with self._connection.cursor(row_factory=psycopg.rows.dict_row) as cursor:
            row = cursor.execute("SELECT * FROM openoutbox_events WHERE event_id = %s", [event_id]).fetchone()
        assert row is not None
        return row

    def status(self, event_id: EventId) -> str:
        query = "SELECT status FROM openoutbox_events WHERE event_id = %s"
        row = self._connection.execute(query, [event_id]).fetchone()
        return row[0] if row is not None else DELETED

    def advance(self, seconds: float) -> None:
        self._connection.execute(_ADVANCE, [seconds])

    def aged(self, fence: Fence, seconds: float) -> Fence:
        return Fence(fence - timedelta(seconds=seconds))

    @contextmanager
    def lock(self, *event_ids: EventId) -> Iterator[None]:
        with self._outbox.database.connect(autocommit=False) as other:
            other.execute(
                "SELECT FROM openoutbox_events WHERE event_id = ANY(%s) FOR UPDATE", [list(map(UUID, event_ids))]
            )
            yield
