"""KAFKA_TRANSACTIONS: relays that are killed and frozen beyond their lease, and a reader of committed messages.

The same faults without the setting bring repeats, so that the test can fail.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from tests.support.daemon import Daemon
from tests.support.fixtures.measured import Measured
from tests.support.fixtures.outbox import Outbox
from tests.support.messages import kafka_headers
from tests.support.waiting import patience, wait_until
from tests.system.chaos.brokers import Broker
from tests.system.chaos.conftest import MakeBroker
from tests.system.chaos.looking import delivered

pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("chaos-kafka")]

RELAYS = 3
FAULTS = 3  # two kills and a freeze
SHARE = 1_500  # events that come before each fault
LEASE = 3.0
SOON = 0.05  # seconds of every answer, so that much is in flight
LATE = 1.5  # amid which a relay is chosen that waits for some


def seen(broker: Broker, isolation: str = "read_committed") -> Counter[str]:
    """How often a reader, of committed messages alone or of all, sees each event by now."""
    settings = {"group.id": "reader", "enable.partition.eof": True, "isolation.level": isolation}
    reader = Consumer({"bootstrap.servers": broker.env()["PUBLISHER_URL"], **settings})
    reader.assign([TopicPartition(broker.destination, 0, 0)])
    counts: Counter[str] = Counter()
    try:
        while (message := reader.poll(patience())) is not None and message.error() is None:
            counts[kafka_headers(message)["X-Event-ID"]] += 1
        assert message is not None
        assert (message.error() or KafkaError(0)).code() == KafkaError._PARTITION_EOF
    finally:
        reader.close()
    return counts


class Faults:
    """Relays that drain a backlog; of those that wait for answers one is killed or frozen beyond its lease."""

    def __init__(self, outbox: Outbox, broker: Broker, env: dict[str, str], stack: ExitStack) -> None:
        self._outbox, self._broker, self._env, self._stack = outbox, broker, env, stack
        self.relays = [self._start(number) for number in range(RELAYS)]
        self.kills = self.freezes = 0

    def _start(self, number: int) -> Daemon:
        return self._stack.enter_context(Daemon(self._outbox.relay_url, {**self._env, "RELAY_ID": f"relay-{number}"}))

    def next(self, number: int) -> None:
        """The next fault, amid deliveries."""
        before = delivered(self._outbox)
        self._outbox.fill(self._broker.destination, SHARE // 2)
        wait_until(
            lambda: all(one.running for one in self.relays) and delivered(self._outbox) > before,
            60,
            "the relays to deliver",
        )
        proxy = self._broker.proxy
        proxy.slow_links, proxy.delay = range(proxy.accepted + 1), LATE  # those of relays, not of readers
        self._outbox.fill(self._broker.destination, SHARE // 2)
        one = wait_until(self._waiting_ones, 60, "a relay to wait for answers to events that the broker has").pop()
        if number % 3 < 2:
            self.relays[one].kill()
            self.kills += 1
            proxy.slow_links, proxy.delay = None, SOON
            self.relays[one] = self._start(one)
            return
        os.kill(self.relays[one].pid, signal.SIGSTOP)
        proxy.slow_links, proxy.delay = None, SOON
        since = time.monotonic()
        wait_until(lambda: time.monotonic() - since > 2 * LEASE, 60, "its leases to expire")
        os.kill(self.relays[one].pid, signal.SIGCONT)
        self.freezes += 1

    def _waiting_ones(self) -> set[int]:
        """Relays that hold an event that the broker has."""
        has = seen(self._broker, "read_uncommitted").keys()
        leased = self._outbox.rows("locked_by, event_id::text")
        return {int(holder.removeprefix("relay-")) for holder, event_id in leased if holder and event_id in has}

    def drained(self) -> bool:
        """Whether every event is delivered."""
        return self._outbox.counts().keys() <= {"DELIVERED"}


def received_through_faults(
    outbox: Outbox, broker: Broker, count: int = FAULTS, **env: str
) -> tuple[Counter[str], Faults]:
    """How often a reader of committed messages sees each event in the end."""
    pace = {"LEASE_TIMEOUT": f"{LEASE:g}s", "KAFKA_WRITE_TIMEOUT": "2s", "RETRY_BASE_DELAY": "100ms"}
    broker.proxy.delay = SOON
    with ExitStack() as stack:
        faults = Faults(outbox, broker, {**broker.env(), **pace, **env}, stack)
        for number in range(count):
            faults.next(number)
        broker.proxy.delay = 0.0
        wait_until(faults.drained, 120, "every event to be delivered")
        wait_until(lambda: len(seen(broker)) >= count * SHARE, 60, "a reader of committed messages to see every event")
        received = seen(broker)
        # What replaced a killed one may still be starting: SIGTERM ends it then without a word.
        assert [relay.wait_ready().stop() for relay in faults.relays] == [0] * RELAYS
    return received, faults


# In order per key, tests/system/simulation/test_transactions.py has these faults at every moment.
@pytest.mark.parametrize("ordering", ["none", pytest.param("key", marks=pytest.mark.soak)])
def test_a_reader_of_committed_messages_sees_each_event_once(
    outbox: Outbox, make_broker: MakeBroker, measured: Measured, ordering: str
) -> None:
    if ordering == "key":
        add_extension(outbox.owner_url, TableName(), "key-order")
    began = time.monotonic()
    received, faults = received_through_faults(
        outbox, make_broker("kafka"), KAFKA_TRANSACTIONS="true", ORDERING=ordering
    )
    events = {event_id for (event_id,) in outbox.rows("event_id::text")}
    assert received.keys() == events
    assert {one: times for one, times in received.items() if times > 1} == {}
    measured(
        fault=f"kill -9 and SIGSTOP beyond the lease, KAFKA_TRANSACTIONS, ORDERING={ordering}",
        kills=faults.kills,
        freezes=faults.freezes,
        events=len(events),
        duplicates=0,
        lost=0,
        seconds=time.monotonic() - began,
    )


def test_the_same_faults_without_transactions_bring_repeats(outbox: Outbox, make_broker: MakeBroker) -> None:
    kills = 2
    received, _ = received_through_faults(outbox, make_broker("kafka"), kills)
    assert len(received) == kills * SHARE
    assert received.total() > kills * SHARE
