"""What a reader or a producer may send by mistake or on purpose: the same clear answer from every driver."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from relay.deliverylog import (
    DeliveryLog,
    Granularity,
    InvalidCursor,
    InvalidTimeRange,
    ListAttempts,
    ListEvents,
    LoggedEvent,
    MetricsQuery,
)
from relay.deliverylog.cursor import base62
from relay.deliverylog.entries import DEEPEST
from tests.deliverylog.making import BASE, all_items, attempt_ids, entry, event, ms

FIRST = datetime(1, 1, 1, tzinfo=UTC)
LAST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


@pytest.mark.parametrize(
    ("start", "end", "granularity", "rows"),
    [
        (FIRST, LAST, None, 1),
        (FIRST, FIRST + timedelta(days=3), Granularity(1, "d"), 3),
        (FIRST, FIRST + timedelta(days=3), Granularity(12, "M"), 1),
        (FIRST, FIRST + timedelta(days=3), Granularity(4, "w"), None),
        (LAST - timedelta(days=2), LAST, Granularity(1, "d"), 3),
        (LAST - timedelta(days=2), LAST, Granularity(1, "M"), None),
        (LAST - timedelta(days=2), LAST, Granularity(1, "w"), 1),
    ],
)
async def test_a_count_at_the_edges_of_the_calendar(
    store: DeliveryLog, start: datetime, end: datetime, granularity: Granularity | None, rows: int | None
) -> None:
    await store.insert_many([entry("a")])
    query = MetricsQuery(start=start, end=end, measures=["count"], granularity=granularity)
    for count in (store.attempt_metrics, store.event_metrics):
        if rows is None:
            with pytest.raises(InvalidTimeRange, match="outside the calendar"):
                await count(query)
            continue
        result = await count(query)
        assert [row["count"] for row in result.rows] == ([1] if granularity is None else [0] * rows)


def deep(levels: int) -> dict[str, Any]:
    """A map in a map in a map."""
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"n": value}
    return value


@pytest.mark.parametrize("levels", [DEEPEST + 1, 980, 990, 100_000])
async def test_a_response_nested_too_deep_is_quarantined_and_hurts_nothing(store: DeliveryLog, levels: int) -> None:
    bottomless: dict[str, Any] = {}
    bottomless.update(a=bottomless, b=bottomless)
    deepest = deep(DEEPEST)
    await store.insert_many(
        [
            entry("a", response_data=deepest),
            entry("b", BASE + ms(1), response_data=deep(levels)),
            entry("c", BASE + ms(2), response_data=bottomless),
            entry("d", BASE + ms(3)),
        ]
    )
    assert store.quarantined == 2
    records = await all_items(store, ListAttempts(order="asc"))
    assert attempt_ids(records) == ["a", "d"]
    assert records[0].attempt.response_data == deepest


async def test_a_reader_may_change_what_it_was_given(store: DeliveryLog) -> None:
    its = event("e", metadata={"k": "v"})
    await store.insert_many([entry("a", of=its, response_data={"list": [1]})])
    for _ in range(2):
        [record] = (await store.list_attempts(ListAttempts())).items
        [listed] = (await store.list_events(ListEvents())).items
        one, attempt = await store.retrieve_event("e"), await store.retrieve_attempt("a")
        assert one is not None
        assert attempt is not None
        for logged in (record.event, listed, one, attempt.event):
            assert (logged.metadata, logged.matched_destination_ids) == ({"k": "v"}, ["d1"])
            logged.metadata["k"] = "changed"  # type: ignore[index]
            logged.matched_destination_ids.append("d2")
        for response in (record.attempt.response_data, attempt.attempt.response_data):
            assert response == {"list": [1]}
            response["list"].append(2)


@pytest.mark.parametrize(
    "position", ["1::a\x00b::1::x", "1::a%00b::1::x", "1::a::1::x\x00y\x00z", "1::a::1::x%00y%00z"]
)
async def test_a_cursor_with_nul_is_invalid(store: DeliveryLog, position: str) -> None:
    cursor = base62(f"attv02:v1:event_time:desc:{position}")
    with pytest.raises(InvalidCursor, match="NUL"):
        await store.list_attempts(ListAttempts(sort_by="event_time", next=cursor))


async def counts(store: DeliveryLog, dimensions: list[str], **filters: list[str]) -> list[dict[str, Any]]:
    """The counts of the events of a few milliseconds, in the order of their dimensions."""
    query = MetricsQuery(start=BASE, end=BASE + ms(9), measures=["count"], dimensions=dimensions, filters=filters)
    return [dict(row) for row in (await store.event_metrics(query)).rows]


async def test_the_first_copy_of_an_event_says_what_it_is(store: DeliveryLog) -> None:
    """In every list and count, whatever topic, destinations or metadata a later attempt brings along."""
    first = event("e", topic="first", matched_destination_ids=["d1"], metadata={"copy": "1"})
    later = event("e", topic="later", matched_destination_ids=["d2"], metadata={"copy": "2"})
    other = event("f", topic="later", matched_destination_ids=["d2"])
    await store.insert_many([entry("a", of=first)])
    await store.insert_many([entry("b", BASE + ms(1), later, destination_id="d2"), entry("c", BASE, other)])
    assert await store.retrieve_event("e") == first
    for tenants in (None, ["t1"], ["t1", "t2"]):
        expected: list[tuple[dict[str, Any], list[str]]] = [
            ({}, ["e", "f"]),
            ({"destination_ids": ["d1"]}, ["e"]),
            ({"destination_ids": ["d2"]}, ["f"]),
            ({"destination_ids": ["d1", "d2"]}, ["e", "f"]),
            ({"topics": ["first"]}, ["e"]),
            ({"topics": ["later"]}, ["f"]),
            ({"topics": ["later"], "destination_ids": ["d2"]}, ["f"]),
        ]
        for filters, ids in expected:
            for limit in (1, 10):
                query = ListEvents(tenant_ids=tenants, order="asc", limit=limit, **filters)
                events = await all_items(store, query)
                assert [one.id for one in events] == ids, (tenants, filters, limit)
                assert all(one.metadata == {"copy": "1"} for one in events if one.id == "e")
    assert await counts(store, ["topic"]) == [{"topic": "first", "count": 1}, {"topic": "later", "count": 1}]
    assert await counts(store, ["destination_id"]) == [
        {"destination_id": "d1", "count": 1},
        {"destination_id": "d2", "count": 1},
    ]
    assert await counts(store, [], destination_id=["d2"]) == [{"count": 1}]
    assert await counts(store, ["topic"], destination_id=["d2"], tenant_id=["t1"]) == [{"topic": "later", "count": 1}]
    assert await counts(store, ["destination_id"], topic=["later"]) == [{"destination_id": "d2", "count": 1}]
    attempts = await all_items(store, ListAttempts(order="asc"))
    assert [(one.attempt.id, one.event.topic) for one in attempts] == [("a", "first"), ("c", "later"), ("b", "later")]


async def test_the_last_copy_of_the_first_batch_says_what_an_event_is(store: DeliveryLog) -> None:
    copies = [event("e", topic=f"copy{n}", matched_destination_ids=[f"d{n}"]) for n in range(3)]
    await store.insert_many([entry(f"a{n}", BASE + ms(n), its) for n, its in enumerate(copies)])
    await store.insert_many([entry("later", BASE + ms(5), copies[0])])
    expected: list[tuple[dict[str, Any], list[LoggedEvent]]] = [
        ({}, [copies[2]]),
        ({"destination_ids": ["d2"]}, [copies[2]]),
        ({"topics": ["copy0"]}, []),
    ]
    for filters, events in expected:
        for order in ("asc", "desc"):
            assert await all_items(store, ListEvents(order=order, **filters)) == events, (filters, order)
    assert await store.retrieve_event("e") == copies[2]
    assert await counts(store, ["topic", "destination_id"]) == [{"topic": "copy2", "destination_id": "d2", "count": 1}]
    attempts = await all_items(store, ListAttempts(order="asc"))
    assert [one.event for one in attempts] == [*copies, copies[0]]
