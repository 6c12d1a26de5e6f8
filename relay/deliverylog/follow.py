"""Reads the log while it is written: attempts as they arrive, for a terminal.

Attempts arrive late and out of order: each relay writes its own batches. So each reading looks back by a margin, and
remembers what it has returned within it. A reading is one page, however much was written meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from relay.deliverylog.interface import DeliveryLog
from relay.deliverylog.query import MOST_LIMIT, ListAttempts, Page, TimeWindow
from relay.deliverylog.records import AttemptRecord
from relay.deliverylog.times import EARLIEST

MARGIN: Final = timedelta(seconds=15)
"""How late an attempt may arrive and still be shown."""

_Key = tuple[str, str, datetime]


class Arrivals(NamedTuple):
    """What one reading returned."""

    records: list[AttemptRecord]
    """Attempts that were not returned before, the oldest first."""
    more: bool
    """Whether older ones within the margin did not fit into the page."""


async def follow(store: DeliveryLog, filters: ListAttempts, *, last: int, interval: float) -> AsyncIterator[Arrivals]:
    """The newest ``last`` attempts that pass the filters, and then every ``interval`` seconds those that arrived.

    Ends when its caller does. The filters' window, limit, order, cursors and payloads are not used.
    """
    plain = replace(filters, time=None, order="desc", sort_by="time", next=None, prev=None, include_data=False)
    shown = (await store.list_attempts(replace(plain, limit=max(last, 1)))).items
    newest = shown[0].attempt.time if shown else None
    known = {_key(record) for record in [*shown, *(await _since(store, plain, newest)).items]}
    yield Arrivals(shown[:last][::-1], more=False)
    while True:
        await asyncio.sleep(interval)
        page = await _since(store, plain, newest)
        fresh = [record for record in page.items if _key(record) not in known]
        # A page that is not full holds all that the next reading can return again.
        known = {_key(record) for record in page.items} | (known if page.next else set())
        if fresh:
            newest = max(newest or EARLIEST, fresh[0].attempt.time)
            yield Arrivals(fresh[::-1], more=page.next is not None and len(fresh) == len(page.items))


async def _since(store: DeliveryLog, plain: ListAttempts, newest: datetime | None) -> Page[AttemptRecord]:
    """The newest page of what may have arrived late: its clock is the database's, which may differ from this one."""
    now = datetime.now(UTC)
    since = min(now, newest or now) - MARGIN
    return await store.list_attempts(replace(plain, limit=MOST_LIMIT, time=TimeWindow(gte=since)))


def _key(record: AttemptRecord) -> _Key:
    return record.attempt.tenant_id, record.attempt.id, record.attempt.time
