"""Appends to one stream, and announces in the same transaction.

An append is one statement and one round trip, with an announcement too (``sql/eventstore/append.sql``): the position
lock of a gapless store is held as briefly as possible. A conflict of versions is not retried: the caller decides what
it means.

One path serves every kind of connection (``openoutbox.blocking``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, LiteralString, TypeAlias, TypeVar
from uuid import UUID

import psycopg
from psycopg import errors

from openoutbox.blocking import Blocking, without_loop
from openoutbox.channel import async_channel, failure_of, sync_channel, type_name
from openoutbox.failure import StatementFailure
from openoutbox.ports import AsyncChannel, Row, SyncCaller, Values
from openoutbox.trace import trace_headers
from relay.core.errors import RowRefused, SchemaError, StorageBusy
from relay.eventstore.announcement import Announcement, Destination, as_announcement
from relay.eventstore.database import Connection, Database, execute, translated, translated_failure
from relay.eventstore.errors import (
    CONFLICT_STATE,
    COUNTER_STATE,
    ID_STATE,
    POSITION_STATE,
    EventIdConflict,
    UnknownTenant,
    VersionConflict,
)
from relay.eventstore.model import (
    LARGEST_VERSION,
    MAX_EVENT_BYTES,
    Appended,
    Expected,
    NewEvent,
    checked_events,
    checked_id,
    checked_version,
)
from relay.eventstore.notifying import LateNotifications
from relay.eventstore.statements import DEFAULT_SCHEMA, EventStoreStatements
from relay.eventstore.store_part import Id, StorePart
from relay.postgres.codec import id_array, text_array
from relay.postgres.grants import NO_PRIVILEGE

if TYPE_CHECKING:
    from openoutbox.targets import AsyncTarget, SyncTarget

    Target: TypeAlias = AsyncTarget | SyncTarget

T = TypeVar("T")
Fetch: TypeAlias = Callable[[LiteralString, Values], Awaitable[Sequence[Row]]]

_ATTEMPTS: Final = 5
"""Of an append that the database ends because of a deadlock."""

_CHECK_VIOLATION: Final = "23514"
_UNIQUE_VIOLATION: Final = "23505"
_OUT_OF_RANGE: Final = "22003"
_NO_NUMBER: Final = "22P02"
_LEFT_OUT: Final = "announcements left out"
"""In the message of ``append_and_announce`` when the outbox has fewer new rows than it was sent."""


_log = logging.getLogger(__name__)

_OTHER_META: Final = 2
"""The fourth number of ``event_append_once`` for a repetition with other metadata; 1 for one with the same."""


@dataclass(frozen=True, slots=True)
class AppendOrder:
    """One append, checked."""

    tenant_id: UUID
    stream_id: UUID
    expected: int
    events: list[NewEvent]
    announcement: Announcement | None
    context: Mapping[str, str]
    """Headers of each announcement: the context of the caller's span, or none."""

    @classmethod
    def of(
        cls,
        tenant_id: Id,
        stream_id: Id,
        events: Iterable[NewEvent],
        expected_version: int,
        outbox: Announcement | Destination | None,
        *,
        trace: bool,
        max_event_bytes: int,
    ) -> AppendOrder:
        """The arguments of ``append``, checked. Raises EventError and ConfigError."""
        return cls(
            checked_id("tenant_id", tenant_id),
            checked_id("stream_id", stream_id),
            checked_version(expected_version),
            checked_events(events, max_event_bytes),
            as_announcement(outbox),
            trace_headers() if trace else {},
        )

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
            "expected": min(self.expected, LARGEST_VERSION),
            "types": text_array(event.type for event in self.events),
            "metas": text_array(event.meta_json for event in self.events),
            "datas": text_array(event.data_json for event in self.events),
        }

    def query(self, statements: EventStoreStatements, token: int | None) -> tuple[LiteralString, Values]:
        """The statement that appends and announces, and its parameters; with a token the one that notifies afterwards.

        An announcement notifies in its transaction: the outbox is another table, with notifications of its own.
        """
        variant, values = "plain", self.values
        if self.events[0].event_id is not None:
            variant, values["ids"] = "once", id_array(str(event.event_id) for event in self.events)
        if self.announcement is not None:
            table = self.announcement.table_name  # first: an invalid name is refused even when nothing is announced
            rows = self.announcement.rows(self.tenant_id, self.stream_id, self.events, self.context)
            if rows["places"]:
                return statements.announcing(table, variant), {**values, **rows, "count": len(self.events)}
        if token is not None:
            return statements.text("eventstore/append:append_then_notify"), {"ids": None, **values, "token": token}
        return statements.text("eventstore/append:append", variant), values


class AppendPart(StorePart):
    """Appending to streams."""

    _max_event_bytes: int = MAX_EVENT_BYTES

    def __init__(self, database: Database, statements: EventStoreStatements, tenant: UUID | None = None) -> None:
        super().__init__(database, statements, tenant)
        self._late = LateNotifications(statements)

    async def append(
        self,
        tenant_id: Id,
        stream_id: Id,
        events: Iterable[NewEvent],
        expected_version: int,
        outbox: Announcement | Destination | None = None,
        *,
        connection: Target | None = None,
        trace: bool = False,
    ) -> Appended:
        """Append to one stream, all events or none, and announce them in the same transaction.

        ``expected_version`` is the version that the stream has now, ``NO_STREAM`` or ``ANY``. ``outbox`` says which
        events get a row in the outbox: a mapping from event type to destination, a function, or an ``Announcement``.

        ``connection`` is the caller's: the append then belongs to its transaction, behind a savepoint, and the caller
        commits it. Without one, the append is committed on return. It is a connection or cursor of psycopg 3, or a
        connection, session or scoped session of SQLAlchemy 2, of the synchronous or of the asynchronous kind. A
        synchronous one is used in a thread; a cancelled append waits for the end of its statement there. Without an
        event loop: ``append_sync``.
        ``trace=True`` writes the context of the active OpenTelemetry span (``traceparent``, ``tracestate``) into the
        headers of each announcement. The stored events stay as they are.

        When every event has an ``event_id`` and the stream has these events already, nothing is written or announced,
        whatever ``expected_version`` is, and the result is theirs: an append whose answer was lost may be repeated.

        Raises ``VersionConflict``, ``EventIdConflict``, ``UnknownTenant``, ``EventError``, ``ConfigError`` (``trace``
        without OpenTelemetry's API) and ``TypeError`` (for any other connection) before anything is sent, and
        ``RowRefused`` for an event that the database refuses; nothing is written then, and nothing retried.
        """
        arguments = tenant_id, stream_id, events, expected_version, outbox
        order = AppendOrder.of(*arguments, trace=trace, max_event_bytes=self._max_event_bytes)
        if connection is None:
            return await self._database.run(order.doing, partial(_append_alone, order=order, late=self._late))
        channel = async_channel(connection)
        if channel is not None:
            return await _append_within(channel, self._statements, order)
        blocking = Blocking(_checked_channel("append", connection))
        return await _in_thread(lambda: without_loop(_append_within(blocking, self._statements, order)))


def append_sync(  # noqa: PLR0913 -- as EventStore.append, with what the store knows
    connection: SyncTarget,
    tenant_id: Id,
    stream_id: Id,
    events: Iterable[NewEvent],
    expected_version: int,
    outbox: Announcement | Destination | None = None,
    *,
    schema: str = DEFAULT_SCHEMA,
    trace: bool = False,
    max_event_bytes: int = MAX_EVENT_BYTES,
) -> Appended:
    """As ``EventStore.append``, in the caller's transaction and without an event loop or an ``EventStore``.

    ``connection`` is a synchronous connection or cursor of psycopg 3, or a connection, session or scoped session of
    SQLAlchemy 2. Raises ``ConfigError`` for an invalid schema, ``TypeError`` for any other connection, and what
    ``EventStore.append`` raises.
    """
    arguments = tenant_id, stream_id, events, expected_version, outbox
    order = AppendOrder.of(*arguments, trace=trace, max_event_bytes=max_event_bytes)
    channel = Blocking(_checked_channel("append_sync", connection))
    return without_loop(_append_within(channel, EventStoreStatements(schema), order))


def _checked_channel(function: str, connection: object) -> SyncCaller:
    channel = sync_channel(connection)
    if channel is not None:
        return channel
    if async_channel(connection) is not None:
        raise TypeError(
            f"{function} takes a synchronous connection, not {type_name(connection)}; "
            "await EventStore.append(..., connection=...) takes this one"
        )
    raise TypeError(
        f"{function} takes a connection, cursor or session of psycopg 3, SQLAlchemy 2 or asyncpg as connection, not "
        f"{type_name(connection)}"
    )


async def _append_alone(connection: Connection, order: AppendOrder, late: LateNotifications) -> Appended:
    """Append in a transaction of its own, again after a deadlock. The connection's owner translates other errors.

    Appends do not wait for each other in a circle. A transaction of the application may close one: it holds an
    event of the stream and waits for the stream.
    """
    statements, token = late.statements, await late.token(connection)
    for attempts_left in reversed(range(_ATTEMPTS)):
        try:
            return await _append(partial(execute, connection, often=True), statements, order, token)
        except psycopg.Error as error:
            if token is not None and (numbers := await late.committed(connection, token, error)) is not None:
                _log.warning("%s: its notifications failed, subscriptions poll: %s", order.doing, error)
                return Appended(*numbers[:3])
            if isinstance(error, errors.DeadlockDetected) and attempts_left:
                continue
            failure = failure_of(error)
            meaning = (
                None if failure is None else await _meaning(partial(execute, connection), statements, order, failure)
            )
            if meaning is None:
                raise
            raise meaning from error
    raise AssertionError("the last attempt returns or raises")


async def _append_within(channel: AsyncChannel, statements: EventStoreStatements, order: AppendOrder) -> Appended:
    """Append inside the caller's transaction, behind a savepoint: after an error the caller may go on with it."""
    try:
        async with channel.savepoint():
            return await _append(channel.fetch, statements, order)
    except Exception as error:
        failure = failure_of(error)
        if failure is None:
            raise
        meaning = await _meaning(channel.fetch, statements, order, failure)
        if meaning is None and isinstance(error, psycopg.Error):
            meaning = translated(error, order.doing)
        raise meaning or translated_failure(failure, order.doing) from error


async def _append(
    fetch: Fetch, statements: EventStoreStatements, order: AppendOrder, token: int | None = None
) -> Appended:
    """One statement, which locks the positions before it writes to the outbox."""
    numbers = (await fetch(*order.query(statements, token)))[0][0]
    if numbers[3:] == [_OTHER_META]:
        _log.warning("stream %s: a repeated append has other metadata; the stored one stays", order.stream_id)
    return Appended(*numbers[:3])


async def _meaning(
    fetch: Fetch, statements: EventStoreStatements, order: AppendOrder, failure: StatementFailure
) -> Exception | None:
    """What a failed append means to the store; None when it means no more than any statement's failure.

    The transaction, or the savepoint, has been rolled back by now.
    """
    if (refusal := _refusal(order, failure)) is not None:
        return refusal
    conflict = await _conflict(fetch, statements, order, failure)
    if conflict is not None:
        return conflict
    if failure.sqlstate == _CHECK_VIOLATION and failure.constraint is None:
        return UnknownTenant(order.tenant_id)  # no partition of the bucket takes the row
    if failure.sqlstate == NO_PRIVILEGE:
        confined, tenant = (await fetch(statements.text("eventstore/append:session_tenant"), {}))[0]
        if confined and tenant != str(order.tenant_id):
            return SchemaError(
                f"{order.doing}: row-level security confines this session to tenant {tenant or '(none is set)'}; "
                f"connect with tenant={str(order.tenant_id)!r}",
                failure.sqlstate,
            )
    return None


def _refusal(order: AppendOrder, failure: StatementFailure) -> Exception | None:
    """What the statement itself refuses, and says why."""
    if failure.sqlstate == ID_STATE:
        return EventIdConflict(f"{order.doing}: {failure.message}; give each new event an id of its own")
    if failure.sqlstate == COUNTER_STATE:
        return SchemaError(f"{order.doing}: {failure.message}", failure.sqlstate)
    if failure.sqlstate == _NO_NUMBER and _LEFT_OUT in failure.message and order.announcement is not None:
        table = order.announcement.table_name
        return RowRefused(
            f"{order.doing}: a BEFORE trigger of table {table} left announcements out; nothing was appended"
        )
    return None


async def _conflict(
    fetch: Fetch, statements: EventStoreStatements, order: AppendOrder, failure: StatementFailure
) -> Exception | None:
    """The error for an append that lost against another one; None when the failure has another reason."""
    beyond = failure.sqlstate == _OUT_OF_RANGE and (
        order.expected + len(order.events) > LARGEST_VERSION  # otherwise the number is in a body
    )
    duplicate = failure.sqlstate == _UNIQUE_VIOLATION and failure.table == f"event_{order.tenant_id.hex}"
    if not (duplicate or beyond or failure.sqlstate in (CONFLICT_STATE, POSITION_STATE)):
        return None
    values = {"tenant": order.tenant_id, "stream": order.stream_id}
    actual = (await fetch(statements.text("eventstore/append:version"), values))[0][0]
    if not duplicate or order.expected not in (Expected.ANY, actual):
        return VersionConflict(order.expected, actual)
    if (failure.constraint or "").endswith("_pkey"):
        return None
    # By an event that this transaction cannot see.
    return StorageBusy(f"{order.doing}: another event was added meanwhile", failure.sqlstate)


async def _in_thread(work: Callable[[], T]) -> T:
    """Run it in a thread to its end, also when the caller is cancelled: the connection serves one thread at a time."""
    thread = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        while not thread.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([thread])
        thread.exception()  # retrieved: the caller is cancelled, whatever came of it
        raise
