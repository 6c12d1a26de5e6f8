"""Payloads in the wire format of a schema registry: into the outbox, and out at a consumer of Kafka."""

from typing import Any

import psycopg
from confluent_kafka import Message as KafkaMessage
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from openoutbox import Message, NewEvent, enqueue

SCHEMA = """
{
  "$schema": "http://json-schema.org/draft-07/schema#",
  "title": "OrderPlaced",
  "type": "object",
  "properties": {"customer": {"type": "string"}, "amount": {"type": "integer", "exclusiveMinimum": 0}},
  "required": ["customer", "amount"],
  "additionalProperties": false
}
"""


class Orders:
    """Orders on one topic. AvroSerializer and ProtobufSerializer are called in the same way."""

    def __init__(self, registry: SchemaRegistryClient, topic: str, *, register: bool = False) -> None:
        """``register``: a deployment registers the schema; an application must find it there."""
        self._topic = topic
        self._context = SerializationContext(topic, MessageField.VALUE)  # names the subject: TOPIC-value
        self._serialize = JSONSerializer(SCHEMA, registry, conf={"auto.register.schemas": register})
        self._deserialize = JSONDeserializer(None, schema_registry_client=registry)

    def event(self, order: dict[str, Any]) -> NewEvent:
        """The event of an order. Raises SerializationError for one that is not of the schema.

        The first one asks the registry: call this before the transaction, which must not wait for a registry.
        """
        payload = self._serialize(order, self._context)  # the byte 0, the schema's number in four bytes, the order
        return NewEvent(self._topic, payload, partition_key=order["customer"])

    def read(self, received: KafkaMessage) -> tuple[str, dict[str, Any]]:
        """The event's id, by which the inbox drops repeats, and the order."""
        message = Message.from_kafka(received)
        return message.event_id, self._deserialize(message.payload, self._context)


def place(connection: psycopg.Connection, orders: Orders, placed: list[dict[str, Any]]) -> None:
    """Announce orders in the transaction that stores them."""
    events = [orders.event(order) for order in placed]
    with connection.transaction():
        connection.cursor().executemany("INSERT INTO orders VALUES (%(customer)s, %(amount)s)", placed)
        enqueue(connection, events)
