"""The delivery log's two drivers side by side: writing, listing, looking up, counting, and what is on disk.

    python -m benchmarks.logstore --rows 1000000

Starts a PostgreSQL and an embedded ClickHouse of its own, fills both on the server's side with the same attempts
over 24 months and 50 tenants, and then asks them what people ask. Where a hand-written statement can do the same its
time is beside it, measured in turns with the driver's: on a busy machine only the ratios mean anything.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg

from relay.demo.postgres import PostgresServer
from relay.logstore import (
    Granularity,
    ListAttempts,
    ListEvents,
    LogEntry,
    LoggedAttempt,
    LoggedEvent,
    LogStore,
    MetricsQuery,
    open_logstore,
)
from relay.logstore.clickhouse import ClickHouseLogStore
from relay.logstore.clickhouse_client import ClickHouseClient
from relay.logstore.clickhouse_rows import COLUMNS, columns
from relay.logstore.cursor import Position, encode
from relay.logstore.entries import Prepared
from relay.logstore.times import from_ms, to_ms
from tests.logstore.loading import END, FIRST, SPAN_MS, load_clickhouse, load_postgres

BATCH = 1000
MIDDLE_MS = to_ms(FIRST) + SPAN_MS // 2
DEEP = Position(MIDDLE_MS, "att_")

LISTINGS: list[tuple[str, ListAttempts | ListEvents]] = [
    ("attempts", ListAttempts()),
    ("attempts of a tenant", ListAttempts(tenant_ids=["tenant_7"])),
    ("attempts of a tenant's destination", ListAttempts(tenant_ids=["tenant_7"], destination_ids=["dest_3"])),
    ("attempts of a tenant's topic", ListAttempts(tenant_ids=["tenant_7"], topics=["topic_11"])),
    ("failed attempts of a tenant", ListAttempts(tenant_ids=["tenant_20"], status="failed")),
    ("attempts to a destination", ListAttempts(destination_ids=["dest_3"])),
    ("attempts of a topic", ListAttempts(topics=["topic_11"])),
    ("failed attempts", ListAttempts(status="failed")),
    ("attempts of an event", ListAttempts(event_ids=["evt_000000777"])),
    ("events of a tenant", ListEvents(tenant_ids=["tenant_7"])),
    ("events of a destination", ListEvents(destination_ids=["dest_3"])),
]

# The plainest statements that give the same rows, for the ratio.
HAND_POSTGRES = {
    "attempts of a tenant": "SELECT * FROM openoutbox_log.attempts WHERE tenant_id = 'tenant_7' "
    "ORDER BY time DESC, id DESC LIMIT 101",
    "attempts of a topic": "SELECT * FROM openoutbox_log.attempts WHERE topic = 'topic_11' "
    "ORDER BY time DESC, id DESC LIMIT 101",
    "metrics of a month by hour": "SELECT date_trunc('hour', time), count(*), "
    "count(*) FILTER (WHERE status = 'failed') FROM openoutbox_log.attempts "
    "WHERE time >= '2025-01-01Z' AND time < '2025-02-01Z' GROUP BY 1",
}
HAND_CLICKHOUSE = {
    "attempts of a tenant": "SELECT * FROM event_log WHERE tenant_id = 'tenant_7' "
    "ORDER BY delivery_time DESC, delivery_id DESC LIMIT 101",
    "attempts of a topic": "SELECT * FROM event_log WHERE topic = 'topic_11' "
    "ORDER BY delivery_time DESC, delivery_id DESC LIMIT 101",
    "metrics of a month by hour": "SELECT toStartOfHour(delivery_time), count(), countIf(status = 'failed') "
    "FROM event_log WHERE delivery_time >= '2025-01-01 00:00:00' AND delivery_time < '2025-02-01 00:00:00' GROUP BY 1",
}


def batch_of(number: int) -> list[LogEntry]:
    """A thousand new attempts of this moment, 250 bytes of payload each."""
    made = []
    for i in range(BATCH):
        n = number * BATCH + i
        at = END + timedelta(milliseconds=n)
        event = LoggedEvent(
            id=f"new_{n:09d}",
            tenant_id=f"tenant_{n % 50}",
            matched_destination_ids=[f"dest_{n % 10}"],
            time=at,
            topic=f"topic_{n % 20}",
            data=b'{"n": 1}' * 31,
            metadata={"trace": "x"},
        )
        attempt = LoggedAttempt(
            id=f"new_{n:09d}",
            event_id=event.id,
            tenant_id=event.tenant_id,
            destination_id=f"dest_{n % 10}",
            destination_type="kafka",
            topic=event.topic,
            status="success",
            time=at,
            attempt_number=1,
            response_data={"partition": 1, "offset": n},
        )
        made.append(LogEntry(event, attempt))
    return made


@contextmanager
def clocked(into: list[float]) -> Iterator[None]:
    """Adds the seconds that go by inside."""
    began = time.perf_counter()
    yield
    into.append(time.perf_counter() - began)


def quantile(seconds: list[float], share: float) -> float:
    """Milliseconds below which ``share`` of the times lie."""
    return sorted(seconds)[min(int(len(seconds) * share), len(seconds) - 1)] * 1000


async def turns(rounds: int, *calls: Callable[[], Awaitable[object]]) -> list[list[float]]:
    """The times of several calls, made in turns, so that all meet the same neighbours on the machine."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, into in zip(calls, times, strict=True):
            with clocked(into):
                await call()
    return times


async def measure_inserts(name: str, store: LogStore, bare: Callable[[list[LogEntry]], Awaitable[object]]) -> None:
    """The driver's batches and the bare ones in turns, into the same tables."""
    mine: list[float] = []
    theirs: list[float] = []
    for number in range(12):
        ours, other = batch_of(2 * number), batch_of(2 * number + 1)
        with clocked(mine):
            await store.insert_many(ours)
        with clocked(theirs):
            await bare(other)
    rate, bare_rate = (BATCH / (sum(times[2:]) / len(times[2:])) for times in (mine, theirs))
    print(f"{name:11} insert_many {rate:9.0f}/s   bare {bare_rate:9.0f}/s   ratio {rate / bare_rate:.2f}")


async def measure_reads(
    name: str, store: LogStore, rounds: int, by_hand: dict[str, str], run: Callable[[str], Awaitable[object]]
) -> None:
    """Every listing at its first and at a deep page, one row by id, and a month by the hour."""
    for title, query in LISTINGS:
        resource = "evt" if isinstance(query, ListEvents) else "att"
        deep = replace(query, next=encode(resource, DEEP))
        call = store.list_events if isinstance(query, ListEvents) else store.list_attempts
        hand = by_hand.get(title)
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda call=call, query=query: call(query),  # type: ignore[misc, arg-type]
            lambda call=call, deep=deep: call(deep),  # type: ignore[misc, arg-type]
        ]
        if hand is not None:
            calls.append(lambda hand=hand: run(hand))  # type: ignore[misc]
        _report(name, title, await turns(rounds, *calls))
    month = MetricsQuery(
        start=from_ms(to_ms(FIRST)).replace(year=2025),
        end=from_ms(to_ms(FIRST)).replace(year=2025, month=2),
        measures=["count", "failed_count"],
        granularity=Granularity(1, "h"),
    )
    title = "metrics of a month by hour"
    times = await turns(rounds, lambda: store.attempt_metrics(month), lambda: run(by_hand[title]))
    _report(name, title, [times[0], times[0], times[1]])
    ids = await turns(
        rounds, lambda: store.retrieve_event("evt_000000777"), lambda: store.retrieve_attempt("att_000000777")
    )
    _report(name, "one event, one attempt, by id", ids)


def _report(name: str, title: str, times: list[list[float]]) -> None:
    first, deep = times[0], times[1]
    ratio = f"   by hand p50 {quantile(times[2], 0.5):7.1f}" if len(times) > 2 else ""
    print(
        f"{name:11} {title:36} first p50 {quantile(first, 0.5):7.1f} p99 {quantile(first, 0.99):7.1f}"
        f"   deep p50 {quantile(deep, 0.5):7.1f} p99 {quantile(deep, 0.99):7.1f}{ratio}  ms",
        flush=True,
    )


async def on_postgres(rows: int, rounds: int) -> None:
    """PostgreSQL, durable, with its data on disk."""
    with PostgresServer(durable=True, settings={"shared_buffers": "512MB", "max_wal_size": "4GB"}) as server:
        loading: list[float] = []
        with clocked(loading):
            load_postgres(server.url, rows)
        store = await open_logstore(server.url)
        async with await psycopg.AsyncConnection.connect(server.url, autocommit=True) as connection:
            size = await connection.execute("SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' "
                                            "AND relnamespace = 'openoutbox_log'::regnamespace")  # fmt: skip
            found = await size.fetchone()
            assert found is not None
            print(f"postgres    loaded {rows} in {loading[0]:.0f} s, {found[0] / rows:.0f} bytes a row")

            async def run(text: str) -> object:
                return await (await connection.execute(text.encode())).fetchall()

            async def copy(entries: list[LogEntry]) -> None:
                await _copy(connection, entries)

            await measure_inserts("postgres", store, copy)
            await measure_reads("postgres", store, rounds, HAND_POSTGRES, run)
        await store.close()


async def _copy(connection: psycopg.AsyncConnection[Any], entries: list[LogEntry]) -> None:
    """The same rows by COPY, with no conflict handling and no checks, in one transaction."""
    async with connection.transaction(), connection.cursor() as cursor:
        async with cursor.copy(
            "COPY openoutbox_log.events (id, tenant_id, destination_id, matched_destination_ids, time, topic, "
            "eligible_for_retry, data, metadata) FROM STDIN"
        ) as out:
            for one in entries:
                e = one.event
                await out.write_row(
                    (e.id, e.tenant_id, "", e.matched_destination_ids, e.time, e.topic, True, e.data, '{"trace": "x"}')
                )
        async with cursor.copy(
            "COPY openoutbox_log.event_destinations (tenant_id, destination_id, time, id) FROM STDIN"
        ) as out:
            for one in entries:
                await out.write_row((one.event.tenant_id, one.attempt.destination_id, one.event.time, one.event.id))
        async with cursor.copy(
            "COPY openoutbox_log.attempts (id, event_id, tenant_id, destination_id, destination_type, topic, "
            "status, time, attempt_number, response_data, event_time, eligible_for_retry, event_data, event_metadata) "
            "FROM STDIN"
        ) as out:
            for one in entries:
                e, a = one.event, one.attempt
                await out.write_row(
                    (a.id, e.id, e.tenant_id, a.destination_id, a.destination_type, a.topic, a.status, a.time, 1,
                     '{"partition": 1}', e.time, True, e.data, '{"trace": "x"}')
                )  # fmt: skip


async def on_clickhouse(rows: int, rounds: int) -> None:
    """The embedded ClickHouse, in this process."""
    with tempfile.TemporaryDirectory() as folder:
        store = await open_logstore(f"chdb:///{folder}")
        assert isinstance(store, ClickHouseLogStore)
        await store.migrate()
        loading: list[float] = []
        with clocked(loading):
            await load_clickhouse(store, rows, "")
        client = store._client  # noqa: SLF001 - to load, and to ask by hand
        size = await client.rows("SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND table LIKE 'event_log%'")
        print(
            f"clickhouse  loaded {rows} in {loading[0]:.0f} s, {size[0][0] / rows:.0f} bytes an attempt with its event"
        )

        async def bare(entries: list[LogEntry]) -> None:
            await _insert(client, entries)

        await measure_inserts("clickhouse", store, bare)
        await measure_reads("clickhouse", store, rounds, HAND_CLICKHOUSE, client.rows)
        await store.close()


async def _insert(client: ClickHouseClient, entries: list[LogEntry]) -> None:
    """The same rows by the client's own insert, without checks."""
    made = columns([Prepared(one.event, one.attempt, '{"trace": "x"}', '{"partition": 1}') for one in entries])
    await client.insert("event_log", COLUMNS, made)


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=50, help="how often each question is asked")
    parser.add_argument("--drivers", nargs="+", choices=["postgres", "clickhouse"], default=["postgres", "clickhouse"])
    given = parser.parse_args()
    for driver in given.drivers:
        asyncio.run((on_postgres if driver == "postgres" else on_clickhouse)(given.rows, given.rounds))


if __name__ == "__main__":
    main()
