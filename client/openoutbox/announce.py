"""Announce events in the transaction that the caller has open.

Nothing here commits, rolls back or opens a transaction: when the caller commits, the events will be sent; when the
caller rolls back, they never were. Handed an idle connection in autocommit mode, the statement is its own
transaction, as any other would be. Errors of the database come as the driver's own, and leave the transaction
failed as any other statement's would.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, LiteralString, NamedTuple
from uuid import UUID

from openoutbox.channel import async_channel, sync_channel, type_name
from openoutbox.event import NewEvent
from openoutbox.insert import InsertRows, insert_rows, insert_statement
from openoutbox.names import DEFAULT_TABLE, TableName

if TYPE_CHECKING:
    from openoutbox.channel import AsyncTarget, SyncTarget


class Enqueued(NamedTuple):
    """The result of one ``enqueue``."""

    event_ids: list[UUID]
    """The id of each event, in the order of the call, whether it was new or not."""
    inserted: int | None
    """Number of new events; the others existed already, or another unique index of the table refused them.

    None in psycopg's pipeline mode: not known yet.
    """


def enqueue(
    target: SyncTarget,
    events: NewEvent | Iterable[NewEvent],
    *,
    table: str | TableName = DEFAULT_TABLE,
    trace: bool = False,
) -> Enqueued:
    """Insert one event or any number of them, in one statement, through a synchronous connection.

    ``target`` is a psycopg ``Connection`` or ``Cursor`` (which keeps its results), a SQLAlchemy ``Connection``,
    ``Session`` or ``scoped_session``, or a Django connection (``django.db.connection``, ``connections["other"]``). A
    session that is bound to several databases needs ``session.connection()`` of the right one. The statement needs the
    INSERT privilege only.

    ``trace=True`` writes the context of the active OpenTelemetry span into the headers (``traceparent``,
    ``tracestate``) of each event that holds no ``traceparent`` of its own, so that its delivery continues the trace.

    Raises ``EventError`` for invalid events, ``ConfigError`` for an invalid table name or ``trace`` without
    OpenTelemetry's API, and ``TypeError`` for any other target; all before anything is sent.
    """
    announced, statement, rows = _prepare(events, table, trace=trace)
    channel = sync_channel(target)
    if channel is None:
        raise TypeError(
            "enqueue takes a synchronous connection, cursor or session of psycopg, SQLAlchemy or Django, not "
            f"{type_name(target)}; for an asynchronous one: await enqueue_async(...)"
        )
    return _enqueued(announced, channel.send(statement, rows) if announced else 0)


async def enqueue_async(
    target: AsyncTarget,
    events: NewEvent | Iterable[NewEvent],
    *,
    table: str | TableName = DEFAULT_TABLE,
    trace: bool = False,
) -> Enqueued:
    """As ``enqueue``, for asynchronous connections, cursors and sessions of psycopg, asyncpg and SQLAlchemy."""
    announced, statement, rows = _prepare(events, table, trace=trace)
    channel = async_channel(target)
    if channel is None:
        raise TypeError(
            "enqueue_async takes an asynchronous connection, cursor or session of psycopg, asyncpg or SQLAlchemy, not "
            f"{type_name(target)}; for a synchronous one: enqueue(...)"
        )
    return _enqueued(announced, await channel.send(statement, rows) if announced else 0)


def _prepare(
    events: NewEvent | Iterable[NewEvent], table: str | TableName, *, trace: bool
) -> tuple[list[UUID], LiteralString, InsertRows]:
    """The ids in the order given, the statement and its parameters."""
    announced = [events] if isinstance(events, NewEvent) else list(events)
    rows = insert_rows(announced, trace=trace)
    name = table if isinstance(table, TableName) else TableName.parse(table)
    return [event.event_id for event in announced], insert_statement(name), rows


def _enqueued(announced: list[UUID], row_count: int) -> Enqueued:
    return Enqueued(announced, row_count if row_count >= 0 else None)
