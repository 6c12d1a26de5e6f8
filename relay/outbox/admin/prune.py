"""Delete old delivered and dead events beside a working relay (docs/reference/conformance.md#command-line).

Batches are deleted oldest first, each in a transaction of its own that takes a fraction of a second: a batch that
takes longer is followed by a smaller one. While events wait to be sent it works a fifth of the time only, so that it
costs a relay that drains a backlog less than a tenth of its pace. Rows that another transaction locks are skipped and
left to the next run. After an interruption exactly what was reported is deleted; the next run continues from there.

The database user needs SELECT, DELETE, and UPDATE of one column (PostgreSQL wants it for FOR UPDATE).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, Literal

from relay.outbox.admin.connection import Connection, database_time, operating, rows, short_transaction
from relay.outbox.span import EVERYWHERE
from relay.postgres.grants import rights_text
from relay.postgres.operating import next_size, uninterrupted
from relay.postgres.refused import BatchPrune, BulkRefusals, PrunePlace, fewer
from relay.postgres.sql import TableName, statement

COUNT_MOST: Final = 5_000_000
"""Where a dry run stops counting: a second or two of reading an index."""

_REST: Final = 4  # while events wait, times as long as the batch before took
_LOOK_SHARE: Final = 20  # times as long as a look for waiting events took, until the next one
_LONGEST_REST: Final = 1.0  # seconds; then the caller may stop the prune, and sees that it still runs
_DOING: Final = "pruning"
_RIGHTS: Final = rights_text("outbox/grants", "prune_events", "prune_lock")

Kind = Literal["delivered", "dead"]
KINDS: Final[tuple[Kind, ...]] = ("delivered", "dead")


@dataclass(frozen=True, slots=True)
class PruneOptions:
    """What is old. Ages are seconds; 0 leaves that status alone."""

    delivered_age: float = 7 * 86_400.0
    """Since ``delivered_at``."""
    dead_age: float = 30 * 86_400.0
    """Since ``updated_at``, the moment of death."""
    batch_size: int = 1000
    """Most rows of one transaction."""
    as_of: datetime | None = None
    """From when ages count; None and what is later mean the beginning, by the database's clock."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """Rows deleted and committed so far; of a dry run, rows that would be."""

    delivered: int = 0
    dead: int = 0
    at: datetime | None = None
    """From when ages are counted, by the database's clock."""
    delivered_before: datetime | None = None
    """By the database's clock at the start; None when delivered rows are left alone."""
    dead_before: datetime | None = None
    exact: bool = True
    """False when a dry run has stopped counting."""

    @property
    def total(self) -> int:
        """Rows of both kinds."""
        return self.delivered + self.dead


def prune(
    url: str, table: TableName, options: PruneOptions, on_batch: Callable[[Pruned], None] = lambda _: None
) -> Pruned:
    """Delete; ``on_batch`` receives the totals before the first batch, after each, and every second of a rest.

    Raises StorageBusy when the table stays locked, SchemaError without the rights; what ``on_batch`` was told of stays
    done.
    """
    with operating(url, table, _DOING, _RIGHTS) as connection:
        done = _cutoffs(connection, options)
        refusals = BulkRefusals(_DOING)
        on_batch(done)
        for kind in KINDS:
            if _before(done, kind) is not None:
                done = _prune_kind(connection, table, kind, options.batch_size, done, on_batch, refusals)
        refusals.end()
        return done


def check_rights(url: str, table: TableName) -> None:
    """Raise SchemaError, naming the GRANT, when ``prune`` lacks a right; deletes nothing. StorageBusy as ``prune``."""
    with operating(url, table, _DOING, _RIGHTS) as connection, short_transaction(connection):
        bounds = {"limit": 0, "before": "-infinity", "after": "-infinity", "excluded": []}
        rows(connection, "outbox/prune:prune", table, bounds, "dead")


def preview(url: str, table: TableName, options: PruneOptions, count_most: int = COUNT_MOST) -> Pruned:
    """What ``prune`` would delete now, of each status counted up to ``count_most``.

    Counts from the indexes and locks nothing. Raises StorageBusy as ``prune``.
    """
    with operating(url, table, _DOING) as connection, short_transaction(connection):
        totals = _cutoffs(connection, options)
        counts = {"delivered": 0, "dead": 0}
        for kind in KINDS:
            if (before := _before(totals, kind)) is not None:
                bounds = {"before": before, "most": count_most + 1}
                [(count,)] = rows(connection, "outbox/prune:prunable", table, bounds, kind)
                counts[kind] = min(count, count_most)
                totals = replace(totals, exact=totals.exact and count <= count_most)
        return replace(totals, delivered=counts["delivered"], dead=counts["dead"])


def _cutoffs(connection: Connection, options: PruneOptions) -> Pruned:
    now = database_time(connection)
    if options.as_of is not None:
        now = min(now, options.as_of)
    return Pruned(
        at=now,
        delivered_before=_aged(now, options.delivered_age) if options.delivered_age else None,
        dead_before=_aged(now, options.dead_age) if options.dead_age else None,
    )


def _aged(now: datetime, age: float) -> datetime:
    """The time so many seconds before; the first of the calendar where it has none."""
    try:
        return now - timedelta(seconds=age)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def _before(done: Pruned, kind: Kind) -> datetime | None:
    return done.delivered_before if kind == "delivered" else done.dead_before


def _prune_kind(
    connection: Connection,
    table: TableName,
    kind: Kind,
    most: int,
    done: Pruned,
    on_batch: Callable[[Pruned], None],
    refusals: BulkRefusals,
) -> Pruned:
    place, waiting = PrunePlace(), _Waiting(connection, table)
    pruning, size = BatchPrune(connection, _DOING, refusals), most

    def run(name: str, parameters: Mapping[str, object]) -> list[tuple[Any, ...]]:
        return rows(connection, f"outbox/prune:{name}", table, parameters, kind)

    while True:
        began = time.monotonic()
        with uninterrupted():
            bounds = {"limit": size, "before": _before(done, kind)}
            count, chosen = pruning.delete(bounds, place, partial(run, "prune"), partial(run, "oldest"))
            seconds = time.monotonic() - began
            if count:
                delivered, dead = (count, 0) if kind == "delivered" else (0, count)
                done = replace(done, delivered=done.delivered + delivered, dead=done.dead + dead)
                on_batch(done)
        if chosen is None:
            size = fewer(size)
            continue
        if chosen < size:
            return done
        size = next_size(size, most, seconds)
        if waiting.now():
            rest = seconds * _REST
            while rest > 0:
                time.sleep(min(rest, _LONGEST_REST))
                rest -= _LONGEST_REST
                on_batch(done)


class _Waiting:
    """Whether an event is due, so that a relay wants what the database can do.

    Where dead entries make that slow to see, it is looked at for a twentieth of the time, and stands meanwhile.
    """

    def __init__(self, connection: Connection, table: TableName) -> None:
        self._connection = connection
        self._table = table
        self._look_at = float("-inf")
        self._waits = False

    def now(self) -> bool:
        """By the last look."""
        began = time.monotonic()
        if began >= self._look_at:
            with self._connection.transaction():
                self._connection.execute(statement("outbox/claim:guard"))
                [(age,)] = rows(self._connection, "outbox/backlog:oldest_due_age", self._table, EVERYWHERE.parameters())
            self._waits = bool(age > 0)
            ended = time.monotonic()
            self._look_at = ended + (ended - began) * _LOOK_SHARE
        return self._waits
