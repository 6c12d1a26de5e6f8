"""The outbox's INSERT: one statement and its parameters, as pure data.

Everything that fills the outbox sends exactly this: ``enqueue`` and, of the relay, the event store and Spark. The
functions know no driver; the statements have psycopg's ``%(name)s`` parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, LiteralString
from uuid import UUID

from openoutbox.errors import EventError
from openoutbox.names import TableName
from openoutbox.newevent import NewEvent
from openoutbox.statements import statement
from openoutbox.trace import trace_headers, traced_headers

InsertRows = dict[str, list[object]]
"""The parameters of the statement: lists of equal length, one element an event."""

STATEMENT_BYTES: Final = 16 * 1024 * 1024
"""Most bytes of payloads and headers in one statement; a larger event goes alone. Driver and PostgreSQL each hold a
statement in memory several times: 100,000 events of 512 bytes take 76 MB of the application's, and 195 MB as one
statement. PostgreSQL ends the connection of a message of 1 GiB."""


@lru_cache(maxsize=64)
def insert_statement(table: TableName = TableName()) -> LiteralString:  # noqa: B008 -- frozen, so safe to share
    """The INSERT for that table. It needs the INSERT privilege, nothing else.

    Its row count is the number of events that were new; those whose ``event_id`` was there already are left alone.
    """
    return statement("outbox/insert:insert", table)


def insert_rows(events: Iterable[NewEvent], *, trace: bool = False) -> InsertRows:
    """The parameters that insert these events, in this order.

    ``trace`` adds the context of the active span to the headers of each event that holds no ``traceparent``.

    Raises ConfigError for ``trace`` without OpenTelemetry's API, and EventError for anything that is not a ``NewEvent``
    or when one ``event_id`` stands for two different events: the second would be lost silently.
    """
    return _rows(distinct(events), trace_headers() if trace else {})


def insert_calls(
    events: Sequence[NewEvent], table: str | TableName, *, trace: bool = False
) -> list[tuple[LiteralString, dict[str, object] | InsertRows]]:
    """The statements that insert these events, each with its parameters: one for each ``STATEMENT_BYTES``.

    Raises as ``insert_rows`` does, before any of them is sent.
    """
    unique = events if len(events) == 1 and isinstance(events[0], NewEvent) else distinct(events)
    context = trace_headers() if trace else {}
    if len(unique) == 1:
        return [_insert_one(unique[0], table, context)]
    statement_ = insert_statement(TableName.of(table))
    return [(statement_, _rows(part, context)) for part in _parts(unique)]


def insert_again(events: Iterable[NewEvent], table: str | TableName) -> list[tuple[LiteralString, dict[str, object]]]:
    """For each event a statement that fails where the event is there."""
    return [_insert_one(event, table, {}, again=True) for event in distinct(events)]


def distinct(events: Iterable[NewEvent]) -> list[NewEvent]:
    """The events without repeats. Raises EventError as ``insert_rows`` does."""
    unique: dict[UUID, NewEvent] = {}
    for event in events:
        if not isinstance(event, NewEvent):
            raise EventError(f"events: a {type(event).__name__} among them; pass openoutbox.NewEvent")
        if unique.setdefault(event.event_id, event) is not event and unique[event.event_id] != event:
            raise EventError(f"event_id: {event.event_id} is the same for two different events")
    return list(unique.values())


def _insert_one(
    event: NewEvent, table: str | TableName, context: dict[str, str], *, again: bool = False
) -> tuple[LiteralString, dict[str, object]]:
    values: dict[str, object] = {
        "event_id": event.event_id.hex,  # a third of the time of the form with hyphens
        "event_type": event.event_type,
        "partition_key": event.partition_key,
        "payload": event.body,
        "headers": traced_headers(event.headers_json, context) if context else event.headers_json,
    }
    held = event.delay is not None or event.available_at is not None
    if held:
        values["delay"] = None if event.delay is None else event.delay.total_seconds()
        values["available_at"] = event.available_at
    return _one_statement(table, held, again), values


@lru_cache(maxsize=64)
def _one_statement(table: str | TableName, held: bool, again: bool) -> LiteralString:
    return statement("outbox/insert:insert_one", TableName.of(table), tags=["held"] * held + ["again"] * again)


def _rows(events: Sequence[NewEvent], context: dict[str, str]) -> InsertRows:
    return {
        "event_ids": [str(event.event_id) for event in events],
        "event_types": [event.event_type for event in events],
        "partition_keys": [event.partition_key for event in events],
        "payloads": [event.body for event in events],
        "headers": [traced_headers(event.headers_json, context) for event in events],
        "delays": [None if event.delay is None else event.delay.total_seconds() for event in events],
        "available_ats": [event.available_at for event in events],
    }


def _parts(events: Sequence[NewEvent]) -> Iterator[Sequence[NewEvent]]:
    start = size = 0
    for index, event in enumerate(events):
        bytes_ = len(event.body) + len(event.headers_json)
        if index > start and size + bytes_ > STATEMENT_BYTES:
            yield events[start:index]
            start, size = index, 0
        size += bytes_
    if start < len(events):
        yield events[start:]
