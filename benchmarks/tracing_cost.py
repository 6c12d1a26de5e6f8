"""What traces cost the relay: ``python -m benchmarks.tracing_cost``.

The whole engine drains a backlog from a real PostgreSQL in batches of 1,000, each time next to a run without a tracer,
now before and now after it. Every event has a ``traceparent``, of which ``--sampled`` percent are sampled, and spans
go over HTTP to a collector in a process of its own that gets only the CPU that nothing else wants. It stands for one on
another machine: what is measured is the tracer and the exporter in the relay's process.

The median of the ratios within such pairs is what counts; the CPU that this process took for an event is beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import multiprocessing
import os
import statistics
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from multiprocessing.connection import Connection

import psycopg

from benchmarks.servers import Servers
from relay.app.build import build_publisher, engine_options, storage_options
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
    """Print each pair, and then the medians of the ratios within the pairs."""
    ends = time.monotonic() + seconds
    pairs: list[tuple[float, float]] = []
    with Servers([cell.publisher]) as servers, collector() as endpoint:
        url, target = servers.fresh_table(), f"bench{uuid.uuid4().hex[:10]}"
        if cell.publisher in servers.brokers:
            servers.brokers[cell.publisher].prepare(target)
        await drain(servers, url, target, cell, endpoint)  # warm
        gc.collect()
        gc.freeze()  # as the relay does
        for number in range(rounds):
            if number and time.monotonic() > ends:
                break
            order = ("", endpoint) if number % 2 else (endpoint, "")
            runs = {one: await drain(servers, url, target, cell, one) for one in order}
            traced, off = runs[endpoint], runs[""]
            pairs.append((traced.rate / off.rate, traced.cpu / off.cpu))
            print(
                f"{traced.rate:7.0f}/s {traced.cpu:6.1f} us   off {off.rate:7.0f}/s {off.cpu:6.1f} us"
                f"   ratio {traced.rate / off.rate:.3f}",
                flush=True,
            )
    rates, costs = zip(*pairs, strict=True)
    print(
        f"median of {len(pairs)} pairs, {cell.publisher}, batches of {cell.batch}, {cell.sampled:g}% sampled: "
        f"throughput {statistics.median(rates):.3f} of that without traces, CPU an event {statistics.median(costs):.3f}"
    )


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
    asyncio.run(measure(cell, options.rounds, options.seconds))


if __name__ == "__main__":
    main()
