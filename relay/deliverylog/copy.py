"""Copies a log to another store, batch by batch in the order of time; it can be taken up again where it stopped.

Writing a batch again is harmless, so a copy that was interrupted may also simply begin anew. What is written to the
source meanwhile is found if it is newer than what was read last; so copy once, switch the relay over, and copy the
rest from the last cursor.
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
    """How far a copy has come: attempts so far, and the cursor from which it goes on."""

    attempts: int
    cursor: str


async def copy_log(
    source: DeliveryLog, target: DeliveryLog, *, after: str | None = None, batch_size: int = MOST_LIMIT
) -> AsyncIterator[Copied]:
    """Copy every attempt and its event after a cursor; tells after each batch, which is then in the target."""
    copied, cursor = 0, after
    while True:
        page = await source.list_attempts(ListAttempts(order="asc", limit=batch_size, next=cursor))
        if not page.items:
            return
        # The first copy of an event is the one its row keeps; in a batch that is the last, so turn it round.
        await target.insert_many([LogEntry(record.event, record.attempt) for record in reversed(page.items)])
        copied += len(page.items)
        cursor = page.next or encode(ATTEMPTS, attempt_position(page.items[-1]))
        yield Copied(copied, cursor)
        if page.next is None:
            return
