"""Times of the delivery log: always with a zone, kept in UTC, floored to whole milliseconds.

Cursors count in milliseconds, so every time that enters the log, in a row or in a query, is floored to them;
otherwise rows less than a millisecond apart would be skipped or repeated at a page's edge. Integer arithmetic
only: a float on the way is wrong for about one instant in a hundred.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from openoutbox.identity import uuid7_milliseconds
from relay.deliverylog.errors import InvalidTimeRange

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_NEAR = timedelta(days=1)

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(2261, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)
"""The range of times that every driver can store."""
BEFORE_ALL = EARLIEST - _MILLISECOND
AFTER_ALL = LATEST + _MILLISECOND


def utc(time: datetime, what: str) -> datetime:
    """The same instant in UTC. Raises InvalidTimeRange, naming ``what``, for a time without a zone."""
    if time.tzinfo is UTC:
        return time  # every time of the relay's own; this is on the path of every attempt
    if time.tzinfo is None or time.utcoffset() is None:
        raise InvalidTimeRange(f"{what} {time.isoformat()} has no time zone; say which, for example +00:00")
    try:
        return time.astimezone(UTC)
    except OverflowError as error:
        raise InvalidTimeRange(f"{what} {time.isoformat()} is outside the calendar") from error


def floored(time: datetime, what: str = "time") -> datetime:
    """The same instant in UTC, floored to its millisecond. Raises InvalidTimeRange for a time without a zone."""
    return whole_millisecond(utc(time, what))


def whole_millisecond(time: datetime) -> datetime:
    """A time that is in UTC already, floored to its millisecond."""
    if time.microsecond % 1000 == 0:
        return time
    return time.replace(microsecond=time.microsecond // 1000 * 1000)


def to_ms(time: datetime) -> int:
    """Whole milliseconds since 1970, floored."""
    return (time - EPOCH) // _MILLISECOND


def from_ms(milliseconds: int) -> datetime:
    """The instant that many milliseconds after 1970. Raises OverflowError beyond the years 1 to 9999."""
    return EPOCH + timedelta(milliseconds=milliseconds)


def clamped(time: datetime) -> datetime:
    """A bound moved to just outside the range of rows: every comparison with a row keeps its result."""
    return min(max(time, BEFORE_ALL), AFTER_ALL)


def time_near(text: str) -> tuple[datetime, datetime] | None:
    """A window of two days around the time that a time-ordered id (UUIDv7) holds; None for any other id."""
    try:
        milliseconds = uuid7_milliseconds(UUID(text))
        if milliseconds is None:
            return None
        time = from_ms(milliseconds)
        return time - _NEAR, time + _NEAR
    except (ValueError, OverflowError):
        return None
