"""The ground itself: the Kafka that other tests stand on."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient

from tests.support.fixtures.kafka import MakeTopic
from tests.support.waiting import patience


def test_what_is_produced_is_consumed(kafka: str, topic: MakeTopic, consume: Callable[..., list[Message]]) -> None:
    name = topic(partitions=3)
    producer = Producer({"bootstrap.servers": kafka, "acks": "all"})
    for number in range(30):
        producer.produce(name, str(number).encode(), key=str(number).encode())
    assert producer.flush(20) == 0
    values = [message.value() for message in consume(name, 30)]
    assert sorted(values, key=lambda value: int(value or b"-1")) == [str(number).encode() for number in range(30)]


def test_a_topic_is_not_created_automatically(kafka: str, kafka_admin: AdminClient) -> None:
    errors: list[KafkaError | None] = []
    producer = Producer(
        {"bootstrap.servers": kafka, "message.timeout.ms": 3000, "topic.metadata.propagation.max.ms": 500}
    )
    producer.produce("never.created", b"x", on_delivery=lambda error, _: errors.append(error))
    producer.flush(20)
    assert [error.code() for error in errors if error] == [KafkaError.UNKNOWN_TOPIC_OR_PART]
    assert "never.created" not in kafka_admin.list_topics(timeout=patience()).topics
