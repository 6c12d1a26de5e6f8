"""What order per key costs, and by which mechanism: ``python -m benchmarks.ordering``.

First the mechanisms side by side, as bare loops of claim, a stand-in for the broker (each acknowledgement takes 2 ms,
and an event of a key waits for the one before it) and settle, on connections of their own:

- *heads*: a claim takes the first unfinished row of each key, no more;
- *runs*: and the rows right behind it, which is what the relay does;
- *shards*: a hash deals the keys out to 64 shards; each has one owner, which claims its rows in order of insertion.

Then what the relay does with it: a backlog drained by one relay and by four, ordered and unordered in turn, each cell
on a fresh table and topic of real servers. The table shows medians, and the ratio of ordered to unordered of a round.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.process import RelayProcess
from benchmarks.servers import Servers
from relay.app.build import storage_options
from relay.outbox.extensions import add_extension
from relay.outbox.left_out import PausedRows
from relay.outbox.ordered import LONGEST_RUN, OrderedClaim
from relay.outbox.payloads import INLINE_BYTES
from relay.postgres.sql import TableName, statement
from relay.settings.settings import Settings

_FILL = """
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, headers, available_at)
SELECT gen_random_uuid(), %(event_type)s, CASE WHEN n <= %(hot)s THEN 'hot' ELSE 'key-' || n %% %(keys)s END,
       decode(rpad(md5(n::text), 1024, md5(n::text)), 'hex'), jsonb_build_object('source', 'benchmark', 'n', n::text),
       now() + make_interval(secs => %(due_in)s)
FROM generate_series(1, %(count)s) AS n
"""
_PACE = """
SELECT count(*) FILTER (WHERE delivered_at > first), extract(epoch FROM max(delivered_at) - min(first))::float8
FROM openoutbox_events, (SELECT min(delivered_at) AS first FROM openoutbox_events) AS start
WHERE partition_key LIKE %(keys)s
"""
_UNFINISHED = """
SELECT EXISTS (SELECT FROM openoutbox_events WHERE status IN ('PENDING', 'DELIVERING') AND partition_key LIKE %(keys)s)
"""
_LEFT = """
SELECT count(*) FROM openoutbox_events WHERE status <> 'DELIVERED' AND partition_key LIKE %(keys)s
"""
_SHARDS = 64
_LANE_INDEX = f"""
CREATE INDEX ON openoutbox_events ((HASHTEXTEXTENDED(partition_key, 0) & {_SHARDS - 1}), insertion_order)
WHERE status IN ('PENDING', 'DELIVERING')
"""
_LANE_CLAIM = f"""
WITH due AS (
    SELECT oldest.tid FROM UNNEST(%(shards)s::bigint[]) AS shard CROSS JOIN LATERAL (
        SELECT ctid AS tid FROM openoutbox_events
        WHERE
            (HASHTEXTEXTENDED(partition_key, 0) & {_SHARDS - 1}) = shard
            AND status IN ('PENDING', 'DELIVERING') AND status = 'PENDING' AND available_at <= NOW()
        ORDER BY insertion_order LIMIT (SELECT %(share)s::bigint)
    ) AS oldest
)
UPDATE openoutbox_events SET status = 'DELIVERING', locked_by = %(relay_id)s, locked_at = NOW(), updated_at = NOW()
WHERE ctid = ANY(ARRAY(SELECT tid FROM due))
RETURNING event_id::text, event_type, partition_key, payload, headers::text, attempts, 0::float8, locked_at
"""
_ACKNOWLEDGED_IN = 0.002
_WORKERS = 4

Row = tuple[Any, ...]
Connection = psycopg.AsyncConnection[Row]
Claim = Callable[[Connection], Awaitable[list[Row]]]


@dataclass(frozen=True)
class Load:
    """A backlog. ``watched`` are the keys whose pace counts."""

    name: str
    events: int
    keys: int
    hot: int = 0
    watched: str = "%"


LOADS = [
    Load("1,000 keys", 20_000, 1000),
    Load("10 keys", 5_000, 10),
    Load("1 key", 1_000, 1),
    Load("1,000 keys behind one with 10,000 rows", 15_000, 1000, hot=10_000, watched="key-%"),
]


def _ordered(number: int, batch: int, run: int) -> Claim:
    environ = {"STORAGE_URL": "postgres://unused@host/database", "RELAY_ID": f"worker-{number}", "ORDERING": "key"}
    claim = OrderedClaim(storage_options(Settings.from_env(environ)), run)
    paused = PausedRows(TableName(), time.monotonic)
    return lambda connection: claim.rows(connection, batch, 64 << 20, INLINE_BYTES, (), paused, paused.head.ahead())


def _shard_owner(number: int, batch: int) -> Claim:
    shards = list(range(number, _SHARDS, _WORKERS))
    values = {"shards": shards, "share": max(1, batch // len(shards)), "relay_id": f"worker-{number}"}

    async def claim(connection: Connection) -> list[Row]:
        cursor = connection.cursor(binary=True)
        await cursor.execute(_LANE_CLAIM.encode(), values)
        return await cursor.fetchall()

    return claim


MECHANISMS: dict[str, Callable[[int, int], Claim]] = {
    "heads": lambda number, batch: _ordered(number, batch, 0),
    "runs": lambda number, batch: _ordered(number, batch, LONGEST_RUN),
    "shards": _shard_owner,
}


async def _work(url: str, number: int, claim: Claim, until: float) -> None:
    settle = statement("outbox/settle:delivered", TableName())
    async with await psycopg.AsyncConnection.connect(url, autocommit=True, prepare_threshold=None) as connection:
        while time.monotonic() < until:
            rows = await claim(connection)
            if not rows:
                await asyncio.sleep(0.005)
                continue
            behind = max(Counter(row[2] for row in rows).values())
            await asyncio.sleep(behind * _ACKNOWLEDGED_IN)
            fenced = {"ids": [row[0] for row in rows], "relay_id": f"worker-{number}", "fence": rows[0][-1]}
            await connection.execute(settle, fenced)


async def _drain_bare(url: str, mechanism: str, load: Load, batch: int) -> None:
    """Until the watched keys are delivered, for 30 s at most."""
    until = time.monotonic() + 30.0
    workers = [
        asyncio.create_task(_work(url, number, MECHANISMS[mechanism](number, batch), until))
        for number in range(_WORKERS)
    ]
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        while time.monotonic() < until:
            cursor = await connection.execute(_UNFINISHED.encode(), {"keys": load.watched})
            if await cursor.fetchone() == (False,):
                break
            await asyncio.sleep(0.1)
    for worker in workers:
        worker.cancel()
    await asyncio.gather(*workers, return_exceptions=True)


def _bare_result(url: str, load: Load) -> str:
    """The pace, and what of the watched keys was not delivered by the end."""
    with psycopg.connect(url) as connection:
        left = (connection.execute(_LEFT, {"keys": load.watched}).fetchone() or (0,))[0]
    return f"{left:,} never came" if left else f"{_pace(url, load.watched):,.0f}"


def _pace(url: str, keys: str = "%") -> float:
    """Events per second between the first delivery of all and the last of these keys, by the database's clock."""
    with psycopg.connect(url) as connection:
        count, seconds = connection.execute(_PACE, {"keys": keys}).fetchone() or (0, None)
        return float(count / seconds) if seconds else 0.0


def _prepared(servers: Servers, load: Load, event_type: str, *, due_in: float = 0.0, shards: bool = False) -> str:
    url = servers.fresh_table()
    add_extension(url, TableName(), "key-order")
    with psycopg.connect(url, autocommit=True) as connection:
        if shards:
            connection.execute("DROP INDEX idx_openoutbox_order_waiting, idx_openoutbox_order_keyless")
            connection.execute(_LANE_INDEX.encode())
        values = {"event_type": event_type, "count": load.events, "keys": load.keys, "hot": load.hot}
        connection.execute(_FILL, values | {"due_in": due_in})
        connection.execute("VACUUM ANALYZE openoutbox_events")
        connection.execute("CHECKPOINT")
    return url


def mechanisms(servers: Servers, rounds: int) -> str:
    """A table of the bare loops."""
    paces_of: dict[tuple[str, str], list[str]] = {}
    for _ in range(rounds):
        for load in LOADS:
            for name in MECHANISMS:
                url = _prepared(servers, load, "bench", shards=name == "shards")
                asyncio.run(_drain_bare(url, name, load, 100))
                paces_of.setdefault((load.name, name), []).append(_bare_result(url, load))
                print(f"  {load.name}, {name}: {paces_of[load.name, name][-1]}", file=sys.stderr)
                servers.drop_table(url)
    lines = [f"| events/s | {' | '.join(MECHANISMS)} |", "|---|" + "---|" * len(MECHANISMS)]
    for load in LOADS:
        paces = (" / ".join(paces_of[load.name, name]) for name in MECHANISMS)
        lines.append(f"| {load.name} | {' | '.join(paces)} |")
    return "\n".join(lines)


@dataclass(frozen=True)
class Cell:
    """A way to drain a backlog with the relay itself."""

    publisher: str
    relays: int
    batch: int


@dataclass(frozen=True)
class Drained(Cell):
    """Events per second of each round."""

    keys: int
    unordered: list[float]
    ordered: list[float]


def _drain(servers: Servers, cell: Cell, load: Load, ordering: str, due_in: float) -> float:
    target = f"bench{uuid.uuid4().hex[:10]}"
    url = _prepared(servers, load, target, due_in=due_in)
    broker = servers.brokers.get(cell.publisher)
    if broker is not None:
        broker.prepare(target)
    env = {
        "STORAGE_URL": url,
        "PUBLISHER_TYPE": cell.publisher,
        "PUBLISHER_URL": servers.url(cell.publisher),
        "BATCH_SIZE": str(cell.batch),
        "ORDERING": ordering,
    }
    with ExitStack() as stack, psycopg.connect(url, autocommit=True) as connection:
        for number in range(cell.relays):
            stack.enter_context(RelayProcess(env | {"RELAY_ID": f"relay-{number}"}))
        deadline = time.monotonic() + 300
        while connection.execute(_UNFINISHED, {"keys": "%"}).fetchone() == (True,):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{cell} did not drain in 300 s")
            time.sleep(0.2)
    pace = _pace(url)
    servers.drop_table(url)
    if broker is not None:
        broker.discard(target)
    print(f"  {cell}, {load.keys} keys, {ordering}: {pace:,.0f} events/s", file=sys.stderr)
    return pace


def _cells(options: argparse.Namespace) -> Iterator[Cell]:
    for publisher in options.publishers:
        for relays in options.relays:
            for batch in options.batches:
                yield Cell(publisher, relays, batch)


def drains(servers: Servers, options: argparse.Namespace) -> list[Drained]:
    """The relay's own drains, ordered and unordered in turn."""
    drained = []
    for keys in options.keys:
        load = Load(f"{keys} keys", options.events, keys)
        for cell in _cells(options):
            paces: dict[str, list[float]] = {"none": [], "key": []}
            # All rows fall due at one moment, when the relays are ready.
            due_in = options.due_in + 3.0 * (cell.relays - 1)
            for number in range(options.rounds):
                for ordering in ("none", "key") if number % 2 == 0 else ("key", "none"):
                    paces[ordering].append(_drain(servers, cell, load, ordering, due_in))
            drained.append(Drained(**asdict(cell), keys=keys, unordered=paces["none"], ordered=paces["key"]))
    return drained


def table(drained: list[Drained]) -> str:
    """Medians, and the ratio of ordered to unordered of a round: median and range."""
    lines = ["| publisher | relays | batch | keys | unordered | ordered | ratio |", "|---|---|---|---|---|---|---|"]
    for one in drained:
        ratios = [ordered / plain for plain, ordered in zip(one.unordered, one.ordered, strict=True)]
        plain, ordered = statistics.median(one.unordered), statistics.median(one.ordered)
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
        columns = f"{one.publisher} | {one.relays} | {one.batch} | {one.keys} | {plain:,.0f} | {ordered:,.0f}"
        lines.append(f"| {columns} | {spread} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print the two tables, and write the drains as JSON with --json."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ordering", description=__doc__)
    parser.add_argument("--events", type=int, default=100_000, help="rows of each drain (default 100000)")
    parser.add_argument("--rounds", type=int, default=3, help="repetitions (default 3)")
    parser.add_argument("--keys", type=int, nargs="+", default=[1000])
    parser.add_argument("--batches", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--relays", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--publishers", nargs="+", default=["kafka"])
    due_in = "seconds from the insert until the rows are due, for one relay; each further one adds 3 (default 13)"
    parser.add_argument("--due-in", type=float, default=13.0, help=due_in)
    parser.add_argument("--only", choices=["mechanisms", "drains"])
    parser.add_argument("--json", type=Path, help="write the drains to this file")
    options = parser.parse_args()
    with Servers(options.publishers) as servers:
        if options.only != "drains":
            print(mechanisms(servers, options.rounds))
        if options.only != "mechanisms":
            drained = drains(servers, options)
            print(table(drained))
            if options.json:
                options.json.write_text(json.dumps([asdict(one) for one in drained], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
