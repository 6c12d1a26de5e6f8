"""Between rows of the log and PostgreSQL: the parameter of a batch, and objects from selected columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from relay.deliverylog.entries import LogRow
from relay.deliverylog.quarantine import QuarantinedEntry
from relay.deliverylog.records import AttemptRecord, LoggedAttempt, LoggedEvent
from relay.postgres.codec import encode_json, text_array

_ENCODED_AT_ONCE = 50  # rows
# The columns of a row as texts, in the order of COPY. The payload is the last one and apart, so that the others are
# searched for special characters at once.
_EVENT = "id tenant_id destination_id matched_destination_ids time topic eligible_for_retry metadata data".split(" ")  # noqa: SIM905
_ATTEMPT = (  # noqa: SIM905
    "id event_id tenant_id destination_id destination_type topic status time attempt_number manual code response_data "
    "event_time eligible_for_retry event_metadata event_topic event_destination_id event_matched_destination_ids "
    "event_data"
).split(" ")
_Values = Callable[[LogRow], tuple[str | None, ...]]
_iso = lru_cache(4096)(datetime.isoformat)  # an event's time is written into three tables
# COPY's text format. _NULL, which no stored text has, stands for NULL until it is known that nothing needs an escape.
_NULL = "\x00"
_SPECIAL = re.compile(r"[\\\n\r]")
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def portions(batch: Sequence[LogRow]) -> Iterator[Sequence[LogRow]]:
    """A batch in parts to encode: while the encoder runs, no other thread does, such as the engine's."""
    return (batch[start : start + _ENCODED_AT_ONCE] for start in range(0, len(batch), _ENCODED_AT_ONCE))


def document(batch: Sequence[LogRow], columns: Callable[[LogRow], dict[str, str | None]]) -> str:
    """A JSON array of the rows."""
    return f"[{','.join([encode_json(list(map(columns, portion)))[1:-1] for portion in portions(batch)])}]"


def event_lines(batch: Iterable[LogRow]) -> str:
    """Events as the lines that ``insert:new_events`` copies."""
    return _lines(batch, _event_values)


def event_object(row: LogRow) -> dict[str, str | None]:
    """An event as ``insert:events`` reads it."""
    return _object(row, _EVENT, _event_values)


def link_lines(batch: Iterable[LogRow]) -> str:
    """The destinations that events matched, as the lines that ``insert:new_links`` copies."""
    lines = [
        _copy_line((row.tenant_id, matched, _iso(row.event_time), row.event_id))
        for row in batch
        for matched in dict.fromkeys(row.matched_destination_ids)
    ]
    return "".join([f"{line}\n" for line in lines])


def attempt_lines(batch: Iterable[LogRow]) -> str:
    """Attempts with their events, as the lines that ``insert:new_attempts`` copies."""
    return _lines(batch, _attempt_values)


def attempt_object(row: LogRow) -> dict[str, str | None]:
    """An attempt with its event, as ``insert:attempts`` reads it."""
    return _object(row, _ATTEMPT, _attempt_values)


def _event_values(row: LogRow) -> tuple[str | None, ...]:
    return (
        row.event_id,
        row.tenant_id,
        row.event_destination_id,
        text_array(row.matched_destination_ids),
        _iso(row.event_time),
        row.event_topic,
        "t" if row.eligible_for_retry else "f",
        row.metadata,
    )


def _attempt_values(row: LogRow) -> tuple[str | None, ...]:
    """A column of the event is NULL where it equals the attempt's own."""
    only = row.matched_destination_ids == [row.destination_id]
    return (
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


def _lines(batch: Iterable[LogRow], values: _Values) -> str:
    return "".join([f"{_copy_line(values(row))}\t\\\\x{row.data.hex()}\n" for row in batch])


def _object(row: LogRow, names: Sequence[str], values: _Values) -> dict[str, str | None]:
    return dict(zip(names, (*values(row), f"\\x{row.data.hex()}"), strict=True))


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
