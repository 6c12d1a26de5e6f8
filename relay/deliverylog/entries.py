"""From the entries of a caller to the rows that a driver writes: floored, checked, and without duplicates.

One bad entry never blocks its batch: an entry that no driver can store is returned as ``Rejected`` with the reason.
The tenant and the event id of an attempt are its event's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import zip_longest
from typing import Any, NamedTuple

from relay.deliverylog.paging import storable
from relay.deliverylog.records import LogEntry, LoggedAttempt, LoggedEvent
from relay.deliverylog.times import EARLIEST, LATEST, whole_millisecond

LONGEST_KEY = 800
"""Bytes of an id, tenant, destination, destination type, topic or code: three must fit one PostgreSQL index row."""

DEEPEST = 64
"""Levels of response data, itself the first: a reader of any language must be able to parse it."""

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_SCALARS = frozenset((str, int, float, bool, type(None)))
_HIGHEST_NUMBER = 2**31 - 1
_KEYS = (
    "event id",
    "tenant_id",
    "event destination_id",
    "event topic",
    "attempt id",
    "destination_id",
    "destination_type",
    "topic",
)
"""What ``_keys`` returns first, for messages."""


class LogRow(NamedTuple):
    """An entry in the form that every driver writes: checked, one value for each column.

    Times are in UTC and floored to milliseconds. The tenant and the event id are the event's. ``data`` is the event's
    payload; ``metadata`` and ``response_data`` are JSON.
    """

    event_id: str
    tenant_id: str
    destination_id: str
    topic: str
    eligible_for_retry: bool
    event_time: datetime
    metadata: str
    data: bytes
    attempt_id: str
    status: str
    time: datetime
    code: str | None
    response_data: str | None
    attempt_number: int
    manual: bool
    destination_type: str
    event_topic: str
    event_destination_id: str
    matched_destination_ids: list[str]


class Rejected(NamedTuple):
    """An entry that is quarantined, and why."""

    entry: LogEntry
    reason: str


def prepare(entries: Sequence[LogEntry]) -> tuple[list[LogRow], list[Rejected]]:
    """Return the rows of the entries, only the last copy of each attempt, and the entries that no driver can store."""
    rows: dict[tuple[str, datetime, str], LogRow] = {}
    rejected: list[Rejected] = []
    for entry in entries:
        try:
            row = _row(entry)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            rejected.append(Rejected(entry, str(error)))
            continue
        key = (row.tenant_id, row.time, row.attempt_id)
        rows.pop(key, None)  # so that the last copy is also in the last place
        rows[key] = row
    return list(rows.values()), rejected


def last_events(batch: Sequence[LogRow]) -> list[LogRow]:
    """Return one row for each event of a batch: that with its last copy."""
    return list({(row.tenant_id, row.event_time, row.event_id): row for row in batch}.values())


def entry_of(row: LogRow) -> LogEntry:
    """Return the entry of a row, as a reader receives it."""
    event = LoggedEvent(
        id=row.event_id,
        tenant_id=row.tenant_id,
        destination_id=row.event_destination_id,
        matched_destination_ids=row.matched_destination_ids,
        time=row.event_time,
        topic=row.event_topic,
        eligible_for_retry=row.eligible_for_retry,
        data=row.data,
        metadata=json.loads(row.metadata),
    )
    attempt = LoggedAttempt(
        id=row.attempt_id,
        event_id=row.event_id,
        tenant_id=row.tenant_id,
        destination_id=row.destination_id,
        destination_type=row.destination_type,
        topic=row.topic,
        status=row.status,
        time=row.time,
        attempt_number=row.attempt_number,
        manual=row.manual,
        code=row.code,
        response_data=None if row.response_data is None else json.loads(row.response_data),
    )
    return LogEntry(event, attempt)


def _row(entry: LogEntry) -> LogRow:
    event, attempt = entry.event, entry.attempt
    _check(event, attempt)
    event_time, time = whole_millisecond(event.time), whole_millisecond(attempt.time)  # in UTC since they were created
    if not EARLIEST <= min(event_time, time) <= max(event_time, time) <= LATEST:
        raise ValueError(f"a time lies outside {EARLIEST:%Y}..{LATEST:%Y}")
    return LogRow(
        event.id,
        event.tenant_id,
        attempt.destination_id,
        attempt.topic,
        event.eligible_for_retry,
        event_time,
        _metadata(event.metadata) if event.metadata else "{}",
        bytes(event.data),
        attempt.id,
        attempt.status,
        time,
        _code(attempt.code),
        None if attempt.response_data is None else _json(attempt.response_data),
        attempt.attempt_number,
        attempt.manual,
        attempt.destination_type,
        event.topic,
        event.destination_id,
        event.matched_destination_ids,
    )


def _code(code: str | None) -> str | None:
    """A code as it is stored: cut to what an index row allows, by every driver alike."""
    if code is None or len(code) * 4 <= LONGEST_KEY:
        return code
    return code.encode()[:LONGEST_KEY].decode(errors="ignore")


def _check(event: LoggedEvent, attempt: LoggedAttempt) -> None:
    """Raise ValueError or TypeError for texts, numbers and data that no driver can store."""
    if not _all_short_ascii(event, attempt):
        _check_keys(event, attempt)
    if type(attempt.attempt_number) is not int or not 0 <= attempt.attempt_number <= _HIGHEST_NUMBER:
        raise ValueError(f"attempt_number is {attempt.attempt_number!r}")
    if not isinstance(event.data, (bytes, bytearray, memoryview)):
        raise TypeError("data is not bytes")


def _all_short_ascii(event: LoggedEvent, attempt: LoggedAttempt) -> bool:
    """Whether the keys and the code are texts that need no closer look: this is on the path of every attempt."""
    try:
        together = "".join(_keys(event, attempt)) + (attempt.code or "")
    except TypeError:
        return False
    return len(together) <= LONGEST_KEY and together.isascii() and "\x00" not in together


def _check_keys(event: LoggedEvent, attempt: LoggedAttempt) -> None:
    for what, text in zip_longest(_KEYS, _keys(event, attempt), fillvalue="matched destination"):
        _check_text(what, text)
        if len(text) * 4 > LONGEST_KEY and len(text.encode()) > LONGEST_KEY:
            raise ValueError(f"{what} is longer than {LONGEST_KEY} bytes")
    if attempt.code is not None:
        _check_text("code", attempt.code)


def _keys(event: LoggedEvent, attempt: LoggedAttempt) -> tuple[str, ...]:
    return (
        event.id,
        event.tenant_id,
        event.destination_id,
        event.topic,
        attempt.id,
        attempt.destination_id,
        attempt.destination_type,
        attempt.topic,
        *event.matched_destination_ids,
    )


def _check_text(what: str, text: str) -> None:
    if not isinstance(text, str):
        raise TypeError(f"{what} is {type(text).__name__}, not text")
    if (not text.isascii() or "\x00" in text) and not storable(text):
        raise ValueError(f"{what} holds a NUL or is not valid UTF-8")


def _metadata(metadata: Mapping[str, str]) -> str:
    try:
        together = "".join((*metadata, *metadata.values()))
    except TypeError:
        together = "\x00"
    if not together.isascii() or "\x00" in together:
        for name, value in metadata.items():
            _check_text("a metadata name", name)
            _check_text(f"metadata {name!r}", value)
    return _encode(metadata)


def _json(value: Mapping[str, Any]) -> str:
    if type(value) is not dict or not _SCALARS.issuperset(map(type, value.values())):
        check_depth(value)
    text = _encode(value)
    if "\\u0000" in text or not text.isascii():
        _check_json(value)
    return text


def check_depth(value: object) -> None:
    """Raise ValueError for containers in more than ``DEEPEST`` levels; without recursion."""
    level = 0
    layer: list[Any] = [] if value is None else [value]
    while layer:
        level += 1
        if level > DEEPEST:
            raise ValueError(f"response_data is nested deeper than {DEEPEST} levels")
        members = [list(one.values()) if isinstance(one, dict) else one for one in layer]
        inner = [member for several in members for member in several if isinstance(member, (dict, list, tuple))]
        layer = list({id(member): member for member in inner}.values())  # a cycle has no end, but few members


def _check_json(value: object) -> None:
    """Raise unless every text in a JSON value can be stored."""
    rest: list[object] = [value]
    while rest:
        match rest.pop():
            case str(text):
                _check_text("response_data", text)
            case dict(members):
                rest.extend(members.keys())
                rest.extend(members.values())
            case list(items) | tuple(items):
                rest.extend(items)
