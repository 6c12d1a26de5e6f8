"""What an event costs as relays and rows grow: ``python -m benchmarks.growth``.

Relays with the null publisher start on an empty table and get a full one all at once. After a time that does not empty
it they are frozen (SIGSTOP), and the rows that are left are counted: events a second, CPU time of the relays and of all
PostgreSQL processes an event, and write-ahead log an event. The series vary one thing each: relays on one table, rows
that wait, rows that were delivered before, and what relieves a database that is busy. The series ``insert`` is what an
event costs before any relay: one transaction each.

``--json`` adds the cells to those that the file holds. Ten million rows take minutes to insert and 13 GB of disk:
``--series waiting delivered --sizes 10000000 --rounds 1``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

import psycopg

from benchmarks.disturbance import Sample
from benchmarks.filling import fill, fill_delivered, hide, show
from benchmarks.growth_table import Growth, table
from benchmarks.measured import Machine, load
from benchmarks.process import RelayProcess, cpu_seconds
from benchmarks.servers import Servers
from benchmarks.writing import PAYLOAD, define_write, write_backlog

_FASTEST = 80_000  # events/s that no relays exceed: a drain ends before the rows do
_LONGEST = 8.0  # seconds of a drain
_START = 60.0  # seconds within which a relay claims and delivers
_COUNTER = re.compile(rb'openoutbox_events_total\{[^}]*status="success"[^}]*\} (\S+)')
_CLAIMED = "SELECT EXISTS (SELECT FROM openoutbox_events WHERE status = 'DELIVERING' AND locked_at IS NOT NULL)"
_REMAINING = "SELECT count(*) FROM openoutbox_events WHERE status IN ('PENDING', 'DELIVERING')"
_INSERT = f"""
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload)
VALUES (gen_random_uuid(), 'event', 'key-' || n % 1000, convert_to({PAYLOAD}, 'UTF8')) RETURNING event_id
"""


def _plans(options: argparse.Namespace) -> Iterator[Growth]:
    """The cells to measure, without their figures."""
    base = Growth("", 1, options.rows)
    plans = {
        "relays": [replace(base, relays=relays) for relays in options.relays],
        "batch": [replace(base, relays=relays, batch=1000) for relays in options.relays],
        "delete": [replace(base, relays=relays, batch=1000, on_delivered="delete") for relays in options.relays],
        "tables": [replace(base, relays=relays, batch=1000, tables=relays) for relays in options.relays],
        "waiting": [replace(base, waiting=size) for size in options.sizes],
        "delivered": [replace(base, delivered=size) for size in options.sizes],
        "insert": [replace(base, relays=0, waiting=options.rows // 4)],
    }
    for series in options.series:
        yield from (replace(plan, series=series) for plan in plans[series])


def _fill(servers: Servers, plan: Growth) -> str:
    url = servers.fresh_table()
    with psycopg.connect(url, autocommit=True) as connection:
        if plan.delivered:
            fill_delivered(connection, plan.delivered)
        fill(connection, "event", plan.waiting // plan.tables)
        hide(connection)
    return url


def _drain(servers: Servers, plan: Growth) -> Growth:
    urls = [_fill(servers, plan) for _ in range(plan.tables)]
    # A short wait after an empty claim: the smallest backlog takes a third of a second, and the start is in it.
    env = {"PUBLISHER_TYPE": "null", "POLL_INTERVAL": "10ms", "BATCH_SIZE": str(plan.batch)}
    env["ON_DELIVERED"] = plan.on_delivered
    with ExitStack() as stack:
        databases = [stack.enter_context(psycopg.connect(url, autocommit=True)) for url in urls]
        relays = [
            stack.enter_context(
                RelayProcess(env | {"STORAGE_URL": urls[number % plan.tables], "RELAY_ID": f"benchmark-{number}"})
            )
            for number in range(plan.relays)
        ]
        before = _costs(servers, relays)
        for database in databases:
            show(database)
        _wait(lambda: databases[0].execute(_CLAIMED).fetchone() == (True,), "a relay to claim")
        started = time.monotonic()
        time.sleep(min(_LONGEST, plan.waiting / _FASTEST))
        _wait(lambda: any(map(_delivered, relays)), "a relay to deliver")  # a busy machine may not have begun
        for relay in relays:
            os.kill(relay.pid, signal.SIGSTOP)
        seconds = time.monotonic() - started
        after = _costs(servers, relays)
        remaining = sum((database.execute(_REMAINING).fetchone() or (0,))[0] for database in databases)
        for relay in relays:
            os.kill(relay.pid, signal.SIGCONT)
    for url in urls:
        servers.drop_table(url)
    if not remaining:
        raise RuntimeError(f"{plan.relays} relays delivered all {plan.waiting} events within {seconds:.1f} s")
    return _figures(plan, plan.waiting // plan.tables * plan.tables - remaining, seconds, before, after)


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _START
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {_START:g} s for {what}")
        time.sleep(0.001)


def _delivered(relay: RelayProcess) -> bool:
    """Whether it has delivered anything yet, by its own metrics."""
    with urllib.request.urlopen(f"{relay.url}/metrics", timeout=5) as answer:
        counter = _COUNTER.search(answer.read())
    return counter is not None and float(counter[1]) > 0


def _insert(servers: Servers, plan: Growth) -> Growth:
    url = servers.fresh_table()
    with psycopg.connect(url, autocommit=True) as connection:
        define_write(connection, _INSERT)
        before, started = _costs(servers, []), time.monotonic()
        write_backlog(connection, plan.waiting)
        seconds, after = time.monotonic() - started, _costs(servers, [])
    servers.drop_table(url)
    return _figures(plan, plan.waiting, seconds, before, after)


def _costs(servers: Servers, relays: list[RelayProcess]) -> tuple[float, float, int]:
    """CPU seconds of the relays and of PostgreSQL, and bytes of write-ahead log, so far."""
    return sum(cpu_seconds(relay.pid) for relay in relays), servers.postgres_cpu(), servers.postgres_wal()


def _figures(
    plan: Growth, events: int, seconds: float, before: tuple[float, float, int], after: tuple[float, float, int]
) -> Growth:
    own, postgres, wal = ((end - start) / events for end, start in zip(after, before, strict=True))
    return replace(
        plan,
        events_per_second=events / seconds,
        relay_microseconds=own * 1e6,
        postgres_microseconds=postgres * 1e6,
        wal_bytes=wal,
    )


def _write(path: Path, cell: Growth, rows: int) -> None:
    cells = load(path)["cells"] if path.exists() else []
    figures = {"machine": asdict(Machine.this(rows=rows)), "cells": [*cells, asdict(cell)]}
    path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.growth", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ("relays", "batch", "delete", "tables", "waiting", "delivered", "insert")
    parser.add_argument("--series", nargs="+", default=names, choices=names)
    parser.add_argument("--relays", type=int, nargs="+", default=[1, 2, 4, 8], help="numbers of relays (1 2 4 8)")
    parser.add_argument("--rows", type=int, default=200_000, help="rows that wait where they do not vary (200000)")
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[10_000, 1_000_000], help="rows where they vary (default 10^4, 10^6)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="repetitions of each cell (default 3)")
    parser.add_argument("--json", type=Path, help="add every cell to this file")
    return parser.parse_args()


def main() -> None:
    """Measure the cells, print a table, and add them to the file of --json."""
    options = _arguments()
    cells = []
    with Servers([]) as servers:
        for _ in range(options.rounds):
            for plan in _plans(options):
                before = Sample.now()
                cell = _drain(servers, plan) if plan.relays else _insert(servers, plan)
                disturbance = Sample.now().since(before)
                cells.append(replace(cell, steal=disturbance.steal, others=disturbance.others))
                print(table(cells[-1:]).splitlines()[-1], file=sys.stderr)
                if options.json:
                    _write(options.json, cells[-1], options.rows)
    print(table(cells))


if __name__ == "__main__":
    main()
