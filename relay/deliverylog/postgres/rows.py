"""Between rows of the log and PostgreSQL: the parameter of a batch, and objects from selected columns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Any

from relay.deliverylog.entries import LogRow
from relay.deliverylog.model import AttemptRecord, LoggedAttempt, LoggedEvent
from relay.deliverylog.quarantine import QuarantinedEntry
from relay.postgres.codec import encode_json

Parameters = dict[str, Any]

_EVENT_COLUMNS = (
    "id",
    "tenant_id",
    "destination_id",
    "matched_destination_ids",
    "time",
    "topic",
    "eligible_for_retry",
    "data",
    "metadata",
)
_ATTEMPT_COLUMNS = LoggedAttempt.__slots__
_RECORD_COLUMNS = len(_ATTEMPT_COLUMNS) + 7


def event_parameters(batch: Sequence[LogRow]) -> Parameters:
    """The parameter that inserts a batch's events: their rows as one JSON document."""
    return {"rows": encode_json(list(map(_event_object, batch)))}


def attempt_parameters(batch: Sequence[LogRow]) -> Parameters:
    """The parameter that inserts a batch's attempts: their rows as one JSON document."""
    return {"rows": encode_json(list(map(_attempt_object, batch)))}


def event(row: Sequence[Any]) -> LoggedEvent:
    """An event from the columns that ``list:events`` selects first."""
    return LoggedEvent(**dict(zip(_EVENT_COLUMNS, row, strict=False)))


def attempt(row: Sequence[Any]) -> AttemptRecord:
    """An attempt and its event from the columns that ``list:attempts`` selects first."""
    logged = LoggedAttempt(**dict(zip(_ATTEMPT_COLUMNS, row[: len(_ATTEMPT_COLUMNS)], strict=True)))
    time, eligible, data, metadata, topic, destination_id, matched = row[len(_ATTEMPT_COLUMNS) : _RECORD_COLUMNS]
    return AttemptRecord(
        logged,
        LoggedEvent(
            id=logged.event_id,
            tenant_id=logged.tenant_id,
            destination_id=logged.destination_id if destination_id is None else destination_id,
            matched_destination_ids=[logged.destination_id] if matched is None else matched,
            time=time,
            topic=logged.topic if topic is None else topic,
            eligible_for_retry=eligible,
            data=data,
            metadata=metadata,
        ),
    )


def quarantined(row: Sequence[Any]) -> QuarantinedEntry:
    """A quarantined entry from the columns that ``quarantine:list`` selects."""
    entry_id, time, reason, text = row
    return QuarantinedEntry(entry_id, time.astimezone(UTC), reason, text)


def _event_object(row: LogRow) -> dict[str, Any]:
    return {
        "id": row.event_id,
        "tenant_id": row.tenant_id,
        "destination_id": row.event_destination_id,
        "matched_destination_ids": row.matched_destination_ids,
        "time": row.event_time.isoformat(),
        "topic": row.event_topic,
        "eligible_for_retry": row.eligible_for_retry,
        "data": f"\\x{row.data.hex()}",
        "metadata": row.metadata,
    }


def _attempt_object(row: LogRow) -> dict[str, Any]:
    """An attempt with its event. A column of the event is null where it equals the attempt's own."""
    only = [row.destination_id]
    return {
        "id": row.attempt_id,
        "event_id": row.event_id,
        "tenant_id": row.tenant_id,
        "destination_id": row.destination_id,
        "destination_type": row.destination_type,
        "topic": row.topic,
        "status": row.status,
        "time": row.time.isoformat(),
        "attempt_number": row.attempt_number,
        "manual": row.manual,
        "code": row.code,
        "response_data": row.response_data,
        "event_time": row.event_time.isoformat(),
        "eligible_for_retry": row.eligible_for_retry,
        "event_data": f"\\x{row.data.hex()}",
        "event_metadata": row.metadata,
        "event_topic": None if row.event_topic == row.topic else row.event_topic,
        "event_destination_id": None if row.event_destination_id == row.destination_id else row.event_destination_id,
        "event_matched_destination_ids": None if row.matched_destination_ids == only else row.matched_destination_ids,
    }
