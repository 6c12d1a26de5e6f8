"""Between rows of the log and ClickHouse: the columns of a batch, and objects from fetched rows. Times are integers
of milliseconds in between: a driver cannot change their zone or precision.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from relay.deliverylog.cursor import Position
from relay.deliverylog.entries import LogRow
from relay.deliverylog.quarantine import QuarantinedEntry
from relay.deliverylog.records import AttemptRecord, LoggedAttempt, LoggedEvent
from relay.deliverylog.times import from_ms

_NAMES = {"attempt_id": "delivery_id", "time": "delivery_time"}  # of event_log, where they are not the row's
COLUMNS = (*(_NAMES.get(field, field) for field in LogRow._fields), "delivery_event_id")


class Key(NamedTuple):
    """The key of a list entry's delivery in event_log, and its position in the list."""

    time_ms: int
    id: str
    tenant_id: str
    destination_id: str
    event_id: str
    sort_ms: int
    sort_id: str
    version: int = 0
    """Of an event: the highest of its copies stands for it."""

    @property
    def delivery(self) -> tuple[str, str, int, str, str]:
        """The sort key of event_log."""
        return self.tenant_id, self.destination_id, self.time_ms, self.event_id, self.id


def inserts(batch: Sequence[LogRow]) -> list[list[LogRow]]:
    """The rows of a batch by the inserts that they need: one, or two where copies of an event differ.

    All rows of one insert have one version, and the copy with the first version says what the event is: of a batch
    that is the last copy.
    """
    last = {(row.tenant_id, row.event_time, row.event_id): row for row in batch}
    first: list[LogRow] = []
    second: list[LogRow] = []
    for row in batch:
        newest = last[row.tenant_id, row.event_time, row.event_id]
        (first if newest is row or _event_of(newest) == _event_of(row) else second).append(row)
    return [first, second] if second else [first]


def _event_of(row: LogRow) -> tuple[object, ...]:
    """What copies of an event may differ in."""
    return (
        row.event_topic,
        row.event_destination_id,
        row.matched_destination_ids,
        row.eligible_for_retry,
        row.metadata,
        row.data,
    )


def columns(batch: Sequence[LogRow]) -> list[Sequence[Any]]:
    """The values of ``COLUMNS``, one sequence each."""
    event_ids, *rest = zip(*batch, strict=True)
    return [event_ids, *rest, event_ids]


def key_arrays(keys: Sequence[Key]) -> dict[str, Any]:
    """The parameters of ``fetch:deliveries``."""
    return {
        "earliest": min(key.time_ms for key in keys),
        "latest": max(key.time_ms for key in keys),
        "tenants": [key.tenant_id for key in keys],
        "destinations": [key.destination_id for key in keys],
        "times": [key.time_ms for key in keys],
        "events": [key.event_id for key in keys],
        "ids": [key.id for key in keys],
    }


def delivery_of(row: Sequence[Any]) -> tuple[str, str, int, str, str]:
    """The sort key of a fetched row."""
    return row[2], row[3], row[7], row[1], row[0]


def record(row: Sequence[Any]) -> AttemptRecord:
    """An attempt and its event from the columns that ``fetch:deliveries`` selects."""
    attempt = LoggedAttempt(
        id=row[0],
        event_id=row[1],
        tenant_id=row[2],
        destination_id=row[3],
        destination_type=row[4],
        topic=row[5],
        status=row[6],
        time=from_ms(row[7]),
        attempt_number=row[8],
        manual=row[9],
        code=row[10],
        response_data=None if row[11] is None else json.loads(row[11]),
    )
    return AttemptRecord(
        attempt,
        LoggedEvent(
            id=row[1],
            tenant_id=row[2],
            time=from_ms(row[12]),
            eligible_for_retry=row[13],
            data=row[14],
            metadata=json.loads(row[15]),
            topic=row[16],
            destination_id=row[17],
            matched_destination_ids=row[18],
        ),
    )


def quarantined(row: Sequence[Any]) -> QuarantinedEntry:
    """A quarantined entry from the columns that ``quarantine:list`` selects."""
    return QuarantinedEntry(row[0], from_ms(row[1]), row[2], row[3])


def attempt_position(key: Key, *, by_event: bool) -> Position:
    """The position of a list entry in the order of a listing of attempts."""
    if by_event:
        return Position(key.time_ms, key.id, key.tenant_id, key.sort_ms, key.sort_id)
    return Position(key.time_ms, key.id, key.tenant_id)


def event_position(key: Key) -> Position:
    """The position of a list entry in the order of a listing of events."""
    return Position(key.sort_ms, key.sort_id, key.tenant_id)
