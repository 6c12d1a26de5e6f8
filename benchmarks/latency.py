"""How long an event is on its way, and what an idle relay costs: ``python -m benchmarks.latency``.

A writer commits one event a transaction, at random moments, 200 a second on average; a consumer on the broker takes
the time when it sees it, and reads from the message when the broker stored it. Both times of an event run from the
return of its COMMIT. Between them lies the broker's acknowledgement: it is sent once the message is stored, while the
consumer's own part is in the second alone. Kafka's and Redis' clocks tick in milliseconds; the end of the tick counts.
All settings of the relay are the defaults. Then the writer stops, and the relay's statements and CPU time are counted
for a while. Each publisher is measured a second time with the wake-up extension, the only setting that differs. Beside
each run stands what the broker takes alone, to acknowledge single messages from memory (``benchmarks.latencyfloor``).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import statistics
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import nats
import psycopg
import redis
from confluent_kafka import Consumer

from benchmarks.destinations import Destinations
from benchmarks.latencyfloor import acknowledged_p50
from benchmarks.measured import Machine
from benchmarks.process import RelayProcess
from benchmarks.servers import Servers
from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName

_INSERT = "INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload) VALUES (%s, %s, %s, %s)"
_LOGGED = re.compile(rb"LOG:  (?:execute |statement: )")
_ALONE = 9.0  # seconds for the broker alone
_DRY = 5.0  # seconds without a message after which the consumer stops

_TICK = 0.001  # seconds of the clocks of Kafka and Redis


class Moment(NamedTuple):
    """When a consumer had a message, and when the broker stored it; seconds since 1970."""

    received: float
    stored: float


Seen = dict[str, Moment]
"""By event id."""


@dataclass(frozen=True)
class Latency:
    """One run; times are milliseconds, to the consumer where nothing else is said."""

    publisher: str
    wake_up: bool
    events: int
    missing: int
    stored_p50: float
    stored_p99: float
    p50: float
    p90: float
    p99: float
    longest: float
    alone_p50: float
    """What the broker takes to acknowledge a message from memory."""
    idle_statements_per_second: float
    idle_cpu_seconds_per_minute: float


def _read_kafka(url: str, target: str, stop: threading.Event) -> Iterator[tuple[str, float]]:
    consumer = Consumer({"bootstrap.servers": url, "group.id": target, "auto.offset.reset": "earliest"})
    consumer.subscribe([target])
    try:
        while not stop.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                event_id = bytes(dict(message.headers() or [])["X-Event-ID"]).decode()
                yield event_id, message.timestamp()[1] / 1000 + _TICK
    finally:
        consumer.close()


def _read_redis(url: str, target: str, stop: threading.Event) -> Iterator[tuple[str, float]]:
    with redis.Redis.from_url(url) as client:
        after = b"0"
        while not stop.is_set():
            for _, entries in client.xread({target: after}, block=100) or []:
                for after, fields in entries:  # the last one is where the next read begins
                    yield fields[b"id"].decode(), int(after.partition(b"-")[0]) / 1000 + _TICK


def _follow_nats(url: str, target: str, stop: threading.Event, seen: Seen) -> None:
    async def follow() -> None:
        client = await nats.connect(url)

        async def on_message(message: nats.aio.msg.Msg) -> None:
            stored = message.metadata.timestamp.timestamp()
            seen[(message.headers or {})["Nats-Msg-Id"]] = Moment(time.time(), stored)

        await client.jetstream().subscribe(target, cb=on_message, ordered_consumer=True)
        await asyncio.to_thread(stop.wait)
        await client.close()

    asyncio.run(follow())


def _following(reader: Callable[[str, str, threading.Event], Iterator[tuple[str, float]]]) -> Callable[..., None]:
    def follow(url: str, target: str, stop: threading.Event, seen: Seen) -> None:
        for event_id, stored in reader(url, target, stop):
            seen[event_id] = Moment(time.time(), stored)

    return follow


_FOLLOW = {"kafka": _following(_read_kafka), "redis": _following(_read_redis), "nats": _follow_nats}


def _write(url: str, target: str, rate: float, seconds: float) -> dict[str, float]:
    """Commit events at random moments; event id to the moment its COMMIT returned."""
    committed: dict[str, float] = {}
    end = time.monotonic() + seconds
    with psycopg.connect(url, autocommit=True) as connection:
        due = time.monotonic()
        while (now := time.monotonic()) < end:
            if due > now:
                time.sleep(due - now)
            event_id = str(uuid.uuid4())
            connection.execute(_INSERT, (event_id, target, f"key-{random.randrange(1000)}", b"x" * 512))
            committed[event_id] = time.time()
            due += random.expovariate(rate)
    return committed


def _idle(servers: Servers, relay: RelayProcess, seconds: float) -> tuple[float, float]:
    """Statements a second, as the server logs them, and CPU seconds a minute."""
    with psycopg.connect(servers.postgres.url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET log_statement = 'all'")
        connection.execute("SELECT pg_reload_conf()")
        time.sleep(seconds / 4)  # the polling slows down
        log = servers.postgres.folder / "log"
        seen, cpu, started = log.stat().st_size, relay.usage().cpu_seconds, time.monotonic()
        time.sleep(seconds)
        cpu, passed = relay.usage().cpu_seconds - cpu, time.monotonic() - started
        with log.open("rb") as text:
            text.seek(seen)
            count = len(_LOGGED.findall(text.read()))
        connection.execute("ALTER SYSTEM RESET log_statement")
        connection.execute("SELECT pg_reload_conf()")
    return count / passed, cpu / passed * 60


def measure(servers: Servers, publisher: str, options: argparse.Namespace, *, wake_up: bool) -> Latency:
    """One run on a fresh table and destination."""
    broker = servers.brokers[publisher]
    alone = _alone(broker, publisher, options)
    target = f"bench{uuid.uuid4().hex[:10]}"
    broker.prepare(target)
    url = servers.fresh_table()
    env = {"STORAGE_URL": url, "PUBLISHER_TYPE": publisher, "PUBLISHER_URL": broker.url, "RELAY_ID": "benchmark"}
    if wake_up:
        add_extension(url, TableName(), "wake-up")
        env["WAKE_UP"] = "true"
    seen: Seen = {}
    stop = threading.Event()
    follower = threading.Thread(target=_FOLLOW[publisher], args=(broker.url, target, stop, seen))
    follower.start()
    with RelayProcess(env) as relay:
        _write(url, target, options.rate, options.warm_up)
        committed = _write(url, target, options.rate, options.seconds)
        deadline = time.monotonic() + _DRY
        while not committed.keys() <= seen.keys() and time.monotonic() < deadline:
            time.sleep(0.05)
        idle = _idle(servers, relay, options.idle)
    stop.set()
    follower.join()
    broker.discard(target)
    servers.drop_table(url)
    arrived = [(at, seen[event_id]) for event_id, at in committed.items() if event_id in seen]
    stored = statistics.quantiles(((moment.stored - at) * 1000 for at, moment in arrived), n=100)
    taken = sorted((moment.received - at) * 1000 for at, moment in arrived)
    cuts = statistics.quantiles(taken, n=100)
    missing = len(committed) - len(taken)
    times = (stored[49], stored[98], cuts[49], cuts[89], cuts[98], taken[-1], alone)
    return Latency(publisher, wake_up, len(taken), missing, *times, *idle)


def _alone(broker: Destinations, publisher: str, options: argparse.Namespace) -> float:
    target = f"bench{uuid.uuid4().hex[:10]}"
    broker.prepare(target)
    try:
        return acknowledged_p50(publisher, broker.url, target, options.rate, min(_ALONE, options.seconds))
    finally:
        broker.discard(target)


def table(runs: Sequence[Latency]) -> str:
    """The runs as Markdown."""
    columns = ["publisher", "by", "events", "missing", "stored p50 ms", "p99 ms", "received p50 ms", "p90 ms", "p99 ms"]
    columns += ["longest ms", "broker alone p50 ms", "idle statements/s", "CPU s/min"]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for run in runs:
        mode = "wake-up" if run.wake_up else "polling"
        taken = (run.p50, run.p90, run.p99, run.longest, run.alone_p50)
        times = " | ".join(f"{value:.1f}" for value in (run.stored_p50, run.stored_p99, *taken))
        idle = f"{run.idle_statements_per_second:.1f} | {run.idle_cpu_seconds_per_minute:.2f}"
        lines.append(f"| {run.publisher} | {mode} | {run.events} | {run.missing} | {times} | {idle} |")
    return "\n".join(lines)


def main() -> None:
    """Measure each publisher, print a table, and write JSON with --json."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency", description=__doc__)
    parser.add_argument("--publishers", nargs="+", default=["kafka", "nats", "redis"], choices=sorted(_FOLLOW))
    parser.add_argument("--rate", type=float, default=200.0, help="events a second (default 200)")
    parser.add_argument("--seconds", type=float, default=30.0, help="length of each run (default 30)")
    parser.add_argument("--warm-up", type=float, default=3.0, help="seconds whose events do not count (default 3)")
    parser.add_argument("--idle", type=float, default=20.0, help="seconds that the idle relay is watched (default 20)")
    parser.add_argument("--json", type=Path, help="write every run to this file")
    options = parser.parse_args()
    with ExitStack() as stack:
        servers = stack.enter_context(Servers(options.publishers))
        runs = [
            measure(servers, publisher, options, wake_up=wake_up)
            for publisher in options.publishers
            for wake_up in (False, True)
        ]
    print(table(runs))
    if options.json:
        machine = Machine.this(rate=options.rate, seconds=options.seconds)
        figures = {"machine": asdict(machine), "runs": [asdict(run) for run in runs]}
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
