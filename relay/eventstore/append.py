"""Appends to one stream, and announces in the same transaction.

An append is one statement and one round trip, with an announcement too (``sql/eventstore/append.sql``): the position
lock of a gapless store is held as briefly as possible. A conflict of versions is not retried: the caller decides what
it means.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow

from relay.core.errors import SchemaError, StorageBusy
from relay.eventstore.announcement import Announcement, Destination, as_announcement
from relay.eventstore.database import CONFLICT_STATE, POSITION_STATE, Connection, execute, translated
from relay.eventstore.errors import UnknownTenant, VersionConflict
from relay.eventstore.model import (
    LARGEST_VERSION,
    Appended,
    Expected,
    NewEvent,
    checked_events,
    checked_id,
    checked_version,
)
from relay.eventstore.part import Id, StorePart
from relay.postgres.codec import text_array

_ATTEMPTS: Final = 5
"""Of an append that the database ends because of a deadlock."""


@dataclass(frozen=True, slots=True)
class AppendOrder:
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


class AppendPart(StorePart):
    """Appending to streams."""

    async def append(
        self,
        tenant_id: Id,
        stream_id: Id,
        events: Iterable[NewEvent],
        expected_version: int,
        outbox: Announcement | Destination | None = None,
        *,
        connection: Connection | None = None,
    ) -> Appended:
        """Append to one stream, all events or none, and announce them in the same transaction.

        ``expected_version`` is the version that the stream has now, ``NO_STREAM`` or ``ANY``. ``outbox`` says which
        events get a row in the outbox: a mapping from event type to destination, a function, or an ``Announcement``.
        ``connection`` is a psycopg ``AsyncConnection`` of the caller: the append then belongs to its transaction,
        behind a savepoint, and the caller commits it. Without one, the append is committed on return.

        Raises ``VersionConflict``, ``UnknownTenant``, ``EventError`` before anything is sent, and ``RowRefused`` for an
        event that the database refuses; nothing is written then, and nothing retried.
        """
        order = AppendOrder(
            checked_id("tenant_id", tenant_id),
            checked_id("stream_id", stream_id),
            checked_version(expected_version),
            checked_events(events),
            as_announcement(outbox),
        )
        if connection is not None:
            return await self._append_within(connection, order)
        async with self._database.connection(order.doing) as own:
            return await self._append_alone(own, order)

    async def _append_alone(self, own: Connection, order: AppendOrder) -> Appended:
        """Append in a transaction of its own, again after a deadlock.

        Appends do not wait for each other in a circle. A transaction of the application may close one: it holds an
        event of the stream and waits for the stream.
        """
        for attempts_left in reversed(range(_ATTEMPTS)):
            try:
                return await self._append(own, order)
            except psycopg.Error as error:
                if not (attempts_left and isinstance(error, errors.DeadlockDetected)):
                    raise await self._meaning(own, order, error) from error
        raise AssertionError("the last attempt returns or raises")

    async def _append_within(self, connection: Connection, order: AppendOrder) -> Appended:
        """Append inside the caller's transaction, behind a savepoint: after an error the caller may go on with it."""
        try:
            if not connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE:
                # Without an open transaction, transaction() below would begin and commit one instead of a savepoint.
                await execute(connection, self._statements.text("eventstore/append:begin"))
            async with connection.transaction():
                return await self._append(connection, order)
        except psycopg.Error as error:
            raise await self._meaning(connection, order, error) from error

    async def _append(self, connection: Connection, order: AppendOrder) -> Appended:
        """One statement, which locks the positions before it writes to the outbox."""
        if order.announcement is not None:
            table = order.announcement.table_name  # first: an invalid name is refused even when nothing is announced
            rows = order.announcement.rows(order.tenant_id, order.stream_id, order.events)
            if rows["places"]:
                statement = self._statements.announcing(table)
                values = {**order.values, **rows, "count": len(order.events)}
                return _appended(await execute(connection, statement, values))
        return _appended(await execute(connection, self._statements.text("eventstore/append:append"), order.values))

    async def _meaning(self, connection: Connection, order: AppendOrder, error: psycopg.Error) -> Exception:
        """What a failed append means. The transaction, or the savepoint, has been rolled back by now."""
        beyond = isinstance(error, errors.NumericValueOutOfRange) and (
            order.expected + len(order.events) > LARGEST_VERSION  # otherwise the number is in a body
        )
        duplicate = (
            isinstance(error, errors.UniqueViolation) and error.diag.table_name == f"event_{order.tenant_id.hex}"
        )
        if duplicate or beyond or error.sqlstate in (CONFLICT_STATE, POSITION_STATE):
            values = {"tenant": order.tenant_id, "stream": order.stream_id}
            actual = (await execute(connection, self._statements.text("eventstore/append:version"), values))[0][0]
            if not duplicate or order.expected not in (Expected.ANY, actual):
                return VersionConflict(order.expected, actual)
            if not (error.diag.constraint_name or "").endswith("_pkey"):  # by an event that this transaction cannot see
                return StorageBusy(f"{order.doing}: another event was added meanwhile", error.sqlstate)
        if isinstance(error, errors.CheckViolation) and error.diag.constraint_name is None:
            return UnknownTenant(order.tenant_id)  # no partition of the bucket takes the row
        if isinstance(error, errors.InsufficientPrivilege):
            confined, tenant = (await execute(connection, self._statements.text("eventstore/append:session_tenant")))[0]
            if confined and tenant != str(order.tenant_id):
                return SchemaError(
                    f"{order.doing}: row-level security confines this session to tenant {tenant or '(none is set)'}; "
                    f"connect with tenant={str(order.tenant_id)!r}",
                    error.sqlstate,
                )
        return translated(error, order.doing)


def _appended(rows: list[TupleRow]) -> Appended:
    return Appended(*rows[0][0])
