"""The broker's own pace: the same messages from memory, through the same client library, acknowledged.

No outbox, no bookkeeping of single events beyond counting answers: what a relay could reach if the database cost
nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
import uuid
from collections.abc import Callable, Sequence
from http import HTTPStatus
from itertools import takewhile
from typing import Any, NamedTuple

import aiohttp
import nats
import redis
import uvloop
from confluent_kafka import Producer
from nats.aio.msg import Msg
from pamqp import commands, frame
from pamqp.body import ContentBody
from pamqp.header import ContentHeader

from relay.app.publishers import options_of
from relay.brokers.kafka.options import producer_config
from relay.brokers.rabbitmq.options import read_target
from relay.brokers.rabbitmq.wire import AmqpWire
from relay.settings.settings import Settings

_CONNECTIONS = 64  # HTTP_CONNECTIONS_PER_HOST
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


def broker_pace(publisher: str, url: str, targets: Sequence[str], batch: int, count: int) -> Pace:
    """Send ``count`` messages and wait for every acknowledgement. Raises RuntimeError where one is refused.

    To the targets in turn; only RabbitMQ has several.
    """
    batch_messages = messages(count)
    started, cpu = time.monotonic(), time.process_time()
    if publisher == "rabbitmq":
        asyncio.run(_rabbitmq(url, targets, batch_messages))
    elif publisher == "http":
        uvloop.run(_http(url, targets[0], batch_messages))
    else:
        _SENDERS[publisher](url, targets[0], batch, batch_messages)
    return Pace(count / (time.monotonic() - started), (time.process_time() - cpu) / count * 1e6)


def _kafka(url: str, target: str, batch: int, batch_messages: list[Message]) -> None:
    environ = {"STORAGE_URL": "postgres://unused@host/database", "PUBLISHER_TYPE": "kafka", "PUBLISHER_URL": url}
    producer = Producer(producer_config(options_of(Settings.from_env(environ))))
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


class _Confirms:
    """Counts them; several queues confirm out of order."""

    def __init__(self) -> None:
        self.unconfirmed: dict[int, None] = {}
        self.room = asyncio.Event()

    def on_confirmed(self, tag: int, *, multiple: bool, stored: bool) -> None:
        if not stored:
            raise RuntimeError("a message was refused")
        for confirmed in list(takewhile(lambda one: one <= tag, self.unconfirmed)) if multiple else [tag]:
            del self.unconfirmed[confirmed]
        self.room.set()

    def on_returned(self, message_id: str, reason: str) -> None:
        raise RuntimeError(f"{message_id}: {reason}")

    def on_blocked(self, reason: str | None) -> None:
        raise RuntimeError(f"blocked: {reason}")

    def on_channel_closed(self, code: int, text: str) -> None:
        raise RuntimeError(f"{code} {text}")

    def on_lost(self, reason: str) -> None:
        raise RuntimeError(reason)


async def _rabbitmq(url: str, targets: Sequence[str], batch_messages: list[Message]) -> None:
    """The library has frames and no connection: that is the relay's own."""
    environ = {"STORAGE_URL": "postgres://unused@host/database", "PUBLISHER_TYPE": "rabbitmq", "PUBLISHER_URL": url}
    options = options_of(Settings.from_env(environ))
    connection = await AmqpWire.connect(read_target(options), 10.0)
    confirms = connection.owner = _Confirms()
    await connection.open_channel()
    for at, (event_id, key, payload, number) in enumerate(batch_messages):
        properties = commands.Basic.Properties(
            content_type="application/octet-stream",
            headers={"X-Partition-Key": key, "source": "x", "n": number},
            delivery_mode=2,
            message_id=event_id,
        )
        method = commands.Basic.Publish(exchange="", routing_key=targets[at % len(targets)], mandatory=True)
        parts = (method, ContentHeader(0, len(payload), properties), ContentBody(payload))
        confirms.unconfirmed[at + 1] = None
        connection.write(b"".join(frame.marshal(part, 1) for part in parts))
        while len(confirms.unconfirmed) > _WINDOW:
            confirms.room.clear()
            await confirms.room.wait()
        if at % 100 == 0:
            await asyncio.sleep(0)
    while confirms.unconfirmed:
        confirms.room.clear()
        await confirms.room.wait()
    connection.cut()


async def _http(url: str, target: str, batch_messages: list[Message]) -> None:
    """Aiohttp's client, over as many connections as the relay has at most."""
    rest = iter(batch_messages)

    async def send(session: aiohttp.ClientSession) -> None:
        for event_id, key, payload, number in rest:
            headers = {"webhook-id": event_id, "X-Event-Type": target, "X-Partition-Key": key}
            headers |= {"X-User-source": "x", "X-User-n": number}
            async with session.post(url, data=payload, headers=headers) as answer:
                if answer.status != HTTPStatus.NO_CONTENT:
                    raise RuntimeError(f"status {answer.status}")

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=_CONNECTIONS)) as session:
        await asyncio.gather(*(send(session) for _ in range(_CONNECTIONS)))


_SENDERS: dict[str, Callable[[str, str, int, list[Message]], None]] = {"kafka": _kafka, "nats": _nats, "redis": _redis}
