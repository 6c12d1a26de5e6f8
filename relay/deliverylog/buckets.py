"""Time buckets in UTC: seconds to days count from 1970-01-01, weeks from Sunday 1970-01-04, months from January 1970.

The one place that knows where a bucket begins: drivers get the first slot and a width, or for months, which have no
fixed width, the list of slots.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from relay.deliverylog.errors import InvalidQuery, InvalidTimeRange, ResourceLimit
from relay.deliverylog.query import Granularity
from relay.deliverylog.times import from_ms, to_ms

_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_MOST = {"s": 60, "m": 60, "h": 24, "d": 31, "w": 4, "M": 12}
_FIRST_SUNDAY_MS = 3 * 86_400_000

ROW_LIMIT = 100_000


@dataclass(frozen=True, slots=True)
class Slots:
    """The buckets of a range: where each begins, and where the last one ends (milliseconds since 1970)."""

    begins: Sequence[int]
    end: int
    width: int | None
    """Milliseconds; None for months."""

    def slot(self, milliseconds: int) -> int:
        """The begin of the bucket that holds an instant of the range."""
        if self.width is not None:
            return milliseconds - (milliseconds - self.begins[0]) % self.width
        return self.begins[bisect_right(self.begins, milliseconds) - 1]

    def seconds(self, index: int) -> float:
        """How long the ``index``-th bucket is."""
        following = self.begins[index + 1] if index + 1 < len(self.begins) else self.end
        return (following - self.begins[index]) / 1000


def slots(start: datetime, end: datetime, granularity: Granularity) -> Slots:
    """Every bucket from truncate(start) up to end.

    Raises InvalidQuery for an unknown granularity, ResourceLimit for more than ``ROW_LIMIT`` buckets, and
    InvalidTimeRange when the first bucket begins, or the last month ends, beyond the years 1 to 9999.
    """
    unit, value = granularity.unit, granularity.value
    most = _MOST.get(unit)
    if most is None or not 1 <= value <= most:
        choices = ", ".join(f"1..{most}{unit}" for unit, most in _MOST.items())
        raise InvalidQuery(f"unknown granularity {value!r}{unit}; choose from {choices}")
    try:
        buckets = _months(start, end, value) if unit == "M" else _uniform(start, end, _UNIT_MS[unit] * value, unit)
        from_ms(buckets.begins[0])
    except (OverflowError, ValueError) as error:
        raise InvalidTimeRange(
            f"the first or last bucket of {value}{unit} between {start.isoformat()} and {end.isoformat()} is outside "
            "the calendar; choose a range within the years 2 to 9998"
        ) from error
    return buckets


def _uniform(start: datetime, end: datetime, width: int, unit: str) -> Slots:
    origin = _FIRST_SUNDAY_MS if unit == "w" else 0
    first = to_ms(start) - (to_ms(start) - origin) % width
    count = -(-(to_ms(end) - first) // width)
    _check(count)
    return Slots(range(first, first + count * width, width), first + count * width, width)


def _months(start: datetime, end: datetime, value: int) -> Slots:
    index = _month_index(start) // value * value
    last = _month_index(end)
    _check((last - index) // value + 1)
    begins = []
    while _month_ms(index) < to_ms(end):
        begins.append(_month_ms(index))
        index += value
    return Slots(begins, _month_ms(index), None)


def _check(count: int) -> None:
    if count > ROW_LIMIT:
        raise ResourceLimit(
            f"{count} buckets are more than the {ROW_LIMIT} rows of an answer; "
            "choose a coarser granularity or a shorter range"
        )


def _month_index(time: datetime) -> int:
    return (time.year - 1970) * 12 + time.month - 1


def _month_ms(index: int) -> int:
    return to_ms(datetime(1970 + index // 12, index % 12 + 1, 1, tzinfo=UTC))
