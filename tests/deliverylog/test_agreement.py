"""All three drivers give the same answers to the same random queries over the same random entries."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from relay.deliverylog import (
    DeliveryLog,
    Granularity,
    ListAttempts,
    ListEvents,
    LogEntry,
    MetricsQuery,
    TimeWindow,
    open_delivery_log,
)
from relay.deliverylog.measures import ATTEMPT_DIMENSIONS, ATTEMPT_MEASURES, EVENT_DIMENSIONS, EVENT_MEASURES
from tests.deliverylog.conftest import drop_tables
from tests.deliverylog.making import BASE, all_items, entry, event
from tests.support.fixtures.postgres import Database

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.clickhouse,
    pytest.mark.xdist_group("clickhouse"),
    pytest.mark.timeout(600),
]

HOUR = timedelta(hours=1)
TENANTS = ("t1", "T2")
TOPICS = ("x", "y")
DESTINATIONS = ("d1", "d2", "d3")
_examples = itertools.count()


class Drivers(NamedTuple):
    """The same log in each driver."""

    memory: DeliveryLog
    postgres: DeliveryLog
    clickhouse: DeliveryLog


@pytest.fixture
async def drivers(log_database: Database, chdb_folder: Path, prefix: str) -> AsyncIterator[Drivers]:
    async with AsyncExitStack() as stack:
        stores = []
        for url in ("memory://", log_database.url, f"chdb:///{chdb_folder}"):
            store = await open_delivery_log(url, prefix=prefix, months_ahead=0)
            stack.push_async_callback(store.close)
            stores.append(store)
        await stores[-1].migrate()
        yield Drivers(*stores)
        await drop_tables(stores[-1], prefix)


@st.composite
def batches(draw: st.DrawFn) -> list[LogEntry]:
    """Up to 30 entries of few values, many at one time and several of one event, in tenants of this example alone."""
    example = next(_examples)
    chance = draw(st.randoms(use_true_random=False))
    entries = []
    events: dict[str, tuple[datetime, str]] = {}
    for number in range(draw(st.integers(1, 30))):
        event_id = f"{example}-e{chance.randrange(number + 1)}"
        time = BASE + timedelta(milliseconds=chance.choice([0, 1, 250, chance.randrange(3_600_000)]))
        event_time, tenant = events.setdefault(event_id, (time, f"{chance.choice(TENANTS)}-{example}"))
        its = event(
            event_id,
            event_time,
            tenant_id=tenant,
            topic=chance.choice(TOPICS),
            matched_destination_ids=chance.sample(DESTINATIONS, chance.randrange(4)),
        )
        entries.append(
            entry(
                f"{example}-a{number}",
                time,
                its,
                topic=chance.choice(TOPICS),
                destination_id=chance.choice(DESTINATIONS),
                destination_type=chance.choice(["kafka", "nats"]),
                status=chance.choice(["success", "failed"]),
                code=chance.choice([None, "200", "500"]),
                manual=chance.random() < 0.3,
                attempt_number=chance.randrange(4),
            )
        )
    return entries


topics = st.none() | st.lists(st.sampled_from(TOPICS), max_size=2, unique=True)
destinations = st.none() | st.lists(st.sampled_from(DESTINATIONS), max_size=2, unique=True)
windows = st.none() | st.builds(TimeWindow, gte=st.just(BASE), lt=st.just(BASE + HOUR / 2))
listings = st.fixed_dictionaries(
    {
        "limit": st.integers(6, 20),
        "order": st.sampled_from(["asc", "desc"]),
        "topics": topics,
        "destination_ids": destinations,
        "time": windows,
    }
)
QUICK = settings(
    max_examples=5,
    deadline=None,
    phases=[Phase.generate],  # shrinking takes minutes on real databases
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
granularities = st.none() | st.sampled_from([Granularity(10, "m"), Granularity(1, "h"), Granularity(1, "M")])


@QUICK
@given(entries=batches(), listing=listings, sort_by=st.sampled_from(["time", "event_time"]))
async def test_the_drivers_list_the_same(
    drivers: Drivers, entries: list[LogEntry], listing: dict[str, Any], sort_by: str
) -> None:
    tenants = await _write(drivers, entries)
    events = ListEvents(tenant_ids=tenants, **listing)
    attempts = ListAttempts(tenant_ids=tenants, sort_by=sort_by, **listing)
    expected = [await all_items(drivers.memory, query) for query in (events, attempts)]
    for store in (drivers.postgres, drivers.clickhouse):
        assert [await all_items(store, query) for query in (events, attempts)] == expected


@QUICK
@given(
    entries=batches(),
    of_events=st.permutations(EVENT_DIMENSIONS),
    of_attempts=st.permutations(ATTEMPT_DIMENSIONS),
    depth=st.integers(0, len(ATTEMPT_DIMENSIONS)),
    filters=st.fixed_dictionaries({"topic": topics, "destination_id": destinations}),
    granularity=granularities,
)
async def test_the_drivers_count_the_same(
    drivers: Drivers,
    entries: list[LogEntry],
    of_events: list[str],
    of_attempts: list[str],
    depth: int,
    filters: dict[str, Any],
    granularity: Granularity | None,
) -> None:
    tenants = await _write(drivers, entries)

    def query(measures: Iterable[str], dimensions: list[str]) -> MetricsQuery:
        return MetricsQuery(
            start=BASE,
            end=BASE + HOUR,
            measures=list(measures),
            dimensions=dimensions[:depth],
            filters={**filters, "tenant_id": tenants},
            granularity=granularity,
        )

    events, attempts = query(EVENT_MEASURES, of_events), query(ATTEMPT_MEASURES, of_attempts)
    expected_events = (await drivers.memory.event_metrics(events)).rows
    expected_attempts = (await drivers.memory.attempt_metrics(attempts)).rows
    for store in (drivers.postgres, drivers.clickhouse):
        assert (await store.event_metrics(events)).rows == expected_events
        assert (await store.attempt_metrics(attempts)).rows == expected_attempts


async def _write(drivers: Drivers, entries: list[LogEntry]) -> list[str]:
    """Two batches: an event's first copy counts, of a batch the last one."""
    middle = len(entries) // 2
    for store in drivers:
        await store.insert_many(entries[:middle])
        await store.insert_many(entries[middle:])
    return sorted({one.event.tenant_id for one in entries})
