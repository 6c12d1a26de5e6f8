"""Times of the log: exact, in UTC, floored to milliseconds."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.deliverylog import InvalidTimeRange
from relay.deliverylog.times import EPOCH, floored, from_ms, time_near, to_ms

zones = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
instants = st.datetimes(datetime(1970, 1, 2), datetime(2261, 1, 1), timezones=zones)  # noqa: DTZ001 - zones are added


@given(instants)
def test_every_instant_keeps_its_milliseconds(time: datetime) -> None:
    stored = floored(time)
    assert stored.tzinfo is UTC
    assert from_ms(to_ms(time)) == stored
    assert timedelta(0) <= time - stored < timedelta(milliseconds=1)
    assert stored.microsecond % 1000 == 0


def test_no_instant_goes_through_a_float() -> None:
    rng = random.Random(10)
    instants = [EPOCH + timedelta(microseconds=rng.randrange(9_000_000_000_000_000)) for _ in range(20_000)]
    assert any(int(time.timestamp() * 1e6) != (time - EPOCH) // timedelta(microseconds=1) for time in instants)
    for time in instants:
        ours = to_ms(time)
        assert ours * 1000 <= (time - EPOCH) // timedelta(microseconds=1) < ours * 1000 + 1000


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(InvalidTimeRange, match="time zone"):
        floored(datetime(2026, 1, 1))  # noqa: DTZ001 - the point of the test


@pytest.mark.parametrize("text", ["", "evt_01", "00000000-0000-4000-8000-000000000000", "f" * 32])
def test_an_id_without_a_time_is_near_none(text: str) -> None:
    assert time_near(text) is None


def test_a_time_beyond_the_calendar_is_near_none() -> None:
    assert time_near("ffffffff-ffff-7fff-bfff-ffffffffffff") is None
