"""What an event costs as relays and rows grow: ``python -m benchmarks.growth``.

Relays with the null publisher start on an empty table and get a full one all at once. When they have delivered half of
it, or after six seconds, they are frozen (SIGSTOP), and the rows that are left are counted: events a second, CPU time
of the relays and of all PostgreSQL processes an event, and write-ahead log an event. The series vary one thing each:
relays on one table, rows that wait, rows that were delivered before, keys without and with order, where the outboxes of
two relays are, and what relieves a database that is busy. The series ``insert`` is what an event costs before any
relay: one transaction each.

``--json`` adds the cells to those that the file holds. Ten million rows take minutes to insert and 13 GB of disk, and
are measured in the first round alone: ``--sizes 10000 100000 1000000 10000000``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

import psycopg

from benchmarks.disturbance import Sample
from benchmarks.growth_drain import Costs, drain
from benchmarks.growth_table import PLACES, Growth, table
from benchmarks.measured import Machine, load
from benchmarks.servers import Servers
from benchmarks.writing import PAYLOAD, define_write, write_backlog

_SERIES: Final = ("relays", "batch", "delete", "places", "waiting", "delivered", "keys", "insert")
_ONCE: Final = 10_000_000  # rows from which a size is measured in the first round alone
_INSERT: Final = f"""
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload)
VALUES (gen_random_uuid(), 'event', 'key-' || n % 1000, convert_to({PAYLOAD}, 'UTF8')) RETURNING event_id
"""


def _plans(options: argparse.Namespace, number: int) -> Iterator[Growth]:
    """The cells to measure in a round, without their figures."""
    base = Growth("", 1, options.rows)
    sizes = [size for size in options.sizes if number == 0 or size < _ONCE]
    plans = {
        "relays": [replace(base, relays=relays) for relays in options.relays],
        "batch": [replace(base, relays=relays, batch=1000) for relays in options.relays],
        "delete": [replace(base, relays=relays, batch=1000, on_delivered="delete") for relays in options.relays],
        "places": [
            replace(base, relays=2, batch=batch, tables=1 if place == "table" else 2, place=place)
            for batch in options.batches
            for place in options.places
        ],
        "waiting": [replace(base, waiting=size) for size in sizes],
        "delivered": [replace(base, delivered=size) for size in sizes],
        "keys": [replace(base, ordering=order, keys=keys) for keys in options.keys for order in ("none", "key")],
        "insert": [replace(base, relays=0, waiting=options.rows // 4)],
    }
    for series in options.series:
        yield from (replace(plan, series=series) for plan in plans[series])


def _insert(servers: Servers, plan: Growth) -> Growth:
    url = servers.fresh_table()
    with psycopg.connect(url, autocommit=True) as connection:
        define_write(connection, _INSERT)
        before, started = Costs.now([servers]), time.monotonic()
        write_backlog(connection, plan.waiting)
        seconds, after = time.monotonic() - started, Costs.now([servers])
    servers.drop_table(url)
    return before.figures(plan, plan.waiting, seconds, after)


def _measure(servers: Sequence[Servers], plan: Growth) -> Growth:
    before = Sample.now()
    cell = drain(servers, plan) if plan.relays else _insert(servers[0], plan)
    disturbance = Sample.now().since(before)
    return replace(cell, steal=disturbance.steal, others=disturbance.others)


def _write(path: Path, cell: Growth, rows: int) -> None:
    cells = load(path)["cells"] if path.exists() else []
    figures = {"machine": asdict(Machine.this(rows=rows)), "cells": [*cells, asdict(cell)]}
    path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.growth", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--series", nargs="+", default=_SERIES, choices=_SERIES)
    parser.add_argument("--relays", type=int, nargs="+", default=[1, 2, 4, 8], help="numbers of relays (1 2 4 8)")
    parser.add_argument("--rows", type=int, default=200_000, help="rows that wait where they do not vary (200000)")
    sizes = [10_000, 100_000, 1_000_000]
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=sizes, help="rows where they vary (default 10^4 to 10^6)"
    )
    places, batches = list(PLACES), [100, 1000]
    parser.add_argument("--places", nargs="+", default=places, choices=places, help="of two relays' outboxes (all)")
    parser.add_argument("--batches", type=int, nargs="+", default=batches, help="of the series places (100 1000)")
    keys = [10, 200, 100_000]
    parser.add_argument("--keys", type=int, nargs="+", default=keys, help="keys where they vary (10 200 100000)")
    parser.add_argument("--rounds", type=int, default=3, help="repetitions of each cell (default 3)")
    parser.add_argument("--json", type=Path, help="add every cell to this file")
    return parser.parse_args()


def main() -> None:
    """Measure the cells, print a table, and add them to the file of --json."""
    options = _arguments()
    cells = []
    with ExitStack() as stack:
        several = "places" in options.series and "server" in options.places
        servers = [stack.enter_context(Servers([])) for _ in range(1 + several)]
        for number in range(options.rounds):
            for plan in _plans(options, number):
                cells.append(_measure(servers, plan))
                print(table(cells[-1:]).splitlines()[-1], file=sys.stderr)
                if options.json:
                    _write(options.json, cells[-1], options.rows)
    print(table(cells))


if __name__ == "__main__":
    main()
