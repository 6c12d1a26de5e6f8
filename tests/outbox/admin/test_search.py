"""A search returns every event once, newest first, on pages that examine a bounded number of rows."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from relay.core.event import Status
from relay.outbox.admin import examination
from relay.outbox.admin import search as search_module
from relay.outbox.admin.browse import ListedEvent
from relay.outbox.admin.examination import Examination, ExaminedPart
from relay.outbox.admin.search import CursorRefused, EventSearch, search_events
from relay.postgres.sql import TableName
from tests.outbox.admin.filling import fill_aged
from tests.support.clock import Clock
from tests.support.fixtures.outbox import Outbox, Row

TABLE = TableName()
DEAD = EventSearch((Status.DEAD,))
_ALIKE = """
INSERT INTO openoutbox_events (event_id, event_type, payload, status, last_error, updated_at, delivered_at)
SELECT gen_random_uuid(), 'alike', 'x', %(status)s, 'NO: ' || n, %(since)s,
       CASE WHEN %(status)s = 'DELIVERED' THEN %(since)s::timestamptz END
FROM generate_series(1, %(count)s) AS n
"""


FOREIGN = (
    "1|next|2026-01-01T00:00:00+00:00|DEAD|(0,1)",
    "2|back|2026-01-01T00:00:00+00:00|DEAD|(0,1)",
    "2|next|2026-01-01|DEAD|(0,1)",
    "2|next|--infinity|DEAD|(0,1)",
    "2|prev|infinity|LOST|(0,1)",
    "2|prev|infinity|DEAD|(0,70000)",
)


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def alike(outbox: Outbox, status: str, count: int, since: str = "2026-01-01T00:00:00Z") -> None:
    """Events of one status that share one time, as one transaction makes them."""
    with outbox.database.connect() as connection:
        connection.execute(_ALIKE, {"status": status, "count": count, "since": since})


def pages(outbox: Outbox, search: EventSearch) -> Iterator[list[ListedEvent]]:
    cursor: str | None = None
    while True:
        page = search_events(outbox.reader_url, TABLE, replace(search, cursor=cursor))
        yield page.events
        if page.next is None:
            return
        assert page.next != cursor
        cursor = page.next


def pages_back(outbox: Outbox, search: EventSearch) -> tuple[list[list[ListedEvent]], list[list[ListedEvent]]]:
    """The pages on the way to the end, and those on the way back from the last one, in the same order."""
    page = search_events(outbox.reader_url, TABLE, search)
    forward = [page.events]
    assert page.prev is None
    while page.next is not None:
        page = search_events(outbox.reader_url, TABLE, replace(search, cursor=page.next))
        forward.append(page.events)
    back = [page.events]
    while page.prev is not None:
        page = search_events(outbox.reader_url, TABLE, replace(search, cursor=page.prev))
        back.insert(0, page.events)
    return forward, back


def ids_of(outbox: Outbox, where: str = "TRUE") -> set[Any]:
    return {id_ for (id_,) in outbox.database.run(f"SELECT event_id FROM openoutbox_events WHERE {where}")}


@pytest.mark.parametrize("limit", [1, 7, 50])
def test_the_pages_hold_every_event_once_newest_first(outbox: Outbox, limit: int) -> None:
    for status in ("DEAD", "DELIVERED", "PENDING"):
        fill_aged(outbox, status, 9)
    alike(outbox, "DEAD", 13)
    alike(outbox, "DELIVERED", 8)
    events = [event for page in pages(outbox, EventSearch(limit=limit)) for event in page]
    assert len(events) == 48
    assert {event.event_id for event in events} == ids_of(outbox)
    times = [event.since for event in events]
    assert times == sorted(times, reverse=True)  # type: ignore[type-var]


def test_a_group_that_is_too_large_to_sort_is_read_by_its_place(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examination, "EXAMINED", 50)
    monkeypatch.setattr(search_module, "SEARCH_SECONDS", 0.0)
    monkeypatch.setattr(examination, "_BLOCKS", 2)
    monkeypatch.setattr(examination, "_STEPS", 2)
    fill_aged(outbox, "DEAD", 5)
    alike(outbox, "DEAD", 600)
    alike(outbox, "DEAD", 5, "2025-01-01T00:00:00Z")
    events = [event for page in pages(outbox, EventSearch((Status.DEAD,), limit=20)) for event in page]
    assert len(events) == 610
    assert {event.event_id for event in events} == ids_of(outbox)
    assert {event.since for event in events[-5:]} == {datetime(2025, 1, 1, tzinfo=UTC)}


@pytest.mark.parametrize("limit", [1, 7, 12])
def test_the_way_back_has_the_pages_of_the_way_there(outbox: Outbox, limit: int) -> None:
    for status in ("DEAD", "DELIVERED", "PENDING"):
        fill_aged(outbox, status, 8)
    alike(outbox, "DEAD", 13)
    alike(outbox, "DELIVERED", 7)
    forward, back = pages_back(outbox, EventSearch(limit=limit))
    assert len(forward) == -(-44 // limit)
    assert back == forward


def test_the_way_back_leads_through_a_large_group_and_over_pages_without_events(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examination, "EXAMINED", 50)
    monkeypatch.setattr(search_module, "SEARCH_SECONDS", 0.0)
    monkeypatch.setattr(examination, "_BLOCKS", 2)
    monkeypatch.setattr(examination, "_STEPS", 2)
    fill_aged(outbox, "DEAD", 60)
    alike(outbox, "DEAD", 600)
    alike(outbox, "DELIVERED", 70)
    alike(outbox, "DEAD", 60, "2025-01-01T00:00:00Z")
    for search in (EventSearch(limit=20), EventSearch(error=": 5", limit=20), EventSearch(event_type="DEAD-7")):
        forward, back = pages_back(outbox, search)
        there = [event for page in forward for event in page]
        assert [event for page in back for event in page] == there
        assert there
        assert max(map(len, back)) <= search.limit


def test_from_any_page_the_page_before_ends_where_it_begins(outbox: Outbox) -> None:
    fill_aged(outbox, "DEAD", 30)
    search = EventSearch(limit=7)
    first = search_events(outbox.reader_url, TABLE, search)
    second = search_events(outbox.reader_url, TABLE, replace(search, cursor=first.next))
    again = search_events(outbox.reader_url, TABLE, replace(search, cursor=second.prev))
    assert again.events == first.events
    assert again.prev is None
    assert search_events(outbox.reader_url, TABLE, replace(search, cursor=again.next)).events == second.events
    fill_aged(outbox, "PENDING", 1)  # created 400 days ago, so behind all others
    outbox.database.run("UPDATE openoutbox_events SET created_at = now() WHERE status = 'PENDING'")
    newer = search_events(outbox.reader_url, TABLE, replace(search, cursor=second.prev))
    assert newer.events == first.events
    assert newer.prev is not None
    newest = search_events(outbox.reader_url, TABLE, replace(search, cursor=newer.prev))
    assert [event.status for event in newest.events] == ["PENDING"]


def test_a_rare_event_is_reached_over_pages_that_say_how_far_they_came(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examination, "EXAMINED", 50)
    monkeypatch.setattr(search_module, "SEARCH_SECONDS", 0.0)
    fill_aged(outbox, "DELIVERED", 300)
    search = EventSearch(event_type="DELIVERED-299")
    first = search_events(outbox.reader_url, TABLE, search)
    assert first.events == []
    assert first.next is not None
    assert isinstance(first.examined_until, datetime)
    assert first.examined_until > datetime.now(UTC) - timedelta(hours=52)
    read = list(pages(outbox, search))
    assert [event.event_type for page in read for event in page] == ["DELIVERED-299"]
    assert 5 <= len(read) <= 8


def test_no_step_begins_that_would_end_after_the_deadline(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "EXAMINED", 10)
    fill_aged(outbox, "DELIVERED", 300)
    clock, steps = Clock(), list[float]()
    monkeypatch.setattr("relay.outbox.admin.search.time.monotonic", clock)
    fetch = Examination.read

    def read(self: Examination, *arguments: Any) -> ExaminedPart:
        steps.append(clock.now)
        clock.now += 0.6 * search_module.SEARCH_SECONDS
        return fetch(self, *arguments)

    monkeypatch.setattr(Examination, "read", read)
    page = search_events(outbox.reader_url, TABLE, EventSearch((Status.DELIVERED,), event_type="none"))
    assert (page.events, len(steps)) == ([], 1)
    assert page.next is not None


def test_a_rare_event_is_found_on_one_page_while_there_is_time(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "EXAMINED", 10)
    fill_aged(outbox, "DELIVERED", 300)
    outbox.database.run("UPDATE openoutbox_events SET payload = 'a needle' WHERE event_type = 'DELIVERED-299'")
    for search in (
        EventSearch(partition_key="key-9"),
        EventSearch(event_type="DELIVERED-299"),
        EventSearch(payload=b"needle"),
        EventSearch(partition_key="key-9", limit=200, cursor=encoded(f"2|prev|-infinity|DEAD|{examination.BELOW_ALL}")),
    ):
        page = search_events(outbox.reader_url, TABLE, search)
        assert {event.partition_key for event in page.events} == {"key-9"}
        assert len(page.events) == (30 if search.partition_key else 1)
        assert page.examined_until is None
        assert (page.prev if search.cursor else page.next) is None


@pytest.mark.parametrize(
    ("search", "payloads"),
    [
        (EventSearch(header=("trace", "a=b")), {b"first"}),
        (EventSearch(header=("n", "12345678901234567890123")), {b"first"}),
        (EventSearch(header=("trace", "a")), set()),
        (EventSearch(header=("absent", "")), set()),
        (EventSearch(payload=b"rst"), {b"first"}),
        (EventSearch(payload="ü\x01".encode()), {"ü\x01 second".encode()}),
        (EventSearch(payload=b"first", header=("trace", "c")), set()),
    ],
)
def test_headers_and_payloads(outbox: Outbox, search: EventSearch, payloads: set[bytes]) -> None:
    outbox.insert(
        [
            Row("t", b"first", headers='{"trace": "a=b", "n": 12345678901234567890123}'),
            Row("t", "ü\x01 second".encode(), headers='{"trace": "c"}'),
            Row("t", b"third", headers='["trace"]'),
        ]
    )
    found = {event.event_id for event in search_events(outbox.reader_url, TABLE, search).events}
    ids = [str(event_id) for event_id in found]
    rows = outbox.database.run("SELECT payload FROM openoutbox_events WHERE event_id = ANY(%s::uuid[])", [ids])
    assert {bytes(payload) for (payload,) in rows} == payloads


@pytest.mark.parametrize(
    ("search", "where"),
    [
        (DEAD, "status = 'DEAD'"),
        (EventSearch(partition_key="key-3"), "partition_key = 'key-3'"),
        (EventSearch(event_type="DEAD-4"), "event_type = 'DEAD-4'"),
        (EventSearch(error="fatal: no 1"), "last_error LIKE 'FATAL: no 1%%'"),
        (EventSearch(error_code="FATAL"), "last_error LIKE 'FATAL: %%'"),
        (EventSearch(error_code=""), "last_error IS NULL"),
    ],
)
def test_filters(outbox: Outbox, search: EventSearch, where: str) -> None:
    for status in ("DEAD", "DELIVERED"):
        fill_aged(outbox, status, 20)
    events = [event for page in pages(outbox, replace(search, limit=3)) for event in page]
    assert {event.event_id for event in events} == ids_of(outbox, where) != set()


@pytest.mark.parametrize(
    ("edge", "where"), [("since", "event_type ~ 'DEAD-(.|10)$'"), ("until", "event_type ~ 'DEAD-(1[1-9]|20)$'")]
)
def test_times(outbox: Outbox, edge: str, where: str) -> None:
    fill_aged(outbox, "DEAD", 20)
    middle = datetime.now(UTC) - timedelta(hours=10.5)
    search = replace(DEAD, limit=3, since=middle) if edge == "since" else replace(DEAD, limit=3, until=middle)
    events = [event for page in pages(outbox, search) for event in page]
    assert {event.event_id for event in events} == ids_of(outbox, where) != set()


@pytest.mark.parametrize("cursor", ["", "x", "Mnx5fHp8KDEsMSk", "é", *map(encoded, FOREIGN)])
def test_a_foreign_cursor_is_refused(outbox: Outbox, cursor: str) -> None:
    with pytest.raises(CursorRefused, match="is not from a page of a search"):
        search_events(outbox.reader_url, TABLE, EventSearch(cursor=cursor))
