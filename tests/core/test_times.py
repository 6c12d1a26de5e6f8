"""Times and ages as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from relay.core.durations import parse_bound, parse_time


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-03-10", datetime(2026, 3, 10, tzinfo=UTC)),
        ("2026-03-10T12:00:00Z", datetime(2026, 3, 10, 12, tzinfo=UTC)),
        ("2026-03-10T14:00:00+02:00", datetime(2026, 3, 10, 12, tzinfo=UTC)),
    ],
)
def test_a_time(text: str, time: datetime) -> None:
    assert parse_time(text) == time
    assert parse_bound(text) == time


def test_a_bound_may_be_an_age() -> None:
    assert parse_bound("2h") == timedelta(hours=2)


@pytest.mark.parametrize(
    ("text", "said"),
    [("2026-03-10T12:00:00", "has no time zone; write for example 2026-03-10T12:00:00Z"), ("later", "'later' is ")],
)
def test_what_is_no_time(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_time(text)
    with pytest.raises(ValueError, match=said):
        parse_bound(text)
