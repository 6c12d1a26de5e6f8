"""How fast a backlog drains, beside the pace of the database itself: ``python -m benchmarks.drain``.

Each cell gets a fresh table and a fresh topic or stream on real servers that this program starts. The *floor* is the
same claim and settle in a bare loop on one connection, without a publisher: what the database gives to a relay that
waits for each statement. Cells are interleaved and repeated, since the machine is never quiet; the table shows
medians, and the spread of the ratio to the floor of the same round.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import psycopg

from benchmarks.process import RelayProcess
from benchmarks.servers import Servers
from relay.core.sqltext import TableName, statement

_FILL = """
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, headers)
SELECT gen_random_uuid(), %(event_type)s, 'key-' || n %% 1000, decode(rpad(md5(n::text), 1024, md5(n::text)), 'hex'),
       jsonb_build_object('source', 'benchmark', 'n', n::text)
FROM generate_series(1, %(count)s) AS n
"""
_PACE = """
SELECT count(*) FILTER (WHERE delivered_at > first), extract(epoch FROM max(delivered_at) - min(first))::float8
FROM openoutbox_events, (SELECT min(delivered_at) AS first FROM openoutbox_events) AS start
"""
_UNFINISHED = "SELECT EXISTS (SELECT FROM openoutbox_events WHERE status IN ('PENDING', 'DELIVERING'))"


@dataclass(frozen=True)
class Cell:
    """One measurement."""

    publisher: str
    batch: int
    events_per_second: float
    cpu_seconds_per_million: float | None = None
    peak_mebibytes: float | None = None
    surplus: int | None = None
    """Messages on the broker beyond one an event: duplicates (negative: lost)."""


def _floor(url: str, batch: int) -> Cell:
    claim = statement("outbox/queries/claim.sql", TableName())
    settle = statement("outbox/queries/settle_delivered.sql", TableName())
    values = {"limit": batch, "max_bytes": 64 << 20, "max_attempts": 25, "relay_id": "floor"}
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        cursor = connection.cursor(binary=True)
        while rows := cursor.execute(claim, values).fetchall():
            cursor.execute(settle, {"ids": [row[0] for row in rows], "relay_id": "floor", "fence": rows[0][-1]})
    return Cell("floor", batch, _pace(url))


def _pace(url: str) -> float:
    """Events per second between the first and the last delivery, by the database's clock."""
    with psycopg.connect(url) as connection:
        count, seconds = connection.execute(_PACE).fetchone() or (0, 0.0)
        return float(count / seconds)


def _drain(servers: Servers, url: str, publisher: str, batch: int, count: int, target: str) -> Cell:
    env = {
        "STORAGE_URL": url,
        "PUBLISHER_TYPE": publisher,
        "PUBLISHER_URL": servers.url(publisher),
        "BATCH_SIZE": str(batch),
        "RELAY_ID": "benchmark",
    }
    with RelayProcess(env) as relay, psycopg.connect(url, autocommit=True) as connection:
        deadline = time.monotonic() + 300
        while connection.execute(_UNFINISHED).fetchone() == (True,):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{publisher} at {batch} did not drain in 300 s:\n{relay.log_tail()}")
            time.sleep(0.2)
        usage = relay.usage()
    cpu = usage.cpu_seconds / count * 1e6
    messages = servers.messages(publisher, target)
    surplus = None if messages is None else messages - count
    return Cell(publisher, batch, _pace(url), cpu, usage.peak_mebibytes, surplus)


def _rounds(options: argparse.Namespace, servers: Servers) -> Iterator[Cell]:
    cells = [(batch, name) for batch in options.batches for name in ["floor", *options.publishers]]
    for number in range(options.rounds):
        for batch, name in cells if number % 2 == 0 else cells[::-1]:
            target = f"bench{uuid.uuid4().hex[:10]}"
            url = servers.fresh_table()
            servers.prepare(name, target)
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(_FILL, {"event_type": target, "count": options.events})
                connection.execute("VACUUM ANALYZE openoutbox_events")
                connection.execute("CHECKPOINT")
            floor = name == "floor"
            cell = _floor(url, batch) if floor else _drain(servers, url, name, batch, options.events, target)
            servers.drop_table(url)
            print(f"  {cell.publisher:>6} {cell.batch:>5}: {cell.events_per_second:>8,.0f} events/s", file=sys.stderr)
            yield cell


def _median(values: list[float]) -> float:
    return statistics.median(values) if values else float("nan")


def _table(cells: list[Cell]) -> str:
    lines = [
        "| publisher | batch | events/s | of the floor | CPU s per million | peak MiB | surplus messages |",
        "|---|---|---|---|---|---|---|",
    ]
    for batch in sorted({cell.batch for cell in cells}):
        floors = [cell.events_per_second for cell in cells if (cell.publisher, cell.batch) == ("floor", batch)]
        for name in dict.fromkeys(cell.publisher for cell in cells):
            mine = [cell for cell in cells if (cell.publisher, cell.batch) == (name, batch)]
            ratios = [cell.events_per_second / floor for cell, floor in zip(mine, floors, strict=True)]
            spread = f"{_median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
            pace = f"{_median([cell.events_per_second for cell in mine]):,.0f}"
            cpu = _median([cell.cpu_seconds_per_million for cell in mine if cell.cpu_seconds_per_million is not None])
            peak = max((cell.peak_mebibytes or 0 for cell in mine), default=0)
            surplus = sum(cell.surplus or 0 for cell in mine)
            rest = "| | | |" if name == "floor" else f"| {cpu:.1f} | {peak:.0f} | {surplus} |"
            lines.append(f"| {name} | {batch} | {pace} | {spread} {rest}")
    return "\n".join(lines)


def main() -> None:
    """Measure, print the table, and write every cell as JSON where asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.drain", description=__doc__)
    parser.add_argument("--events", type=int, default=100_000, help="rows of each cell (default 100000)")
    parser.add_argument("--rounds", type=int, default=3, help="repetitions of each cell (default 3)")
    parser.add_argument("--batches", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--publishers", nargs="+", default=["null", "kafka", "nats"])
    parser.add_argument("--json", type=Path, help="write every cell to this file")
    options = parser.parse_args()
    with ExitStack() as stack:
        servers = stack.enter_context(Servers(options.publishers))
        cells = list(_rounds(options, servers))
    print(_table(cells))
    if options.json:
        options.json.write_text(json.dumps([asdict(cell) for cell in cells], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
