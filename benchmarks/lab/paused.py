"""What paused rows at the head of the queue cost claims of others: ``python -m benchmarks.lab.paused``.

Two tables hold the same events of a type that is claimed; one also holds a million older ones of a paused type. A claim
of a hundred is timed on each in turn, while looks behind the head go on, as in a relay. Printed are the medians and
their ratio, and the first claims after the pause, which begin before a look has gone past the paused rows.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import psycopg

from benchmarks.measured import Machine
from benchmarks.servers import Servers
from relay.core.backoff import RetryPolicy
from relay.core.pause import Pause, PauseScope, PauseTarget
from relay.outbox.outbox_options import PostgresOptions
from relay.outbox.storage import PostgresOutbox
from relay.postgres.prepared import Preparation
from relay.postgres.sql import TableName

_FILL = """
INSERT INTO openoutbox_events (event_id, event_type, payload, available_at, created_at)
SELECT gen_random_uuid(), %s, decode(repeat('ab', 256), 'hex'), at, at
FROM (SELECT now() - make_interval(secs => %s) + n * interval '1 ms' AS at FROM generate_series(1, %s) AS n)
"""
_BATCH = 100
_HELD = {"type": PauseTarget(PauseScope.TYPE, "held"), "prefix": PauseTarget(PauseScope.PREFIX, "hel")}


def _fill(url: str, *parts: tuple[str, int, int]) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for part in parts:
            connection.execute(_FILL, part)
        connection.execute("VACUUM ANALYZE openoutbox_events")


def storage_on(url: str) -> PostgresOutbox:
    return PostgresOutbox(
        PostgresOptions(
            url=url,
            relay_id="benchmark",
            table=TableName(),
            lease_timeout=600.0,
            retry=RetryPolicy(max_attempts=3, base_delay=1.0, max_delay=60.0, jitter=0.0),
            key_order=None,
            delete_delivered=False,
            fan_out=False,
            durable_claims=False,
            prepared=Preparation.OFF,
        )
    )


async def _claim(storage: PostgresOutbox) -> float:
    """Seconds of one claim."""
    began = time.perf_counter()
    claim = await storage.claim(_BATCH, 2**30)
    seconds = time.perf_counter() - began
    if len(claim.events) != _BATCH or any(event.event_type != "free" for event in claim.events):
        raise RuntimeError("a claim brought other events than it should")
    return seconds


async def _look(storage: PostgresOutbox) -> None:
    while True:
        rest = await storage.look()
        await asyncio.sleep(rest.seconds)


async def _measure(plain_url: str, paused_url: str, claims: int, target: PauseTarget) -> dict[str, list[float]]:
    plain, paused = storage_on(plain_url), storage_on(paused_url)
    times: dict[str, list[float]] = {"first": [], "plain": [], "paused": []}
    await _claim(plain)
    paused.paused.set([Pause(target, None, "benchmark", "", datetime.now(UTC))])
    looking = asyncio.create_task(_look(paused))
    times["first"] = [await _claim(paused) for _ in range(5)]
    await asyncio.sleep(2.0)
    for number in range(claims):
        for name, storage in (("plain", plain), ("paused", paused))[:: 1 if number % 2 else -1]:
            times[name].append(await _claim(storage))
    looking.cancel()
    for storage in (plain, paused):
        await storage.close()
    return times


def main() -> None:
    """Measure, print, and write JSON with --json."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lab.paused", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="paused rows (default 1000000)")
    parser.add_argument("--claims", type=int, default=300, help="timed claims of each table (default 300)")
    parser.add_argument("--scope", choices=_HELD, default="prefix", help="what the pause names (default prefix)")
    parser.add_argument("--json", type=Path, help="write every time to this file")
    options = parser.parse_args()
    free = (options.claims + 10) * _BATCH
    with Servers([]) as servers:
        plain_url, paused_url = servers.fresh_table(), servers.fresh_table()
        _fill(plain_url, ("free", 600, free))
        _fill(paused_url, ("held", 86_400, options.rows), ("free", 600, free))
        times = asyncio.run(_measure(plain_url, paused_url, options.claims, _HELD[options.scope]))
    medians = {name: statistics.median(each) * 1000 for name, each in times.items()}
    worst = {name: max(each) * 1000 for name, each in times.items()}
    print("| claims of 100 | p50, ms | worst, ms |\n|---|---|---|")
    for name, median in medians.items():
        print(f"| {name} | {median:.2f} | {worst[name]:.1f} |")
    print(f"p50 paused/plain {medians['paused'] / medians['plain']:.2f}")
    if options.json:
        machine = asdict(Machine.this(rows=options.rows, claims=options.claims, scope=options.scope))
        options.json.write_text(json.dumps({"machine": machine, "times": times}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
