"""Redis' primary is demoted while events wait: a Sentinel names another one, and the relay goes there."""

from __future__ import annotations

import signal
from collections import Counter

import pytest

from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.measured import Measured
from tests.support.fixtures.outbox import Outbox
from tests.support.servers.valkey import ValkeyServer
from tests.support.servers.valkey_groups import SERVICE, ValkeySentinel, ask, role
from tests.support.waiting import wait_until
from tests.system.chaos.load import Writers
from tests.system.chaos.looking import check_finished, delivered, seconds_until

pytestmark = [pytest.mark.timeout(300), pytest.mark.redis]

EVENTS = 200


def test_a_replica_gets_no_event_and_costs_no_attempt(outbox: Outbox, daemon: StartDaemon, measured: Measured) -> None:
    with ValkeyServer() as first, ValkeyServer() as second:
        relay = daemon(PUBLISHER_URL=first.url, PUBLISHER_CONNECT_RETRY_INTERVAL="500ms").wait_ready()
        ask(first, "REPLICAOF", "127.0.0.1", second.port)
        outbox.fill("orders", EVENTS)
        noticed = seconds_until(lambda: relay.get("/readyz")[0] == 503, 20, "the relay not to be ready")
        wait_until(lambda: "READONLY: this server is a replica" in relay.get("/readyz")[1], what="the cause")
        wait_until(lambda: outbox.counts() == {"PENDING": EVENTS}, what="every event to be released")
        assert outbox.rows("max(attempts), max(last_error)") == [(0, None)]
        ask(first, "REPLICAOF", "NO", "ONE")
        recovery = seconds_until(lambda: outbox.counts() == {"DELIVERED": EVENTS}, 30, "every event to be delivered")
        check_finished(outbox)
        assert outbox.rows("max(attempts), max(last_error)") == [(0, None)]
        assert ask(first, "XLEN", "orders") == EVENTS
    measured(fault="Redis primary demoted", paused_after_s=noticed, recovery_s=recovery, attempts_used=0)


def test_the_primary_that_a_sentinel_promotes_is_used(outbox: Outbox, daemon: StartDaemon, measured: Measured) -> None:
    with ValkeyServer() as first, ValkeyServer() as second:
        ask(second, "REPLICAOF", "127.0.0.1", first.port)
        with ValkeySentinel(first) as sentinel:
            wait_until(lambda: len(ask(sentinel, "SENTINEL", "REPLICAS", SERVICE)) == 1, what="the replica")
            url = f"redis+sentinel://127.0.0.1:{sentinel.port}/{SERVICE}"
            relay = daemon(PUBLISHER_URL=url, PUBLISHER_CONNECT_RETRY_INTERVAL="500ms").wait_ready()
            first.stop(signal.SIGKILL)
            outbox.fill("orders", EVENTS)
            recovery = seconds_until(lambda: outbox.counts() == {"DELIVERED": EVENTS}, 60, "every event to arrive")
            check_finished(outbox)
            assert outbox.rows("max(attempts)") == [(0,)]
            assert ask(second, "XLEN", "orders") == EVENTS
            assert relay.running
    measured(fault="Redis primary killed, Sentinel promotes its replica", recovery_s=recovery, attempts_used=0)


def test_a_server_that_takes_no_writes_for_a_while_costs_no_attempt(outbox: Outbox, daemon: StartDaemon) -> None:
    with ValkeyServer() as server:
        relay = daemon(PUBLISHER_URL=server.url, PUBLISHER_CONNECT_RETRY_INTERVAL="500ms", RETRY_MAX_ATTEMPTS="3")
        relay.wait_ready()
        outbox.fill("orders", 1)
        wait_until(lambda: outbox.counts() == {"DELIVERED": 1}, what="the first event to be delivered")
        ask(server, "CLIENT", "PAUSE", 60_000, "WRITE")
        outbox.fill("orders", EVENTS)
        wait_until(lambda: relay.get("/readyz")[0] == 503, what="the relay not to be ready")
        ask(server, "CLIENT", "UNPAUSE")
        wait_until(lambda: outbox.counts() == {"DELIVERED": EVENTS + 1}, 60, "every event to be delivered")
        check_finished(outbox)
        assert outbox.rows("max(attempts), max(last_error)") == [(0, None)]


@pytest.mark.timeout(400)
def test_with_replicas_waited_for_a_fail_over_loses_nothing_that_is_delivered(
    outbox: Outbox, daemon: StartDaemon, measured: Measured
) -> None:
    at_once = {"repl-diskless-sync-delay": "0"}
    with ValkeyServer(settings=at_once) as first, ValkeyServer(settings=at_once) as second:
        ask(second, "REPLICAOF", "127.0.0.1", first.port)
        with ValkeySentinel(first) as sentinel:
            relay = daemon(
                PUBLISHER_URL=f"redis+sentinel://127.0.0.1:{sentinel.port}/{SERVICE}",
                PUBLISHER_CONNECT_RETRY_INTERVAL="500ms",
                REDIS_WAIT_REPLICAS="1",
                RETRY_MAX_ATTEMPTS="2",
            ).wait_ready()
            with Writers(outbox.url, "orders", per_second=500):
                for primary, replica in ((first, second), (second, first)):
                    wait_until(lambda one=primary: ask(one, "WAIT", 0, 1) == 1, 60, "the replica to be in step")  # type: ignore[misc]
                    wait_until(lambda one=replica: sentinel.can_promote(one), 60, "the Sentinel to know it")  # type: ignore[misc]
                    before = delivered(outbox)
                    wait_until(lambda least=before: delivered(outbox) > least + 500, 60, "the drain to go on")  # type: ignore[misc]
                    ask(sentinel, "SENTINEL", "FAILOVER", SERVICE)
                    wait_until(lambda one=primary: role(one) == "slave", 60, "the old one to be demoted")  # type: ignore[misc]
            recovery = seconds_until(lambda: not outbox.unfinished(), 120, "every event to be delivered")
            check_finished(outbox)
            assert relay.running
            sent = {event_id for (event_id,) in outbox.rows("event_id::text")}
            received = Counter(fields[b"id"].decode() for _, fields in ask(first, "XRANGE", "orders", "-", "+"))
    assert len(sent - received.keys()) == 0
    measured(
        fault="SENTINEL FAILOVER twice under load, REDIS_WAIT_REPLICAS=1",
        recovery_s=recovery,
        events=len(sent),
        duplicates=received.total() - len(received),
        lost=len(sent - received.keys()),
    )
