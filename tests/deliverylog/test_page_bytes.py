"""The bytes of a page are bounded on every driver, and payloads are read on request only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from relay.deliverylog import DeliveryLog, ListAttempts, ListEvents, Page, limits
from tests.deliverylog.making import BASE, all_items, entry, event, ms, walk

BOUND = 10_000
HALF = BOUND // 2 + 500


async def insert(store: DeliveryLog, sizes: list[int]) -> None:
    for n, size in enumerate(sizes):
        its = event(f"e{n}", BASE + ms(n), data=b"x" * size)
        await store.insert_many([entry(f"a{n}", BASE + ms(n), its, response_data={"n": n})])


async def sizes(store: DeliveryLog, query: ListAttempts | ListEvents, way: str) -> tuple[list[int], str | None]:
    """The rows of each page from here to the end of one way, and the last page's cursor back."""
    counts = []
    while True:
        page: Page[Any] = await (
            store.list_events(query) if isinstance(query, ListEvents) else store.list_attempts(query)
        )
        counts.append(len(page.items))
        cursor = page.next if way == "next" else page.prev
        if cursor is None:
            return counts, page.prev
        query = replace(query, next=None, prev=None)
        query = replace(query, next=cursor) if way == "next" else replace(query, prev=cursor)


@pytest.mark.parametrize("query", [ListAttempts(order="asc", limit=5), ListEvents(order="asc", limit=5)])
async def test_a_page_ends_where_its_bytes_do_and_no_row_is_lost(
    store: DeliveryLog, query: ListAttempts | ListEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_PAGE_BYTES", BOUND)
    await insert(store, [HALF, HALF, 10, HALF, 2 * HALF, 10, 10])
    forward, last = await sizes(store, query, "next")
    assert forward == [1, 2, 1, 1, 2]
    back, _ = await sizes(store, replace(query, prev=last), "prev")
    assert sum(back) == 7 - forward[-1]
    without = replace(query, include_data=False)
    assert [len(items) for items in await walk(store, without)] == [5, 2]


async def test_payloads_are_left_out_on_request(store: DeliveryLog) -> None:
    await insert(store, [10, 20])
    for include_data, expected in ((True, [10, 20]), (False, [0, 0])):
        records = await all_items(store, ListAttempts(order="asc", include_data=include_data))
        assert [len(record.event.data) for record in records] == expected
        for destinations in (None, ["d1"]):
            query = ListEvents(order="asc", include_data=include_data, destination_ids=destinations)
            assert [len(one.data) for one in await all_items(store, query)] == expected
