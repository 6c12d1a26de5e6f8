"""Relays that are killed: by chance, by an event, stopped past their lease, too slow for it, and restarted in turn."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Set
from contextlib import ExitStack

import pytest

from tests.support.daemon import Daemon
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.measured import Measured
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.waiting import wait_until
from tests.system.chaos.brokers import Broker
from tests.system.chaos.conftest import MakeBroker
from tests.system.chaos.load import Writers
from tests.system.chaos.looking import (
    Balance,
    check_attempts,
    check_finished,
    delivered,
    seconds_until,
    setbacks,
    watch_setbacks,
)

pytestmark = pytest.mark.timeout(600)

MAX_IN_FLIGHT = 800
RIGGED = "tests.system.chaos.rigged"
IN_KAFKA_GROUP = pytest.mark.xdist_group("chaos-kafka")


def work_for(outbox: Outbox, seconds: float, enough: Callable[[], bool]) -> None:
    """Let a relay deliver, and then go on for a while."""
    before = delivered(outbox)
    wait_until(lambda: delivered(outbox) > before, what="the relay to deliver")
    since = time.monotonic()
    wait_until(lambda: time.monotonic() - since >= seconds or enough(), seconds + 10, "the next kill")


def checked_balance(outbox: Outbox, broker: Broker, writers: Writers, others: Set[str] = frozenset()) -> Balance:
    """Check that every event is delivered, and the balance."""
    check_finished(outbox)
    return balanced(outbox, broker, writers, others)


def balanced(outbox: Outbox, broker: Broker, writers: Writers, others: Set[str] = frozenset()) -> Balance:
    """Check the attempts, and the events of ``writers`` and ``others`` against what the broker received."""
    check_attempts(outbox)
    writers.committed |= others
    balance = Balance.of(writers, broker.received())
    balance.check()
    return balance


def drain_under_kills(outbox: Outbox, broker: Broker, events: int, every: float) -> dict[str, object]:
    """A backlog, and writers until that many events are there; meanwhile one relay after another is killed."""
    env = {**broker.env(), "LEASE_TIMEOUT": "3s", "KAFKA_WRITE_TIMEOUT": "2s", "RETRY_BASE_DELAY": "200ms"}
    watch_setbacks(outbox)
    broker.proxy.delay = 0.2  # of every answer, so that much is in flight at each kill and the drain takes a while
    outbox.fill(broker.destination, events // 2)
    backlog = {event_id for (event_id,) in outbox.rows("event_id::text")}
    held: list[int] = []
    started = time.monotonic()
    with (
        Writers(outbox.url, broker.destination, per_second=min(events / 8, 2000), rows=50) as writers,
        ExitStack() as stack,
    ):

        def enough() -> bool:
            return len(writers.committed) >= events // 2

        while not enough() or len(held) < 3:
            relay = stack.enter_context(Daemon(outbox.relay_url, {**env, "RELAY_ID": f"relay-{len(held)}"}))
            work_for(outbox, every, enough)
            relay.kill()
            held.append(outbox.counts().get("DELIVERING", 0))
    broker.proxy.delay = 0.0
    with Daemon(outbox.relay_url, {**env, "RELAY_ID": "last"}) as relay:
        outbox.wait_finished(120)
        took = time.monotonic() - started
        assert relay.stop() == 0
    balance = checked_balance(outbox, broker, writers, backlog)
    assert len(held) >= 3
    assert max(held) <= 2 * MAX_IN_FLIGHT  # those of the relay before it may not be reaped yet
    assert balance.duplicates <= MAX_IN_FLIGHT * len(held)
    return {
        "fault": f"kill -9 every {every:g} s while {balance.committed} events drain",
        "kills": len(held),
        "duplicates": balance.duplicates,
        "duplicates_per_kill": balance.duplicates / len(held),
        "lost": balance.lost,
        "leases_expired": setbacks(outbox, "attempts > was"),
        "seconds": took,
    }


@IN_KAFKA_GROUP
def test_kill_9_every_few_seconds_loses_nothing(outbox: Outbox, make_broker: MakeBroker, measured: Measured) -> None:
    measured(**drain_under_kills(outbox, make_broker("kafka"), 6_000, 1.0))


@pytest.mark.soak
@pytest.mark.timeout(3600)
@IN_KAFKA_GROUP
def test_kill_9_every_few_seconds_for_many_minutes(outbox: Outbox, make_broker: MakeBroker, measured: Measured) -> None:
    measured(**drain_under_kills(outbox, make_broker("kafka"), 600_000, 5.0))


def check_dead_of_expired_leases(outbox: Outbox, event_id: str, attempts: int) -> None:
    """This event alone is dead, after ``attempts`` expired leases."""
    row = outbox.row(event_id)
    assert (row["status"], row["attempts"]) == ("DEAD", attempts)
    assert "lease" in str(row["last_error"])
    assert "expired" in str(row["last_error"])
    assert outbox.counts()["DEAD"] == 1


@pytest.mark.redis
def test_an_event_that_kills_its_relay_dies_alone(outbox: Outbox, make_broker: MakeBroker, measured: Measured) -> None:
    """Every relay that is handed the poison dies, with whatever it held; another is started in its place."""
    broker, attempts = make_broker("redis"), 3
    pace = {"LEASE_TIMEOUT": "1500ms", "REDIS_WRITE_TIMEOUT": "1s", "RETRY_BASE_DELAY": "50ms", "RETRY_JITTER": "0"}
    env = {**broker.env(), **pace, "RETRY_MAX_ATTEMPTS": str(attempts)}
    watch_setbacks(outbox)
    rows = [Row(broker.destination)] * 20
    neighbours, poison = outbox.insert(rows), outbox.insert([Row("poison")])
    neighbours += outbox.insert(rows)
    deaths, started = 0, time.monotonic()
    with ExitStack() as stack, Writers(outbox.url, broker.destination, per_second=100) as writers:

        def start() -> Daemon:
            return stack.enter_context(Daemon(outbox.relay_url, env | {"RELAY_ID": f"relay-{deaths}"}, RIGGED))

        relay = start()

        def poison_dead() -> bool:
            nonlocal relay, deaths
            if relay.process.poll() is not None:
                assert relay.process.returncode == -signal.SIGKILL
                deaths += 1
                relay = start()
            return outbox.row(poison[0])["status"] == "DEAD"

        wait_until(poison_dead, 90, "the poison to be dead")
        writers.stop()
        wait_until(lambda: outbox.counts().keys() == {"DELIVERED", "DEAD"}, what="the neighbours to be delivered")
        assert relay.stop() == 0
    check_dead_of_expired_leases(outbox, poison[0], attempts)
    assert deaths == attempts
    balance = balanced(outbox, broker, writers, set(neighbours))
    measured(
        fault="an event that kills its relay",
        deaths=deaths,
        most_attempts_of_a_neighbour=outbox.rows("max(attempts) FILTER (WHERE status = 'DELIVERED')")[0][0],
        duplicates=balance.duplicates,
        lost=balance.lost,
        seconds=time.monotonic() - started,
    )


@pytest.mark.parametrize("broker", ["redis"], indirect=True)
def test_a_relay_that_was_stopped_past_its_lease_overwrites_nothing(
    outbox: Outbox, broker: Broker, daemon: StartDaemon, measured: Measured
) -> None:
    pace = {"LEASE_TIMEOUT": "3s", "REDIS_WRITE_TIMEOUT": "2500ms", "RETRY_BASE_DELAY": "100ms", "RELAY_ID": "twin"}
    watch_setbacks(outbox)
    sleeper = daemon(**broker.env(), **pace).wait_ready()
    with Writers(outbox.url, broker.destination, per_second=500) as writers:
        wait_until(lambda: delivered(outbox) > 300, what="the drain to be under way")
        broker.proxy.delay = 0.5  # so that it is stopped with answers on their way
        wait_until(lambda: outbox.counts().get("DELIVERING", 0) >= 100, what="events to be in flight")
        os.kill(sleeper.pid, signal.SIGSTOP)
        held = outbox.database.run("SELECT event_id::text FROM openoutbox_events WHERE status = 'DELIVERING'")
        broker.proxy.delay = 0.0
        other = daemon(**broker.env(), **pace).wait_ready()
        ids = [event_id for (event_id,) in held]
        done = "SELECT bool_and(status = 'DELIVERED') FROM openoutbox_events WHERE event_id = ANY(%s::uuid[])"
        wait_until(lambda: outbox.database.run(done, [ids]) == [(True,)], what="the other relay to deliver them")
        look = "SELECT * FROM openoutbox_events WHERE event_id = ANY(%s::uuid[]) ORDER BY event_id"
        before = outbox.database.run(look, [ids])
        os.kill(sleeper.pid, signal.SIGCONT)
        counted = seconds_until(
            lambda: sleeper.metric("openoutbox_leases_lost_total") >= len(ids), 30, "the losses to be counted"
        )
    outbox.wait_finished(60)
    assert outbox.database.run(look, [ids]) == before
    lost = sleeper.metric("openoutbox_leases_lost_total")
    assert sleeper.stop() == other.stop() == 0
    balance = checked_balance(outbox, broker, writers)
    assert balance.duplicates <= len(ids)
    measured(
        fault="SIGSTOP past the lease, then woken",
        held=len(ids),
        leases_lost=int(lost),
        counted_after_s=counted,
        overwritten=0,
        duplicates=balance.duplicates,
        lost=balance.lost,
    )


@pytest.mark.parametrize("broker", ["nats"], indirect=True)
def test_publishing_that_takes_longer_than_the_lease_is_done_once(
    outbox: Outbox, broker: Broker, daemon: StartDaemon, measured: Measured
) -> None:
    """Two relays, each of which would reap what the other does not renew; no probe checks the broker."""
    env = {
        **broker.env(),
        "LEASE_TIMEOUT": "4s",
        "NATS_PUBLISH_TIMEOUT": "60s",
        "HEALTH_CHECK_INTERVAL": "1h",
        "RETRY_BASE_DELAY": "100ms",
    }
    watch_setbacks(outbox)
    relays = [daemon(**env, RELAY_ID=f"slow-{number}").wait_ready() for number in range(2)]
    with Writers(outbox.url, broker.destination, per_second=100, rows=50) as writers:
        wait_until(lambda: delivered(outbox) > 100, what="the drain to be under way")
        broker.proxy.delay = 9.0  # seconds for every answer: more than two leases
        began = time.monotonic()
        wait_until(lambda: time.monotonic() - began > 14, what="several leases' time to pass")
    broker.proxy.delay = 0.0
    outbox.wait_finished(60)
    renewals = sum(relay.metric("openoutbox_storage_latency_seconds_count", op="renew") for relay in relays)
    lost = sum(relay.metric("openoutbox_leases_lost_total") for relay in relays)
    assert [relay.stop() for relay in relays] == [0, 0]
    check_finished(outbox)
    assert setbacks(outbox, "TRUE") == 0
    assert lost == 0
    assert renewals > 0
    balance = Balance.of(writers, broker.received())
    balance.check()
    assert balance.duplicates == 0
    measured(
        fault="publishing takes 9 s, the lease 4 s",
        renewals=int(renewals),
        leases_lost=0,
        duplicates=0,
        lost=balance.lost,
        events=balance.committed,
    )


@IN_KAFKA_GROUP
@pytest.mark.parametrize("broker", ["kafka"], indirect=True)
def test_three_relays_are_restarted_in_turn(
    outbox: Outbox, broker: Broker, daemon: StartDaemon, measured: Measured
) -> None:
    watch_setbacks(outbox)

    def start(number: int) -> Daemon:
        return daemon(**broker.env(), RELAY_ID=f"relay-{number}").wait_ready()

    relays = [start(number) for number in range(3)]
    broker.proxy.delay = 0.05
    stops: list[float] = []
    outbox.fill(broker.destination, 4_000)
    backlog = {event_id for (event_id,) in outbox.rows("event_id::text")}
    with Writers(outbox.url, broker.destination, per_second=500) as writers:
        for number, relay in enumerate(relays):
            work_for(outbox, 0.0, lambda: True)
            started = time.monotonic()
            assert relay.stop() == 0
            stops.append(time.monotonic() - started)
            left = "SELECT count(*) FROM openoutbox_events WHERE locked_by = %s"
            assert outbox.database.run(left, [f"relay-{number}"]) == [(0,)]
            relays[number] = start(number + 3)
    broker.proxy.delay = 0.0
    outbox.wait_finished(60)
    assert [relay.stop() for relay in relays] == [0, 0, 0]
    check_finished(outbox)
    assert outbox.rows("max(attempts)") == [(0,)]
    writers.committed |= backlog
    balance = Balance.of(writers, broker.received())
    balance.check()
    assert balance.duplicates == 0
    measured(
        fault="rolling restart of three relays",
        slowest_stop_s=max(stops),
        released=setbacks(outbox, "TRUE"),
        duplicates=0,
        lost=balance.lost,
        events=balance.committed,
    )
