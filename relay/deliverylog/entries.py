"""From what a caller hands in to what a driver can write: floored, checked, and free of duplicates.

One bad entry never blocks its batch: what no store could keep comes back as ``Rejected`` with the reason. The tenant
and the event id of an attempt are its event's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from relay.deliverylog.model import LogEntry, LoggedAttempt, LoggedEvent
from relay.deliverylog.paging import storable
from relay.deliverylog.times import EARLIEST, LATEST, floored

LONGEST_KEY = 800
"""Bytes of an id, tenant, destination, destination type or topic: three of them must fit one PostgreSQL index row."""

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_HIGHEST_NUMBER = 2**31 - 1


class Prepared(NamedTuple):
    """An entry that can be written: times in UTC and floored, maps as JSON text beside it."""

    event: LoggedEvent
    attempt: LoggedAttempt
    metadata: str
    response: str | None


class Rejected(NamedTuple):
    """An entry that is set aside, and why."""

    entry: LogEntry
    reason: str


def prepare(entries: Sequence[LogEntry]) -> tuple[list[Prepared], list[Rejected]]:
    """What can be written, the last copy of each attempt only, and what cannot."""
    attempts: dict[tuple[str, object, str], Prepared] = {}
    rejected: list[Rejected] = []
    for entry in entries:
        try:
            prepared = _prepared(entry)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            rejected.append(Rejected(entry, str(error)))
            continue
        attempt = prepared.attempt
        key = (attempt.tenant_id, attempt.time, attempt.id)
        attempts.pop(key, None)  # so that the last copy also stands last
        attempts[key] = prepared
    return list(attempts.values()), rejected


def last_events(batch: Sequence[Prepared]) -> list[Prepared]:
    """One entry for each event of a batch: that with its last copy."""
    return list({(one.event.tenant_id, one.event.time, one.event.id): one for one in batch}.values())


def as_text(entry: LogEntry) -> str:
    """An entry as ASCII JSON, whatever is in it, for a person to look at."""
    event, attempt = entry.event, entry.attempt
    fields = {
        "event": {name: getattr(event, name) for name in LoggedEvent.__slots__},
        "attempt": {name: getattr(attempt, name) for name in LoggedAttempt.__slots__},
    }
    try:
        return json.dumps(fields, default=repr)
    except (ValueError, TypeError, RecursionError):
        return json.dumps(repr(entry)[:10_000])


def _prepared(entry: LogEntry) -> Prepared:
    event, attempt = entry.event, entry.attempt
    for what, text in _keys(event, attempt):
        _check_text(what, text)
        if len(text) * 4 > LONGEST_KEY and len(text.encode()) > LONGEST_KEY:
            raise ValueError(f"{what} is longer than {LONGEST_KEY} bytes")
    if attempt.code is not None:
        _check_text("code", attempt.code)
    if type(attempt.attempt_number) is not int or not 0 <= attempt.attempt_number <= _HIGHEST_NUMBER:
        raise ValueError(f"attempt_number is {attempt.attempt_number!r}")
    if not isinstance(event.data, (bytes, bytearray, memoryview)):
        raise TypeError("data is not bytes")
    times = floored(event.time), floored(attempt.time)
    if not EARLIEST <= min(times) <= max(times) <= LATEST:
        raise ValueError(f"a time lies outside {EARLIEST:%Y}..{LATEST:%Y}")
    metadata = _metadata(event.metadata) if event.metadata else "{}"
    response = None if attempt.response_data is None else _json(attempt.response_data)
    return Prepared(_event(event, times[0]), _attempt(attempt, event, times[1]), metadata, response)


def _event(event: LoggedEvent, time: datetime) -> LoggedEvent:
    """The event as it is kept; itself, in the common case that nothing changes."""
    if event.time == time and type(event.data) is bytes:
        return event
    return replace(event, time=time, data=bytes(event.data))


def _attempt(attempt: LoggedAttempt, event: LoggedEvent, time: datetime) -> LoggedAttempt:
    if (attempt.time, attempt.tenant_id, attempt.event_id) == (time, event.tenant_id, event.id):
        return attempt
    return replace(attempt, time=time, tenant_id=event.tenant_id, event_id=event.id)


def _keys(event: LoggedEvent, attempt: LoggedAttempt) -> list[tuple[str, str]]:
    keys = [
        ("event id", event.id),
        ("tenant_id", event.tenant_id),
        ("event destination_id", event.destination_id),
        ("event topic", event.topic),
        ("attempt id", attempt.id),
        ("destination_id", attempt.destination_id),
        ("destination_type", attempt.destination_type),
        ("topic", attempt.topic),
    ]
    keys.extend(("matched destination", matched) for matched in event.matched_destination_ids)
    return keys


def _check_text(what: str, text: str) -> None:
    if not isinstance(text, str):
        raise TypeError(f"{what} is {type(text).__name__}, not text")
    if (not text.isascii() or "\x00" in text) and not storable(text):
        raise ValueError(f"{what} holds a NUL or is not valid UTF-8")


def _metadata(metadata: Mapping[str, str]) -> str:
    for name, value in metadata.items():
        _check_text("a metadata name", name)
        _check_text(f"metadata {name!r}", value)
    return _json(metadata)


def _json(value: Mapping[str, Any]) -> str:
    text = _encode(value)
    if "\\u0000" in text or not text.isascii():
        _check_json(value)
    return text


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
