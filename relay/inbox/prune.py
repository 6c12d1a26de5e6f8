"""Delete old marks from an inbox, beside working consumers.

An event whose mark is gone is new again, so a mark must outlive every repeat of its message. How late one may come is
the operator's knowledge (the broker's retention, replays of old events), and marks younger than that are never deleted.

Batches are deleted oldest first, each in a transaction of its own that takes a fraction of a second: a batch that takes
longer is followed by a smaller one. Rows that another transaction locks are skipped and left to the next run. Those
that the database refuses to delete, because an application's table refers to them for example, cost the others nothing.
After an interruption exactly what was reported is deleted; the next run continues from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from relay.core.durations import span
from relay.core.errors import ConfigError
from relay.inbox.table import opened, rows
from relay.postgres.connect import SyncConnection as Connection
from relay.postgres.grants import rights_text
from relay.postgres.operating import database_time, next_size, uninterrupted
from relay.postgres.refused import BatchPrune, BulkRefusals, PrunePlace, fewer
from relay.postgres.sql import TableName

COUNT_MOST: Final = 5_000_000
"""Where a dry run stops counting: a second or two of reading an index."""

_DOING: Final = "pruning the inbox"
_RIGHTS: Final = rights_text("inbox/grants", "prune_marks")
_DAY: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class InboxRetention:
    """Which marks are old. Raises ConfigError when one may be needed still."""

    older_than: float = 30 * _DAY
    """Seconds since the mark."""
    redelivered_within: float = 7 * _DAY
    """Seconds within which the message of an event may come again."""
    batch_size: int = 1000
    """Most rows of one transaction."""

    def __post_init__(self) -> None:
        if self.older_than <= 0 or self.older_than < self.redelivered_within:
            raise ConfigError(
                f"--older-than: {span(self.older_than)} is shorter than a message may come again, which is "
                f"{span(self.redelivered_within)} (--redelivered-within). An event whose mark is deleted before its "
                "last repeat has its effect twice. Keep marks longer, or say how late a repeat may be"
            )


@dataclass(frozen=True, slots=True)
class PrunedMarks:
    """Marks deleted and committed so far; of a dry run, marks that would be."""

    before: datetime
    """By the database's clock at the start."""
    count: int = 0
    exact: bool = True
    """False when a dry run has stopped counting at ``COUNT_MOST``."""


def prune(
    url: str, table: TableName, retention: InboxRetention, on_batch: Callable[[PrunedMarks], None] = lambda _: None
) -> PrunedMarks:
    """Delete; ``on_batch`` receives the totals after each batch, and once before the first.

    Raises StorageBusy when the table stays locked, SchemaError without the table or the rights, and at its end
    RowRefused for marks that the database refused to delete; what ``on_batch`` received stays deleted.
    """
    with opened(url, table, _DOING, _RIGHTS) as connection:
        done = _start(connection, retention)
        on_batch(done)
        refusals = BulkRefusals(_DOING, "mark")
        pruning, place = BatchPrune(connection, _DOING, refusals), PrunePlace()
        delete, oldest = (partial(rows, connection, f"inbox/admin:{name}", table) for name in ("prune", "oldest"))
        size = retention.batch_size
        while True:
            began = time.monotonic()
            with uninterrupted():
                count, chosen = pruning.delete({"limit": size, "before": done.before}, place, delete, oldest)
                if count:
                    done = replace(done, count=done.count + count)
                    on_batch(done)
            if chosen is None:
                size = fewer(size)
                continue
            if chosen < size:
                break
            size = next_size(size, retention.batch_size, time.monotonic() - began)
        refusals.end()
        return done


def preview(url: str, table: TableName, retention: InboxRetention) -> PrunedMarks:
    """What ``prune`` would delete now; counts from the index and locks nothing."""
    with opened(url, table, _DOING, "SELECT") as connection:
        start = _start(connection, retention)
        bounds = {"before": start.before, "most": COUNT_MOST + 1}
        [(count,)] = rows(connection, "inbox/admin:prunable", table, bounds)
        return replace(start, count=min(count, COUNT_MOST), exact=count <= COUNT_MOST)


def _start(connection: Connection, retention: InboxRetention) -> PrunedMarks:
    return PrunedMarks(database_time(connection) - timedelta(seconds=retention.older_than))
