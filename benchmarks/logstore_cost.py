"""What the delivery log costs the relay: ``python -m benchmarks.logstore_cost``.

The whole engine drains a backlog from a real PostgreSQL into the null publisher, in turns without a log, with a log
that hangs, and with a healthy log in a second PostgreSQL on the same machine. The ratio to the run without, of the
same round, is what counts.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence

import psycopg

from relay.core.sqltext import TableName
from relay.demo.postgres import PostgresServer
from relay.engine.options import EngineOptions
from relay.engine.relay import Relay
from relay.logstore import LogEntry, LogStore, open_logstore
from relay.logstore.memory import MemoryLogStore
from relay.logstore.recorder import Recorder, RecorderOptions
from relay.publishers.null import NullPublisher
from relay.storage.migrate import migrate
from relay.storage.options import PostgresOptions
from relay.storage.postgres import PostgresOutbox
from relay.telemetry.prometheus import PrometheusTelemetry

_FILL = """
INSERT INTO openoutbox_events (event_id, event_type, payload)
SELECT gen_random_uuid(), 'orders', decode(rpad(md5(n::text), 250, md5(n::text)), 'hex')
FROM generate_series(1, %(count)s) AS n
"""


class HangingStore(MemoryLogStore):
    """A log that never answers."""

    async def insert_many(self, entries: Sequence[LogEntry]) -> None:  # noqa: ARG002 - none is kept
        """Wait for ever."""
        await asyncio.Event().wait()


async def drain(url: str, events: int, recorder: Recorder | None) -> float:
    """Events a second, from the first claim to the last settled row."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("TRUNCATE openoutbox_events")
        connection.execute(_FILL.encode(), {"count": events})
        connection.execute("VACUUM ANALYZE openoutbox_events")
    storage = PostgresOutbox(PostgresOptions(url=url, relay_id="bench"))
    options = EngineOptions(batch_size=1000, max_in_flight=8000)
    relay = Relay(storage, NullPublisher(), PrometheusTelemetry("bench"), options, recorder)
    began = time.perf_counter()
    running = asyncio.create_task(relay.run())
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        while await _left(connection):  # noqa: ASYNC110 - the database is asked
            await asyncio.sleep(0.02)
    seconds = time.perf_counter() - began
    relay.stop()
    await running
    return events / seconds


async def _left(connection: psycopg.AsyncConnection[tuple[object, ...]]) -> bool:
    rows = await connection.execute("SELECT 1 FROM openoutbox_events WHERE status <> 'DELIVERED' LIMIT 1")
    return await rows.fetchone() is not None


async def with_log(url: str, events: int, open_store: Callable[[], Awaitable[LogStore]]) -> tuple[float, int]:
    """As ``drain`` with a recorder; also how many attempts were dropped."""
    recorder = Recorder(open_store, RecorderOptions(close_timeout=0.2))
    recorder.start()
    rate = await drain(url, events, recorder)
    dropped = recorder.dropped
    await recorder.close()
    return rate, dropped


async def measure(events: int, rounds: int) -> None:
    """Print each round and the medians."""

    async def hanging() -> LogStore:
        return HangingStore()

    with PostgresServer(durable=True) as outbox, PostgresServer(durable=True) as log:
        migrate(outbox.url, TableName())
        store = await open_logstore(log.url)
        await store.migrate()
        await store.close()
        await drain(outbox.url, events, None)  # warm
        ratios: dict[str, list[float]] = {"hanging": [], "healthy": []}
        for _ in range(rounds):
            off = await drain(outbox.url, events, None)
            for name, opener in (("hanging", hanging), ("healthy", lambda: open_logstore(log.url))):
                rate, dropped = await with_log(outbox.url, events, opener)
                ratios[name].append(rate / off)
                print(
                    f"{name}: {rate:.0f}/s, without {off:.0f}/s, ratio {rate / off:.2f}, dropped {dropped}", flush=True
                )
        for name, found in ratios.items():
            print(f"{name}: median ratio {statistics.median(found):.3f} of {[round(r, 2) for r in found]}")


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--events", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    asyncio.run(measure(given.events, given.rounds))


if __name__ == "__main__":
    main()
