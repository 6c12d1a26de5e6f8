"""Times and ages as text."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.core.durations import (
    format_duration,
    in_words,
    parse_bound,
    parse_duration,
    parse_time,
    span,
    time_text,
)
from tests.support.paths import ROOT
from tests.support.times import other_times


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
    [
        ("2026-03-10T12:00:00", "has no time zone; write for example 2026-03-10T12:00:00Z"),
        ("0001-01-01T00:00+05:00", "is in no year from 1 to 9999 of UTC"),
        ("later", "'later' is "),
    ],
)
def test_what_is_no_time(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_time(text)
    with pytest.raises(ValueError, match=said):
        parse_bound(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("500ms", 0.5),
        ("90s", 90),
        ("+5s", 5),
        ("1m30s", 90),
        ("1.5h", 5400),
        ("24h", 86_400),
        ("7d", 604_800),
        ("1d12h", 129_600),
        (" 2h ", 7200),
    ],
)
def test_one_dialect_of_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("seconds", "short", "long"),
    [
        (0, "0s", "0 s"),
        (0.5, "500ms", "1 s"),
        (1.5, "1.5s", "1 s"),
        (59, "59s", "59 s"),
        (60, "1m", "1 min"),
        (3599, "59m59s", "59 min 59 s"),
        (3600, "1h", "1 h"),
        (90_061, "25h1m1s", "1 d 1 h"),
    ],
)
def test_a_duration_for_settings_and_for_people(seconds: float, short: str, long: str) -> None:
    assert format_duration(seconds) == short
    assert parse_duration(short) == seconds
    assert span(seconds) == long


@pytest.mark.parametrize("text", ["", "7", "7x", "-1d", "d", "1d 12h", "1w", "7D"])
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="write for example 500ms, 90s, 1m30s, 24h or 7d"):
        parse_duration(text)


def test_a_number_without_a_unit_comes_with_its_correction() -> None:
    with pytest.raises(ValueError, match="'5' is not a duration; it has no unit: 5s is seconds"):
        parse_duration("5")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.25, "0.25 s"), (5.0, "5 s"), (90.0, "90 s"), (600.0, "10 min"), (86_400.0, "1 d"), (2_678_400.0, "31 d")],
)
def test_a_limit_in_words(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


def test_no_other_text_writes_seconds_with_an_exponent() -> None:
    """Python's ``g`` makes 1e+06 s of 11.6 days."""
    written = re.compile(r":g\} s\b")
    files = [file for folder in ("relay", "cli") for file in (ROOT / folder).rglob("*.py")]
    found = [str(file) for file in files if written.search(file.read_text(encoding="utf-8"))]
    allowed = {"durations.py", "waiting.py"}  # of seconds below 600, and of tests
    assert {file.rpartition("/")[2] for file in found} <= allowed


@pytest.mark.parametrize("timespec", ["seconds", "milliseconds", "microseconds"])
@given(st.datetimes(timezones=st.just(UTC) | st.just(timezone(timedelta(hours=-5, minutes=30)))))
def test_a_time_is_written_in_one_style_and_read_back(timespec: str, moment: datetime) -> None:
    with suppress(OverflowError):  # a time whose year in UTC is none
        text = time_text(moment, timespec)
        assert other_times(f"since {text}.") == []
        assert timedelta(0) <= moment - parse_time(text) < timedelta(seconds=1)


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-10 12:00 UTC",
        "2026-03-10 12:00:00",
        "2026-03-10 12:00:00+00",
        "2026-03-10T12:00:00+00:00",
        "2026-03-10T12:00Z",
        "2026-03-10",
        "12:00:00",
        "10 Mar 2026",
    ],
)
def test_another_style_is_noticed(text: str) -> None:
    assert other_times(f"since {text}: away") == [text]


def test_the_operators_core_the_api_and_the_command_line_write_times_by_one_function() -> None:
    """The console's pages have a style of their own, which says the zone beside it."""
    written = re.compile(r"strftime\(|(?<!from)isoformat\(|%H|\{[a-z_.]*(?:_at|since|until):%")
    folders = ("relay/outbox", "relay/console/api", "relay/app", "relay/inbox", "cli")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    files += [*(ROOT / "relay/console").glob("*.py"), *(ROOT / "relay/spark").rglob("job.py")]
    files += [ROOT / "relay/core/pause.py", ROOT / "relay/core/destination.py"]
    found = [str(file.relative_to(ROOT)) for file in files if written.search(file.read_text(encoding="utf-8"))]
    assert found == []
