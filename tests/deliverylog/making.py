"""Short ways to make entries and to walk through pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from relay.deliverylog import (
    AttemptRecord,
    DeliveryLog,
    ListAttempts,
    ListEvents,
    LogEntry,
    LoggedAttempt,
    LoggedEvent,
    Page,
)

BASE = datetime(2026, 3, 10, 12, 0, 0, tzinfo=UTC)


def ms(count: float) -> timedelta:
    """Milliseconds."""
    return timedelta(milliseconds=count)


def event(event_id: str, time: datetime = BASE, **fields: Any) -> LoggedEvent:
    """An event with what a test does not care about filled in."""
    values = {"tenant_id": "t1", "topic": "orders", "matched_destination_ids": ["d1"], **fields}
    return LoggedEvent(id=event_id, time=time, **values)


def entry(attempt_id: str, time: datetime = BASE, of: LoggedEvent | None = None, **fields: Any) -> LogEntry:
    """An attempt, and its event if none is given."""
    its = of or event(f"e-{attempt_id}", time, **{k: fields[k] for k in ("tenant_id", "topic") if k in fields})
    values = {
        "tenant_id": its.tenant_id,
        "destination_id": "d1",
        "destination_type": "kafka",
        "topic": its.topic,
        "status": "success",
        "attempt_number": 1,
        **fields,
    }
    return LogEntry(its, LoggedAttempt(id=attempt_id, event_id=its.id, time=time, **values))


def attempt_ids(records: Sequence[AttemptRecord]) -> list[str]:
    """The attempts' ids."""
    return [record.attempt.id for record in records]


async def walk(store: DeliveryLog, query: ListEvents | ListAttempts, most: int = 500) -> list[list[Any]]:
    """The pages from the first to the last, and check that going back finds the same ones."""
    pages = [await _page(store, query)]
    assert pages[0].prev is None
    while pages[-1].next is not None:
        assert len(pages) < most, "the pages never end"
        pages.append(await _page(store, replace(query, next=pages[-1].next)))
        assert pages[-1].items, "a next cursor led to an empty page"
        assert pages[-1].prev is not None
    back = pages[-1]
    for expected in reversed(pages[:-1]):
        assert back.prev is not None
        back = await _page(store, replace(query, prev=back.prev))
        assert back.items == expected.items
        assert back.next is not None
    assert back.prev is None
    return [page.items for page in pages]


async def all_items(store: DeliveryLog, query: ListEvents | ListAttempts) -> list[Any]:
    """Every item, page after page."""
    return [item for items in await walk(store, query) for item in items]


async def _page(store: DeliveryLog, query: ListEvents | ListAttempts) -> Page[Any]:
    if isinstance(query, ListEvents):
        return await store.list_events(query)
    return await store.list_attempts(query)
