"""What only Kafka does: batches refused for one message, topics that come late, logins, a client that breaks."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from relay.brokers.kafka.offer import Failure
from relay.brokers.kafka.publisher import KafkaPublisher, Use
from relay.core.errors import BrokerUnreachable
from relay.core.event import OutboxEvent
from relay.core.outcome import Acknowledged, Outcome, Permanent, Transient, Unreachable
from relay.localservers.process import accepts
from tests.brokers.harness.base import Collector, make_event
from tests.support.fixtures.kafka import MakeTopic, create_topic
from tests.support.options import kafka_options
from tests.support.servers.kafka import KafkaServer
from tests.support.waiting import patience, wait_until_async

pytestmark = pytest.mark.kafka


@pytest.fixture
async def publisher(kafka: str) -> AsyncIterator[KafkaPublisher]:
    instance = KafkaPublisher(kafka_options(kafka, receipts=True))
    await instance.open()
    yield instance
    await instance.close()


async def outcomes(publisher: KafkaPublisher, events: list[OutboxEvent]) -> list[Outcome]:
    sink = Collector()
    await publisher.publish(events, sink)
    return await sink.outcomes(events)


async def test_over_the_clients_own_limit_is_permanent_and_says_by_how_much(
    publisher: KafkaPublisher, topic: MakeTopic
) -> None:
    [outcome] = await outcomes(publisher, [make_event(topic(), os.urandom(10_500_000))])
    assert isinstance(outcome, Permanent)
    assert outcome.code == "MSG_SIZE_TOO_LARGE"
    assert "10500000" in outcome.reason
    assert "10485760" in outcome.reason


async def test_an_invalid_record_takes_no_neighbour_with_it(publisher: KafkaPublisher, topic: MakeTopic) -> None:
    compacted = topic(config={"cleanup.policy": "compact"})
    events = [make_event(compacted, key=None if n == 3 else str(n)) for n in range(10)]
    results = await outcomes(publisher, events)
    refused = results.pop(3)
    assert isinstance(refused, Permanent)
    assert refused.code == "INVALID_RECORD"
    assert all(isinstance(outcome, Acknowledged) for outcome in results)


async def test_a_topic_that_comes_late_is_used_then(publisher: KafkaPublisher, kafka_admin: AdminClient) -> None:
    name = f"late.{os.urandom(6).hex()}"
    [outcome] = await outcomes(publisher, [make_event(name)])
    assert isinstance(outcome, Transient)
    await asyncio.to_thread(create_topic, kafka_admin, name)

    async def acknowledged() -> bool:
        [outcome] = await outcomes(publisher, [make_event(name)])
        assert isinstance(outcome, Acknowledged | Transient), outcome
        return isinstance(outcome, Acknowledged)

    await wait_until_async(acknowledged)
    kafka_admin.delete_topics([name])[name].result(patience())


async def test_a_full_queue_is_waited_for(kafka: str, topic: MakeTopic) -> None:
    publisher = KafkaPublisher(kafka_options(kafka, queue_messages=100))
    await publisher.open()
    name = topic()
    events = [make_event(name, str(n).encode()) for n in range(10_000)]
    assert await outcomes(publisher, events) == [Acknowledged()] * len(events)
    await publisher.close()


async def test_a_receipt_names_partition_and_offset(publisher: KafkaPublisher, topic: MakeTopic) -> None:
    assert await outcomes(publisher, [make_event(topic())]) == [Acknowledged({"partition": 0, "offset": 0})]


async def test_a_message_is_stamped_by_the_clock_that_the_options_name(kafka: str, topic: MakeTopic) -> None:
    """A broker refuses a timestamp that is far off."""
    name = topic(config={"message.timestamp.before.max.ms": "60000", "message.timestamp.after.max.ms": "60000"})
    results = []
    for offset in (-600.0, 0.0, 600.0):
        publisher = KafkaPublisher(kafka_options(kafka, now=partial(_at, time.time() + offset)))
        await publisher.open()
        results += await outcomes(publisher, [make_event(name)])
        await publisher.close()
    before, exact, after = results
    assert exact == Acknowledged()
    for refused in (before, after):
        assert isinstance(refused, Transient)
        assert refused.code == "INVALID_TIMESTAMP"


def _at(seconds: float) -> float:
    return seconds


async def test_a_client_that_breaks_is_replaced(publisher: KafkaPublisher, topic: MakeTopic) -> None:
    name = topic()
    sink, events = Collector(), [make_event(name, os.urandom(100_000)) for _ in range(200)]
    await publisher.publish(events, sink)
    session = publisher._sessions[Use.MAIN]
    publisher._replace(session, Failure("INVALID_PRODUCER_EPOCH", "fenced", True))
    results = await sink.outcomes(events)
    lost = {outcome for outcome in results if not isinstance(outcome, Acknowledged)}
    assert lost <= {Unreachable("INVALID_PRODUCER_EPOCH: fenced")}
    [outcome] = await outcomes(publisher, [make_event(name)])
    assert isinstance(outcome, Acknowledged)


JAVA_HASHES = {
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    "abc": 479470107,
}
"""Keys and their murmur2, from the tests of Kafka's Java client (UtilsTest)."""


async def test_keys_land_where_javas_producer_puts_them_when_asked(kafka: str, topic: MakeTopic) -> None:
    name, partitions = topic(partitions=50), {}
    for query in ("", "?partitioner=murmur2_random"):
        publisher = KafkaPublisher(kafka_options(f"{kafka}{query}", receipts=True))
        await publisher.open()
        acknowledged = await outcomes(publisher, [make_event(name, key=key) for key in JAVA_HASHES])
        partitions[query] = [
            one.receipt["partition"] for one in acknowledged if isinstance(one, Acknowledged) and one.receipt
        ]
        await publisher.close()
    java = [(value & 0x7FFFFFFF) % 50 for value in JAVA_HASHES.values()]
    assert partitions["?partitioner=murmur2_random"] == java
    assert partitions[""] != java, "librdkafka's own default is CRC32"


class LoginServer(KafkaServer):
    """Its one listener wants SASL PLAIN."""

    def __init__(self) -> None:
        module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        jaas = f'{module} username="relay" password="right" user_relay="right";'
        super().__init__(
            settings={
                "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "listener.name.plaintext.plain.sasl.jaas.config": jaas,
            }
        )

    def _answers(self) -> bool:
        return accepts(self.port)


@pytest.fixture(scope="module")
def login_server() -> Iterator[LoginServer]:
    with LoginServer() as server:
        yield server


async def test_a_refused_login_is_unreachable_and_says_why(login_server: LoginServer) -> None:
    make = partial(_with_password, login_server)
    publisher = make("wrong")
    await publisher.open()
    error = await _probe_error(publisher, until="uthenticat")
    assert "wrong" not in error
    sink, events = Collector(), [make_event("t")]
    await publisher.publish(events, sink)
    await publisher.abandon(error)
    assert await sink.outcomes(events) == [Unreachable(error)]
    await publisher.close()


async def test_the_right_login_connects(login_server: LoginServer) -> None:
    publisher = _with_password(login_server, "right")
    await publisher.open()
    async with asyncio.timeout(patience()):
        while True:
            try:
                await publisher.probe(5.0)
                break
            except BrokerUnreachable:
                continue
    await publisher.close()


def _with_password(server: LoginServer, password: str) -> KafkaPublisher:
    query = "security.protocol=SASL_PLAINTEXT&sasl.mechanism=PLAIN"
    return KafkaPublisher(kafka_options(f"kafka://relay:{password}@{server.url}?{query}"))


async def _probe_error(publisher: Any, until: str) -> str:
    async with asyncio.timeout(patience()):
        while True:
            try:
                await publisher.probe(1.0)
            except BrokerUnreachable as error:
                if until in str(error):
                    return str(error)
