"""Where every bucket of every granularity begins, against walking there; and what there is no bucket for."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from relay.deliverylog import Granularity, InvalidQuery
from relay.deliverylog.buckets import slots
from relay.deliverylog.times import from_ms
from tests.deliverylog.test_metrics import obvious_next, obvious_start

MOST = {"s": 60, "m": 60, "h": 24, "d": 31, "w": 4, "M": 12}
LONGEST = {"s": 600, "m": 36_000, "h": 864_000, "d": 30_000_000, "w": 30_000_000, "M": 90_000_000}  # seconds


@pytest.mark.parametrize("unit", MOST)
def test_every_granularity(unit: str) -> None:
    rng = random.Random(unit)
    for value in range(1, MOST[unit] + 1):
        start = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(milliseconds=rng.randrange(200_000_000_000))
        end = start + timedelta(seconds=rng.uniform(1, LONGEST[unit]))
        buckets = slots(start, end, Granularity(value, unit))
        expected = [obvious_start(start, unit, value)]
        while (following := obvious_next(expected[-1], unit, value)) < end:
            expected.append(following)
        assert [from_ms(begin) for begin in buckets.begins] == expected
        assert from_ms(buckets.end) == following
        assert buckets.seconds(0) == (obvious_next(expected[0], unit, value) - expected[0]).total_seconds()


@pytest.mark.parametrize("unit", [*MOST, "y"])
def test_there_is_no_other(unit: str) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for value in (0, -1, MOST.get(unit, 0) + 1):
        with pytest.raises(InvalidQuery, match="unknown granularity"):
            slots(start, start + timedelta(days=1), Granularity(value, unit))
