"""What a relay, a check and the console say while another transaction holds the horizon, on a real server."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from typing import cast

import psycopg
import pytest

from relay.app.broken import read_state
from relay.core.finding import Finding
from relay.outbox.admin.overview import read_overview
from relay.outbox.extensions import add_extension
from relay.outbox.head import Head
from relay.outbox.horizon import HorizonReader
from relay.outbox.outbox_options import KeyOrder
from relay.outbox.storage import PostgresOutbox
from relay.postgres.connect import DeadlineConnection, Generation
from relay.postgres.prepared import Preparation
from relay.postgres.sql import TableName
from relay.postgres.url import connection_parameters
from tests.support.clock import Clock
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.options import storage_options
from tests.support.waiting import wait_until

pytestmark = pytest.mark.postgres


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def head() -> Head:
    return Head()


@pytest.fixture
async def reader(outbox: Outbox, head: Head, clock: Clock) -> AsyncIterator[HorizonReader]:
    connection = DeadlineConnection(connection_parameters(outbox.relay_url, "reading"), 15.0, Generation())
    yield HorizonReader(connection, head, clock)
    await connection.close()


_THOUSAND = """
DO $$ BEGIN
    FOR n IN 1..1000 LOOP
        PERFORM pg_current_xact_id();
        COMMIT;
    END LOOP;
END $$
"""
"""Transactions, one after the other."""


@pytest.fixture
def dump(outbox: Outbox) -> Iterator[psycopg.Connection]:
    """A snapshot of another role, a thousand transactions ago."""
    with psycopg.connect(outbox.url, application_name="pg_dump") as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM openoutbox_events")
        with outbox.database.connect() as other:
            other.execute(_THOUSAND)
        yield connection


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if getattr(record, "action", "") == "horizon_held"]


async def test_a_relay_times_the_horizon_by_its_readings_and_names_the_holder_once_an_hour(
    reader: HorizonReader, clock: Clock, dump: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    assert await reader.held() == 0.0
    for clock.now in (1799.0, 1800.0, 1860.0, 5399.0):
        assert await reader.held() == clock.now
    [message] = warnings(caplog)
    named = f"the xmin horizon has been held for 30 min by pid {dump.info.backend_pid} (pg_dump, role postgres): vacuum"
    assert message.startswith(named)
    clock.now = 5400.0
    await reader.held()
    assert len(warnings(caplog)) == 2
    dump.rollback()
    clock.now = 9000.0
    assert await reader.held() == 0.0
    assert len(warnings(caplog)) == 2


async def test_where_the_views_are_revoked_the_cost_of_claims_tells_the_time(
    outbox: Outbox, reader: HorizonReader, head: Head, clock: Clock
) -> None:
    with outbox.database.connect() as owner:
        owner.execute("REVOKE SELECT ON pg_stat_activity FROM PUBLIC")
    assert await reader.held() == 0.0
    head.walk_is_cheap = False
    assert await reader.held() == 0.0
    clock.now = 60.0
    assert await reader.held() == 60.0
    head.walk_is_cheap = True
    assert await reader.held() == 0.0


def findings(outbox: Outbox) -> list[Finding]:
    """What a check says of the horizon."""
    state = read_state(outbox.relay_url, TableName())
    return [one for one in state.before_a_start() if one.subject == "horizon"]


def test_a_check_names_the_holder_without_any_right(
    outbox: Outbox, dump: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert findings(outbox) == []
    monkeypatch.setattr("relay.postgres.horizon.MANY", 1000)
    [found] = findings(outbox)
    assert found.level == "warning"
    assert f"transactions by pid {dump.info.backend_pid} (pg_dump, role postgres)" in found.message
    assert f"SELECT pg_terminate_backend({dump.info.backend_pid})" in found.advice
    dump.rollback()
    assert findings(outbox) == []


def test_the_console_reads_the_holder_with_its_overview(outbox: Outbox, dump: psycopg.Connection) -> None:
    holder = read_overview(outbox.url_of("console"), TableName()).horizon.holder
    assert holder is not None
    assert (holder.name, holder.application) == (str(dump.info.backend_pid), "pg_dump")
    assert holder.transactions >= 1000


SCANS = """
SELECT indexrelname, idx_scan FROM pg_stat_user_indexes WHERE relname = 'openoutbox_events' AND idx_scan > 0
"""


@pytest.fixture(params=[None, KeyOrder.SKIP], ids=["none", "key"])
def ordering(outbox: Outbox, request: pytest.FixtureRequest) -> KeyOrder | None:
    if request.param is not None:
        add_extension(outbox.url, TableName(), "key-order")
    return cast("KeyOrder | None", request.param)


async def test_claims_walk_from_the_head_where_statistics_say_that_nothing_waits(
    outbox: Outbox, ordering: KeyOrder | None, dump: psycopg.Connection
) -> None:
    """Any other index of what waits leads over all that was delivered since the horizon is held."""
    outbox.database.run(
        "INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, available_at) "
        "SELECT gen_random_uuid(), 't', n % 100, '', now() - n * interval '1 ms' "
        "FROM generate_series(100000, 1, -1) AS n"
    )
    with outbox.database.connect() as owner:

        def scanned() -> set[str]:
            return {index for index, _ in owner.execute(SCANS)}

        owner.execute("UPDATE openoutbox_events SET status = 'DELIVERED', delivered_at = now()")
        owner.execute("VACUUM ANALYZE openoutbox_events")
        for prepared in (Preparation.AUTO, Preparation.OFF):
            storage = PostgresOutbox(storage_options(outbox.relay_url, "relay", prepared=prepared, key_order=ordering))
            await storage.open()
            while storage.paused.head.walk_is_cheap:
                await storage.look()
            if ordering:  # the number of the sequence is compared once, at the start
                wait_until(lambda: "idx_openoutbox_metrics_count" in scanned(), what="the statistics of the start")
            owner.execute("SELECT pg_stat_reset()")
            assert (await storage.claim(10, 1 << 30)).events == []
            outbox.insert([Row("t", partition_key=f"{prepared} {number}") for number in range(3)])
            assert len((await storage.claim(10, 1 << 30)).events) == 3
            await storage.close()

            wait_until(lambda: "idx_openoutbox_processing_queue" in scanned(), what="the statistics of the claims")
            assert not any("metrics" in index for index in scanned()), prepared
    dump.rollback()
