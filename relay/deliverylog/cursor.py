"""Cursors: where a page ended, as opaque base62 text that carries neither tenant nor filter.

Version 1, ``{evt|att}v01:{unix_ms}::{id}``, is the published one and orders by (time, id). Version 2 belongs to
attempts sorted by their event's time and names that order:
``attv02:v1:event_time:{asc|desc}:{event_ms}::{event_id}::{delivery_ms}::{attempt_id}``, with ``%`` and ``:`` inside
the ids percent-encoded.

In an operator's view two tenants may own rows of one time and one id. Where a page ends between such twins, and only
there, the last id is followed by NUL and the tenant (ids hold no NUL); otherwise the next page would skip one twin.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

from relay.deliverylog.errors import InvalidCursor, VersionMismatch
from relay.deliverylog.times import from_ms

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
EVENTS = "evt"
ATTEMPTS = "att"
BY_TIME = 1
BY_EVENT_TIME = 2

_NUL = "the cursor's position holds a NUL; pass on what an earlier page returned, unchanged"
_VALUE = {letter: value for value, letter in enumerate(ALPHABET)}
_LONGEST = 12_000  # characters; the longest ids, percent-encoded, stay well below
_HEAD = re.compile(r"(evt|att)v([0-9]{2}):(.*)", re.DOTALL)
_MILLISECONDS = re.compile(r"-?[0-9]{1,15}")
_VERSIONS = {EVENTS: (BY_TIME,), ATTEMPTS: (BY_TIME, BY_EVENT_TIME)}


class Position(NamedTuple):
    """Between which rows a page begins: right after (or before) the row with these values.

    ``event_ms`` and ``event_id`` count only for attempts sorted by event time. ``tenant_id`` is None where the
    row's time and id are unique.
    """

    ms: int
    id: str
    tenant_id: str | None = None
    event_ms: int = 0
    event_id: str = ""


def base62(text: str) -> str:
    """The UTF-8 bytes of ``text``, as one big-endian integer, in base 62."""
    number = int.from_bytes(text.encode("utf-8"), "big")
    letters = []
    while number:
        number, rest = divmod(number, 62)
        letters.append(ALPHABET[rest])
    return "".join(reversed(letters)) or ALPHABET[0]


def unbase62(cursor: str) -> str:
    """The inverse of ``base62``. Raises InvalidCursor for text that ``base62`` does not return."""
    if not cursor or len(cursor) > _LONGEST:
        raise InvalidCursor("the cursor is empty or too long; pass on what an earlier page returned, unchanged")
    number = 0
    for letter in cursor:
        if letter not in _VALUE:
            raise InvalidCursor(f"the cursor holds {letter!r}, which base62 does not have; pass it on unchanged")
        number = number * 62 + _VALUE[letter]
    try:
        return number.to_bytes((number.bit_length() + 7) // 8, "big").decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidCursor("the cursor does not decode to text; pass on what a page returned, unchanged") from error


def encode(resource: str, position: Position, *, version: int = BY_TIME, order: str = "desc") -> str:
    """The cursor of a position."""
    last = position.id if position.tenant_id is None else f"{position.id}\x00{position.tenant_id}"
    if version == BY_TIME:
        return base62(f"{resource}v01:{position.ms}::{last}")
    return base62(
        f"{resource}v02:v1:event_time:{order}:"
        f"{position.event_ms}::{_escaped(position.event_id)}::{position.ms}::{_escaped(last)}"
    )


def decode(cursor: str, resource: str, *, version: int = BY_TIME, order: str = "desc") -> Position:
    """The position of a cursor of this resource, sort and order.

    Raises InvalidCursor for text that is no cursor, VersionMismatch for an unknown version.
    """
    match = _HEAD.fullmatch(unbase62(cursor))
    if match is None:
        raise InvalidCursor("the cursor is not one of this log's; pass on what an earlier page returned, unchanged")
    owner, number, rest = match.group(1), int(match.group(2)), match.group(3)
    if owner != resource:
        raise InvalidCursor(f"the cursor belongs to a listing of {owner!r}, this one lists {resource!r}")
    if number not in _VERSIONS[resource]:
        known = " or ".join(f"v{known:02d}" for known in _VERSIONS[resource])
        raise VersionMismatch(f"the cursor has version v{number:02d}; expected {known}: begin again at the first page")
    if number != version:
        raise InvalidCursor("the cursor belongs to another sort_by than this query's; begin again at the first page")
    return _by_time(rest) if version == BY_TIME else _by_event_time(rest, order)


def _by_time(text: str) -> Position:
    milliseconds, separator, last = text.partition("::")
    if not separator:
        raise InvalidCursor("the cursor's position is not a time and an id; pass it on unchanged")
    return _position(milliseconds, last)


def _by_event_time(text: str, order: str) -> Position:
    head, separator, rest = text.partition(f"v1:event_time:{order}:")
    fields = rest.split("::")
    if head or not separator or len(fields) != 4:
        raise InvalidCursor(f"the cursor does not name the order event_time {order}; begin again at the first page")
    event_ms, event_id, milliseconds, last = fields
    position = _position(milliseconds, unquote(last))
    if "\x00" in unquote(event_id):
        raise InvalidCursor(_NUL)
    return position._replace(event_ms=_milliseconds(event_ms), event_id=unquote(event_id))


def _position(milliseconds: str, last: str) -> Position:
    row_id, separator, tenant_id = last.partition("\x00")
    if "\x00" in tenant_id:
        raise InvalidCursor(_NUL)
    return Position(_milliseconds(milliseconds), row_id, tenant_id if separator else None)


def _milliseconds(text: str) -> int:
    if not _MILLISECONDS.fullmatch(text):
        raise InvalidCursor("the cursor's time is not a number of milliseconds; pass it on unchanged")
    try:
        from_ms(int(text))
    except OverflowError as error:
        raise InvalidCursor("the cursor's time is outside the calendar; pass it on unchanged") from error
    return int(text)


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace(":", "%3A")
