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


def seen(broker: Broker) -> Counter[str]:
    """How often a reader of committed messages sees each event by now."""
    url = broker.env()["PUBLISHER_URL"]
    reader = Consumer({"bootstrap.servers": url, "group.id": "reader", "enable.partition.eof": True})
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
    """Relays of which one after another is killed or frozen beyond its lease, while they drain a backlog."""

    def __init__(self, outbox: Outbox, destination: str, env: dict[str, str], stack: ExitStack) -> None:
        self._outbox = outbox
        self._destination = destination
        self._env = env
        self._stack = stack
        self.relays = [self._start(number) for number in range(RELAYS)]
        self.kills = self.freezes = 0

    def _start(self, number: int) -> Daemon:
        return self._stack.enter_context(Daemon(self._outbox.relay_url, {**self._env, "RELAY_ID": f"relay-{number}"}))

    def next(self, number: int) -> None:
        """The next fault, amid deliveries."""
        before = delivered(self._outbox)
        self._outbox.fill(self._destination, SHARE)
        wait_until(
            lambda: all(one.running for one in self.relays) and delivered(self._outbox) > before,
            60,
            "the relays to deliver",
        )
        one = number % RELAYS
        if number % 3 < 2:
            self.relays[one].kill()
            self.kills += 1
            self.relays[one] = self._start(one)
            return
        os.kill(self.relays[one].pid, signal.SIGSTOP)
        since = time.monotonic()
        wait_until(lambda: time.monotonic() - since > 2 * LEASE, 60, "its leases to expire")
        os.kill(self.relays[one].pid, signal.SIGCONT)
        self.freezes += 1

    def drained(self) -> bool:
        """Whether every event is delivered."""
        return self._outbox.counts().keys() <= {"DELIVERED"}


def received_through_faults(
    outbox: Outbox, broker: Broker, count: int = FAULTS, delay: float = 0.05, **env: str
) -> tuple[Counter[str], Faults]:
    """How often a reader of committed messages sees each event in the end."""
    pace = {"LEASE_TIMEOUT": f"{LEASE:g}s", "KAFKA_WRITE_TIMEOUT": "2s", "RETRY_BASE_DELAY": "100ms"}
    broker.proxy.delay = delay  # of every answer, so that much is in flight at each fault
    with ExitStack() as stack:
        faults = Faults(outbox, broker.destination, {**broker.env(), **pace, **env}, stack)
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
    # Answers that are late enough for each relay to wait for some when it is killed.
    received, _ = received_through_faults(outbox, make_broker("kafka"), kills, delay=0.7)
    assert len(received) == kills * SHARE
    assert received.total() > kills * SHARE
