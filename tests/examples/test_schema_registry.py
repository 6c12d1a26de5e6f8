"""The recipe of a schema registry, with the registry that the client's library has for tests.

It lives in this process; a registry that is a server is not installed here.
"""

from __future__ import annotations

import json
import uuid
from contextlib import closing

import pytest
from confluent_kafka import Consumer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import SerializationError

from examples.recipes.schema_registry import Orders, place
from tests.support.daemon import Daemon
from tests.support.fixtures.kafka import MakeTopic
from tests.support.fixtures.outbox import Outbox
from tests.support.waiting import patience

pytestmark = pytest.mark.kafka

PLACED = [{"customer": "ada", "amount": 30}, {"customer": "bob", "amount": 20}]


def test_what_an_application_serializes_arrives_byte_for_byte_and_is_read_by_its_schema(
    outbox: Outbox, kafka: str, topic: MakeTopic
) -> None:
    name, registry = topic(), SchemaRegistryClient.new_client({"url": "mock://orders"})
    with outbox.database.connect() as connection:
        connection.execute("CREATE TABLE orders (customer text, amount bigint)")
        with pytest.raises(SchemaRegistryError, match="Schema Not Found"):
            place(connection, Orders(registry, name), PLACED)
        orders = Orders(registry, name, register=True)
        with pytest.raises(SerializationError, match="less than or equal to the minimum"):
            place(connection, orders, [PLACED[0], {"customer": "bob", "amount": 0}])
        assert outbox.counts() == {}, "an order that is not of the schema takes back all of them"
        place(connection, orders, PLACED)
    sent = {str(event_id): bytes(payload) for event_id, payload in outbox.rows("event_id, payload")}
    with Daemon(outbox.relay_url, {"PUBLISHER_TYPE": "kafka", "PUBLISHER_URL": kafka}):
        outbox.wait_finished(60)
    configuration = {"bootstrap.servers": kafka, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"}
    with closing(Consumer(configuration)) as consumer:
        consumer.subscribe([name])
        received = [message for _ in PLACED for message in consumer.consume(1, timeout=patience())]
    number = registry.get_latest_version(f"{name}-value").schema_id
    assert number
    read = dict(orders.read(message) for message in received)
    assert sorted(read.values(), key=lambda order: str(order["customer"])) == PLACED
    for message in received:
        event_id, order = orders.read(message)
        value = message.value() or b""
        assert value == sent[event_id]
        assert value[:5] == b"\0" + number.to_bytes(4, "big")
        assert json.loads(value[5:]) == order
