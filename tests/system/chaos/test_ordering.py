"""Order per key while relays are killed and the broker fails: four relays, five hundred keys, every kind of broker."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

import pytest

from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from tests.support.daemon import Daemon
from tests.support.fixtures.kafka import MakeTopic
from tests.support.fixtures.measured import Measured
from tests.support.fixtures.outbox import Outbox
from tests.support.waiting import pace, wait_until
from tests.system.chaos.brokers import Broker, read_topic
from tests.system.chaos.held import held_horizon
from tests.system.chaos.looking import check_attempts, check_finished, delivered, setbacks, watch_setbacks

pytestmark = pytest.mark.timeout(600)

RELAYS = 4
KEYS = 500
WRITERS = 4

_INSERT = """
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload)
SELECT gen_random_uuid(), %(topic)s, 'key-' || key, convert_to(number::text, 'UTF8')
FROM generate_series(%(first)s::int, %(last)s::int) AS number,
     generate_series(%(writer)s::int, %(keys)s - 1, %(step)s) AS key
ORDER BY number, key
"""


class Destination(NamedTuple):
    """Where the events go."""

    name: str
    env: dict[str, str]
    """The variables of a relay that publishes to it."""
    received: Callable[[], Counter[str]]
    """How often it has each event id, the ids in the order of their first arrival, as far as it has one for a key."""


class KeyWriters:
    """Threads that each own a share of the keys and number the events of every key, a transaction after the other.

    Every seventh transaction rolls back and is repeated: its numbers come again, later ones of insertion_order do not.
    """

    def __init__(self, outbox: Outbox, topic: str, first: int, last: int, seconds: float) -> None:
        self._outbox, self._topic = outbox, topic
        self._numbers = range(first, last)
        self._pause = seconds / len(self._numbers)
        self._threads = [threading.Thread(target=self._run, args=(one,), daemon=True) for one in range(WRITERS)]
        for thread in self._threads:
            thread.start()

    @property
    def done(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self, writer: int) -> None:
        with self._outbox.database.connect(autocommit=False) as connection:
            for number in self._numbers:
                for attempt in range(2 if number % 7 == 3 else 1, 0, -1):
                    connection.execute(_INSERT.encode(), numbered(self._topic, writer, number, number))
                    connection.commit() if attempt == 1 else connection.rollback()
                pace(self._pause)


def numbered(topic: str, writer: int, first: int, last: int) -> dict[str, object]:
    """Parameters for these numbers of every key that a writer owns."""
    return {"topic": topic, "writer": writer, "first": first, "last": last, "keys": KEYS, "step": WRITERS}


def numbers_by_key(outbox: Outbox, arrivals: Counter[str]) -> dict[str, list[int]]:
    """Of each key the numbers of its events, in the order of their first arrivals."""
    rows = outbox.rows("event_id::text, partition_key, convert_from(payload, 'UTF8')::int")
    events = {event_id: (key, number) for event_id, key, number in rows}
    numbers: dict[str, list[int]] = defaultdict(list)
    for event_id in arrivals:
        key, number = events[event_id]
        numbers[key].append(number)
    return numbers


class Relays:
    """Four relays in order, whose broker fails at random; one after another is killed."""

    def __init__(self, outbox: Outbox, env: dict[str, str], stack: ExitStack) -> None:
        self._outbox, self._stack = outbox, stack
        self._env = {
            **env,
            "ORDERING": "key",
            "LEASE_TIMEOUT": "4s",
            "RETRY_BASE_DELAY": "100ms",
            "RETRY_MAX_DELAY": "2s",
        }
        self.kills = 0
        self._running = [self._start(place) for place in range(RELAYS)]

    def _start(self, place: int) -> Daemon:
        env = self._env | {"RELAY_ID": f"relay-{place}"}
        return self._stack.enter_context(Daemon(self._outbox.relay_url, env, "tests.system.chaos.failing"))

    def kill_one(self) -> None:
        """Kill -9, and another one in its place."""
        place = self.kills % RELAYS
        self._running[place].kill()
        self._running[place] = self._start(place)
        self.kills += 1

    def stop(self) -> None:
        """SIGTERM to all."""
        for relay in self._running:
            relay.wait_ready()
        assert [relay.stop() for relay in self._running] == [0] * RELAYS


def drain_in_order(
    outbox: Outbox, destination: Destination, each: int, seconds: float, every: float
) -> dict[str, object]:
    """``each`` events of every key, half of them there before; one relay after another is killed meanwhile."""
    add_extension(outbox.owner_url, TableName(), "key-order")
    watch_setbacks(outbox)
    for writer in range(WRITERS):
        outbox.database.run(_INSERT, numbered(destination.name, writer, 0, each // 2 - 1))
    with ExitStack() as stack:
        relays = Relays(outbox, destination.env, stack)
        wait_until(lambda: delivered(outbox) > 0, what="the first delivery")
        started = time.monotonic()
        writers = KeyWriters(outbox, destination.name, each // 2, each, seconds)
        while not writers.done:
            due = time.monotonic() + every
            wait_until(partial(_due, due, writers), every + 30, "the next kill")
            relays.kill_one()
        outbox.wait_finished(180)
        took = time.monotonic() - started
        relays.stop()
    check_finished(outbox)
    check_attempts(outbox)
    arrivals = destination.received()
    assert numbers_by_key(outbox, arrivals) == {f"key-{key}": list(range(each)) for key in range(KEYS)}
    assert relays.kills >= 3
    return {
        "broker": destination.env["PUBLISHER_TYPE"],
        "fault": f"{RELAYS} relays in order, 5% failures, kill -9 every {every:g} s",
        "events": each * KEYS,
        "kills": relays.kills,
        "duplicates": arrivals.total() - each * KEYS,
        "out_of_order": 0,
        "failures": setbacks(outbox, "last_error LIKE '%by chance' AND attempts > was"),
        "leases_expired": setbacks(outbox, "last_error LIKE 'LEASE_EXPIRED%' AND attempts > was"),
        "seconds": took,
    }


def _due(moment: float, writers: KeyWriters) -> bool:
    return writers.done or time.monotonic() >= moment


def kafka_topic(address: str, topic: str) -> Destination:
    """A topic of several partitions; a key is in one of them."""
    env = {"PUBLISHER_TYPE": "kafka", "PUBLISHER_URL": address, "KAFKA_WRITE_TIMEOUT": "2s"}
    return Destination(topic, env, lambda: read_topic(address, topic))


def test_first_deliveries_are_in_order_for_every_key(
    outbox: Outbox, kafka: str, topic: MakeTopic, measured: Measured
) -> None:
    measured(**drain_in_order(outbox, kafka_topic(kafka, topic(6)), each=8, seconds=5, every=1.6))


# Order per key is the engine's: Redis, below, stands for them. The conformance suite has each publisher keep a batch in
# order.
@pytest.mark.soak
@pytest.mark.parametrize("broker", ["nats", "redis", "rabbitmq", "http"], indirect=True)
def test_each_broker_has_them_in_order(outbox: Outbox, broker: Broker, measured: Measured) -> None:
    timeouts = ("NATS_PUBLISH_TIMEOUT", "REDIS_WRITE_TIMEOUT", "RABBITMQ_PUBLISH_TIMEOUT", "HTTP_TIMEOUT")
    env = {**broker.env(), **dict.fromkeys(timeouts, "2s")}
    destination = Destination(broker.destination, env, broker.received)
    measured(**drain_in_order(outbox, destination, each=4, seconds=4, every=1.3))


@pytest.mark.parametrize("broker", ["redis"], indirect=True)
def test_they_are_in_order_beside_a_held_horizon(outbox: Outbox, broker: Broker, measured: Measured) -> None:
    """Thirty events of each key were delivered while it was held: claims use floors."""
    add_extension(outbox.owner_url, TableName(), "key-order")
    destination = Destination(broker.destination, {**broker.env(), "REDIS_WRITE_TIMEOUT": "2s"}, broker.received)
    with held_horizon(outbox, 30_000):
        measured(**drain_in_order(outbox, destination, each=6, seconds=4, every=1.3))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_hundred_thousand_events_in_order(outbox: Outbox, kafka: str, topic: MakeTopic, measured: Measured) -> None:
    measured(**drain_in_order(outbox, kafka_topic(kafka, topic(6)), each=200, seconds=60, every=5.0))
