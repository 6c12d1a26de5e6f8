"""Between entries and PostgreSQL's rows: the parameter of a batch, and objects from selected columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relay.deliverylog.entries import Prepared
from relay.deliverylog.model import AttemptRecord, LoggedAttempt, LoggedEvent
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
_ATTEMPT_COLUMNS = (
    "id",
    "event_id",
    "tenant_id",
    "destination_id",
    "destination_type",
    "topic",
    "status",
    "time",
    "attempt_number",
    "manual",
    "code",
    "response_data",
    "event_time",
    "eligible_for_retry",
    "event_data",
    "event_metadata",
    "event_topic",
    "event_destination_id",
    "event_matched_destination_ids",
)


def event_rows(batch: Sequence[Prepared]) -> Parameters:
    """The parameter of ``insert_events.sql``: the rows as one JSON text."""
    return {"rows": encode_json([dict(zip(_EVENT_COLUMNS, _event_row(one), strict=True)) for one in batch])}


def attempt_rows(batch: Sequence[Prepared]) -> Parameters:
    """The parameter of ``insert_attempts.sql``: the rows as one JSON text."""
    return {"rows": encode_json([dict(zip(_ATTEMPT_COLUMNS, _attempt_row(one), strict=True)) for one in batch])}


def event(row: Sequence[Any]) -> LoggedEvent:
    """An event from the columns that ``list_events.sql`` selects."""
    return LoggedEvent(**dict(zip(_EVENT_COLUMNS, row, strict=True)))


def attempt(row: Sequence[Any]) -> AttemptRecord:
    """An attempt and its event from the columns that ``list_attempts.sql`` selects."""
    made = LoggedAttempt(**dict(zip(_ATTEMPT_COLUMNS[:12], row[:12], strict=True)))
    time, eligible, data, metadata, topic, destination_id, matched = row[12:]
    return AttemptRecord(
        made,
        LoggedEvent(
            id=made.event_id,
            tenant_id=made.tenant_id,
            destination_id=made.destination_id if destination_id is None else destination_id,
            matched_destination_ids=[made.destination_id] if matched is None else matched,
            time=time,
            topic=made.topic if topic is None else topic,
            eligible_for_retry=eligible,
            data=data,
            metadata=metadata,
        ),
    )


def _event_row(one: Prepared) -> tuple[Any, ...]:
    logged = one.event
    return (
        logged.id,
        logged.tenant_id,
        logged.destination_id,
        logged.matched_destination_ids,
        logged.time.isoformat(),
        logged.topic,
        logged.eligible_for_retry,
        f"\\x{logged.data.hex()}",
        one.metadata,
    )


def _attempt_row(one: Prepared) -> tuple[Any, ...]:
    made, logged = one.attempt, one.event
    only = [made.destination_id]
    return (
        made.id,
        made.event_id,
        made.tenant_id,
        made.destination_id,
        made.destination_type,
        made.topic,
        made.status,
        made.time.isoformat(),
        made.attempt_number,
        made.manual,
        made.code,
        one.response,
        logged.time.isoformat(),
        logged.eligible_for_retry,
        f"\\x{logged.data.hex()}",
        one.metadata,
        None if logged.topic == made.topic else logged.topic,
        None if logged.destination_id == made.destination_id else logged.destination_id,
        None if logged.matched_destination_ids == only else logged.matched_destination_ids,
    )
