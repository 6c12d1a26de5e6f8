"""Listings of entries made to collide, asked in every way Hypothesis finds, against sorting in Python."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay.deliverylog import DeliveryLog, ListAttempts, ListEvents, LogEntry, TimeWindow
from relay.deliverylog.times import floored
from tests.deliverylog.making import BASE, all_items, entry, event, ms

pytestmark = pytest.mark.timeout(600)  # a statement takes a second where ten programs share two cores

IDS = ["a", "A", "b::c", "é", "%3A", ":", "zz"]
TENANTS = ["", "t1", "T1", "ü"]
TOPICS = ["x", "y", ""]
DESTINATIONS = ["d1", "d2", ""]


def colliding() -> list[LogEntry]:
    """Few values everywhere: equal times, equal ids, times microseconds apart."""
    entries: dict[tuple[str, datetime, str], LogEntry] = {}
    for i in range(220):
        time = BASE + timedelta(microseconds=333 * (i * 7 % 41))
        its = event(
            IDS[i % len(IDS)],
            BASE + ms(i * 5 % 11),
            tenant_id=TENANTS[i * 3 % len(TENANTS)],
            topic=TOPICS[i % 3],
            matched_destination_ids=DESTINATIONS[: i % 3 + 1],
        )
        one = entry(
            IDS[i * 5 % len(IDS)],
            time,
            its,
            topic=TOPICS[i * 2 % 3],
            destination_id=DESTINATIONS[i % 3],
            destination_type=("kafka", "nats")[i % 2],
            status=("success", "failed")[i % 5 == 0],
        )
        entries.setdefault((its.tenant_id, floored(time), one.attempt.id), one)
    return list(entries.values())


ENTRIES = colliding()


def some(values: list[str]) -> st.SearchStrategy[list[str] | None]:
    return st.none() | st.lists(st.sampled_from([*values, "nowhere"]), max_size=3, unique=True)


bounds = st.none() | st.integers(-1000, 15_000).map(lambda n: BASE + timedelta(microseconds=n))
windows = st.none() | st.builds(TimeWindow, gte=bounds, lte=bounds, gt=bounds, lt=bounds)
orders = st.sampled_from(["asc", "desc"])
limits = st.integers(15, 90)


def within(window: TimeWindow | None, time: Any) -> bool:
    if window is None:
        return True
    at = floored(time)
    return (
        (window.gte is None or at >= floored(window.gte))
        and (window.lte is None or at <= floored(window.lte))
        and (window.gt is None or at > floored(window.gt))
        and (window.lt is None or at < floored(window.lt))
    )


@given(
    query=st.builds(
        ListAttempts,
        tenant_ids=some(TENANTS),
        event_ids=some(IDS),
        destination_ids=some(DESTINATIONS),
        destination_types=some(["kafka", "nats"]),
        status=st.sampled_from([None, "failed", ["success", "failed"]]),
        topics=some(TOPICS),
        time=windows,
        limit=limits,
        order=orders,
        sort_by=st.sampled_from(["time", "event_time"]),
    )
)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_attempts(store: DeliveryLog, query: ListAttempts) -> None:
    await _fill(store)
    statuses = [query.status] if isinstance(query.status, str) else query.status
    expected = [
        one
        for one in ENTRIES
        if _in(query.tenant_ids, one.event.tenant_id)
        and _in(query.event_ids, one.event.id)
        and _in(query.destination_ids, one.attempt.destination_id)
        and _in(query.destination_types, one.attempt.destination_type)
        and _in(statuses, one.attempt.status)
        and _in(query.topics, one.attempt.topic)
        and within(query.time, one.attempt.time)
    ]

    def place(one: Any) -> tuple[Any, ...]:
        by_time = (floored(one.attempt.time), one.attempt.id.encode(), one.event.tenant_id.encode())
        if query.sort_by == "time":
            return by_time
        return (floored(one.event.time), one.event.id.encode(), *by_time)

    expected.sort(key=place, reverse=query.order == "desc")
    assert [place(one) for one in await all_items(store, query)] == [place(one) for one in expected]


@given(
    query=st.builds(
        ListEvents,
        tenant_ids=some(TENANTS),
        event_ids=some(IDS),
        destination_ids=some(DESTINATIONS),
        topics=some(TOPICS),
        time=windows,
        limit=limits,
        order=orders,
    )
)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_events(store: DeliveryLog, query: ListEvents) -> None:
    await _fill(store)
    last = {(one.event.tenant_id, one.event.time, one.event.id): one.event for one in ENTRIES}
    expected = [
        its
        for its in last.values()
        if _in(query.tenant_ids, its.tenant_id)
        and _in(query.event_ids, its.id)
        and (not query.destination_ids or set(query.destination_ids) & set(its.matched_destination_ids))
        and _in(query.topics, its.topic)
        and within(query.time, its.time)
    ]
    expected.sort(key=lambda its: (its.time, its.id.encode(), its.tenant_id.encode()), reverse=query.order == "desc")
    assert await all_items(store, query) == expected


async def _fill(store: DeliveryLog) -> None:
    """Once for each test: every example asks the same log."""
    if not (await store.list_attempts(ListAttempts(limit=1))).items:
        await store.insert_many(ENTRIES)


def _in(filter_values: Any, value: str) -> bool:
    return not filter_values or value in filter_values


def test_the_entries_collide_as_they_should() -> None:
    times = {floored(one.attempt.time) for one in ENTRIES}
    assert len(times) * 5 < len(ENTRIES)
    assert replace(ENTRIES[0].event) == ENTRIES[0].event
