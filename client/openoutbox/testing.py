"""The tests of an application: check which events its code has announced, before the transaction is committed.

    def test_an_order_is_announced(connection):  # of any library that enqueue takes
        place_order(connection, 7)
        assert_announced(connection, type="order.placed", key="7", payload={"order": 7})

The functions read the outbox in the connection's own transaction. They see what it has inserted and what is committed,
and change nothing. For a connection that ``enqueue_async`` takes, await the answer: a check that is not awaited checks
nothing. A check that fails is an AssertionError that lists what was announced.

``OutboxChecks`` binds them to a connection; the fixture of ``openoutbox.pytest_plugin`` and the mixin for Django's test
cases hand one out. Imports no test library. Errors of the database are the driver's own.
"""

from __future__ import annotations

import json as json_library
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload
from uuid import UUID

from openoutbox.blocking import Blocking, without_loop
from openoutbox.channel import async_channel, naming_table, no_target, sync_channel
from openoutbox.names import DEFAULT_TABLE, TableName
from openoutbox.ports import AsyncCaller, Row
from openoutbox.statements import statement

if TYPE_CHECKING:
    from openoutbox.targets import AsyncTarget, DjangoConnection, SyncTarget

T = TypeVar("T")
_ANY: Final[Any] = object()
_MOST_SHOWN: Final = 20
_LONGEST_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class Announced:
    """An event in the outbox."""

    event_id: UUID
    event_type: str
    partition_key: str | None
    payload: bytes
    headers: dict[str, Any]
    available_at: datetime

    @property
    def json(self) -> Any:  # noqa: ANN401 - of any type
        """The payload as JSON. Raises ValueError for one that is not."""
        return json_library.loads(self.payload)


@overload
def announced(target: SyncTarget, *, table: str | TableName = DEFAULT_TABLE) -> list[Announced]: ...
@overload
def announced(target: AsyncTarget, *, table: str | TableName = DEFAULT_TABLE) -> Awaitable[list[Announced]]: ...
def announced(target: SyncTarget | AsyncTarget, *, table: str | TableName = DEFAULT_TABLE) -> Any:
    """All events of the outbox, oldest first; those of one transaction by their ids."""
    return _read("announced", target, table, lambda events: events)


@overload
def assert_announced(
    target: SyncTarget,
    *,
    type: str,
    key: str | None = _ANY,
    payload: object = _ANY,
    table: str | TableName = DEFAULT_TABLE,
) -> Announced: ...
@overload
def assert_announced(
    target: AsyncTarget,
    *,
    type: str,
    key: str | None = _ANY,
    payload: object = _ANY,
    table: str | TableName = DEFAULT_TABLE,
) -> Awaitable[Announced]: ...
def assert_announced(
    target: SyncTarget | AsyncTarget,
    *,
    type: str,  # noqa: A002 - what it is in the call
    key: str | None = _ANY,
    payload: object = _ANY,
    table: str | TableName = DEFAULT_TABLE,
) -> Any:
    """Fail unless exactly one event of this type is in the outbox, with the key and the payload if they are given.

    Returns it. ``key=None`` is an event without a key. ``payload`` is bytes, text, or the value of its JSON.
    """
    wanted = _Wanted(type, key, payload)

    def check(events: list[Announced]) -> Announced:
        matching = [event for event in events if wanted.matches(event)]
        if len(matching) != 1:
            raise AssertionError(f"{len(matching)} events with {wanted}, not 1; announced: {_shown(events)}")
        return matching[0]

    return _read("assert_announced", target, table, check)


@overload
def refute_announced(
    target: SyncTarget,
    *,
    type: str = _ANY,
    key: str | None = _ANY,
    payload: object = _ANY,
    table: str | TableName = DEFAULT_TABLE,
) -> None: ...
@overload
def refute_announced(
    target: AsyncTarget,
    *,
    type: str = _ANY,
    key: str | None = _ANY,
    payload: object = _ANY,
    table: str | TableName = DEFAULT_TABLE,
) -> Awaitable[None]: ...
def refute_announced(
    target: SyncTarget | AsyncTarget,
    *,
    type: str = _ANY,  # noqa: A002 - what it is in the call
    key: str | None = _ANY,
    payload: object = _ANY,
    table: str | TableName = DEFAULT_TABLE,
) -> Any:
    """Fail if such an event is in the outbox; without type, key and payload, if any event is."""
    wanted = _Wanted(type, key, payload)

    def check(events: list[Announced]) -> None:
        if matching := [event for event in events if wanted.matches(event)]:
            raise AssertionError(f"{len(matching)} events with {wanted}, not 0: {_shown(matching)}")

    return _read("refute_announced", target, table, check)


class OutboxChecks:
    """The three functions for one connection and table."""

    def __init__(self, target: SyncTarget | AsyncTarget, table: str | TableName = DEFAULT_TABLE) -> None:
        self._target: Any = target
        self._table = table

    def announced(self) -> Any:  # noqa: ANN401 - an awaitable for asyncio
        """As the function."""
        return announced(self._target, table=self._table)

    def assert_announced(self, *, type: str, key: str | None = _ANY, payload: object = _ANY) -> Any:  # noqa: A002, ANN401
        """As the function."""
        return assert_announced(self._target, type=type, key=key, payload=payload, table=self._table)

    def refute_announced(self, *, type: str = _ANY, key: str | None = _ANY, payload: object = _ANY) -> Any:  # noqa: A002, ANN401
        """As the function."""
        return refute_announced(self._target, type=type, key=key, payload=payload, table=self._table)


class OutboxMixin:
    """For Django's test cases: ``class TestOrders(OutboxMixin, TestCase)`` has ``self.outbox``.

    Deletes the events of each test that commits: TransactionTestCase empties the tables of managed models alone.
    """

    outbox_database = "default"
    """Its name in ``DATABASES``."""
    outbox_table = DEFAULT_TABLE

    @property
    def outbox(self) -> OutboxChecks:
        """The checks, on the connection of the test."""
        return OutboxChecks(self._connection(), self.outbox_table)

    def run(self, result: Any = None) -> Any:  # noqa: ANN401 - unittest's
        """Run the test, and delete its events whether or not it calls ``super().setUp()``."""
        self.addCleanup(self._forget)  # type: ignore[attr-defined]  # of unittest.TestCase, as run is
        return super().run(result)  # type: ignore[misc]

    def _connection(self) -> DjangoConnection:
        from django.db import connections  # noqa: PLC0415

        connection: DjangoConnection = connections[self.outbox_database]
        return connection

    def _forget(self) -> None:
        connection = self._connection()
        if connection.in_atomic_block:  # TestCase rolls back
            return
        with connection.cursor() as cursor:
            cursor.execute(statement("outbox/testing:forget", TableName.parse(self.outbox_table)))


@dataclass(frozen=True, slots=True)
class _Wanted:
    type: str
    key: str | None
    payload: object

    def matches(self, event: Announced) -> bool:
        return (
            self.type in (_ANY, event.event_type)
            and self.key in (_ANY, event.partition_key)
            and (self.payload is _ANY or _is_payload(self.payload, event.payload))
        )

    def __str__(self) -> str:
        given = {"type": self.type, "key": self.key, "payload": self.payload}
        return ", ".join(f"{name} {value!r}" for name, value in given.items() if value is not _ANY) or "any type"


def _is_payload(wanted: object, payload: bytes) -> bool:
    if isinstance(wanted, bytes | str):
        return payload == (wanted.encode() if isinstance(wanted, str) else wanted)
    try:
        return bool(json_library.loads(payload) == wanted)
    except ValueError:
        return False


def _shown(events: list[Announced]) -> str:
    lines = [
        f"{event.event_type}, key {event.partition_key!r}, payload {event.payload[:_LONGEST_SHOWN]!r}"
        for event in events[:_MOST_SHOWN]
    ]
    more = [f"and {len(events) - _MOST_SHOWN} more"] if len(events) > _MOST_SHOWN else []
    return "\n  ".join(["", *lines, *more]) if events else "nothing"


def _read(
    function: str, target: object, table: str | TableName, then: Callable[[list[Announced]], T]
) -> T | Awaitable[T]:
    """Hand the events to ``then``: at once, or when the answer is awaited."""
    name = TableName.of(table)
    query = statement("outbox/testing:announced", name)

    async def read(channel: AsyncCaller) -> T:
        with naming_table("relay-cli migrate", name, DEFAULT_TABLE):
            rows = await channel.fetch(query, {})
        return then(_events(rows))

    if (channel := sync_channel(target)) is not None:
        return without_loop(read(Blocking(channel)))
    if (waiting := async_channel(target)) is not None:
        return read(waiting)
    raise no_target(function, target)


def _events(rows: Sequence[Row]) -> list[Announced]:
    return [
        Announced(UUID(str(event_id)), event_type, key, bytes(payload), json_library.loads(headers), due)
        for event_id, event_type, key, payload, headers, due in rows
    ]
