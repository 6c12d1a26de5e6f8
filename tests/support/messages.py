"""Reading messages back, the same way for every test."""

from __future__ import annotations

from typing import cast

from confluent_kafka import Message
from nats.js.api import AckPolicy, ConsumerConfig

READ_ONLY = ConsumerConfig(ack_policy=AckPolicy.NONE)
"""A JetStream consumer that need not acknowledge: with others the server stops after a thousand messages."""


def kafka_headers(message: Message) -> dict[str, str]:
    """The headers of a Kafka message, decoded."""
    pairs = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    return {name: (value or b"").decode() for name, value in pairs}


def kafka_key(message: Message) -> str | None:
    """The key of a Kafka message, decoded."""
    key = message.key()
    return key.decode() if isinstance(key, bytes) else key
