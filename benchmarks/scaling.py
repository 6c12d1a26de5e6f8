"""Whether size matters: ``python -m benchmarks.scaling``.

Two questions. How long do a claim and a settle of a hundred events take in a small table and in a large one, with a
small backlog and with a large one? And do four relays on one table deliver as much in sum as one?
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import psycopg

from benchmarks.filling import UNFINISHED, fill, fill_delivered, pace
from benchmarks.measured import Machine
from benchmarks.process import RelayProcess
from benchmarks.servers import Servers
from relay.outbox.span import EVERYWHERE
from relay.postgres.codec import fence_at
from relay.postgres.sql import TableName, statement

_BATCH = 100
_CLAIMS = 100
_SMALL = _BATCH * _CLAIMS
"""The smallest backlog: as much as is claimed."""
_DEADLINE = 300.0  # seconds for one drain


@dataclass(frozen=True)
class ClaimTime:
    """Milliseconds for a hundred events."""

    delivered: int
    pending: int
    claim_p50: float
    claim_p99: float
    settle_p50: float


@dataclass(frozen=True)
class Together:
    """Several relays on one table."""

    relays: int
    events_per_second: float


def _claim_time(servers: Servers, delivered: int, pending: int) -> ClaimTime:
    claim = statement("outbox/claim:claim", TableName())
    settle = statement("outbox/settle:delivered", TableName())
    values = {
        **EVERYWHERE.parameters(),
        "limit": _BATCH,
        "max_bytes": 64 << 20,
        "inline_bytes": 1 << 19,
        "max_attempts": 25,
        "relay_id": "benchmark",
    }
    claims, settles = [], []
    url = servers.fresh_table()
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        fill_delivered(connection, delivered)
        fill(connection, "event", pending)
        cursor = connection.cursor(binary=True)
        for _ in range(_CLAIMS):
            started = time.perf_counter()
            rows = cursor.execute(claim, values).fetchall()
            claimed = time.perf_counter()
            cursor.execute(
                settle, {"ids": [row[0] for row in rows], "relay_id": "benchmark", "fence": fence_at(rows[0][-1])}
            )
            claims.append((claimed - started) * 1000)
            settles.append((time.perf_counter() - claimed) * 1000)
    servers.drop_table(url)
    p99 = statistics.quantiles(claims, n=100)[98]
    return ClaimTime(delivered, pending, statistics.median(claims), p99, statistics.median(settles))


def _together(servers: Servers, relays: int, events: int) -> Together:
    url = servers.fresh_table()
    env = {"STORAGE_URL": url, "PUBLISHER_TYPE": "null"}
    with ExitStack() as stack, psycopg.connect(url, autocommit=True) as connection:
        for number in range(relays):
            stack.enter_context(RelayProcess(env | {"RELAY_ID": f"benchmark-{number}"}))
        fill(connection, "event", events)
        deadline = time.monotonic() + _DEADLINE
        while connection.execute(UNFINISHED).fetchone() == (True,):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{relays} relays did not drain in {_DEADLINE:g} s")
            time.sleep(0.2)
    together = Together(relays, pace(url))
    servers.drop_table(url)
    return together


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--events", type=int, default=100_000, help="rows that the relays drain (default 100000)")
    parser.add_argument("--rounds", type=int, default=3, help="drains by one and by four relays (default 3)")
    parser.add_argument("--json", type=Path, help="write what was measured to this file")
    return parser.parse_args()


def main() -> None:
    """Measure, print two tables, and write JSON with --json."""
    options = _arguments()
    with ExitStack() as stack:
        servers = stack.enter_context(Servers([]))
        times = [_claim_time(servers, size, _SMALL) for size in options.sizes]
        times += [_claim_time(servers, 0, size) for size in options.sizes]
        runs = [_together(servers, relays, options.events) for _ in range(options.rounds) for relays in (1, 4)]
    print("| delivered rows | pending rows | claim p50 ms | claim p99 ms | settle p50 ms |\n|---|---|---|---|---|")
    for one in times:
        shown = f"{one.claim_p50:.2f} | {one.claim_p99:.2f} | {one.settle_p50:.2f}"
        print(f"| {one.delivered:,} | {one.pending:,} | {shown} |")
    print("\n| relays | events/s in sum, median |\n|---|---|")
    for relays in (1, 4):
        paces = [run.events_per_second for run in runs if run.relays == relays]
        print(f"| {relays} | {statistics.median(paces):,.0f} |")
    if options.json:
        machine = Machine.this(batch=_BATCH, claims=_CLAIMS, events=options.events)
        figures = {
            "machine": asdict(machine),
            "times": [asdict(one) for one in times],
            "runs": [asdict(run) for run in runs],
        }
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
