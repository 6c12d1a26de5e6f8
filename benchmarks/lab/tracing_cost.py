"""What traces cost the relay: ``python -m benchmarks.lab.tracing_cost``.

The whole engine drains a backlog from a real PostgreSQL three ways in each round, in an order that changes with it:
``off`` is without a tracer, ``unsampled`` and ``sampled`` with one. Every event has a ``traceparent``; in ``off`` and
``sampled`` ``--sampled`` percent of them are sampled, in ``unsampled`` none. Spans go over HTTP to a collector in a
process of its own that gets only the CPU that nothing else wants. It stands for one on another machine: what is
measured is the tracer and the exporter in the relay's process.

The medians of the ratios to ``off`` within the rounds are what counts; the CPU that this process took for an event, all
its threads included, is beside them, and less disturbed by whatever else runs.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import multiprocessing
import os
import statistics
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from multiprocessing.connection import Connection

import psycopg
import uvloop

from benchmarks.servers import Servers
from relay.app.build import engine_options, storage_options
from relay.app.collector import set_collector
from relay.app.publishers import build_publisher
from relay.engine.relay import Relay
from relay.outbox.storage import PostgresOutbox
from relay.settings.settings import Settings
from relay.telemetry.export import Tracing, start_traces
from relay.telemetry.prometheus import PrometheusTelemetry
from relay.telemetry.tracer import TracedSystems

_FILL = """
INSERT INTO openoutbox_events (event_id, event_type, payload, headers)
SELECT gen_random_uuid(), %(target)s, decode(rpad(md5(n::text), 1024, md5(n::text)), 'hex'),
       jsonb_build_object('source', 'benchmark', 'n', n::text, 'traceparent',
           '00-' || md5(n::text) || '-' || left(md5('s' || n), 16) || '-'
           || CASE WHEN n %% 1000 < %(sampled)s::float8 * 10 THEN '01' ELSE '00' END)
FROM generate_series(1, %(count)s) AS n
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """What is measured."""

    publisher: str
    events: int
    batch: int
    sampled: float
    """Percent of the events."""


@dataclass(frozen=True, slots=True)
class Run:
    """One backlog drained."""

    rate: float
    """Events a second, from the start of the relay to the last settled row."""
    cpu: float
    """Microseconds of this process's CPU for an event, the exporter's thread included."""


class _Receive(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        """Read a request and answer it."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


def _collect(parent: Connection) -> None:
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    server = HTTPServer(("127.0.0.1", 0), _Receive)
    parent.send(server.server_port)
    server.serve_forever()


@contextmanager
def collector() -> Iterator[str]:
    """The URL of a collector in a process of its own."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_collect, args=(there,), daemon=True)
    process.start()
    there.close()  # so that a collector that fails ends the wait for its port
    try:
        yield f"http://127.0.0.1:{here.recv()}"
    finally:
        process.kill()
        process.join()


def _settings(servers: Servers, url: str, cell: Cell) -> Settings:
    address = {"PUBLISHER_URL": servers.url(cell.publisher)} if servers.url(cell.publisher) else {}
    variables = {"STORAGE_URL": url, "RELAY_ID": "bench", "PUBLISHER_TYPE": cell.publisher}
    return Settings.from_env(variables | address | {"BATCH_SIZE": str(cell.batch)})


async def drain(servers: Servers, url: str, target: str, cell: Cell, endpoint: str) -> Run:
    """Drain a fresh backlog; an empty ``endpoint`` means without traces."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("TRUNCATE openoutbox_events")
        connection.execute(_FILL.encode(), {"count": cell.events, "target": target, "sampled": cell.sampled})
        connection.execute("VACUUM ANALYZE openoutbox_events")
        connection.execute("CHECKPOINT")
    gc.collect()
    settings = _settings(servers, url, cell)
    telemetry = PrometheusTelemetry("bench")
    tracing: Tracing | None = None
    if endpoint:
        systems = TracedSystems(cell.publisher, "openoutbox_events")
        tracing = start_traces(telemetry, {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}, "bench", systems)
    storage = PostgresOutbox(storage_options(settings))
    publisher, engine = build_publisher(settings), engine_options(settings)
    relay = Relay(storage, publisher, telemetry, engine, tracer=tracing.tracer if tracing is not None else None)
    began, cpu_began = time.perf_counter(), time.process_time()
    running = asyncio.create_task(relay.run())
    while relay.decider.acknowledged < cell.events or relay.inflight.events:  # noqa: ASYNC110 - counters, no event
        await asyncio.sleep(0.005)
    seconds = time.perf_counter() - began
    relay.stop()
    await running
    if tracing is not None:
        await asyncio.to_thread(tracing.stop)
    return Run(cell.events / seconds, (time.process_time() - cpu_began) / cell.events * 1e6)


async def measure(cell: Cell, rounds: int, seconds: float) -> None:
    """Print each round, and then the medians over the rounds."""
    ends = time.monotonic() + seconds
    done: list[dict[str, Run]] = []
    with Servers([cell.publisher]) as servers, collector() as endpoint:
        url, target = servers.fresh_table(), f"bench{uuid.uuid4().hex[:10]}"
        if cell.publisher in servers.brokers:
            servers.brokers[cell.publisher].prepare(target)
        ways = {"off": (cell, ""), "unsampled": (replace(cell, sampled=0.0), endpoint), "sampled": (cell, endpoint)}
        await drain(servers, url, target, cell, endpoint)  # warm
        set_collector()  # as the relay does
        orders = list(itertools.permutations(ways))
        for number in range(rounds):
            if number and time.monotonic() > ends:
                break
            order = orders[number % len(orders)]
            done.append({way: await drain(servers, url, target, *ways[way]) for way in order})
            print(
                "   ".join(f"{way} {done[-1][way].rate:6.0f}/s {done[-1][way].cpu:5.2f} us" for way in ways), flush=True
            )
    print(f"{cell.publisher}, batches of {cell.batch}, {cell.sampled:g}% sampled, medians of {len(done)} rounds:")
    for way in ways:
        runs = [(one[way], one["off"]) for one in done]
        print(
            f"{way:9}  {_median(run.rate for run, _ in runs):6.0f}/s  {_median(run.cpu for run, _ in runs):5.2f} us"
            f"   throughput {_median(run.rate / off.rate for run, off in runs):.3f} of off,"
            f" CPU {_median(run.cpu - off.cpu for run, off in runs):+.2f} us an event"
        )


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--publisher", default="null", help="a PUBLISHER_TYPE")
    parser.add_argument("--events", type=int, default=100_000, help="of a backlog")
    parser.add_argument("--batch", type=int, default=1000, help="events of one claim")
    parser.add_argument("--sampled", type=float, default=1.0, help="percent of the events, at least 0.1 or 0")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=420.0, help="no pair begins after that")
    options = parser.parse_args()
    cell = Cell(options.publisher, options.events, options.batch, options.sampled)
    uvloop.run(measure(cell, options.rounds, options.seconds))


if __name__ == "__main__":
    main()
