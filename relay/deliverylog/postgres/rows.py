"""Between rows of the log and PostgreSQL: the parameter of a batch, and objects from selected columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from relay.deliverylog.entries import LogRow
from relay.deliverylog.quarantine import QuarantinedEntry
from relay.deliverylog.records import AttemptRecord, LoggedAttempt, LoggedEvent
from relay.postgres.codec import encode_json, text_array

_ENCODED_AT_ONCE = 50  # rows
_iso = lru_cache(4096)(datetime.isoformat)  # an event's time is written into three tables
# COPY's text format. _NULL, which no stored text has, stands for NULL until it is known that nothing needs an escape.
_NULL = "\x00"
_SPECIAL = re.compile(r"[\\\n\r]")
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def document(batch: Sequence[LogRow], columns: Callable[[LogRow], dict[str, Any]]) -> str:
    """A JSON array, encoded in portions: while the encoder runs, no other thread does, such as the engine's."""
    portions = [batch[start : start + _ENCODED_AT_ONCE] for start in range(0, len(batch), _ENCODED_AT_ONCE)]
    return f"[{','.join([encode_json(list(map(columns, portion)))[1:-1] for portion in portions])}]"


def event_lines(batch: Iterable[LogRow]) -> str:
    """Events as the lines that ``insert:new_events`` copies."""
    lines = []
    for row in batch:
        columns = (
            row.event_id,
            row.tenant_id,
            row.event_destination_id,
            text_array(row.matched_destination_ids),
            _iso(row.event_time),
            row.event_topic,
            "t" if row.eligible_for_retry else "f",
            row.metadata,
        )
        lines.append(f"{_copy_line(columns)}\t\\\\x{row.data.hex()}\n")
    return "".join(lines)


def link_lines(batch: Iterable[LogRow]) -> str:
    """The destinations that events matched, as the lines that ``insert:new_links`` copies."""
    lines = [
        _copy_line((row.tenant_id, matched, _iso(row.event_time), row.event_id))
        for row in batch
        for matched in dict.fromkeys(row.matched_destination_ids)
    ]
    return "".join([f"{line}\n" for line in lines])


def attempt_lines(batch: Iterable[LogRow]) -> str:
    """Attempts as the lines that ``insert:new_attempts`` copies.

    A column of the event is NULL where it equals the attempt's own. The payload is the last column, so that the others
    are searched for special characters at once.
    """
    lines = []
    for row in batch:
        only = row.matched_destination_ids == [row.destination_id]
        columns = (
            row.attempt_id,
            row.event_id,
            row.tenant_id,
            row.destination_id,
            row.destination_type,
            row.topic,
            row.status,
            _iso(row.time),
            str(row.attempt_number),
            "t" if row.manual else "f",
            row.code,
            row.response_data,
            _iso(row.event_time),
            "t" if row.eligible_for_retry else "f",
            row.metadata,
            None if row.event_topic == row.topic else row.event_topic,
            None if row.event_destination_id == row.destination_id else row.event_destination_id,
            None if only else text_array(row.matched_destination_ids),
        )
        lines.append(f"{_copy_line(columns)}\t\\\\x{row.data.hex()}\n")
    return "".join(lines)


def _copy_line(columns: Sequence[str | None]) -> str:
    """The columns in COPY's text format, without the end of the line."""
    line = "\t".join([_NULL if column is None else column for column in columns])
    if line.count("\t") == len(columns) - 1 and not _SPECIAL.search(line):
        return line.replace(_NULL, "\\N")
    return "\t".join(["\\N" if column is None else column.translate(_ESCAPES) for column in columns])


def event(row: Sequence[Any]) -> LoggedEvent:
    """An event from the columns that ``list:events`` selects first."""
    return LoggedEvent(
        id=row[0],
        tenant_id=row[1],
        destination_id=row[2],
        matched_destination_ids=row[3],
        time=row[4],
        topic=row[5],
        eligible_for_retry=row[6],
        data=row[7],
        metadata=row[8],
    )


def attempt(row: Sequence[Any]) -> AttemptRecord:
    """An attempt and its event from the columns that ``list:attempts`` selects first.

    Read by their places: a page is up to a thousand of these.
    """
    destination_id, topic = row[3], row[5]
    event_topic, event_destination_id, matched = row[16:19]
    return AttemptRecord(
        LoggedAttempt(
            id=row[0],
            event_id=row[1],
            tenant_id=row[2],
            destination_id=destination_id,
            destination_type=row[4],
            topic=topic,
            status=row[6],
            time=row[7],
            attempt_number=row[8],
            manual=row[9],
            code=row[10],
            response_data=row[11],
        ),
        LoggedEvent(
            id=row[1],
            tenant_id=row[2],
            destination_id=destination_id if event_destination_id is None else event_destination_id,
            matched_destination_ids=[destination_id] if matched is None else matched,
            time=row[12],
            topic=topic if event_topic is None else event_topic,
            eligible_for_retry=row[13],
            data=row[14],
            metadata=row[15],
        ),
    )


def quarantined(row: Sequence[Any]) -> QuarantinedEntry:
    """A quarantined entry from the columns that ``quarantine:list`` selects."""
    entry_id, time, reason, text = row
    return QuarantinedEntry(entry_id, time.astimezone(UTC), reason, text)


def event_object(row: LogRow) -> dict[str, Any]:
    """An event as ``insert:events`` reads it."""
    return {
        "id": row.event_id,
        "tenant_id": row.tenant_id,
        "destination_id": row.event_destination_id,
        "matched_destination_ids": row.matched_destination_ids,
        "time": _iso(row.event_time),
        "topic": row.event_topic,
        "eligible_for_retry": row.eligible_for_retry,
        "data": f"\\x{row.data.hex()}",
        "metadata": row.metadata,
    }


def attempt_object(row: LogRow) -> dict[str, Any]:
    """An attempt with its event, as ``insert:attempts`` reads it; nulls are those of ``attempt_lines``."""
    only = [row.destination_id]
    return {
        "id": row.attempt_id,
        "event_id": row.event_id,
        "tenant_id": row.tenant_id,
        "destination_id": row.destination_id,
        "destination_type": row.destination_type,
        "topic": row.topic,
        "status": row.status,
        "time": _iso(row.time),
        "attempt_number": row.attempt_number,
        "manual": row.manual,
        "code": row.code,
        "response_data": row.response_data,
        "event_time": _iso(row.event_time),
        "eligible_for_retry": row.eligible_for_retry,
        "event_data": f"\\x{row.data.hex()}",
        "event_metadata": row.metadata,
        "event_topic": None if row.event_topic == row.topic else row.event_topic,
        "event_destination_id": None if row.event_destination_id == row.destination_id else row.event_destination_id,
        "event_matched_destination_ids": None if row.matched_destination_ids == only else row.matched_destination_ids,
    }
