"""The delivery log's two drivers side by side: writing, listing, looking up, counting, and what is on disk.

    python -m benchmarks.deliverylog --rows 1000000

Starts a PostgreSQL and an embedded ClickHouse of its own, fills both on the server's side with the same attempts
over 24 months and 50 tenants, and then asks them what people ask: every filter at its first and at a deep page, one row
by its id, a month counted by the hour. Beside each time is that of the plainest statement with the same answer, written
by hand and measured in turns with the driver's: on a busy machine only the ratios mean anything.

A query runs ``--rounds`` times or for ``--seconds``, whichever ends first. Filling takes most of the time.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg

from relay.deliverylog import (
    DeliveryLog,
    Granularity,
    ListAttempts,
    ListEvents,
    LogEntry,
    LoggedAttempt,
    LoggedEvent,
    MetricsQuery,
    TimeWindow,
    open_delivery_log,
)
from relay.deliverylog.clickhouse.client import ClickHouseClient
from relay.deliverylog.clickhouse.driver import ClickHouseDeliveryLog
from relay.deliverylog.clickhouse.rows import COLUMNS, columns
from relay.deliverylog.cursor import Position, encode
from relay.deliverylog.entries import LogRow
from relay.deliverylog.times import from_ms, to_ms
from relay.localservers.postgres import PostgresServer
from tests.deliverylog.loading import END, FIRST, SPAN_MS, load_clickhouse, load_postgres

Call = Callable[[], Awaitable[object]]

BATCH = 1000
DAY = timedelta(days=1)
_FEWEST = 5  # runs of a query, however long it takes
MIDDLE_MS = to_ms(FIRST) + SPAN_MS // 2
DEEP = Position(MIDDLE_MS, "att_")

_DAY = "{time} >= '2024-12-31 00:00:00' AND {time} < '2025-01-01 00:00:00'"
_NEW_YEAR = from_ms(to_ms(FIRST)).replace(year=2025)


@dataclass(frozen=True, slots=True)
class Question:
    """A listing, and what a person would write after WHERE for it."""

    title: str
    query: ListAttempts | ListEvents
    where: str = "true"
    on_clickhouse: str = ""
    """Where it differs there."""


QUESTIONS = [
    Question("attempts", ListAttempts()),
    Question("attempts of a tenant", ListAttempts(tenant_ids=["tenant_7"]), "tenant_id = 'tenant_7'"),
    Question("attempts to a destination", ListAttempts(destination_ids=["dest_3"]), "destination_id = 'dest_3'"),
    Question("attempts to a type", ListAttempts(destination_types=["nats"]), "destination_type = 'nats'"),
    Question("attempts of a topic", ListAttempts(topics=["topic_11"]), "topic = 'topic_11'"),
    Question("failed attempts", ListAttempts(status="failed"), "status = 'failed'"),
    Question("attempts of an event", ListAttempts(event_ids=["evt_000000777"]), "event_id = 'evt_000000777'"),
    Question("attempts of a day", ListAttempts(time=TimeWindow(gte=_NEW_YEAR - DAY, lt=_NEW_YEAR)), _DAY),
    Question(
        "attempts of a tenant to a destination",
        ListAttempts(tenant_ids=["tenant_7"], destination_ids=["dest_3"]),
        "tenant_id = 'tenant_7' AND destination_id = 'dest_3'",
    ),
    Question(
        "attempts of a tenant and topic",
        ListAttempts(tenant_ids=["tenant_7"], topics=["topic_11"]),
        "tenant_id = 'tenant_7' AND topic = 'topic_11'",
    ),
    Question(
        "failed attempts of a tenant",
        ListAttempts(tenant_ids=["tenant_20"], status="failed"),
        "tenant_id = 'tenant_20' AND status = 'failed'",
    ),
    Question("events", ListEvents()),
    Question("events of a tenant", ListEvents(tenant_ids=["tenant_7"]), "tenant_id = 'tenant_7'"),
    Question("events of a topic", ListEvents(topics=["topic_11"]), "topic = 'topic_11'"),
    Question(
        "events of a destination",
        ListEvents(destination_ids=["dest_3"]),
        "'dest_3' = ANY(matched_destination_ids)",
        "has(matched_destination_ids, 'dest_3')",
    ),
    Question("an event", ListEvents(event_ids=["evt_000000777"]), "{id} = 'evt_000000777'"),
    Question("events of a day", ListEvents(time=TimeWindow(gte=_NEW_YEAR - DAY, lt=_NEW_YEAR)), _DAY),
]


@dataclass(frozen=True, slots=True)
class ByHand:
    """The statements by hand for one database."""

    attempts: str
    events: str
    names: dict[str, dict[str, str]]
    """Of the time and the id, of events and attempts."""
    after: str
    """What stands behind the deep place."""
    month: str
    find_event: str
    find_attempt: str

    def listing(self, question: Question, *, deep: bool) -> str:
        """The statement for a page."""
        kind = "events" if isinstance(question.query, ListEvents) else "attempts"
        names = self.names[kind]
        where = question.on_clickhouse if question.on_clickhouse and self is CLICKHOUSE else question.where
        after = self.after if deep else "true"
        template = self.events if kind == "events" else self.attempts
        return template.format(where=f"{where} AND {after}".format(**names), **names)


POSTGRES = ByHand(
    attempts="SELECT * FROM openoutbox_log.attempts WHERE {where} ORDER BY {time} DESC, {id} DESC LIMIT 101",
    events="SELECT * FROM openoutbox_log.events WHERE {where} ORDER BY {time} DESC, {id} DESC LIMIT 101",
    names={kind: {"time": "time", "id": "id"} for kind in ("attempts", "events")},
    after="({time}, {id}) < ('2024-12-31 12:00:00Z', 'att_')",
    month="SELECT date_trunc('hour', time), count(*), count(*) FILTER (WHERE status = 'failed') "
    "FROM openoutbox_log.attempts WHERE time >= '2025-01-01Z' AND time < '2025-02-01Z' GROUP BY 1",
    find_event="SELECT * FROM openoutbox_log.events WHERE id = 'evt_000000777'",
    find_attempt="SELECT * FROM openoutbox_log.attempts WHERE id = 'att_000000777'",
)
CLICKHOUSE = ByHand(
    attempts="SELECT * FROM event_log WHERE {where} ORDER BY {time} DESC, {id} DESC LIMIT 1 BY {id} LIMIT 101",
    events="SELECT * FROM event_log WHERE {where} ORDER BY {time} DESC, {id} DESC LIMIT 1 BY {id} LIMIT 101",
    names={
        "attempts": {"time": "delivery_time", "id": "delivery_id"},
        "events": {"time": "event_time", "id": "event_id"},
    },
    after="({time}, {id}) < (toDateTime64('2024-12-31 12:00:00', 3, 'UTC'), 'att_')",
    month="SELECT toStartOfHour(delivery_time), count(), countIf(status = 'failed') FROM event_log FINAL "
    "WHERE delivery_time >= '2025-01-01 00:00:00' AND delivery_time < '2025-02-01 00:00:00' GROUP BY 1",
    find_event="SELECT * FROM event_log WHERE event_id = 'evt_000000777' LIMIT 1",
    find_attempt="SELECT * FROM event_log WHERE delivery_id = 'att_000000777' LIMIT 1",
)


def batch_of(number: int) -> list[LogEntry]:
    """A thousand new attempts of this moment, 250 bytes of payload each."""
    entries = []
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
        entries.append(LogEntry(event, attempt))
    return entries


@dataclass(frozen=True, slots=True)
class Patience:
    """How long it is measured: a question, and the inserts."""

    rounds: int
    seconds: float
    batches: int
    """Of a thousand, written by the driver and as many by hand; the first two of each do not count."""
    by_hand: int
    """Rounds in which the statement by hand runs too: at 10 million rows some take ten seconds."""


@contextmanager
def clocked(into: list[float]) -> Iterator[None]:
    """Adds the seconds that go by inside."""
    began = time.perf_counter()
    yield
    into.append(time.perf_counter() - began)


def quantile(seconds: list[float], share: float) -> float:
    """Milliseconds below which ``share`` of the times lie."""
    return sorted(seconds)[min(int(len(seconds) * share), len(seconds) - 1)] * 1000


async def turns(patience: Patience, mine: Sequence[Call], by_hand: Sequence[Call]) -> list[list[float]]:
    """The times of several calls, in turns, so that all meet the same neighbours on the machine."""
    calls = [*mine, *by_hand]
    times: list[list[float]] = [[] for _ in calls]
    ends = time.monotonic() + patience.seconds
    for number in range(patience.rounds):
        if number >= _FEWEST and time.monotonic() > ends:
            break
        count = len(calls) if number < patience.by_hand else len(mine)
        for call, into in list(zip(calls, times, strict=True))[:count]:
            with clocked(into):
                await call()
    return times


async def measure_inserts(
    name: str, store: DeliveryLog, patience: Patience, bare: Callable[[list[LogEntry]], Awaitable[object]]
) -> None:
    """The driver's batches and the bare ones in turns, into the same tables."""
    mine: list[float] = []
    theirs: list[float] = []
    for number in range(patience.batches):
        ours, other = batch_of(2 * number), batch_of(2 * number + 1)
        with clocked(mine):
            await store.insert_many(ours)
        with clocked(theirs):
            await bare(other)
    rate, bare_rate = (BATCH / (sum(times[2:]) / len(times[2:])) for times in (mine, theirs))
    print(f"{name:11} insert_many {rate:9.0f}/s   bare {bare_rate:9.0f}/s   ratio {rate / bare_rate:.2f}")


async def measure_reads(
    name: str, store: DeliveryLog, patience: Patience, by_hand: ByHand, run: Callable[[str], Awaitable[object]]
) -> None:
    """Every listing at its first and at a deep page, a month by the hour, and single rows by id."""
    for question in QUESTIONS:
        query = question.query
        of_events = isinstance(query, ListEvents)
        deep = replace(query, next=encode("evt" if of_events else "att", DEEP))
        call: Callable[..., Awaitable[object]] = store.list_events if of_events else store.list_attempts
        times = await turns(
            patience,
            [partial(call, query), partial(call, deep)],
            [partial(run, by_hand.listing(question, deep=deeply)) for deeply in (False, True)],
        )
        _report(name, f"{question.title}, first page", times[0], times[2])
        _report(name, f"{question.title}, deep page", times[1], times[3])
    month = MetricsQuery(
        start=_NEW_YEAR,
        end=_NEW_YEAR.replace(month=2),
        measures=["count", "failed_count"],
        granularity=Granularity(1, "h"),
    )
    counted = await turns(patience, [partial(store.attempt_metrics, month)], [partial(run, by_hand.month)])
    _report(name, "metrics of a month by hour", *counted)
    times = await turns(
        patience,
        [partial(store.retrieve_event, "evt_000000777"), partial(store.retrieve_attempt, "att_000000777")],
        [partial(run, by_hand.find_event), partial(run, by_hand.find_attempt)],
    )
    _report(name, "one event by id", times[0], times[2])
    _report(name, "one attempt by id", times[1], times[3])


def _report(name: str, title: str, mine: list[float], hand: list[float]) -> None:
    ratio = quantile(mine, 0.5) / quantile(hand, 0.5)
    print(
        f"{name:11} {title:49} p50 {quantile(mine, 0.5):8.2f} p99 {quantile(mine, 0.99):8.2f}"
        f"   by hand p50 {quantile(hand, 0.5):8.2f} p99 {quantile(hand, 0.99):8.2f}   ratio {ratio:6.2f}"
        f"   ({len(mine)} times, ms)",
        flush=True,
    )


async def on_postgres(rows: int, patience: Patience) -> None:
    """PostgreSQL, durable, with its data on disk."""
    with PostgresServer(durable=True, settings={"shared_buffers": "512MB", "max_wal_size": "4GB"}) as server:
        loading: list[float] = []
        with clocked(loading):
            load_postgres(server.url, rows)
        store = await open_delivery_log(server.url)
        async with await psycopg.AsyncConnection.connect(server.url, autocommit=True) as connection:
            size = await connection.execute("SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' "
                                            "AND relnamespace = 'openoutbox_log'::regnamespace")  # fmt: skip
            row = await size.fetchone()
            assert row is not None
            each = row[0] / rows
            print(f"postgres    loaded {rows} in {loading[0]:.0f} s, {each:.0f} bytes an attempt with its event")

            async def run(text: str) -> object:
                return await (await connection.execute(text.encode())).fetchall()

            async def copy(entries: list[LogEntry]) -> None:
                await _copy(connection, entries)

            await measure_inserts("postgres", store, patience, copy)
            await measure_reads("postgres", store, patience, POSTGRES, run)
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


async def on_clickhouse(rows: int, patience: Patience) -> None:
    """The embedded ClickHouse, in this process."""
    with tempfile.TemporaryDirectory() as folder:
        store = await open_delivery_log(f"chdb:///{folder}")
        assert isinstance(store, ClickHouseDeliveryLog)
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

        await measure_inserts("clickhouse", store, patience, bare)
        await measure_reads("clickhouse", store, patience, CLICKHOUSE, client.rows)
        await store.close()


async def _insert(client: ClickHouseClient, entries: list[LogEntry]) -> None:
    """The same rows by the client's own insert, without checks."""
    rows = []
    for one in entries:
        e, a = one.event, one.attempt
        rows.append(
            LogRow(
                e.id, e.tenant_id, a.destination_id, a.topic, True, e.time, '{"trace": "x"}', e.data, a.id, a.status,
                a.time, None, '{"partition": 1}', 1, False, a.destination_type, e.topic, "", e.matched_destination_ids,
            )
        )  # fmt: skip
    await client.insert("event_log", COLUMNS, columns(rows))


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=200, help="maximum number of runs of each query")
    parser.add_argument("--seconds", type=float, default=8.0, help="time after which a query does not run again")
    parser.add_argument("--batches", type=int, default=32, help="of 1,000 attempts, to measure inserts")
    parser.add_argument("--drivers", nargs="+", choices=["postgres", "clickhouse"], default=["postgres", "clickhouse"])
    parser.add_argument("--by-hand", type=int, default=200, help="rounds in which the statement by hand runs too")
    options = parser.parse_args()
    patience = Patience(options.rounds, options.seconds, max(options.batches, 3), max(options.by_hand, 1))
    gc.freeze()  # as the relay does
    for driver in options.drivers:
        asyncio.run((on_postgres if driver == "postgres" else on_clickhouse)(options.rows, patience))


if __name__ == "__main__":
    main()
