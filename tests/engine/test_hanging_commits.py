"""The only synchronous standby is gone: every COMMIT that waits for it hangs, while the server answers all else."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import psycopg
import pytest

from relay.core.telemetry import RelayState
from relay.engine.relay import Relay
from relay.localservers.postgres import PostgresServer
from relay.outbox.storage import PostgresOutbox
from tests.engine.conftest import RETRY
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.doubles.telemetry import MemoryTelemetry
from tests.support.fixtures.outbox import Outbox
from tests.support.fixtures.postgres import create_database
from tests.support.options import engine_options, storage_options
from tests.support.waiting import eventually

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(300)]

LEASE = 6.0
INSERT = """
INSERT INTO openoutbox_events (event_id, event_type, payload)
SELECT gen_random_uuid(), 't', '' FROM generate_series(1, 20)
"""


def wait_for_standby(server: PostgresServer, name: str) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'".encode())
        connection.execute("SELECT pg_reload_conf()")


def insert(outbox: Outbox) -> None:
    with outbox.database.connect() as connection:
        connection.execute("SET synchronous_commit = off")
        connection.execute(INSERT)


async def test_it_is_said_all_the_while_and_nothing_counts_as_lost(
    own_postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Leases are renewed every two seconds meanwhile, and what commits was written: only the answer is late."""
    outbox = Outbox.create(create_database(own_postgres.url))
    broker, telemetry = MemoryPublisher(), MemoryTelemetry()
    storage = PostgresOutbox(storage_options(outbox.url, "relay", lease_timeout=LEASE, statement_timeout=0.5))
    options = engine_options(retry=RETRY, lease_timeout=LEASE, health_check_interval=0.1, shutdown_timeout=0.5)
    relay = Relay(storage, broker, telemetry, options)
    task = asyncio.create_task(relay.run())
    await eventually(lambda: relay.health.state is RelayState.ACTIVE)
    wait_for_standby(own_postgres, "gone")
    settles = telemetry.ops

    def silent(times: int) -> bool:
        insert(outbox)
        return settles["mark_delivered", False] >= times

    await eventually(lambda: silent(3), 30)
    states = Counter[RelayState]()

    def look() -> bool:
        states[relay.health.state] += 1
        return silent(20)

    await eventually(look, 60)
    wait_for_standby(own_postgres, "")
    await eventually(lambda: not outbox.unfinished(), 60)
    await eventually(lambda: relay.health.state is RelayState.ACTIVE)
    relay.stop()
    await asyncio.gather(task, return_exceptions=True)
    assert set(states) == {RelayState.ERROR}
    assert set(Counter(event.event_id for event in broker.offered).values()) == {1}
    assert telemetry.counts["leases_lost"] == 0
    actions = {getattr(record, "action", "") for record in caplog.records if record.levelno >= logging.WARNING}
    assert not {"lease_taken", "lease_lost", "leases_reaped"} & actions
