"""The outbox's INSERT: one statement and its array parameters, as pure data.

Everything that fills the outbox sends exactly this: ``enqueue`` and, of the relay, the event store and Spark. The two
functions know no driver; the statement has psycopg's ``%(name)s`` parameters.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import LiteralString
from uuid import UUID

from openoutbox.errors import EventError
from openoutbox.event import NewEvent
from openoutbox.names import TableName
from openoutbox.statements import statement
from openoutbox.trace import trace_headers, traced_headers

InsertRows = dict[str, list[object]]
"""The parameters of the statement: lists of equal length, one element an event."""


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
    distinct = list(_distinct(events).values())
    context = trace_headers() if trace else {}
    return {
        "event_ids": [str(event.event_id) for event in distinct],
        "event_types": [event.event_type for event in distinct],
        "partition_keys": [event.partition_key for event in distinct],
        "payloads": [event.body for event in distinct],
        "headers": [traced_headers(event.headers_json, context) for event in distinct],
        "delays": [None if event.delay is None else event.delay.total_seconds() for event in distinct],
        "available_ats": [event.available_at for event in distinct],
    }


def _distinct(events: Iterable[NewEvent]) -> dict[UUID, NewEvent]:
    distinct: dict[UUID, NewEvent] = {}
    for event in events:
        if not isinstance(event, NewEvent):
            raise EventError(f"events: a {type(event).__name__} among them; pass openoutbox.NewEvent")
        if distinct.setdefault(event.event_id, event) != event:
            raise EventError(f"event_id: {event.event_id} is the same for two different events")
    return distinct
