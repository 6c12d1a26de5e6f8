"""Events that Spark wrote reach real Kafka through the relay like any other."""

from __future__ import annotations

import json
from collections.abc import Callable

from confluent_kafka import Message
from pyspark.sql import SparkSession

from relay.spark import key_id
from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.kafka import MakeTopic
from tests.support.fixtures.outbox import Outbox
from tests.support.fixtures.spark import Save
from tests.support.messages import kafka_headers, kafka_key

COUNT = 1000


def test_events_written_by_spark_arrive_in_kafka(
    spark: SparkSession,
    outbox: Outbox,
    save: Save,
    daemon: StartDaemon,
    kafka: str,
    topic: MakeTopic,
    consume: Callable[..., list[Message]],
) -> None:
    name = topic(partitions=3)
    frame = spark.sql(
        f"SELECT '{name}' AS event_type, struct(id AS number) AS payload, concat('c', id % 10) AS partition_key, "
        f"map('source', 'spark') AS headers, id AS number FROM range(0, {COUNT}, 1, 4)"
    )
    relay = daemon(PUBLISHER_TYPE="kafka", PUBLISHER_URL=kafka, BATCH_SIZE="1000").wait_ready()
    save(frame.where("number % 2 = 0"), idColumns="number", commit="atomic")
    save(frame, idColumns="number", commit="partition")
    outbox.wait_finished(90)
    assert outbox.counts() == {"DELIVERED": COUNT}
    messages = consume(name, COUNT)
    assert len(messages) == COUNT
    arrived = {
        kafka_headers(message)["X-Event-ID"]: (
            json.loads(message.value() or b"")["number"],
            kafka_key(message),
            kafka_headers(message)["source"],
        )
        for message in messages
    }
    assert arrived == {str(key_id("", name, number)): (number, f"c{number % 10}", "spark") for number in range(COUNT)}
    outbox.check_invariants()
    assert relay.stop() == 0
