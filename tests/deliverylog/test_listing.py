"""Listing, on every driver: filters, order, limits, pages, cursors (docs/operate/delivery-log.md#bounds-of-a-read)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta, timezone
from typing import Any

import pytest

from relay.deliverylog import (
    DeliveryLog,
    DeliveryLogError,
    InvalidCursor,
    InvalidQuery,
    InvalidTimeRange,
    ListAttempts,
    ListEvents,
    LogEntry,
    TimeWindow,
    VersionMismatch,
)
from relay.deliverylog.cursor import Position, base62, encode
from tests.deliverylog.making import BASE, all_items, attempt_ids, entry, event, ms, walk


async def test_an_empty_log_has_no_pages(store: DeliveryLog) -> None:
    for page in (await store.list_events(ListEvents()), await store.list_attempts(ListAttempts())):
        assert (page.items, page.next, page.prev) == ([], None, None)


async def test_what_was_written_is_read_back(store: DeliveryLog) -> None:
    zone = timezone(timedelta(hours=5, minutes=30))
    its = event(
        "evt::ü",
        (BASE + ms(1.75)).astimezone(zone),
        tenant_id="ténant",
        destination_id="explicit",
        matched_destination_ids=["b", 'a"\\,{}', ""],
        topic="orders.créated",
        eligible_for_retry=False,
        data=b'\x00\xff{"z": 1,  "a": 12345678901234567890123}',
        metadata={"b": "2", "a": "", "quote'\"": "\\"},
    )
    response = {"z": None, "a": {"nested": [1, 2.5, "x", {"y": True}]}, "big": 12345678901234567890123}
    written = entry(
        "att::é",
        BASE + ms(2),
        its,
        destination_id="d9",
        destination_type="nats",
        topic="other",
        status="failed",
        attempt_number=3,
        manual=True,
        code="MSG_SIZE_TOO_LARGE",
        response_data=response,
    )
    await store.insert_many([written])
    floored = replace(its, time=BASE + ms(1))
    (record,) = (await store.list_attempts(ListAttempts())).items
    assert record.attempt == replace(written.attempt, tenant_id="ténant")
    assert record.event == floored
    assert (await store.list_events(ListEvents())).items == [floored]
    assert record.attempt.time.utcoffset() == timedelta(0)
    assert await store.retrieve_attempt("att::é") == record
    assert await store.retrieve_event("evt::ü") == floored


@pytest.mark.parametrize("response", [None, {}, {"a": {"b": {}}}, {"a": None}])
async def test_responses_round_trip(store: DeliveryLog, response: dict[str, Any] | None) -> None:
    await store.insert_many([entry("a", response_data=response, code=None)])
    (record,) = (await store.list_attempts(ListAttempts())).items
    assert record.attempt.response_data == response
    assert record.attempt.code is None


async def test_absent_metadata_reads_back_empty(store: DeliveryLog) -> None:
    await store.insert_many([entry("a", of=event("e", metadata=None))])
    assert (await store.list_events(ListEvents())).items[0].metadata == {}
    assert (await store.list_attempts(ListAttempts())).items[0].event.metadata == {}


async def test_times_microseconds_apart_lose_no_row_at_a_page_edge(store: DeliveryLog) -> None:
    entries = [entry(f"a{i:02d}", BASE + timedelta(microseconds=250 * i)) for i in range(6)]
    await store.insert_many(entries)
    for order in ("asc", "desc"):
        for limit in (1, 3):
            ids = attempt_ids(await all_items(store, ListAttempts(limit=limit, order=order)))
            assert sorted(ids) == [f"a{i:02d}" for i in range(6)]
            events = [event.id for event in await all_items(store, ListEvents(limit=limit, order=order))]
            assert sorted(events) == [f"e-a{i:02d}" for i in range(6)]


async def test_identical_times_are_ordered_by_the_bytes_of_the_id(store: DeliveryLog) -> None:
    ids = ["a", "B", "Z", "aa", "é", "z::1", "::", "1", "🦆", "ﬀ"]
    await store.insert_many([entry(name, BASE) for name in ids])
    expected = sorted(ids, key=str.encode)
    assert attempt_ids(await all_items(store, ListAttempts(limit=3, order="asc"))) == expected
    assert attempt_ids(await all_items(store, ListAttempts(limit=3))) == expected[::-1]
    of_events = [event.id for event in await all_items(store, ListEvents(limit=1, order="asc"))]
    assert of_events == [f"e-{name}" for name in expected]


async def test_twins_of_two_tenants_survive_every_page_edge(store: DeliveryLog) -> None:
    entries = [entry("same", BASE, event("same", tenant_id=f"t{n}")) for n in range(5)]
    await store.insert_many(entries)
    for limit in (1, 3):
        for order in ("asc", "desc"):
            for sort_by in ("time", "event_time"):
                records = await all_items(store, ListAttempts(limit=limit, order=order, sort_by=sort_by))
                assert sorted(record.attempt.tenant_id for record in records) == [f"t{n}" for n in range(5)]
            events = await all_items(store, ListEvents(limit=limit, order=order))
            assert sorted(event.tenant_id for event in events) == [f"t{n}" for n in range(5)]


async def test_a_window_is_exact_and_joins_a_cursor(store: DeliveryLog) -> None:
    await store.insert_many([entry(f"a{i}", BASE + ms(i)) for i in range(10)])
    cases = [
        (TimeWindow(gte=BASE + ms(3), lte=BASE + ms(5)), [3, 4, 5]),
        (TimeWindow(gt=BASE + ms(3), lt=BASE + ms(5)), [4]),
        (TimeWindow(gte=BASE + ms(3), gt=BASE + ms(3)), [4, 5, 6, 7, 8, 9]),
        (TimeWindow(gt=BASE + ms(3), lte=BASE + ms(5)), [4, 5]),
        (TimeWindow(lt=BASE), []),
        (TimeWindow(gte=BASE + ms(4.5), lt=BASE + ms(6.9)), [4, 5]),
        (TimeWindow(), list(range(10))),
    ]
    for window, expected in cases:
        for query in (ListAttempts(time=window, limit=2, order="asc"), ListEvents(time=window, limit=2, order="asc")):
            items = await all_items(store, query)
            times = [item.attempt.time if isinstance(query, ListAttempts) else item.time for item in items]
            assert times == [BASE + ms(i) for i in expected]


async def test_a_row_is_found_by_the_time_it_was_written_with(store: DeliveryLog) -> None:
    exact = BASE + timedelta(microseconds=123_456)
    await store.insert_many([entry("a", exact)])
    assert len((await store.list_attempts(ListAttempts(time=TimeWindow(gte=exact, lte=exact)))).items) == 1
    assert len((await store.list_events(ListEvents(time=TimeWindow(gt=exact)))).items) == 0


def filterable() -> list[LogEntry]:
    """Four attempts at three events, of which each filter finds some."""
    return [
        entry("a1", BASE + ms(1), event("e1", tenant_id="t1", topic="x", matched_destination_ids=["d1", "d2"])),
        entry(
            "a2", BASE + ms(2), event("e2", tenant_id="t2", topic="y"), destination_id="d2", status="failed", code="E1"
        ),
        entry("a3", BASE + ms(3), event("e3", tenant_id="t1", topic="y"), destination_type="nats"),
        entry(
            "a4", BASE + ms(4), event("e3", tenant_id="t1", topic="y"), destination_id="d3", attempt_number=2, code="E2"
        ),
    ]


async def test_every_filter_of_attempts_alone_and_with_others(store: DeliveryLog) -> None:
    await store.insert_many(filterable())

    async def attempts(**filters: Any) -> list[str]:
        return attempt_ids(await all_items(store, ListAttempts(limit=1, order="asc", **filters)))

    everything = ["a1", "a2", "a3", "a4"]
    nothing: list[str] | None
    for nothing in (None, []):
        assert await attempts(
            tenant_ids=nothing, event_ids=nothing, destination_ids=nothing, destination_types=nothing, status=nothing,
            topics=nothing,
        ) == everything  # fmt: skip
    assert await attempts(tenant_ids=["t1"]) == ["a1", "a3", "a4"]
    assert await attempts(tenant_ids=["t1", "t2", "t3", "t1"]) == everything
    assert await attempts(event_ids=["e3"]) == ["a3", "a4"]
    assert await attempts(event_ids=["e1", "e3"]) == ["a1", "a3", "a4"]
    assert await attempts(destination_ids=["d2", "d3"]) == ["a2", "a4"]
    assert await attempts(destination_types=["nats"]) == ["a3"]
    assert await attempts(status="failed") == ["a2"]
    assert await attempts(status=["failed", "success"]) == everything
    assert await attempts(codes=["E1"]) == ["a2"]
    assert await attempts(codes=["E1", "E2", "E3"]) == ["a2", "a4"]
    assert await attempts(codes=["E1", "E2"], tenant_ids=["t1"], status="success") == ["a4"]
    assert await attempts(codes=["E2"], event_ids=["e2", "e3"]) == ["a4"]
    assert await attempts(topics=["y"]) == ["a2", "a3", "a4"]
    assert await attempts(topics=["y"], tenant_ids=["t1"], destination_ids=["d1"]) == ["a3"]
    assert await attempts(topics=["x"], tenant_ids=["t2"]) == []
    assert await attempts(event_ids=["e3"], status="success", destination_types=["kafka"]) == ["a4"]


async def test_every_filter_of_events_alone_and_with_others(store: DeliveryLog) -> None:
    await store.insert_many(filterable())

    async def events(**filters: Any) -> list[str]:
        return [event.id for event in await all_items(store, ListEvents(limit=1, order="asc", **filters))]

    assert await events() == ["e1", "e2", "e3"]
    assert await events(tenant_ids=["t2"]) == ["e2"]
    assert await events(event_ids=["e1", "e2"]) == ["e1", "e2"]
    assert await events(destination_ids=["d1", "d2"]) == ["e1", "e2", "e3"]
    assert await events(destination_ids=["d2"]) == ["e1"]
    assert await events(destination_ids=["d1"], topics=["y"], tenant_ids=["t1"]) == ["e3"]
    assert await events(destination_ids=["d1"], event_ids=["e2", "e1"]) == ["e1", "e2"]
    assert await events(destination_ids=["d2"], event_ids=["e2", "e1"]) == ["e1"]
    assert await events(topics=["x", "y"], tenant_ids=["t1", "t2"]) == ["e1", "e2", "e3"]


async def test_many_values_of_two_filters_are_merged_in_order(store: DeliveryLog) -> None:
    entries = [entry(f"a{i:03d}", BASE + ms(i // 3), tenant_id=f"t{i % 9}", topic=f"x{i % 7}") for i in range(120)]
    await store.insert_many(entries)
    query = ListAttempts(
        tenant_ids=[f"t{i}" for i in range(9)], topics=[f"x{i}" for i in range(7)], limit=11, order="asc"
    )
    assert attempt_ids(await all_items(store, query)) == [f"a{i:03d}" for i in range(120)]


async def test_sorting_by_the_events_time(store: DeliveryLog) -> None:
    events = [event(f"e::{i}%", BASE - ms(10 * i)) for i in range(4)]
    entries = [
        entry(f"a{n}:{i}", BASE + ms(100 * n + i), events[i], attempt_number=n + 1) for i in range(4) for n in range(3)
    ]
    await store.insert_many(entries)
    expected = sorted(entries, key=lambda one: (one.event.time, one.event.id, one.attempt.time, one.attempt.id))
    for order in ("asc", "desc"):
        for tenants in (None, ["t1"]):
            query = ListAttempts(sort_by="event_time", order=order, limit=2, tenant_ids=tenants)
            ids = attempt_ids(await all_items(store, query))
            wanted = [one.attempt.id for one in expected]
            assert ids == (wanted if order == "asc" else wanted[::-1])


async def test_limits(store: DeliveryLog) -> None:
    await store.insert_many([entry(f"a{i:04d}", BASE + ms(i)) for i in range(1005)])
    for limit, expected in ((None, 100), (0, 100), (-3, 100), (7, 7), (1000, 1000), (5000, 1000)):
        page = await store.list_attempts(ListAttempts(limit=limit))
        assert (len(page.items), page.next is not None) == (expected, True)
        assert len((await store.list_events(ListEvents(limit=limit))).items) == expected


async def test_a_page_that_ends_exactly_at_the_end_has_no_next(store: DeliveryLog) -> None:
    await store.insert_many([entry(f"a{i}", BASE + ms(i)) for i in range(4)])
    assert [len(items) for items in await walk(store, ListAttempts(limit=2))] == [2, 2]
    assert [len(items) for items in await walk(store, ListEvents(limit=4))] == [4]


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("sort_by", ["time", "event_time"])
async def test_past_either_end_there_is_a_way_back(store: DeliveryLog, order: str, sort_by: str) -> None:
    await store.insert_many([entry(f"a{i}", BASE + ms(i)) for i in range(5)])
    whole = attempt_ids((await store.list_attempts(ListAttempts(order=order, sort_by=sort_by))).items)
    query = ListAttempts(order=order, sort_by=sort_by, limit=2)
    later, earlier = Position(4_000_000_000_000, "x", None, 4_000_000_000_000, "x"), Position(1, "x", None, 1, "x")
    end, begin = (later, earlier) if order == "asc" else (earlier, later)
    version = 1 if sort_by == "time" else 2
    beyond = await store.list_attempts(replace(query, next=encode("att", end, version=version, order=order)))
    assert (beyond.items, beyond.next) == ([], None)
    assert beyond.prev is not None
    assert attempt_ids((await store.list_attempts(replace(query, prev=beyond.prev))).items) == whole[-2:]
    before = await store.list_attempts(replace(query, prev=encode("att", begin, version=version, order=order)))
    assert (before.items, before.prev) == ([], None)
    assert before.next is not None
    assert attempt_ids((await store.list_attempts(replace(query, next=before.next))).items) == whole[:2]


async def test_a_cursor_works_with_other_filters_and_tenants(store: DeliveryLog) -> None:
    await store.insert_many(
        [entry(f"a{i}", BASE + ms(i), tenant_id=f"t{i % 2}", topic="even" if i % 4 else "four") for i in range(8)]
    )
    page = await store.list_attempts(ListAttempts(limit=3, order="asc"))
    assert attempt_ids(page.items) == ["a0", "a1", "a2"]
    following = await store.list_attempts(ListAttempts(next=page.next, order="asc", tenant_ids=["t0"]))
    assert attempt_ids(following.items) == ["a4", "a6"]
    turned = await store.list_attempts(ListAttempts(next=page.next, order="desc", topics=["even", "four"]))
    assert attempt_ids(turned.items) == ["a1", "a0"]


async def test_a_published_cursor_of_another_store_is_accepted(store: DeliveryLog) -> None:
    await store.insert_many([entry(f"x{i}", BASE, event(f"evt_{i:02d}", BASE)) for i in range(3)])
    milliseconds = int(BASE.timestamp()) * 1000
    foreign = base62(f"evtv01:{milliseconds}::evt_01")
    assert [event.id for event in (await store.list_events(ListEvents(next=foreign))).items] == ["evt_00"]
    assert [event.id for event in (await store.list_events(ListEvents(prev=foreign))).items] == ["evt_02"]


@pytest.mark.parametrize(
    ("cursor", "error"),
    [
        ("not-base62!", InvalidCursor),
        ("zzzz", InvalidCursor),
        ("0" * 20_000, InvalidCursor),
        (base62("attv01:1::x"), InvalidCursor),
        (base62("evtv01:x::y"), InvalidCursor),
        (base62("evtv01:1:y"), InvalidCursor),
        (base62("evtv01:"), InvalidCursor),
        (base62("evtv01:999999999999999::y"), InvalidCursor),
        (base62("evtv01:1::a\x00b\x00c"), InvalidCursor),
        (base62("evtv02:1::y"), VersionMismatch),
        (base62("evtv99:1::y"), VersionMismatch),
        (base62("hello"), InvalidCursor),
    ],
)
async def test_bad_cursors_are_refused(store: DeliveryLog, cursor: str, error: type[DeliveryLogError]) -> None:
    with pytest.raises(error):
        await store.list_events(ListEvents(next=cursor))
    with pytest.raises(error):
        await store.list_events(ListEvents(prev=cursor))


async def test_an_unknown_version_names_those_expected(store: DeliveryLog) -> None:
    with pytest.raises(VersionMismatch, match="v01 or v02"):
        await store.list_attempts(ListAttempts(next=base62("attv03:1::x")))


async def test_a_cursor_of_another_sort_or_order_is_refused(store: DeliveryLog) -> None:
    await store.insert_many([entry(f"a{i}", BASE + ms(i)) for i in range(3)])
    by_time = await store.list_attempts(ListAttempts(limit=1))
    by_event = await store.list_attempts(ListAttempts(limit=1, sort_by="event_time"))
    for query in (
        ListAttempts(next=by_time.next, sort_by="event_time"),
        ListAttempts(next=by_event.next),
        ListAttempts(next=by_event.next, sort_by="event_time", order="asc"),
    ):
        with pytest.raises(InvalidCursor):
            await store.list_attempts(query)


async def test_what_cannot_be_asked_is_refused_by_name(store: DeliveryLog) -> None:
    some = base62("attv01:1::x")
    for query, named in (
        (ListAttempts(order="up"), "up"),
        (ListAttempts(sort_by="code"), "code"),
        (ListAttempts(status="lost"), "lost"),
        (ListAttempts(next=some, prev=some), "exclude each other"),
        (ListAttempts(tenant_ids=["a\x00b"]), "tenant_id"),
        (ListAttempts(topics=["\ud800"]), "topic"),
    ):
        with pytest.raises(InvalidQuery, match=named):
            await store.list_attempts(query)
    with pytest.raises(InvalidTimeRange, match="gte"):
        await store.list_events(ListEvents(time=TimeWindow(gte=BASE.replace(tzinfo=None))))
