"""Copies a log to another store, batch by batch in the order of time; an interrupted copy can resume where it stopped.

Writing a batch again is harmless, so an interrupted copy may also start again. Attempts that are written to the
source meanwhile are copied if they are newer than the last one read; so copy once, switch the relay over, and copy
the rest from the last cursor.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from relay.deliverylog.cursor import ATTEMPTS, encode
from relay.deliverylog.model import LogEntry
from relay.deliverylog.paging import attempt_position
from relay.deliverylog.query import MOST_LIMIT, ListAttempts
from relay.deliverylog.store import DeliveryLog


class Copied(NamedTuple):
    """The progress of a copy: attempts so far, and the cursor from which it continues."""

    attempts: int
    cursor: str


async def copy_log(
    source: DeliveryLog, target: DeliveryLog, *, after: str | None = None, batch_size: int = MOST_LIMIT
) -> AsyncIterator[Copied]:
    """Copy every attempt and its event after a cursor; yields the progress after each batch is in the target."""
    copied, cursor = 0, after
    while True:
        page = await source.list_attempts(ListAttempts(order="asc", limit=batch_size, next=cursor))
        if not page.items:
            return
        # The first copy of an event is the one its row keeps; in a batch that is the last, so reverse it.
        await target.insert_many([LogEntry(record.event, record.attempt) for record in reversed(page.items)])
        copied += len(page.items)
        cursor = page.next or encode(ATTEMPTS, attempt_position(page.items[-1]))
        yield Copied(copied, cursor)
        if page.next is None:
            return
