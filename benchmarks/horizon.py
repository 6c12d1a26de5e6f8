"""What a held xmin horizon costs: ``python -m benchmarks.horizon``.

Two runs stand side by side: in one of them a transaction of another session keeps a snapshot open from before the
first delivery to the end, as a dump, a report or a forgotten BEGIN does, so that vacuum removes nothing. Each run is a
drain of ``--events`` by a relay with the null publisher; then, with ``--seconds``, ``--rate`` events a second, one a
transaction, on top of ``--dead`` dead entries. Cells differ in ON_DELIVERED and ORDERING, and a bare loop of SKIP
LOCKED on one connection is the yardstick. Drains are interleaved: free and held in turn, the other one first in the
next round. At the steady rate both run at once, each with a server of its own, so that what else the machine does
costs both. Printed are the pace of the whole drain and of its last
fifth, claims by the relay's own histogram, how long an event is stored, PostgreSQL's CPU an event, and the ratio of
held to free. ``python -m benchmarks.report`` draws the picture, from --json docs/design/performance/horizon.json.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

import psycopg

from benchmarks.filling import hide, show
from benchmarks.floor import claim_and_settle
from benchmarks.horizon_table import Cell, pace_from, table
from benchmarks.measured import Machine
from benchmarks.process import RelayProcess
from benchmarks.servers import Servers
from benchmarks.writing import define_write
from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName

_FILL = """
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, available_at, created_at)
SELECT gen_random_uuid(), 'event', 'key-' || n %% 1000, decode(rpad(md5(n::text), 1024, md5(n::text)), 'hex'), at, at
FROM (
    SELECT n, now() - make_interval(secs => (%(count)s - n) * %(apart)s::float8) AS at
    FROM generate_series(1, %(count)s) AS n
) AS rows
"""
_INSERT = """
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload)
VALUES (gen_random_uuid(), 'event', 'key-' || n % 1000, decode(rpad(md5(n::text), 1024, md5(n::text)), 'hex'))
RETURNING event_id
"""
_DEAD = (
    _FILL.replace("rpad(md5(n::text), 1024, md5(n::text))", "'00'"),
    "UPDATE openoutbox_events SET status = 'DELIVERING', locked_by = 'before', locked_at = NOW()",
    "UPDATE openoutbox_events SET status = 'DELIVERED', locked_by = NULL, locked_at = NULL, delivered_at = NOW()",
)
_CLAIMS = "openoutbox_storage_latency_seconds"
_OF_CLAIMS = 'op="claim"'
_STORED = "openoutbox_events_e2e_latency_seconds"
_SAMPLE = 0.1  # seconds between two looks at the relay's counter
_APART = 0.00002  # seconds between two events of a backlog
_LONGEST = 3600.0  # seconds of one drain
_LINE = re.compile(rb"^(openoutbox_\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


class Metrics:
    """A look at what a relay says of itself."""

    def __init__(self, relay: RelayProcess) -> None:
        with urllib.request.urlopen(f"{relay.url}/metrics", timeout=10) as answer:
            self._lines = _LINE.findall(answer.read())

    def value(self, name: str, label: str = "") -> float:
        """The sum of the series of this name and label."""
        return sum(
            float(value) for one, labels, value in self._lines if one == name.encode() and label.encode() in labels
        )

    def buckets(self, name: str, label: str = "") -> dict[float, float]:
        """The cumulative counts of a histogram by their upper bounds."""
        found: dict[float, float] = {}
        for one, labels, value in self._lines:
            bound = re.search(rb'le="([^"]+)"', labels)
            if one == f"{name}_bucket".encode() and label.encode() in labels and bound:
                upper = float(bound[1])
                found[upper] = found.get(upper, 0.0) + float(value)
        return dict(sorted(found.items()))


def _quantile(before: dict[float, float], after: dict[float, float], share: float) -> float:
    """Milliseconds, between the bounds of a bucket in proportion."""
    counts = {bound: count - before.get(bound, 0.0) for bound, count in after.items()}
    wanted = share * max(counts.values(), default=0.0)
    lower, below = 0.0, 0.0
    for upper, count in counts.items():
        if count >= wanted and count > below:
            top = upper if upper != float("inf") else lower
            return (lower + (top - lower) * (wanted - below) / (count - below)) * 1000
        lower, below = upper, count
    return float("nan")


@contextmanager
def _horizon(url: str, *, held: bool) -> Iterator[None]:
    """Keep a snapshot open, as a report does."""
    if not held:
        yield
        return
    with psycopg.connect(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM pg_class")
        yield


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run is."""

    on_delivered: str
    ordering: str
    held: bool
    batch: int

    def environment(self, url: str) -> dict[str, str]:
        """The relay's."""
        return {
            "STORAGE_URL": url,
            "PUBLISHER_TYPE": "null",
            "BATCH_SIZE": str(self.batch),
            "RELAY_ID": "benchmark",
            "POLL_INTERVAL": "50ms",
            "ON_DELIVERED": self.on_delivered,
            "ORDERING": self.ordering,
            "ALLOWED_EVENT_TYPES": "event",
        }


def _table(servers: Servers, plan: Plan, count: int, apart: float) -> str:
    url = servers.fresh_table()
    if plan.ordering == "key":
        add_extension(url, TableName(), "key-order")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_FILL, {"count": count, "apart": apart})
        connection.execute("VACUUM ANALYZE openoutbox_events")
        connection.execute("CHECKPOINT")
    return url


def _drain(servers: Servers, plan: Plan, count: int, apart: float) -> Cell:
    url = _table(servers, plan, count, apart)
    with ExitStack() as stack:
        database = stack.enter_context(psycopg.connect(url, autocommit=True))
        hide(database)
        relay = stack.enter_context(RelayProcess(plan.environment(url)))
        before, postgres = Metrics(relay), servers.postgres_cpu()
        stack.enter_context(_horizon(url, held=plan.held))
        show(database)
        curve = _watch(relay, count)
        after, postgres = Metrics(relay), servers.postgres_cpu() - postgres
    servers.drop_table(url)
    claims = before.buckets(_CLAIMS, _OF_CLAIMS), after.buckets(_CLAIMS, _OF_CLAIMS)
    return Cell(
        what="drain",
        on_delivered=plan.on_delivered,
        ordering=plan.ordering,
        held=plan.held,
        pace=pace_from(curve, 0.0),
        pace_at_the_end=pace_from(curve, 0.8),
        claim_p50=_quantile(*claims, 0.5),
        claim_p99=_quantile(*claims, 0.99),
        postgres_microseconds=postgres / count * 1e6,
        curve=curve,
    )


def _watch(relay: RelayProcess, count: int) -> list[tuple[float, float]]:
    """When how many events were delivered, from the first one on."""
    curve: list[tuple[float, float]] = []
    started = time.monotonic()
    while time.monotonic() - started < _LONGEST:
        delivered = Metrics(relay).value("openoutbox_events_total", 'status="success"')
        if delivered:
            curve.append((time.monotonic() - started, delivered))
        if delivered >= count:
            return curve
        time.sleep(_SAMPLE)
    raise TimeoutError(f"{count} events were not delivered within {_LONGEST:g} s")


def _floor(servers: Servers, count: int, batch: int, apart: float, *, held: bool) -> Cell:
    """The bare loop of SKIP LOCKED."""
    plan = Plan(on_delivered="keep", ordering="none", held=held, batch=batch)
    url = _table(servers, plan, count, apart)
    curve, times, cpu, started = [], [], servers.postgres_cpu(), time.monotonic()
    with _horizon(url, held=held), psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        for delivered, seconds in claim_and_settle(connection, batch):
            times.append(seconds)
            curve.append((time.monotonic() - started, float(delivered)))
    cpu = servers.postgres_cpu() - cpu
    servers.drop_table(url)
    return Cell(
        what="SKIP LOCKED",
        on_delivered="keep",
        ordering="none",
        held=held,
        pace=pace_from(curve, 0.0),
        pace_at_the_end=pace_from(curve, 0.8),
        claim_p50=statistics.median(times) * 1000,
        claim_p99=statistics.quantiles(times, n=100)[98] * 1000,
        postgres_microseconds=cpu / count * 1e6,
        curve=curve[:: max(len(curve) // 200, 1)],
    )


def _at_once(servers: Servers, sides: Sequence[Plan], options: argparse.Namespace) -> Iterator[Cell]:
    """Events at a steady rate on top of dead entries, both sides at the same time."""
    together = threading.Barrier(len(sides), timeout=_LONGEST)
    with Servers([]) as other, ThreadPoolExecutor(len(sides)) as threads:
        yield from threads.map(lambda server, plan: _steady(server, plan, options, together), (servers, other), sides)


def _steady(servers: Servers, plan: Plan, options: argparse.Namespace, together: threading.Barrier) -> Cell:
    url = servers.fresh_table()
    if plan.ordering == "key":
        add_extension(url, TableName(), "key-order")
    with ExitStack() as stack:
        database = stack.enter_context(psycopg.connect(url, autocommit=True))
        define_write(database, _INSERT)
        stack.enter_context(_horizon(url, held=plan.held))
        database.execute("ALTER TABLE openoutbox_events SET (autovacuum_enabled = off)")
        for statement in _DEAD:
            database.execute(
                statement, {"count": options.dead, "apart": 1 / options.rate} if "%(" in statement else None
            )
        database.execute("VACUUM ANALYZE openoutbox_events")
        database.execute("ALTER TABLE openoutbox_events RESET (autovacuum_enabled)")
        database.execute("CHECKPOINT")
        relay = stack.enter_context(RelayProcess(plan.environment(url)))
        _write(url, options.rate, 3.0)
        together.wait()
        before, postgres = Metrics(relay), servers.postgres_cpu()
        _write(url, options.rate, options.seconds)
        time.sleep(0.5)
        after, postgres = Metrics(relay), servers.postgres_cpu() - postgres
    servers.drop_table(url)
    delivered = after.value("openoutbox_events_total", "success") - before.value("openoutbox_events_total", "success")
    claims = before.buckets(_CLAIMS, _OF_CLAIMS), after.buckets(_CLAIMS, _OF_CLAIMS)
    stored = before.buckets(_STORED), after.buckets(_STORED)
    return Cell(
        what="steady",
        on_delivered=plan.on_delivered,
        ordering=plan.ordering,
        held=plan.held,
        pace=delivered / options.seconds,
        pace_at_the_end=float("nan"),
        claim_p50=_quantile(*claims, 0.5),
        claim_p99=_quantile(*claims, 0.99),
        stored_p50=_quantile(*stored, 0.5),
        stored_p99=_quantile(*stored, 0.99),
        postgres_microseconds=postgres / max(delivered, 1.0) * 1e6,
    )


def _write(url: str, rate: float, seconds: float) -> None:
    """Two writers, one event a transaction."""

    def write(first: int) -> None:
        with psycopg.connect(url, autocommit=True, prepare_threshold=0) as connection:
            connection.execute("SET synchronous_commit = off")
            started = time.monotonic()
            for number in range(first, int(rate * seconds), 2):
                time.sleep(max(started + number / rate - time.monotonic(), 0.0))
                connection.execute("SELECT write_event(%s)", (number,))

    writers = [threading.Thread(target=write, args=(first,)) for first in (0, 1)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()


def _pairs(options: argparse.Namespace, sides: tuple[bool, bool]) -> Iterator[list[Plan]]:
    for ordering in options.orderings:
        for on_delivered in options.modes:
            yield [Plan(on_delivered=on_delivered, ordering=ordering, held=held, batch=options.batch) for held in sides]


def _cells(servers: Servers, options: argparse.Namespace) -> Iterator[Cell]:
    for number in range(options.rounds):
        sides = (False, True) if number % 2 == 0 else (True, False)
        if options.events:
            for plan in chain.from_iterable(_pairs(options, sides)):
                yield _drain(servers, plan, options.events, options.apart)
            for held in sides if options.floor else ():
                yield _floor(servers, options.events, options.batch, options.apart, held=held)
        if options.seconds:
            for pair in _pairs(options, sides):
                yield from _at_once(servers, pair, options)


def _line(cell: Cell) -> str:
    side = "held" if cell.held else "free"
    pace = f"{cell.pace:,.0f}/s, at the end {cell.pace_at_the_end:,.0f}/s"
    costs = f"claims {cell.claim_p50:.2f} ms, PostgreSQL {cell.postgres_microseconds:.1f} us an event"
    return f"{cell.what} {cell.on_delivered} {cell.ordering} {side}: {pace}, {costs}"


def main() -> None:
    """Measure, print a table, and write JSON with --json."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.horizon", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=1_000_000, help="events of a drain; 0 leaves it out (1000000)")
    parser.add_argument("--dead", type=int, default=3_000_000, help="dead entries below the steady rate (3000000)")
    parser.add_argument("--rate", type=float, default=1000.0, help="events a second (1000)")
    parser.add_argument("--seconds", type=float, default=600.0, help="of the steady rate; 0 leaves it out (600)")
    parser.add_argument(
        "--apart", type=float, default=_APART, help="s between two events; 0: as of one INSERT (%(default)s)"
    )
    parser.add_argument("--batch", type=int, default=100, help="BATCH_SIZE (100)")
    parser.add_argument("--modes", nargs="+", default=["keep", "delete"], choices=["keep", "delete"])
    parser.add_argument("--orderings", nargs="+", default=["none", "key"], choices=["none", "key"])
    parser.add_argument("--no-floor", dest="floor", action="store_false", help="without the bare loop")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write every cell to this file")
    options = parser.parse_args()
    cells: list[Cell] = []
    with Servers([]) as servers:
        for cell in _cells(servers, options):
            cells.append(cell)
            print(_line(cell), file=sys.stderr)
            if options.json:
                machine = asdict(Machine.this(events=options.events, dead=options.dead, batch=options.batch))
                figures = {"machine": machine, "cells": [asdict(one) for one in cells]}
                options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print(table(cells))


if __name__ == "__main__":
    main()
