"""In which months a page is looked for first, and when there is nothing to be spared."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from relay.deliverylog import ListAttempts, TimeWindow
from relay.deliverylog.cursor import Position, encode
from relay.deliverylog.paging import scan_attempts
from relay.deliverylog.postgres.partitions import month_after
from relay.deliverylog.postgres.planner import looks_large, near, wider
from relay.deliverylog.times import to_ms

FIRST = datetime(2025, 1, 1, tzinfo=UTC)
MONTHS = {month_after(FIRST, count) for count in range(15)}  # to March 2026, of which the last two lie ahead
NOW = datetime(2026, 1, 20, tzinfo=UTC)


def on(year: int, month: int, day: int = 1) -> datetime:
    return datetime(year, month, day, tzinfo=UTC)


def cursor(at: datetime) -> str:
    return encode("att", Position(to_ms(at), "a"))


NEAR: list[tuple[dict[str, Any], dict[str, datetime]]] = [
    ({}, {"gte": on(2025, 12)}),
    ({"next": cursor(on(2025, 6, 10))}, {"gte": on(2025, 5)}),
    ({"prev": cursor(on(2025, 6, 10))}, {"lt": on(2025, 8)}),
    ({"order": "asc"}, {"lt": on(2025, 3)}),
    ({"order": "asc", "next": cursor(on(2025, 6, 10))}, {"lt": on(2025, 8)}),
    ({"time": TimeWindow(lt=on(2025, 9, 9))}, {"lt": on(2025, 9, 9), "gte": on(2025, 8)}),
    ({"time": TimeWindow(gt=on(2025, 9, 9)), "order": "asc"}, {"gt": on(2025, 9, 9), "lt": on(2025, 11)}),
    ({"time": TimeWindow(gte=on(2025, 2, 2))}, {"gte": on(2025, 12)}),
]
WHOLE: list[dict[str, Any]] = [
    {"event_ids": ["e"]},
    {"sort_by": "event_time"},
    {"time": TimeWindow(gte=on(2026, 1))},
    {"time": TimeWindow(gte=on(2025, 5, 5), lt=on(2025, 6, 20))},
    {"order": "asc", "next": cursor(on(2026, 2))},
    {"next": cursor(on(2025, 2, 2))},
    {"next": cursor(on(1990, 1))},
    {"order": "asc", "next": cursor(on(2100, 1))},
]


@pytest.mark.parametrize(("query", "window"), NEAR)
def test_a_page_is_looked_for_where_reading_begins(query: dict[str, Any], window: dict[str, datetime]) -> None:
    scan = scan_attempts(ListAttempts(**query))
    narrowed = near(scan, MONTHS, NOW)
    assert narrowed is not None
    assert narrowed.window == window
    assert (narrowed.position, narrowed.fetch, narrowed.descending) == (scan.position, scan.fetch, scan.descending)


@pytest.mark.parametrize("query", WHOLE)
def test_where_nothing_is_spared_it_is_looked_for_at_once(query: dict[str, Any]) -> None:
    assert near(scan_attempts(ListAttempts(**query)), MONTHS, NOW) is None
    assert near(scan_attempts(ListAttempts(**query)), set(), NOW) is None


@pytest.mark.parametrize(
    ("rows", "span"),
    [(0, 0), (1, 0), (42, 0), (43, 7), (50, 6), (100, 3)],
)
def test_a_page_that_is_not_full_is_looked_for_in_as_many_months_as_should_fill_it(rows: int, span: int) -> None:
    assert wider(rows, 100, MONTHS) == span
    if span:
        narrowed = near(scan_attempts(ListAttempts()), MONTHS, NOW, span)
        assert narrowed is not None
        assert narrowed.window == {"gte": month_after(on(2026, 1), 1 - span)}
        upward = near(scan_attempts(ListAttempts(order="asc")), MONTHS, NOW, span)
        assert upward is not None
        assert upward.window == {"lt": month_after(FIRST, span)}


def test_only_merged_ranges_look_large() -> None:
    assert not looks_large(scan_attempts(ListAttempts(tenant_ids=["a"], topics=["b"])))
    assert looks_large(scan_attempts(ListAttempts(tenant_ids=["a", "b"])))
