"""Announce events in the transaction that the caller has open.

Nothing here commits, rolls back or opens a transaction: when the caller commits, the events will be sent; when the
caller rolls back, they never were. A connection on which the events would be committed alone is refused. Errors of the
database come as the driver's own, and leave the transaction failed as any other statement's would.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import TYPE_CHECKING, Any, Final, LiteralString, NamedTuple
from uuid import UUID

from openoutbox.blocking import Blocking, without_loop
from openoutbox.channel import (
    OPEN_A_TRANSACTION,
    async_channel,
    leaves_out,
    name_table,
    sync_channel,
    wrong_target,
)
from openoutbox.errors import EnqueueRefused
from openoutbox.insert import insert_again, insert_calls
from openoutbox.names import DEFAULT_TABLE, TableName
from openoutbox.newevent import NewEvent
from openoutbox.ports import AsyncCaller, Row
from openoutbox.schema import sql_api_functions
from openoutbox.statements import statement

if TYPE_CHECKING:
    from openoutbox.targets import AsyncTarget, SyncTarget

_COMMITS_ALONE: Final = (
    "the connection is in autocommit mode with no transaction open: the event would be committed alone, and sent even "
    f"if the change it announces fails. {OPEN_A_TRANSACTION}; where there is no change, pass autocommit=True"
)


class Enqueued(NamedTuple):
    """The result of one ``enqueue``."""

    event_ids: list[UUID]
    """The id of each event, in the order of the call, whether it was new or not."""
    inserted: int | None
    """Number of new events; the others existed already, or another unique index of the table refused them.

    None in psycopg's pipeline mode: not known yet.
    """
    unchecked: bool = False
    """Whether an event that existed already may have another type or payload, since this user may not compare them."""


def enqueue(
    target: SyncTarget,
    events: NewEvent | Iterable[NewEvent],
    *,
    table: str | TableName = DEFAULT_TABLE,
    trace: bool = False,
    in_order: bool = False,
    autocommit: bool = False,
) -> Enqueued:
    """Insert one event or any number of them, 16 MiB a statement, through a synchronous connection.

    ``target`` is a psycopg ``Connection`` or ``Cursor`` (which keeps its results), a SQLAlchemy ``Connection``,
    ``Session`` or ``scoped_session``, or a Django connection. A session that is bound to several databases needs
    ``session.connection()`` of the right one. The statement needs the INSERT privilege only.

    ``trace`` adds the context of the active OpenTelemetry span to events without a ``traceparent``. ``in_order``
    makes a key's events stand in the order of the commits, among all callers who pass it; call it once, after the
    changes, and repeat a transaction that a deadlock ended. ``autocommit`` says that the events announce no change.

    Raises, before anything is sent: ``EventError`` for invalid events, ``ConfigError`` for an invalid table name or
    ``trace`` without OpenTelemetry's API, ``TypeError`` for any other target, ``EnqueueRefused`` for a connection that
    would commit the events alone; afterwards for another event's id, if it may compare, and what a trigger left out.
    """
    call = _Call.of(events, table, trace=trace, in_order=in_order, autocommit=autocommit)
    channel = sync_channel(target)
    if channel is None:
        raise wrong_target("enqueue", target, "a synchronous", "psycopg, SQLAlchemy or Django", "await enqueue_async")
    if not call.inserts:
        return Enqueued(call.event_ids, 0)
    try:
        if channel.commits_at_once():
            call.check_alone()
        if in_order:
            channel.flush()
            channel.fetch(*call.locks)
        done = call.done(sum(starmap(channel.send, call.inserts)))
        return done if done.inserted == len(call.events) else without_loop(_asked_about(Blocking(channel), call, done))
    except Exception as error:
        name_table(error, "relay-cli migrate", call.table, DEFAULT_TABLE)
        raise


async def enqueue_async(
    target: AsyncTarget,
    events: NewEvent | Iterable[NewEvent],
    *,
    table: str | TableName = DEFAULT_TABLE,
    trace: bool = False,
    in_order: bool = False,
    autocommit: bool = False,
) -> Enqueued:
    """As ``enqueue``, for asynchronous connections, cursors and sessions of psycopg, asyncpg and SQLAlchemy."""
    call = _Call.of(events, table, trace=trace, in_order=in_order, autocommit=autocommit)
    channel = async_channel(target)
    if channel is None:
        raise wrong_target("enqueue_async", target, "an asynchronous", "psycopg, asyncpg or SQLAlchemy", "enqueue")
    if not call.inserts:
        return Enqueued(call.event_ids, 0)
    try:
        if await channel.commits_at_once():
            call.check_alone()
        if in_order:
            await channel.flush()
            await channel.fetch(*call.locks)
        done = call.done(sum([await channel.send(*insert) for insert in call.inserts]))
        return done if done.inserted == len(call.events) else await _asked_about(channel, call, done)
    except Exception as error:
        name_table(error, "relay-cli migrate", call.table, DEFAULT_TABLE)
        raise


async def _asked_about(channel: AsyncCaller, call: _Call, done: Enqueued) -> Enqueued:
    """The result where fewer rows were added than sent: which events are others, and which were left out."""
    if not call.has_known(done):
        return done
    may_compare, may_leave_out = (await channel.fetch(*call.may_compare))[0]
    done = call.compared(done, await channel.fetch(*call.others) if may_compare else None)
    if may_leave_out:
        call.check_left_out([await leaves_out(channel, *one) for one in call.again])
    return done


@dataclass(slots=True)
class _Call:
    """What one call sends, checked and ready."""

    events: list[NewEvent]
    """In the order given."""
    table: str | TableName
    inserts: list[tuple[LiteralString, dict[str, Any]]]
    in_order: bool
    autocommit: bool

    @classmethod
    def of(
        cls,
        events: NewEvent | Iterable[NewEvent],
        table: str | TableName,
        *,
        trace: bool,
        in_order: bool,
        autocommit: bool,
    ) -> _Call:
        announced = [events] if isinstance(events, NewEvent) else list(events)
        inserts: list[Any] = insert_calls(announced, table, trace=trace)
        return cls(announced, table, inserts, in_order, autocommit)

    @property
    def event_ids(self) -> list[UUID]:
        """In the order given."""
        return [event.event_id for event in self.events]

    @property
    def locks(self) -> tuple[LiteralString, dict[str, Any]]:
        """Takes the lock of each key."""
        keys = [event.partition_key for event in self.events if event.partition_key is not None]
        return statement("outbox/insert:lock_keys"), {"keys": keys}

    @property
    def may_compare(self) -> tuple[LiteralString, dict[str, Any]]:
        """Asks whether the user may call what compares, and whether a trigger may leave events out."""
        table = TableName.of(self.table)
        return statement("outbox/insert:may_compare", table, sql_api_functions(table)), {}

    @property
    def again(self) -> list[tuple[LiteralString, dict[str, Any]]]:
        """For each event what tells one that is there from one that a trigger leaves out."""
        return insert_again(self.events, self.table)

    @property
    def others(self) -> tuple[LiteralString, dict[str, Any]]:
        """Asks for the events whose rows are others."""
        values = {
            "event_ids": [str(event.event_id) for event in self.events],
            "event_types": [event.event_type for event in self.events],
            "digests": [hashlib.sha256(event.body).digest() for event in self.events],
        }
        return statement("outbox/insert:others", names=sql_api_functions(TableName.of(self.table))), values

    def has_known(self, done: Enqueued) -> bool:
        """Whether an event was there already, or another unique index refused it."""
        return done.inserted is not None and done.inserted < len(set(done.event_ids))

    def compared(self, done: Enqueued, others: Sequence[Row] | None) -> Enqueued:
        """The result for ``others``; None where they were not asked for. Raises EnqueueRefused."""
        taken = [event_id for event_id, same in others or () if same is False]
        if taken:
            raise EnqueueRefused(
                f"event_id: {', '.join(taken[:3])} is in table {self.table} with another type or payload; "
                "roll back, and give the event an id of its own"
            )
        return done._replace(unchecked=others is None or bool(others))

    def check_left_out(self, left_out: Sequence[bool]) -> None:
        """Raise EnqueueRefused for the first event that a trigger left out; one answer for each distinct event."""
        ids = dict.fromkeys(self.event_ids)
        for event_id, is_left_out in zip(ids, left_out, strict=True):
            if is_left_out:
                raise EnqueueRefused(
                    f"events: a BEFORE trigger of table {self.table} left event {event_id} out, and no error said so; "
                    "roll back (in autocommit mode the others are committed), and let the trigger return NEW"
                )

    def check_alone(self) -> None:
        """Raise EnqueueRefused unless the events may be committed alone, each statement at once."""
        if not self.autocommit:
            raise EnqueueRefused(_COMMITS_ALONE)
        if self.in_order:
            raise EnqueueRefused(f"in_order: its locks are kept until the commit. {OPEN_A_TRANSACTION}")
        if len(self.inserts) > 1:
            raise EnqueueRefused(f"events: over 16 MiB would be committed in parts. {OPEN_A_TRANSACTION}")

    def done(self, inserted: int) -> Enqueued:
        """The result; without a count where psycopg's pipeline has not sent it yet."""
        return Enqueued(self.event_ids, None if inserted < 0 else inserted)
