"""How fast a backlog drains, beside the pace of the database itself: ``python -m benchmarks.drain``.

Each cell gets a fresh table and a fresh topic or stream on real servers that this program starts. Beside the relay's
own pace stand two others. The *floor* is a plain claim and settle in a bare loop on one connection, without a
publisher (``benchmarks.floor``): what the database gives to a relay that waits for each statement. The *broker's floor*
is the same messages through the same client library from memory (``benchmarks.brokerfloor``). ``--relay NAME=COMMAND``
puts another relay that honours the contract beside ours. Cells are interleaved and repeated, since the machine is never
quiet; the table shows medians, and the spread of the ratio to the floor of the same round.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import psycopg

from benchmarks.brokerfloor import broker_pace
from benchmarks.drain_table import table
from benchmarks.filling import UNFINISHED, fill, pace
from benchmarks.floor import floor
from benchmarks.measured import Cell, Machine
from benchmarks.process import RelayProcess
from benchmarks.servers import Servers

_HIDE = """
ALTER TABLE openoutbox_events RENAME TO filled;
CREATE TABLE openoutbox_events (LIKE filled INCLUDING ALL)
"""
_SHOW = """
BEGIN;
DROP TABLE openoutbox_events;
ALTER TABLE filled RENAME TO openoutbox_events;
COMMIT
"""
# The relay starts on an empty table and gets the full one all at once, so that its start-up is not counted.
_DEADLINE = 600  # seconds for one cell
_BROKER_FLOOR = "broker's floor"


def _drain(servers: Servers, url: str, who: tuple[str, str, str], batch: int, count: int, target: str) -> Cell:
    relay_name, command, publisher = who
    env = {
        "STORAGE_URL": url,
        "PUBLISHER_TYPE": publisher,
        "PUBLISHER_URL": servers.url(publisher),
        "BATCH_SIZE": str(batch),
        "RELAY_ID": "benchmark",
    }
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_HIDE)
        with RelayProcess(env, command) as relay:
            postgres_before, before = servers.postgres_cpu(), relay.usage().cpu_seconds
            connection.execute(_SHOW)
            _wait_until_drained(connection, relay, f"{relay_name} with {publisher} at {batch}")
            usage, postgres = relay.usage(), servers.postgres_cpu() - postgres_before
    received = servers.brokers[publisher].received(target) if publisher in servers.brokers else None
    return Cell(
        publisher,
        relay_name,
        batch,
        pace(url),
        (usage.cpu_seconds - before) / count * 1e6,
        postgres / count * 1e6,
        usage.peak_mebibytes,
        None if received is None else count - received.distinct,
        None if received is None else received.messages - received.distinct,
    )


def _wait_until_drained(connection: psycopg.Connection, relay: RelayProcess, who: str) -> None:
    deadline = time.monotonic() + _DEADLINE
    while connection.execute(UNFINISHED).fetchone() == (True,):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{who} did not drain in {_DEADLINE} s:\n{relay.log_tail()}")
        time.sleep(0.2)


def _measure(options: argparse.Namespace, servers: Servers, batch: int, who: tuple[str, str, str]) -> Cell:
    relay_name, _, publisher = who
    target = f"bench{uuid.uuid4().hex[:10]}"
    broker = servers.brokers.get(publisher)
    if broker is not None:
        broker.prepare(target)
    try:
        if relay_name == _BROKER_FLOOR:
            alone = broker_pace(publisher, servers.url(publisher), target, batch, options.events)
            return Cell(publisher, relay_name, batch, alone.per_second, alone.cpu_seconds_per_million)
        url = servers.fresh_table()
        with psycopg.connect(url, autocommit=True) as connection:
            fill(connection, target, options.events)
        if publisher == "floor":
            cell = floor(servers, url, batch)
        else:
            cell = _drain(servers, url, who, batch, options.events, target)
        servers.drop_table(url)
        return cell
    finally:
        if broker is not None:
            broker.discard(target)


def _rounds(options: argparse.Namespace, servers: Servers) -> Iterator[Cell]:
    relays = [("openoutbox", ""), *(tuple(relay.split("=", 1)) for relay in options.relay)]
    cells = []
    for batch in options.batches:
        cells.append((batch, ("", "", "floor")))
        for publisher in options.publishers:
            cells += [(batch, (name, command, publisher)) for name, command in relays]
            if publisher in servers.brokers:
                cells.append((batch, (_BROKER_FLOOR, "", publisher)))
    for number in range(options.rounds):
        for batch, who in cells if number % 2 == 0 else cells[::-1]:
            cell = _measure(options, servers, batch, who)
            name = f"{cell.publisher} {cell.relay}"
            print(f"  {name:>20} {cell.batch:>5}: {cell.events_per_second:>8,.0f} events/s", file=sys.stderr)
            yield cell


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.drain", description=__doc__)
    parser.add_argument("--events", type=int, default=100_000, help="rows of each cell (default 100000)")
    parser.add_argument("--rounds", type=int, default=3, help="repetitions of each cell (default 3)")
    parser.add_argument("--batches", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--publishers", nargs="+", default=["null", "kafka", "nats", "redis"])
    parser.add_argument(
        "--relay",
        action="append",
        default=[],
        metavar="NAME=COMMAND",
        help="another relay that takes the contract's environment variables; may be repeated",
    )
    parser.add_argument("--json", type=Path, help="write every cell to this file")
    options = parser.parse_args()
    if malformed := [relay for relay in options.relay if "=" not in relay]:
        parser.error(f"--relay {malformed[0]}: write NAME=COMMAND")
    return options


def main() -> None:
    """Measure, print the table, and write every cell as JSON with --json."""
    options = _arguments()
    with ExitStack() as stack:
        servers = stack.enter_context(Servers(options.publishers))
        cells = list(_rounds(options, servers))
    print(table(cells))
    if options.json:
        machine = Machine.this(events=options.events, rounds=options.rounds)
        figures = {"machine": asdict(machine), "cells": [asdict(cell) for cell in cells]}
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
