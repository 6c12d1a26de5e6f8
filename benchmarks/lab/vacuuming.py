"""What dead rows cost until vacuumed, and which storage parameters help: ``python -m benchmarks.lab.vacuuming``.

An event that was delivered leaves two dead versions of its row, and a dead entry in the index that claims walk. Three
questions, on a table with many delivered rows (``--rows``):

- *Ageing.* How does the time of a claim grow with the events delivered since the last vacuum, and how while a
  transaction holds the xmin horizon, so that a vacuum may remove nothing? What does it do to prune?
- *After it.* How long does a vacuum take then, and does it bring the claim's time back?
- *Parameters.* Events go through the table at full pace with autovacuum at work (it looks every 5 s): as created, as
  created with the threshold that a table of 50 million rows has, with ``relay-cli migrate --with tuning``, and with
  another fill factor. Which keeps claims short, and what does it cost in pace and space?

The first two are measured on one table, first with the horizon free, then with it held. Events go through a bare
loop on one connection: insert, claim, settle. Beside milliseconds stand the pages (8 KiB) that
a claim which finds nothing looks at: they do not depend on what else the machine does. Of several claims the fastest
counts, for the same reason.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import IsolationLevel

from benchmarks.filling import insert, tidy
from benchmarks.measured import Machine
from benchmarks.servers import Servers
from relay.outbox.admin.prune import PruneOptions, prune
from relay.outbox.extensions import extension_sql
from relay.outbox.span import EVERYWHERE
from relay.postgres.codec import fence_at
from relay.postgres.sql import TableName, statement

_DELIVERED = """
INSERT INTO openoutbox_events (event_id, event_type, payload, status, delivered_at)
SELECT gen_random_uuid(), 'history', decode(rpad(md5(n::text), 200, md5(n::text)), 'hex'), 'DELIVERED',
       now() - interval '30 days' + n * interval '1 ms'
FROM generate_series(%(start)s, %(start)s + %(count)s - 1) AS n
"""
_INDEXES = """
SELECT format('DROP INDEX %s', indexrelid::regclass), pg_get_indexdef(indexrelid)
FROM pg_index WHERE indrelid = 'openoutbox_events'::regclass AND NOT indisprimary
UNION ALL
SELECT 'ALTER TABLE openoutbox_events DROP CONSTRAINT openoutbox_events_pkey',
       'ALTER TABLE openoutbox_events ADD PRIMARY KEY (event_id)'
"""
_SINCE_OLDEST = """
SELECT extract(epoch FROM now() - min(delivered_at) - %(count)s * interval '1 ms')::float8
FROM openoutbox_events WHERE status = 'DELIVERED'
"""
_UNVACUUMED = "ALTER TABLE openoutbox_events SET (autovacuum_enabled = false)"
_MOST_PRUNED = 1_000_000
_OLD_AGE = 86_400.0  # of the rows that are pruned: history, not what goes through
_BATCH = 100
_BULK = 500
_PROBES = 10
_FIFTY_MILLION = 50_000_000

Connection = psycopg.Connection[tuple[Any, ...]]


@dataclass(frozen=True)
class Aged:
    """Claims when so many events have been delivered since the last vacuum. Milliseconds, the fastest of several."""

    events: int
    claim: float
    """Of a hundred events."""
    empty: float
    """Of a claim that finds nothing."""
    pages: int
    """That such a claim looks at."""


@dataclass(frozen=True)
class Ageing:
    """One table that was not vacuumed while events went through it."""

    held: bool
    """Whether a transaction held the horizon."""
    points: list[Aged]
    prune_per_second: float
    """Rows, of the first prune."""
    second_prune_starts_after: float
    """Seconds of the first batch of the next one."""
    vacuum_seconds: float
    after: Aged


@dataclass(frozen=True)
class Parameters:
    """Events through a table with these parameters. Milliseconds and pages of claims that find nothing."""

    name: str
    empty_median: float
    empty_worst: float
    pages_median: float
    pages_worst: int
    events_per_second: float
    autovacuums: int
    table_mebibytes: float
    """Table and indexes, beyond what they had at the start."""


class Loop:
    """Events through the table, on one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._cursor = connection.cursor(binary=True)
        self._claim = statement("outbox/claim:claim", TableName())
        self._guard = statement("outbox/claim:guard")
        self._settle = statement("outbox/settle:delivered", TableName())

    def claim(self, count: int) -> tuple[float, int]:
        """Claim and settle; milliseconds of the claim, and the number of claimed events."""
        values = self._values(count)
        began = time.perf_counter()
        with self._connection.transaction():
            self._connection.execute(self._guard)
            rows = self._cursor.execute(self._claim, values).fetchall()
        took = (time.perf_counter() - began) * 1000
        if rows:
            fence = {"ids": [row[0] for row in rows], "relay_id": "bench", "fence": fence_at(rows[0][-1])}
            self._cursor.execute(self._settle, fence)
        return took, len(rows)

    def through(self, count: int) -> float:
        """Insert, claim and settle so many at once; milliseconds of the claim."""
        insert(self._connection, "t", count)
        took, claimed = self.claim(count)
        if claimed != count:
            raise RuntimeError(f"{claimed} of {count} events were claimed")
        return took

    def look(self, events: int) -> Aged:
        """How long claims take now."""
        full = min(self.through(_BATCH) for _ in range(_PROBES))
        return Aged(events, full, *self.empty())

    def empty(self) -> tuple[float, int]:
        """Milliseconds and pages of a claim that finds nothing."""
        took = min(self.claim(_BATCH)[0] for _ in range(_PROBES))
        explain = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + self._claim
        with self._connection.transaction():
            self._connection.execute(self._guard)
            [(plan,)] = self._connection.execute(explain, self._values(_BATCH)).fetchall()
        pages = plan[0]["Plan"]
        return took, pages["Shared Hit Blocks"] + pages["Shared Read Blocks"]

    @staticmethod
    def _values(count: int) -> dict[str, Any]:
        bounds = {"limit": count, "max_bytes": 64 << 20, "inline_bytes": 1 << 19}
        return {**EVERYWHERE.parameters(), **bounds, "max_attempts": 25, "relay_id": "bench"}


@contextlib.contextmanager
def _table(servers: Servers, rows: int, *settings: str) -> Iterator[tuple[str, Connection]]:
    url = servers.fresh_table()
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        for setting in settings:
            connection.execute(setting.encode())
        _fill(connection, rows)
        yield url, connection
    servers.drop_table(url)


def _fill(connection: Connection, rows: int) -> None:
    """Delivered rows, and then the indexes: at fifty million, that is several times faster than the other way round."""
    connection.execute("SET maintenance_work_mem = '1GB'")
    indexes = connection.execute(_INDEXES.encode()).fetchall()
    for drop, _ in indexes:
        connection.execute(drop.encode())
    for start in range(0, rows, 500_000):
        connection.execute(_DELIVERED, {"start": start, "count": min(500_000, rows - start)})
        if start % 5_000_000 == 0 and rows > 5_000_000:
            print(f"  {start:,} of {rows:,} delivered rows", file=sys.stderr)
    for _, make in indexes:
        connection.execute(make.encode())
    tidy(connection)


@contextlib.contextmanager
def _horizon(url: str, held: bool) -> Iterator[None]:
    """A transaction that keeps everything from being removed that was there when it began, or dies after it."""
    with psycopg.connect(url) as connection:
        if held:
            connection.isolation_level = IsolationLevel.REPEATABLE_READ
            connection.execute("SELECT count(*) FROM pg_class")
        yield


def ageing(url: str, connection: Connection, rows: int, events: int, *, held: bool, points: int = 4) -> Ageing:
    """Let events through a table without vacuum, look at claims and at prune, then vacuum it."""
    loop = Loop(connection)
    with _horizon(url, held):
        looks = [loop.look(0)]
        for point in range(1, points + 1):
            for _ in range(events // points // _BULK):
                loop.through(_BULK)
            looks.append(loop.look(events // points * point))
            print(f"  held {held}: {looks[-1]}", file=sys.stderr)
        per_second, again = _prunes(url, min(rows // 4, _MOST_PRUNED))
    began = time.perf_counter()
    connection.execute("VACUUM (INDEX_CLEANUP ON) openoutbox_events")
    vacuumed = time.perf_counter() - began
    return Ageing(held, looks, per_second, again, vacuumed, loop.look(0))


def _prunes(url: str, count: int) -> tuple[float, float]:
    """So many of the oldest rows in one run; then how long another run takes to its first batch."""
    with psycopg.connect(url) as connection:
        [(age,)] = connection.execute(_SINCE_OLDEST.encode(), {"count": count}).fetchall()
    began = time.perf_counter()
    gone = prune(url, TableName(), PruneOptions(delivered_age=age, dead_age=0)).delivered
    per_second = gone / (time.perf_counter() - began)
    times: list[float] = []
    began = time.perf_counter()
    with contextlib.suppress(KeyboardInterrupt):
        prune(url, TableName(), PruneOptions(delivered_age=_OLD_AGE, dead_age=0), _until_first(times))
    return per_second, times[-1] - began


def _until_first(times: list[float]) -> Any:  # noqa: ANN401
    def on_batch(sums: Any) -> None:  # noqa: ANN401
        times.append(time.perf_counter())
        if sums.total:
            raise KeyboardInterrupt

    return on_batch


def parameters(servers: Servers, rows: int, events: int, name: str, settings: list[str]) -> Parameters:
    """``events`` go through with autovacuum at work; a look at claims after each twentieth of them."""
    with _table(servers, rows, *settings) as (_, connection):
        loop = Loop(connection)
        size, vacuums = _state(connection)
        looks, looked, began = [], 0.0, time.perf_counter()
        for number in range(1, events // _BULK + 1):
            loop.through(_BULK)
            if number % (events // _BULK // 20 or 1) == 0:
                at = time.perf_counter()
                looks.append(loop.empty())
                looked += time.perf_counter() - at
        took = time.perf_counter() - began - looked
        size_now, vacuums_now = _state(connection)
        times, pages = [look[0] for look in looks], [look[1] for look in looks]
        figures = Parameters(
            name,
            statistics.median(times),
            max(times),
            statistics.median(pages),
            max(pages),
            events / took,
            vacuums_now - vacuums,
            size_now - size,
        )
        print(f"  {figures}", file=sys.stderr)
        return figures


def _state(connection: Connection) -> tuple[float, int]:
    [row] = connection.execute(
        "SELECT pg_total_relation_size(relid) / 1048576.0, autovacuum_count FROM pg_stat_user_tables "
        "WHERE relname = 'openoutbox_events'"
    ).fetchall()
    return float(row[0]), int(row[1])


def settings_of() -> dict[str, list[str]]:
    """What is compared."""
    alter = "ALTER TABLE openoutbox_events SET ({})"
    dead = _FIFTY_MILLION // 5  # by the default scale factor of 0.2
    large = f"autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = {dead}, "
    large += f"autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = {dead}"
    tuning = [sql.replace("%%", "%") for sql in extension_sql("tuning", TableName())]
    return {
        "as created": [],
        "as created, with the threshold of 50 M rows": [alter.format(large)],
        "tuning": tuning,
        "tuning, fillfactor 70": [*tuning, alter.format("fillfactor = 70")],
    }


def table(aged: list[Ageing], compared: list[Parameters]) -> str:
    """The figures, as Markdown."""
    lines = []
    for one in aged:
        lines += [f"\nHorizon {'held' if one.held else 'free'}:\n"]
        lines += ["| delivered since a vacuum | claim ms | empty ms | pages |", "|---|---|---|---|"]
        lines += [_line(f"{at.events:,}", at) for at in one.points]
        lines += [_line(f"after a vacuum of {one.vacuum_seconds:.1f} s", one.after)]
        again = f"the next one's first batch after {one.second_prune_starts_after:.2f} s"
        lines += [f"\nprune {one.prune_per_second:,.0f} rows/s; {again}"]
    lines += ["\n| parameters | empty ms, median / worst | pages, median / worst | events/s | autovacuums | MiB more |"]
    lines += ["|---|---|---|---|---|---|"]
    for each in compared:
        times = f"{each.empty_median:.1f} / {each.empty_worst:.1f} | {each.pages_median:,.0f} / {each.pages_worst:,}"
        cells = f"{times} | {each.events_per_second:,.0f} | {each.autovacuums} | {each.table_mebibytes:,.0f}"
        lines.append(f"| {each.name} | {cells} |")
    return "\n".join(lines)


def _line(name: str, at: Aged) -> str:
    return f"| {name} | {at.claim:.1f} | {at.empty:.1f} | {at.pages:,} |"


def main() -> None:
    """Measure, print the tables, and write JSON with --json."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lab.vacuuming", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000, help="delivered rows in the table (default 2000000)")
    parser.add_argument("--events", type=int, default=400_000, help="that go through each table (default 400000)")
    parser.add_argument("--only", choices=["ageing", "parameters"], help="leave the other part out")
    parser.add_argument("--json", type=Path, help="write what was measured to this file")
    options = parser.parse_args()
    aged: list[Ageing] = []
    compared: list[Parameters] = []
    with Servers([], {"autovacuum_naptime": "5s"}) as servers:
        if options.only != "parameters":
            with _table(servers, options.rows, _UNVACUUMED) as (url, connection):
                aged = [ageing(url, connection, options.rows, options.events, held=held) for held in (False, True)]
        if options.only != "ageing":
            sets = settings_of()
            compared = [parameters(servers, options.rows, options.events, name, each) for name, each in sets.items()]
    print(table(aged, compared))
    if options.json:
        machine = Machine.this(rows=options.rows, events=options.events)
        figures = {
            "machine": asdict(machine),
            "ageing": [asdict(one) for one in aged],
            "parameters": [asdict(one) for one in compared],
        }
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
