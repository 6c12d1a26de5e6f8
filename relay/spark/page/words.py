"""Numbers, times and rates as a page shows them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from relay.spark.page.plots import duration

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def count(number: int | None) -> str:
    """A number with commas; empty for None."""
    return "" if number is None else f"{number:,}"


def lasting(seconds: float | None) -> str:
    """A duration; empty for None."""
    return "" if seconds is None else duration(seconds)


def moment(micros: int | None) -> str:
    """Microseconds since 1970 as UTC; empty for None, and the number for a time outside Python's calendar."""
    if micros is None:
        return ""
    try:
        return f"{_EPOCH + timedelta(microseconds=micros):%Y-%m-%d %H:%M:%S.%f}"[:-3]
    except OverflowError:
        return f"{micros} µs"


def share(part: int, whole: int) -> str:
    """A percentage; 100 % only for all of them."""
    if not whole:
        return ""
    text = f"{100 * part / whole:.1f}"
    return "over 99.9 %" if text == "100.0" and part < whole else f"{text} %"
