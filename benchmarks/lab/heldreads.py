"""What a held xmin horizon costs everything but claims, settles and reaps: ``python -m benchmarks.lab.heldreads``.

One table, whose events were all delivered while a snapshot of another session stays open: each of them left dead
entries in the indexes of what waits and of what is leased. Every reading of the relay, the commands and the console is
timed, and prune and the inbox's prune delete some rows; then the snapshot ends, the table is vacuumed, and the same is
timed again. Printed are the medians, held and free.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime

import psycopg

from benchmarks.lab.paused import storage_on
from benchmarks.servers import Servers
from relay.core.errors import StorageBusy
from relay.core.event import Status
from relay.core.pause import PauseScope, PauseTarget
from relay.inbox import prune as marks
from relay.inbox.table import create
from relay.outbox.admin import prune as events
from relay.outbox.admin.browse import RowFilter, list_events, read_figures
from relay.outbox.admin.connection import operating
from relay.outbox.admin.event_types import read_event_types
from relay.outbox.admin.held import read_held
from relay.outbox.admin.outbox_check import check_storage
from relay.outbox.admin.overview import dead_groups, read_overview
from relay.outbox.admin.pause import pause
from relay.outbox.admin.search import EventSearch, search_events
from relay.outbox.extensions import add_extension
from relay.outbox.storage import PostgresOutbox
from relay.postgres.sql import DEFAULT_INBOX, TableName

_EVENTS = """
INSERT INTO openoutbox_events (event_id, event_type, payload, available_at, created_at)
SELECT gen_random_uuid(), 'event', '\\x00', at, at
FROM (SELECT now() - interval '1 day' + n * interval '1 ms' AS at FROM generate_series(1, %s) AS n)
"""
_DELIVER = (
    "UPDATE openoutbox_events SET status = 'DELIVERING', locked_by = 'gone', locked_at = now()",
    """UPDATE openoutbox_events SET status = 'DELIVERED', locked_by = NULL, locked_at = NULL,
    delivered_at = created_at + interval '1 minute'""",
)
_MARKS = """
INSERT INTO openoutbox_inbox (consumer, event_id, received_at)
SELECT 'consumer', n::text, now() - interval '20 days' + n * interval '1 ms' FROM generate_series(1, %s) AS n
"""
_NAME = TableName()
_INBOX = TableName(DEFAULT_INBOX)
_TIMES = 3


def _readings(url: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """What the commands and the console read."""
    yield "`relay-cli stats`", lambda: _figures(url)
    yield "`relay-cli stats`, the share of each pause", lambda: _held(url)
    yield "`relay-cli list --status pending`", lambda: list_events(url, _NAME, RowFilter((Status.PENDING,)))
    yield "`relay-cli check`", lambda: check_storage(url, _NAME, 180.0, retention=7 * 86_400.0)
    yield "`relay-cli prune --dry-run`", lambda: events.preview(url, _NAME, events.PruneOptions())
    yield "console: overview", lambda: read_overview(url, _NAME)
    yield "console: event types", lambda: read_event_types(url, _NAME)
    yield "console: dead letters", lambda: dead_groups(url, _NAME)
    yield "console: events", lambda: search_events(url, _NAME, EventSearch())


def _figures(url: str) -> None:
    with operating(url, _NAME, "reading") as connection:
        read_figures(connection, _NAME)


def _held(url: str) -> None:
    with operating(url, _NAME, "reading") as connection:
        read_held(connection, _NAME)


def _timed(read: Callable[[], object]) -> float:
    """Seconds, the median; infinite for what is cancelled."""
    times = []
    for _ in range(_TIMES):
        began = time.monotonic()
        try:
            read()
        except StorageBusy:
            return float("inf")
        times.append(time.monotonic() - began)
    return statistics.median(times)


async def _of_relay(url: str) -> dict[str, float]:
    """What a relay reads once its head stands."""
    storage: PostgresOutbox = storage_on(url)
    began = time.monotonic()
    await storage.open()
    times = {"relay: start": time.monotonic() - began}
    for _ in range(20):
        await storage.look()
    reads: tuple[tuple[str, Callable[[], Awaitable[object]]], ...] = (
        ("relay: a claim that finds nothing, and its look for a refused row", lambda: storage.claim(100, 1 << 30)),
        ("relay: lag", storage.oldest_due_age),
        ("relay: backlog", storage.backlog),
        ("relay: upkeep", storage.upkeep),
    )
    for name, read in reads:
        several = []
        for _ in range(_TIMES):
            began = time.monotonic()
            await read()
            several.append(time.monotonic() - began)
        times[name] = statistics.median(several)
    await storage.close()
    return times


def _prunes(url: str, rows: int) -> dict[str, float]:
    """Seconds a million rows; ``rows`` of each table are deleted, and once more as many by a later run."""
    times = {}
    for run in ("first", "later"):
        with psycopg.connect(url, autocommit=True) as connection:
            before = _time_behind(connection, "delivered_at FROM openoutbox_events WHERE status = 'DELIVERED'", rows)
            received = _time_behind(connection, "received_at FROM openoutbox_inbox", rows)
        age, marks_age = ((datetime.now(UTC) - one).total_seconds() for one in (before, received))
        began = time.monotonic()
        pruned = events.prune(url, _NAME, events.PruneOptions(delivered_age=age, dead_age=0.0)).total
        times[f"prune, {run} run, a million rows"] = (time.monotonic() - began) / pruned * 1e6
        began = time.monotonic()
        retention = marks.InboxRetention(marks_age, redelivered_within=0.0)
        pruned = marks.prune(url, _INBOX, retention).count
        times[f"prune of the inbox, {run} run, a million marks"] = (time.monotonic() - began) / pruned * 1e6
    return times


def _time_behind(connection: psycopg.Connection, what: str, rows: int) -> datetime:
    """The time before which so many rows stand."""
    found = connection.execute(f"SELECT {what} ORDER BY 1 OFFSET {rows} LIMIT 1".encode()).fetchone()
    assert found is not None
    return found[0]  # type: ignore[no-any-return]


def _measure(url: str, pruned: int) -> dict[str, float]:
    times = asyncio.run(_of_relay(url))
    for name, read in _readings(url):
        times[name] = _timed(read)
    times |= _prunes(url, pruned)
    for name, seconds in times.items():
        print(f"{name}: {seconds * 1000:,.1f} ms", file=sys.stderr)
    return times


def _fill(url: str, rows: int) -> psycopg.Connection:
    """The connection whose snapshot holds the horizon."""
    add_extension(url, _NAME, "pause")
    create(url, _INBOX)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER TABLE openoutbox_events SET (autovacuum_enabled = off)")
        connection.execute(_EVENTS, (rows,))
        connection.execute(_MARKS, (rows,))
        connection.execute("VACUUM ANALYZE")
        holder = psycopg.connect(url, application_name="report")
        holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        holder.execute("SELECT count(*) FROM pg_class")
        for statement in _DELIVER:
            connection.execute(statement)
        connection.execute("VACUUM ANALYZE")
    pause(url, _NAME, PauseTarget(PauseScope.TYPE, "other"), who="benchmark")
    return holder


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.lab.heldreads",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="events that were delivered (1000000)")
    parser.add_argument("--pruned", type=int, default=100_000, help="rows of one prune (100000)")
    options = parser.parse_args()
    with Servers([]) as servers:
        url = servers.fresh_table()
        with _fill(url, options.rows):
            held = _measure(url, options.pruned)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM (INDEX_CLEANUP ON, ANALYZE)")
        free = _measure(url, options.pruned)
    print("| | free, ms | held, ms |\n|---|---|---|")
    for name, seconds in held.items():
        print(f"| {name} | {free[name] * 1000:,.1f} | {seconds * 1000:,.1f} |")


if __name__ == "__main__":
    main()
