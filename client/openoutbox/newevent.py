"""The event as an application announces it, checked at its construction.

Whatever the database would refuse is refused here, by name, before the application's transaction is touched: a
failed INSERT would take that whole transaction with it.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import Final
from uuid import UUID, uuid5

from openoutbox.errors import EventError
from openoutbox.identity import uuid7

Payload = bytes | bytearray | memoryview | str | Mapping[str, object] | Sequence[object] | int | float
"""The types of a body: bytes as they are, text as UTF-8, anything else as JSON."""

LONGEST_DELAY: Final = timedelta(days=36_525)
"""A hundred years: beyond it, it is a mistake."""

LONG_HOLD: Final = timedelta(hours=1)
"""What is held back longer with a partition key is warned about, once for each type: its key may wait for it."""

_log: Final = logging.getLogger("openoutbox")
_UNIQUE: Final = UUID("6f6f7574-626f-5478-8000-756e69717565")
"""The namespace of ids that are derived from a text (RFC 9562, version 5)."""
_NO_ID: Final = UUID(int=0)

_ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to send once the application's transaction has committed.

    Made once and checked once: what is sent is in ``body`` and ``headers_json``, and later changes to the objects
    handed in change nothing. Raises ``EventError``, naming the field, for anything that no outbox row can hold.
    The payload and the headers are not part of ``repr``: they may be confidential.
    """

    event_type: str
    """Where it goes: Kafka topic, NATS subject or Redis stream, for example ``user.signup``."""
    payload: Payload = field(repr=False, compare=False)
    """The body: bytes as they are, text as UTF-8, anything else as compact JSON. Not None: say ``b""`` or
    ``b"null"``."""
    partition_key: str | None = None
    """What belongs together and is to stay in order: the Kafka message key."""
    headers: Mapping[str, object] = field(default_factory=dict, repr=False, compare=False)
    """Metadata for the consumer. Values that are no strings arrive as their JSON text."""
    event_id: UUID = _NO_ID
    """The identity by which consumers drop duplicates; a new UUIDv7 by default. Give one to make a repeated insert
    harmless."""
    delay: timedelta | None = None
    """Hold the event back this long, counted by the database from the start of the transaction.

    With ``ORDERING=key`` the later events of its key wait for it, too: more than an hour together with a
    ``partition_key`` is warned about in the log. ``openoutbox_cancel`` of the SQL functions takes an event back."""
    available_at: datetime | None = None
    """Hold the event back until this time, which must have a time zone. Not together with ``delay``."""
    body: bytes = field(init=False, repr=False)
    """The bytes of the ``payload`` column."""
    headers_json: str = field(init=False, repr=False)
    """The JSON text of the ``headers`` column."""
    unique: InitVar[str | None] = None
    """What makes it one event, such as ``order-7/placed``: the same text gives the same ``event_id``, so that a
    repeated call announces nothing twice. Not together with ``event_id``. All writers of a table share the texts."""

    def __post_init__(self, unique: str | None) -> None:
        _check_text("event_type", self.event_type)
        if not self.event_type:
            raise EventError("event_type: empty; it names the topic, subject or stream")
        if self.partition_key is not None:
            _check_text("partition_key", self.partition_key)
        if self.delay is not None or self.available_at is not None:
            object.__setattr__(self, "available_at", _checked_times(self.delay, self.available_at))
            if self.partition_key is not None and _held_for(self.delay, self.available_at) > LONG_HOLD:
                _warn_of_hold(self.event_type)
        object.__setattr__(self, "event_id", _event_id(self.event_id, unique))
        object.__setattr__(self, "body", _body(self.payload))
        object.__setattr__(self, "headers_json", _headers_json(self.headers))


def _event_id(value: object, unique: object) -> UUID:
    """The UUID that ``value`` is or spells (there are other classes of UUIDs); else one of ``unique``, or a new one."""
    if value is _NO_ID and unique is None:
        return uuid7()
    if unique is not None:
        if value is not _NO_ID:
            raise EventError("unique: set together with event_id; set one of them")
        _check_text("unique", unique)
        return uuid5(_UNIQUE, str(unique))
    if isinstance(value, UUID):
        return value
    try:
        return UUID(str(value))
    except ValueError:
        raise EventError(f"event_id: {value!r} is not a UUID") from None


def _body(payload: object) -> bytes:
    if isinstance(payload, bytes):
        return payload
    if isinstance(payload, bytearray | memoryview):
        return bytes(payload)
    if payload is None:
        raise EventError('payload: None; pass b"" for an empty body or b"null" for JSON\'s null')
    return _utf8("payload", payload if isinstance(payload, str) else json_text("payload", payload))


def _headers_json(headers: object) -> str:
    if not isinstance(headers, Mapping):
        raise EventError(f"headers: a {type(headers).__name__}; pass a mapping of names to values")
    if not headers:
        return "{}"
    strangers = [name for name in headers if not isinstance(name, str)]
    if strangers:
        raise EventError(f"headers: the name {strangers[0]!r} is not a string")
    text = json_text("headers", dict(headers))
    if "\\u0000" in text and _ESCAPED_NUL.search(text):
        raise EventError("headers: a NUL character, which PostgreSQL cannot store")
    _utf8("headers", text)
    return text


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise EventError(f"{name}: a {type(value).__name__}; pass a string")
    if "\x00" in value:
        raise EventError(f"{name}: a NUL character, which PostgreSQL cannot store")
    if not value.isascii():
        _utf8(name, value)


def _checked_times(delay: object, available_at: object) -> datetime | None:
    """``available_at`` in UTC, which every driver can send."""
    if delay is not None and available_at is not None:
        raise EventError("delay: set together with available_at; set one of them")
    if delay is not None:
        _check_delay(delay)
    return None if available_at is None else _in_utc(available_at)


def _held_for(delay: timedelta | None, available_at: datetime | None) -> timedelta:
    if delay is not None:
        return delay
    return timedelta() if available_at is None else available_at - datetime.now(UTC)


@lru_cache(maxsize=256)
def _warn_of_hold(event_type: str) -> None:
    """Once for each type: a warning for each event would fill the log of an application that does it on purpose."""
    _log.warning(
        "event type %.200s: delayed by more than an hour with a partition_key. Where the relays run with ORDERING=key, "
        "all later events of its key wait for it. Leave the key out, or take the event back in time: "
        "SELECT openoutbox_cancel(event_id)",
        event_type,
    )


def _check_delay(delay: object) -> None:
    if not isinstance(delay, timedelta):
        raise EventError(f"delay: a {type(delay).__name__}; pass a datetime.timedelta")
    if delay < timedelta():
        raise EventError(f"delay: {delay} is negative")
    if delay > LONGEST_DELAY:
        raise EventError(f"delay: {delay} is longer than a hundred years")


def _in_utc(available_at: object) -> datetime:
    if not isinstance(available_at, datetime):
        raise EventError(f"available_at: a {type(available_at).__name__}; pass a datetime.datetime")
    if available_at.utcoffset() is None:
        raise EventError("available_at: no time zone; pass for example datetime.now(UTC), a naive time is ambiguous")
    try:
        return available_at.astimezone(UTC)
    except OverflowError:
        raise EventError(f"available_at: {available_at} is outside the years 1 to 9999 in UTC") from None


def json_text(name: str, value: object, other: Callable[[object], object] | None = None) -> str:
    """Compact JSON; ``Mapping`` and ``Sequence`` of any class count as object and array.

    ``other`` says what any other value becomes. Raises EventError that names the field.
    """
    encoder = _ENCODER if other is None else _encoder(partial(_plain, other=other))
    try:
        text = encoder.encode(value)
        _check_names(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise EventError(f"{name}: cannot be written as JSON: {error}") from None
    return text


def _check_names(value: object) -> None:
    """Raise ValueError for a mapping with two names of one JSON form, ``1`` and ``"1"``: readers keep one of them."""
    if type(value) is dict or isinstance(value, Mapping):  # an abstract class is slow to ask
        if not _TEXT.issuperset(map(type, value)):
            names = [name if isinstance(name, str) else _ENCODER.encode(name) for name in value]
            if len(set(names)) < len(names):
                raise ValueError("two names of one object have the same JSON form")
        parts: Iterable[object] = value.values()
    elif type(value) is list or (isinstance(value, Sequence) and not isinstance(value, str)):
        parts = value
    else:
        return
    for part in parts:
        if type(part) not in _SCALARS:
            _check_names(part)


_TEXT: Final = frozenset({str})
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


def _no_form(value: object) -> object:
    raise TypeError(f"a {type(value).__name__} has no JSON form; convert it first")


def _plain(value: object, other: Callable[[object], object] = _no_form) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return list(value)
    return other(value)


def _encoder(default: Callable[[object], object]) -> json.JSONEncoder:
    return json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=default)


_ENCODER: Final = _encoder(_plain)


def _utf8(name: str, text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise EventError(f"{name}: a lone surrogate, which has no UTF-8 form") from None
