"""Appends to one stream, and announces in the same transaction. For ``EventStore`` only.

One statement and, without an announcement, one round trip: the position lock of a gapless store is held for as short
as can be. There is no retry: a conflict is the caller's to decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString
from uuid import UUID

import psycopg
from psycopg import AsyncCursor, errors
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow, tuple_row

from relay import client
from relay.client.insert import insert_rows, insert_statement
from relay.client.through_psycopg import insert_async
from relay.core.errors import StorageBusy
from relay.eventstore.announcement import Announcement
from relay.eventstore.database import CONFLICT_STATE, Connection, Database, execute, translated
from relay.eventstore.errors import UnknownTenant, VersionConflict
from relay.eventstore.model import Appended, Expected, NewEvent
from relay.eventstore.statements import EventStoreStatements
from relay.postgres.codec import text_array


@dataclass(frozen=True, slots=True)
class Append:
    """One append, checked."""

    tenant_id: UUID
    stream_id: UUID
    expected: int
    events: list[NewEvent]
    announcement: Announcement | None

    @property
    def doing(self) -> str:
        """For error messages."""
        return f"append to stream {self.stream_id} of tenant {self.tenant_id}"

    @property
    def values(self) -> dict[str, object]:
        """The parameters of ``append`` in ``sql/eventstore/append.sql``."""
        return {
            "tenant": self.tenant_id,
            "stream": self.stream_id,
            "expected": self.expected,
            "types": text_array(event.type for event in self.events),
            "metas": text_array(event.meta_json for event in self.events),
            "datas": text_array(event.data_json for event in self.events),
        }


async def append(database: Database, statements: EventStoreStatements, order: Append) -> Appended:
    """Append in a transaction of its own: on return it is committed."""
    async with database.connection(order.doing) as connection:
        try:
            if order.announcement is None:
                return _appended(await execute(connection, statements.text("eventstore/append:append"), order.values))
            async with connection.transaction():
                return await _append_and_announce(connection, statements, order)
        except psycopg.Error as error:
            raise await _meaning(connection, statements, order, error) from error


async def append_within(connection: Connection, statements: EventStoreStatements, order: Append) -> Appended:
    """Append inside the caller's transaction, behind a savepoint: after an error the caller may go on with it."""
    try:
        if not connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE:
            await execute(
                connection, statements.text("eventstore/append:begin")
            )  # else the savepoint would be all there is
        async with connection.transaction():
            return await _append_and_announce(connection, statements, order)
    except psycopg.Error as error:
        raise await _meaning(connection, statements, order, error) from error


async def _append_and_announce(connection: Connection, statements: EventStoreStatements, order: Append) -> Appended:
    statement = statements.text("eventstore/append:append")
    if order.announcement is None:
        return _appended(await execute(connection, statement, order.values))
    if order.expected != Expected.ANY:
        rows = order.announcement.rows(order.tenant_id, order.stream_id, order.expected + 1, order.events)
        return await _both_at_once(connection, statement, order, rows, order.announcement)
    appended = _appended(await execute(connection, statement, order.values))
    first = appended.version - len(order.events) + 1
    rows = order.announcement.rows(order.tenant_id, order.stream_id, first, order.events)
    await _announce(connection, rows, order.announcement)
    return appended


async def _both_at_once(
    connection: Connection,
    statement: LiteralString,
    order: Append,
    rows: list[client.NewEvent],
    announcement: Announcement,
) -> Appended:
    """The versions are known beforehand: the announcement goes ahead of the append, in the same round trip."""
    async with connection.pipeline(), AsyncCursor(connection, row_factory=tuple_row) as cursor:
        await _announce(connection, rows, announcement)
        await cursor.execute(statement, order.values, prepare=False)
        return _appended(await cursor.fetchall())


async def _announce(connection: Connection, rows: list[client.NewEvent], announcement: Announcement) -> None:
    statement = insert_statement(announcement.table_name)  # first: an invalid name is refused even without rows
    if rows:
        await insert_async(connection, statement, insert_rows(rows))


def _appended(rows: list[TupleRow]) -> Appended:
    return Appended(*rows[0][0])


async def _meaning(
    connection: Connection, statements: EventStoreStatements, order: Append, error: psycopg.Error
) -> Exception:
    """What a failed append means. The transaction, or the savepoint, has been rolled back by now."""
    duplicate = isinstance(error, errors.UniqueViolation) and error.diag.table_name == f"event_{order.tenant_id.hex}"
    if duplicate or error.sqlstate == CONFLICT_STATE:
        values = {"tenant": order.tenant_id, "stream": order.stream_id}
        actual = (await execute(connection, statements.text("eventstore/append:version"), values))[0][0]
        if not duplicate or order.expected not in (Expected.ANY, actual):
            return VersionConflict(order.expected, actual)
        if not (error.diag.constraint_name or "").endswith("_pkey"):  # by an event that this transaction cannot see
            return StorageBusy(f"{order.doing}: another event was added meanwhile", error.sqlstate)
    if isinstance(error, errors.CheckViolation) and error.diag.constraint_name is None:
        return UnknownTenant(order.tenant_id)  # no partition of the bucket takes the row
    return translated(error, order.doing)
