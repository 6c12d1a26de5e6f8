"""States and errors (docs/reference/conformance.md#errors) in a broker's outage: no attempt used, nothing lost."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from relay.localservers.postgres import PostgresServer
from relay.localservers.server import LocalServer
from tests.support.daemon import Daemon
from tests.support.fixtures.outbox import Outbox
from tests.support.fixtures.postgres import create_database
from tests.support.servers.nats import NatsServer
from tests.support.servers.valkey import ValkeyServer
from tests.support.waiting import patience, wait_until
from tests.system.contract.conftest import Watch
from tests.system.contract.history import WatchedTable, relay_of
from tests.system.contract.test_states import check

pytestmark = [pytest.mark.nats, pytest.mark.redis]

BATCH_SIZE, MAX_IN_FLIGHT, EVENTS = 7, 30, 60
SIZES = {"BATCH_SIZE": str(BATCH_SIZE), "MAX_IN_FLIGHT": str(MAX_IN_FLIGHT)}
PATIENT = {
    "NATS_PUBLISH_TIMEOUT": "60s",
    "REDIS_CONNECTION_TIMEOUT": "60s",
    "REDIS_WRITE_TIMEOUT": "60s",
    "HEALTH_CHECK_INTERVAL": "1h",
}
"""No probe asks whether the broker answers, so that what it was offered stays in flight."""
BRITTLE = {"NATS_PUBLISH_TIMEOUT": "1s", "REDIS_WRITE_TIMEOUT": "1s", "HEALTH_CHECK_INTERVAL": "1s"}


@contextmanager
def hanging(server: LocalServer) -> Iterator[None]:
    """The broker says nothing more, and keeps its connections."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[LocalServer]:
    with NatsServer() if request.param == "nats" else ValkeyServer() as server:
        yield server


def broker_of(server: LocalServer) -> dict[str, str]:
    return {"PUBLISHER_TYPE": "nats" if isinstance(server, NatsServer) else "redis", "PUBLISHER_URL": server.url}


def in_flight(table: WatchedTable) -> int:
    return Counter(table.statuses().values())["DELIVERING"]


def offer(table: WatchedTable, relay: Daemon) -> list[str]:
    """Insert more events than may be in flight, and wait until some are."""
    ids = [table.insert("some.type") for _ in range(EVENTS)]
    wait_until(lambda: relay.running and in_flight(table) > 0, what="events to be in flight")
    return ids


def check_never_an_attempt(table: WatchedTable, ids: list[str]) -> None:
    claims: Counter[object] = Counter()
    for event_id in ids:
        changes = table.changes(event_id)
        check(changes)
        for change in changes:
            assert (change.attempts, change.last_error) == (0, None)
            assert change.delay <= 0, "what is released is available at once"
            claims[change.locked_at] += change.step == ("PENDING", "DELIVERING")
    assert max(claims.values()) <= BATCH_SIZE


@pytest.mark.parametrize("broker", ["nats", "redis"], indirect=True)
def test_a_broker_that_hangs_costs_no_attempt(watch: Watch, broker: LocalServer) -> None:
    table = watch()
    with relay_of(table, **broker_of(broker), **SIZES, **BRITTLE) as relay:
        relay.wait_ready()
        with hanging(broker):
            ids = [table.insert("some.type") for _ in range(EVENTS)]
            wait_until(lambda: relay.running and relay.metric("openoutbox_relay_state") == 2, what="the pause")
            wait_until(lambda: in_flight(table) == 0, what="the events to be released")
            check_never_an_attempt(table, ids)
            assert relay.get("/readyz")[0] == 503
            assert relay.metric("openoutbox_events_released_total") > 0
            assert relay.stop() == 0
            assert set(table.statuses().values()) == {"PENDING"}


@pytest.mark.parametrize("broker", ["nats", "redis"], indirect=True)
def test_stopping_releases_what_the_broker_never_answered(watch: Watch, broker: LocalServer) -> None:
    table = watch()
    with relay_of(table, **broker_of(broker), **SIZES, **PATIENT, SHUTDOWN_TIMEOUT="2s") as relay:
        relay.wait_ready()
        with hanging(broker):
            ids = offer(table, relay)
            assert in_flight(table) <= MAX_IN_FLIGHT
            started = time.monotonic()
            assert relay.stop() == 0
            assert time.monotonic() - started < patience(20)  # far less than the publisher's 60 s
            assert set(table.statuses().values()) == {"PENDING"}
            check_never_an_attempt(table, ids)


@pytest.mark.parametrize("broker", ["redis"], indirect=True)
def test_a_lease_is_renewed_stays_with_its_holder_and_once_lost_changes_nothing(
    watch: Watch, broker: LocalServer
) -> None:
    """Beside a relay of the same name that takes back whatever has expired."""
    table, same = watch(), {"LEASE_TIMEOUT": "4s", "RELAY_ID": "the same"}
    with relay_of(table, **broker_of(broker), **PATIENT, **same) as holder:
        holder.wait_ready()
        with hanging(broker):
            event_id = table.insert("some.type")
            wait_until(lambda: holder.running and in_flight(table) == 1, what="the event to be in flight")
            with relay_of(table, PUBLISHER_TYPE="null", **same) as other:
                other.wait_ready()
                wait_until(lambda: held_for(table, event_id) > 5, what="more than a lease's time to pass")
            check(table.changes(event_id))
            assert {change.status for change in table.changes(event_id)} == {"DELIVERING"}
            table.take_away(event_id)
        wait_until(lambda: holder.metric("openoutbox_leases_lost_total") >= 1, what="the loss to be counted")
        assert holder.stop() == 0
    row = table.row(event_id)
    assert (row["status"], row["attempts"], row["last_error"]) == ("PENDING", 1, "taken back")


def held_for(table: WatchedTable, event_id: str) -> float:
    """Seconds from the first lease to the latest."""
    leases = [change.locked_at for change in table.changes(event_id) if change.locked_at is not None]
    return (leases[-1] - leases[0]).total_seconds()


def test_a_database_that_is_not_there_yet_is_waited_for(own_postgres: PostgresServer) -> None:
    outbox = Outbox.create(create_database(own_postgres.url))
    outbox.fill("some.type", 10)
    own_postgres.stop()
    with Daemon(outbox.relay_url, {"PUBLISHER_TYPE": "null"}) as relay:
        wait_until(lambda: relay.running and relay.get("/readyz")[0] == 503, what="the relay to say that it waits")
        assert relay.get("/healthz")[0] == 200
        assert relay.metric("openoutbox_relay_state") == 3
        own_postgres.start()
        outbox.wait_finished(30)
        assert outbox.counts() == {"DELIVERED": 10}
        assert relay.stop() == 0
        assert all(isinstance(line, dict) for line in relay.log_lines())
