"""The broker's own pace: the same messages from memory, through the same client library, acknowledged.

No outbox, no bookkeeping of single events beyond counting answers: what a relay could reach if the database cost
nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import nats
import redis
from confluent_kafka import Producer
from nats.aio.msg import Msg

from relay.app.build import kafka_options
from relay.brokers.kafka.options import producer_config
from relay.settings.settings import Settings

_WINDOW = 4000  # unanswered messages, as many as our publishers allow

Message = tuple[str, str, bytes, str]
"""Event id, key, payload, number."""


class Pace(NamedTuple):
    """What the client library reached without a relay."""

    per_second: float
    """Acknowledged messages."""
    cpu_seconds_per_million: float
    """Of this process: the library, its threads, and the loop around it."""


def messages(count: int) -> list[Message]:
    """Messages as ``benchmarks.drain`` fills a table with: 512 bytes, a thousand keys, two small headers."""
    batch_messages = []
    for number in range(count):
        text = hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()
        batch_messages.append(
            (str(uuid.uuid4()), f"key-{number % 1000}", bytes.fromhex((text * 32)[:1024]), str(number))
        )
    return batch_messages


def broker_pace(publisher: str, url: str, target: str, batch: int, count: int) -> Pace:
    """Send ``count`` messages and wait for every acknowledgement. Raises RuntimeError where one is refused."""
    batch_messages = messages(count)
    started, cpu = time.monotonic(), time.process_time()
    _SENDERS[publisher](url, target, batch, batch_messages)
    return Pace(count / (time.monotonic() - started), (time.process_time() - cpu) / count * 1e6)


def _kafka(url: str, target: str, batch: int, batch_messages: list[Message]) -> None:
    environ = {"STORAGE_URL": "postgres://unused@host/database", "PUBLISHER_TYPE": "kafka", "PUBLISHER_URL": url}
    producer = Producer(producer_config(kafka_options(Settings.from_env(environ))))
    answered = 0

    def on_delivery(error: Any, _: Any) -> None:  # noqa: ANN401  # the library's own types
        nonlocal answered
        if error is not None:
            raise RuntimeError(str(error))
        answered += 1

    for at, (event_id, key, payload, number) in enumerate(batch_messages):
        headers: list[tuple[str, str | bytes | None]] = [("X-Event-ID", event_id), ("source", "x"), ("n", number)]
        producer.produce(target, payload, key, on_delivery=on_delivery, headers=headers)
        if at % batch == 0:
            producer.poll(0)
            while len(producer) > 8 * max(batch, 500):
                producer.poll(0.01)
    producer.flush(60)
    if answered != len(batch_messages):
        raise RuntimeError(f"{answered} of {len(batch_messages)} messages were acknowledged")


def _nats(url: str, target: str, _batch: int, batch_messages: list[Message]) -> None:
    asyncio.run(_nats_async(url, target, batch_messages))


async def _nats_async(url: str, target: str, batch_messages: list[Message]) -> None:
    client = await nats.connect(url)
    answered, room = 0, asyncio.Event()

    async def on_answer(message: Msg) -> None:
        nonlocal answered
        if b'"error"' in message.data:
            raise RuntimeError(message.data.decode())
        answered += 1
        room.set()

    prefix = client.new_inbox() + "."
    await client.subscribe(prefix + "*", cb=on_answer)
    for at, (event_id, key, payload, number) in enumerate(batch_messages):
        headers = {"Nats-Msg-Id": event_id, "X-Partition-Key": key, "source": "x", "n": number}
        await client.publish(target, payload, f"{prefix}{at}", headers)
        while at - answered > _WINDOW:
            room.clear()
            await room.wait()
        if at % 100 == 0:
            await asyncio.sleep(0)
    while answered < len(batch_messages):
        room.clear()
        await room.wait()
    await client.close()


def _redis(url: str, target: str, batch: int, batch_messages: list[Message]) -> None:
    with redis.Redis.from_url(url) as client:
        for at in range(0, len(batch_messages), batch):
            pipeline = client.pipeline(transaction=False)
            for event_id, key, payload, number in batch_messages[at : at + batch]:
                fields: dict[Any, Any] = {"id": event_id, "payload": payload, "partition_key": key}
                pipeline.xadd(target, fields | {"h:source": "x", "h:n": number})
            pipeline.execute()


_SENDERS: dict[str, Callable[[str, str, int, list[Message]], None]] = {"kafka": _kafka, "nats": _nats, "redis": _redis}
