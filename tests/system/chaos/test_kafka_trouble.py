"""Trouble inside the Kafka client: its queue is full, and its idempotent producer breaks for good."""

from __future__ import annotations

import re
import struct

import pytest

from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.measured import Measured
from tests.support.fixtures.outbox import Outbox
from tests.support.waiting import wait_until
from tests.system.chaos.brokers import Broker
from tests.system.chaos.load import Writers
from tests.system.chaos.looking import Balance, check_finished, delivered, seconds_until, setbacks, watch_setbacks

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("chaos-kafka")]

_OUT_OF_ORDER_SEQUENCE_NUMBER = 45
_PRODUCE = 0
_FLEXIBLE_FROM = 9  # version of Produce


@pytest.mark.parametrize("broker", ["kafka"], indirect=True)
def test_a_full_queue_is_waited_for(outbox: Outbox, broker: Broker, daemon: StartDaemon, measured: Measured) -> None:
    watch_setbacks(outbox)
    env = broker.env()
    env["PUBLISHER_URL"] += "?queue.buffering.max.messages=50"
    outbox.fill(broker.destination, 2000)
    backlog = {event_id for (event_id,) in outbox.rows("event_id::text")}
    with Writers(outbox.url, broker.destination) as writers:
        relay = daemon(**env, BATCH_SIZE="500", MAX_IN_FLIGHT="2000").wait_ready()
        wait_until(lambda: delivered(outbox) > 1500, what="the drain to be under way")
        in_flight = relay.metric("openoutbox_in_flight_events")
    outbox.wait_finished(60)
    assert relay.stop() == 0
    check_finished(outbox)
    assert setbacks(outbox, "TRUE") == 0
    writers.committed |= backlog
    balance = Balance.of(writers, broker.received())
    balance.check()
    assert balance.duplicates == 0
    measured(
        fault="Kafka client's queue full (50 messages, batches of 500)",
        in_flight=int(in_flight),
        attempts_used=0,
        duplicates=0,
        lost=balance.lost,
        events=balance.committed,
    )


class LieAboutSequences:
    """Tells the client that its next produce request came out of order, which breaks an idempotent producer."""

    def __init__(self, topic: str) -> None:
        self._topic = topic.encode()
        self._produced: dict[tuple[int, int], int] = {}
        self.lies = 0
        self.wanted = 0

    def request(self, link: int, data: bytes) -> None:
        if len(data) >= 12:
            _, key, version, correlation = struct.unpack_from(">ihhi", data)
            if key == _PRODUCE:
                self._produced[link, correlation] = version

    def reply(self, link: int, data: bytes) -> bytes:
        if self.lies >= self.wanted or len(data) < 8:
            return data
        (correlation,) = struct.unpack_from(">i", data, 4)
        version = self._produced.get((link, correlation))
        at = data.find(self._topic)
        if version is None or at < 0:
            return data
        counts = 1 if version >= _FLEXIBLE_FROM else 4  # bytes of the number of partitions
        place = at + len(self._topic) + counts + 4  # behind the partition's number
        self.lies += 1
        return data[:place] + struct.pack(">h", _OUT_OF_ORDER_SEQUENCE_NUMBER) + data[place + 2 :]


BROKEN = re.compile("the Kafka client failed and is replaced|_FATAL: Unable to produce")
"""What the log says of a client that broke: a report of a message may come first, or the next message is refused."""


class ProducerLinks:
    """Notes the connections over which something was produced, and passes everything on."""

    def __init__(self) -> None:
        self.links: set[int] = set()

    def request(self, link: int, data: bytes) -> None:
        if len(data) >= 6 and struct.unpack_from(">h", data, 4) == (_PRODUCE,):
            self.links.add(link)

    def reply(self, _: int, data: bytes) -> bytes:
        return data


@pytest.mark.parametrize("broker", ["kafka"], indirect=True)
def test_slow_acknowledgements_are_waited_for_and_no_outage(
    outbox: Outbox, broker: Broker, daemon: StartDaemon, measured: Measured
) -> None:
    """As with a slow replica: what a producer's connection asks for after its events is answered after them.

    The acknowledgements take longer than a lease, a probe and KAFKA_READ_TIMEOUT; another relay would reap.
    """
    watch_setbacks(outbox)
    env = {"LEASE_TIMEOUT": "4s", "HEALTH_CHECK_INTERVAL": "500ms", "KAFKA_WRITE_TIMEOUT": "30s"}
    env["KAFKA_READ_TIMEOUT"] = "3s"
    relays = [daemon(**broker.env(), **env, RELAY_ID=f"slow-{number}").wait_ready() for number in range(2)]
    broker.proxy.tap = tap = ProducerLinks()
    outbox.fill(broker.destination, 1)
    outbox.wait_finished(30)
    broker.proxy.slow_links, broker.proxy.delay = tap.links, 7.0
    outbox.fill(broker.destination, 20)
    states: set[float] = set()

    def all_delivered() -> bool:
        states.update(relay.metric("openoutbox_relay_state") for relay in relays if relay.running)
        return delivered(outbox) == 21

    seconds = seconds_until(all_delivered, 40, "the acknowledgements")
    assert states == {1.0}
    assert seconds > 6
    assert setbacks(outbox, "TRUE") == 0
    check_finished(outbox)
    assert broker.received().total() == 21
    measured(
        fault="Kafka acknowledges after 7 s, the lease 4 s, two relays, probed every 0.5 s",
        delivered_after_s=seconds,
        renewals=sum(int(one.metric("openoutbox_storage_latency_seconds_count", op="renew")) for one in relays),
        released=0,
        duplicates=0,
    )


@pytest.mark.parametrize("broker", ["kafka"], indirect=True)
def test_a_producer_that_breaks_for_good_is_replaced_and_its_events_released(
    outbox: Outbox, broker: Broker, daemon: StartDaemon, measured: Measured
) -> None:
    watch_setbacks(outbox)
    liar = LieAboutSequences(broker.destination)
    relay = daemon(**broker.env(), PUBLISHER_CONNECT_RETRY_INTERVAL="1s").wait_ready()
    broker.proxy.tap = liar
    with Writers(outbox.url, broker.destination, per_second=500) as writers:
        for number in range(1, 4):
            before = delivered(outbox)
            wait_until(lambda least=before: delivered(outbox) > least + 300, what="the drain to go on")  # type: ignore[misc]
            liar.wanted = number
            wait_until(lambda wanted=number: relay.running and liar.lies == wanted, what="the lie")  # type: ignore[misc]
            wait_until(lambda times=number: len(BROKEN.findall(relay.log())) >= times, 30, "the client to break")  # type: ignore[misc]
    outbox.wait_finished(60)
    assert relay.stop() == 0
    check_finished(outbox)
    assert outbox.rows("max(attempts)") == [(0,)]
    balance = Balance.of(writers, broker.received())
    balance.check()
    measured(
        fault="Kafka producer broken by a fatal idempotence error, 3 times",
        released=setbacks(outbox, "TRUE"),
        attempts_used=0,
        duplicates=balance.duplicates,
        lost=balance.lost,
        events=balance.committed,
    )
