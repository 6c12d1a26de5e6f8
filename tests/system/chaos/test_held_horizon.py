"""Relays beside a transaction that stays open, so that claims begin at a head: commits that are late, and a kill."""

from __future__ import annotations

import time

import pytest

from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.measured import Measured
from tests.support.fixtures.outbox import Outbox
from tests.support.waiting import wait_until
from tests.system.chaos.brokers import Broker
from tests.system.chaos.held import held_horizon
from tests.system.chaos.load import Writers
from tests.system.chaos.looking import Balance, check_finished

pytestmark = [pytest.mark.redis, pytest.mark.timeout(120)]

IN_FLIGHT = 100
SECONDS = 6.0


@pytest.mark.parametrize("ordering", ["key", pytest.param("none", marks=pytest.mark.soak)])
@pytest.mark.parametrize("broker", ["redis"], indirect=True)
def test_late_commits_and_a_kill_lose_nothing(
    outbox: Outbox, broker: Broker, daemon: StartDaemon, measured: Measured, ordering: str
) -> None:
    """Transactions that stay open for up to five seconds, beside others; one of two relays is killed and comes back."""
    add_extension(outbox.owner_url, TableName(), "key-order")
    bounds = {"BATCH_SIZE": "50", "MAX_IN_FLIGHT": str(IN_FLIGHT)}
    env = {**broker.env(), **bounds, "ORDERING": ordering, "LEASE_TIMEOUT": "4s"}
    with held_horizon(outbox):
        relays = [daemon(**env, RELAY_ID=f"relay-{number}").wait_ready() for number in range(2)]
        url, name = outbox.url, broker.destination
        with (
            Writers(url, name, per_second=800, threads=24, hold=5.0) as late,
            Writers(url, name, per_second=300) as quick,
        ):
            began = time.monotonic()
            wait_until(lambda: time.monotonic() - began > SECONDS / 2, what="half of the time")
            relays[0].kill()
            relays[0] = daemon(**env, RELAY_ID="relay-0").wait_ready()
            wait_until(lambda: time.monotonic() - began > SECONDS, what="all of the time")
        outbox.wait_finished(30)
        assert [relay.stop() for relay in relays] == [0, 0]
    check_finished(outbox)
    received = broker.received()
    late.committed |= quick.committed
    late.rolled_back |= quick.rolled_back
    balance = Balance.of(late, received)
    balance.check()
    assert not late.rolled_back & received.keys()
    assert balance.duplicates <= IN_FLIGHT, "no more than the killed relay had in flight"
    measured(
        fault=f"a held horizon, commits up to 5 s late, kill -9 of one of two relays, ORDERING={ordering}",
        events=balance.committed,
        duplicates=balance.duplicates,
        lost=balance.lost,
        seconds=time.monotonic() - began,
    )
