"""The consumer of the demonstration: it reads every topic from the beginning and notes what arrives, by event id."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from relay.demo.ledger import Ledger

_IDENTITY = "X-Event-ID"


def count_arrivals(bootstrap: str, topics: Mapping[str, Sequence[int]], ledger: Ledger, stop: threading.Event) -> None:
    """Note arrivals until ``stop`` is set. ``topics`` names the partitions to read."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "demo",
            "enable.auto.commit": False,
            # The embedded broker answers a fetch only when this time is over, as if nothing had arrived meanwhile.
            "fetch.wait.max.ms": 10,
        }
    )
    try:
        consumer.assign([TopicPartition(name, number, 0) for name, numbers in topics.items() for number in numbers])
        while not stop.is_set():
            messages = consumer.consume(500, timeout=0.05)
            now = time.monotonic()
            for message in messages:
                ledger.receive(event_id(message), now)
    finally:
        consumer.close()


def event_id(message: Message) -> str:
    """The identity the relay gave the message. Raises KafkaException for an error in a message's place."""
    error = message.error()
    if error is not None:
        raise KafkaException(error)
    identity = dict(message.headers() or {}).get(_IDENTITY)
    return identity.decode() if isinstance(identity, bytes) else "(no identity)"
