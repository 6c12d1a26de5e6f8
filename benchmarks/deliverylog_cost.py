"""What the delivery log costs the relay: ``python -m benchmarks.deliverylog_cost``.

The whole engine drains a backlog from a real PostgreSQL into the null publisher in batches of 1,000, the cell in which
anything done for each event shows most, each time next to a run without a log, now before and now after it:

- ``hanging``: a log that never answers;
- ``elsewhere``: a healthy log in a second PostgreSQL, which gets only the CPU that nothing else wants and does not wait
  for the disk. It stands for a server on another machine: what is measured is the recorder in the relay's process;
- ``beside``: the same with ordinary priority, so that it competes with the relay and the outbox for the cores.

The median of the ratios within such pairs is what counts; the CPU that this process took for an event is beside it,
which neighbours disturb less.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import psycopg

from relay.app.build import engine_options, recorder_options, storage_options
from relay.brokers.null import NullPublisher
from relay.deliverylog import DeliveryLog, LogEntry, open_delivery_log
from relay.deliverylog.memory import MemoryDeliveryLog
from relay.deliverylog.recorder import Recorder
from relay.engine.relay import Relay
from relay.localservers.postgres import PostgresServer
from relay.outbox.migrate import migrate
from relay.outbox.storage import PostgresOutbox
from relay.postgres.sql import TableName
from relay.settings.settings import Settings
from relay.telemetry.prometheus import PrometheusTelemetry

_LOGS = ["hanging", "elsewhere", "beside"]
_FILL = """
INSERT INTO openoutbox_events (event_id, event_type, payload)
SELECT gen_random_uuid(), 'orders', decode(rpad(md5(n::text), 250, md5(n::text)), 'hex')
FROM generate_series(1, %(count)s) AS n
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """What is measured."""

    events: int
    batch: int
    logs: tuple[str, ...]


class HangingStore(MemoryDeliveryLog):
    """A log that never answers."""

    async def insert_many(self, entries: Sequence[LogEntry]) -> None:  # noqa: ARG002 - none is written
        """Wait until cancelled."""
        await asyncio.Event().wait()


@dataclass(frozen=True, slots=True)
class Run:
    """One backlog drained."""

    rate: float
    """Events a second, from the start of the relay to the last settled row."""
    cpu: float
    """Microseconds of this process's CPU for an event, the recorder's thread included."""
    dropped: int = 0
    """Attempts that were dropped instead of logged."""
    written: int = 0
    """Attempts that were logged by the time the backlog was drained."""


def _settings(url: str, cell: Cell) -> Settings:
    return Settings.from_env({"STORAGE_URL": url, "RELAY_ID": "bench", "BATCH_SIZE": str(cell.batch)})


async def drain(url: str, cell: Cell, recorder: Recorder | None) -> Run:
    """Drain a fresh backlog."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("TRUNCATE openoutbox_events")
        connection.execute(_FILL.encode(), {"count": cell.events})
        connection.execute("VACUUM ANALYZE openoutbox_events")
        connection.execute("CHECKPOINT")
    gc.collect()
    settings = _settings(url, cell)
    storage = PostgresOutbox(storage_options(settings))
    relay = Relay(storage, NullPublisher(), PrometheusTelemetry("bench"), engine_options(settings), recorder)
    began, cpu_began = time.perf_counter(), time.process_time()
    running = asyncio.create_task(relay.run())
    while relay.decider.acknowledged < cell.events or relay.inflight.events:  # noqa: ASYNC110 - counters, no event
        await asyncio.sleep(0.005)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu_began
    relay.stop()
    await running
    return Run(cell.events / seconds, cpu / cell.events * 1e6)


async def with_log(url: str, cell: Cell, open_store: Callable[[], Awaitable[DeliveryLog]]) -> Run:
    """As ``drain`` with a recorder."""
    recorder = Recorder(open_store, replace(recorder_options(_settings(url, cell)), close_timeout=0.2))
    recorder.start()
    run = await drain(url, cell, recorder)
    run = replace(run, dropped=recorder.dropped, written=recorder.written)
    await recorder.close()
    return run


async def hanging() -> DeliveryLog:
    """A log that never answers."""
    return HangingStore()


def with_leftover_cpu(server: PostgresServer) -> None:
    """Give a server, and the sessions that it will have, only the CPU that nothing else wants."""
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text(encoding="ascii").split()
    for pid in (server.pid, *map(int, children)):
        with suppress(ProcessLookupError):  # a child that has ended meanwhile
            os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))


async def measure(cell: Cell, rounds: int, seconds: float) -> None:
    """Print each round, and then the medians of the ratios within the rounds."""
    ends = time.monotonic() + seconds
    with ExitStack() as stack:
        outbox = stack.enter_context(PostgresServer(durable=True))
        openers: dict[str, Callable[[], Awaitable[DeliveryLog]]] = {}
        for name in cell.logs:
            openers[name] = hanging
            if name != "hanging":
                log = stack.enter_context(PostgresServer(durable=name == "beside"))
                if name == "elsewhere":
                    with_leftover_cpu(log)
                openers[name] = partial(open_delivery_log, log.url)
                store = await openers[name]()
                await store.migrate()
                await store.close()
        migrate(outbox.url, TableName())
        await drain(outbox.url, cell, None)  # warm
        gc.collect()
        gc.freeze()  # as the relay does
        pairs: dict[str, list[tuple[float, float]]] = {name: [] for name in cell.logs}
        for number in range(rounds):
            if number and time.monotonic() > ends:
                print(f"stopped after {number} rounds: {seconds:.0f} s are over")
                break
            for name in cell.logs if number % 2 else cell.logs[::-1]:
                pairs[name].append(await pair(outbox.url, cell, name, openers[name], log_first=bool(number % 2)))
    for name, ratios in pairs.items():
        rates, costs = zip(*ratios, strict=True)
        print(
            f"{name}: median of {len(ratios)} pairs, null publisher, batches of {cell.batch}: throughput "
            f"{statistics.median(rates):.3f} of that with the log off, CPU an event {statistics.median(costs):.3f}"
        )


async def pair(
    url: str, cell: Cell, name: str, opener: Callable[[], Awaitable[DeliveryLog]], *, log_first: bool
) -> tuple[float, float]:
    """One run with the log and one without, next to each other; the ratios of their throughput and their CPU."""
    if log_first:
        logged, off = await with_log(url, cell, opener), await drain(url, cell, None)
    else:
        off, logged = await drain(url, cell, None), await with_log(url, cell, opener)
    print(
        f"{name:9} {logged.rate:7.0f}/s {logged.cpu:6.1f} us   off {off.rate:7.0f}/s {off.cpu:6.1f} us"
        f"   ratio {logged.rate / off.rate:.3f}   of {cell.events} written {logged.written}, dropped {logged.dropped}",
        flush=True,
    )
    return logged.rate / off.rate, logged.cpu / off.cpu


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--events", type=int, default=250_000, help="of a backlog; the queue holds 20,000")
    parser.add_argument("--batch", type=int, default=1000, help="events of one claim")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=420.0, help="no round begins after that")
    parser.add_argument("--logs", nargs="+", choices=_LOGS, default=_LOGS)
    options = parser.parse_args()
    asyncio.run(measure(Cell(options.events, options.batch, tuple(options.logs)), options.rounds, options.seconds))


if __name__ == "__main__":
    main()
