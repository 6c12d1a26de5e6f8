"""Copies a log to another store in the order of time, and compares the two.

Writing an entry again is harmless, so a copy may be interrupted, resumed and repeated. Attempts are not written in the
order of their times: a relay whose log was away writes older ones later. So a copy that resumes goes back by a margin
before the last attempt that it read. Copy once, switch the relays over, and copy again for what came between.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from relay.deliverylog.cursor import ATTEMPTS, decode, encode
from relay.deliverylog.interface import DeliveryLog
from relay.deliverylog.paging import attempt_position
from relay.deliverylog.query import MOST_LIMIT, ListAttempts, TimeWindow
from relay.deliverylog.records import AttemptRecord, LogEntry
from relay.deliverylog.times import EARLIEST, from_ms, to_ms


class Copied(NamedTuple):
    """The progress of a copy."""

    attempts: int
    cursor: str
    """Where to resume."""
    time: datetime
    """Of the last attempt that is in the target."""


@dataclass(slots=True)
class Side:
    """One of two logs that are compared."""

    attempts: int = 0
    _hash: hashlib.blake2b = field(default_factory=lambda: hashlib.blake2b(digest_size=16))

    @property
    def digest(self) -> str:
        """Of all attempts in their order; equal logs have equal digests, whatever their driver."""
        return self._hash.hexdigest()

    def add(self, content: bytes) -> None:
        """Count an attempt."""
        self.attempts += 1
        self._hash.update(content)


@dataclass(slots=True)
class Comparison:
    """The difference between two logs up to a time."""

    source: Side = field(default_factory=Side)
    target: Side = field(default_factory=Side)
    missing: int = 0
    """Attempts that only the source has."""
    different: int = 0
    """Attempts that both have, with another content."""
    additional: int = 0
    """Attempts that only the target has: relays may write to it already."""
    first: str = ""
    """The id of the first attempt that is missing or different."""

    @property
    def complete(self) -> bool:
        """Whether the target has everything that the source has."""
        return self.missing == self.different == 0


async def copy_log(
    source: DeliveryLog,
    target: DeliveryLog,
    *,
    after: str | None = None,
    margin: timedelta = timedelta(0),
    batch_size: int = MOST_LIMIT,
) -> AsyncIterator[Copied]:
    """Copy every attempt and its event, from ``margin`` before the cursor ``after``.

    Yields the progress after each batch is in the target. Raises InvalidCursor or VersionMismatch.
    """
    window, cursor = TimeWindow(), after
    if after is not None and margin:
        window = TimeWindow(gte=max(from_ms(decode(after, ATTEMPTS).ms) - margin, EARLIEST))
        cursor = None
    copied = 0
    while True:
        page = await source.list_attempts(ListAttempts(order="asc", limit=batch_size, next=cursor, time=window))
        if not page.items:
            return
        # The first copy of an event is the one its row keeps; in a batch that is the last, so reverse it.
        await target.insert_many([LogEntry(record.event, record.attempt) for record in reversed(page.items)])
        copied += len(page.items)
        cursor = page.next or encode(ATTEMPTS, attempt_position(page.items[-1]))
        yield Copied(copied, cursor, page.items[-1].attempt.time)
        if page.next is None:
            return


async def compare_logs(
    source: DeliveryLog,
    target: DeliveryLog,
    *,
    until: datetime,
    progress: Callable[[Comparison], None] = lambda _: None,
) -> Comparison:
    """Read both logs up to ``until``, inclusive, and compare every attempt with its event; calls ``progress``."""
    result = Comparison()
    sources, targets = _attempts(source, until), _attempts(target, until)
    left, right = await anext(sources, None), await anext(targets, None)
    while left is not None or right is not None:
        ours = left if left is not None and (right is None or _key(left) <= _key(right)) else None
        theirs = right if right is not None and (left is None or _key(right) <= _key(left)) else None
        _count(result, ours, theirs)
        if ours is not None:
            left = await anext(sources, None)
        if theirs is not None:
            right = await anext(targets, None)
        progress(result)
    return result


def _count(result: Comparison, left: AttemptRecord | None, right: AttemptRecord | None) -> None:
    ours = None if left is None else _content(left)
    theirs = None if right is None else _content(right)
    if ours is not None:
        result.source.add(ours)
    if theirs is not None:
        result.target.add(theirs)
    result.missing += theirs is None
    result.additional += ours is None
    result.different += ours is not None and theirs is not None and ours != theirs
    if left is not None and ours != theirs and not result.first:
        result.first = left.attempt.id


async def _attempts(log: DeliveryLog, until: datetime) -> AsyncIterator[AttemptRecord]:
    cursor: str | None = None
    while True:
        page = await log.list_attempts(
            ListAttempts(order="asc", limit=MOST_LIMIT, next=cursor, time=TimeWindow(lte=until))
        )
        for record in page.items:
            yield record
        cursor = page.next
        if cursor is None:
            return


def _key(record: AttemptRecord) -> tuple[int, str, str]:
    """The order of a listing; UTF-8 and code points sort alike."""
    return to_ms(record.attempt.time), record.attempt.id, record.attempt.tenant_id


def _content(record: AttemptRecord) -> bytes:
    """All fields in a form that does not depend on the driver: metadata has no order in PostgreSQL."""
    fields = [[getattr(one, name) for name in one.__slots__] for one in (record.attempt, record.event)]
    return json.dumps(fields, sort_keys=True, default=_json_form).encode("ascii")


def _json_form(value: datetime | bytes) -> str:
    return str(to_ms(value)) if isinstance(value, datetime) else value.hex()
