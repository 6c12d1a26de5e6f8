"""The broker's own part of a latency: single messages from memory, through the same client library.

What remains of an event's time on its way when database and relay cost nothing.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import nats
import redis
from confluent_kafka import Producer

from relay.app.publishers import options_of
from relay.brokers.kafka.options import producer_config
from relay.settings.settings import Settings

_PAYLOAD = b"x" * 512


def acknowledged_p50(publisher: str, url: str, target: str, rate: float, seconds: float) -> float:
    """Median milliseconds from handing a message to the library to its acknowledgement.

    Messages are handed over at random moments, ``rate`` a second on average; the first third warms everything up.
    """
    taken = _SENDERS[publisher](url, target, rate, seconds)
    return statistics.median(taken[len(taken) // 3 :]) * 1000


def moments(rate: float, seconds: float) -> Iterator[float]:
    """Random moments (``time.monotonic``) from now on, ``rate`` a second on average."""
    due = start = time.monotonic()
    while due < start + seconds:
        yield due
        due += random.expovariate(rate)


def _kafka(url: str, target: str, rate: float, seconds: float) -> list[float]:
    environ = {"STORAGE_URL": "postgres://unused@host/database", "PUBLISHER_TYPE": "kafka", "PUBLISHER_URL": url}
    producer = Producer(producer_config(options_of(Settings.from_env(environ))))
    taken: list[float] = []

    def on_delivery(error: Any, message: Any) -> None:  # noqa: ANN401  # the library's own types
        if error is not None:
            raise RuntimeError(str(error))
        taken.append(message.latency())

    for due in moments(rate, seconds):
        while (rest := due - time.monotonic()) > 0:
            producer.poll(rest)
        producer.produce(target, _PAYLOAD, f"key-{random.randrange(1000)}", on_delivery=on_delivery)
    producer.flush(60)
    return taken


def _nats(url: str, target: str, rate: float, seconds: float) -> list[float]:
    async def send() -> list[float]:
        client = await nats.connect(url)
        stream, taken = client.jetstream(), []

        async def one() -> None:
            handed = time.monotonic()
            await stream.publish(target, _PAYLOAD)
            taken.append(time.monotonic() - handed)

        async with asyncio.TaskGroup() as group:
            for due in moments(rate, seconds):
                await asyncio.sleep(max(due - time.monotonic(), 0))
                group.create_task(one())
        await client.close()
        return taken

    return asyncio.run(send())


def _redis(url: str, target: str, rate: float, seconds: float) -> list[float]:
    taken = []
    with redis.Redis.from_url(url) as client:
        for due in moments(rate, seconds):
            time.sleep(max(due - time.monotonic(), 0))
            handed = time.monotonic()
            client.xadd(target, {"payload": _PAYLOAD})
            taken.append(time.monotonic() - handed)
    return taken


_SENDERS: dict[str, Callable[[str, str, float, float], list[float]]] = {"kafka": _kafka, "nats": _nats, "redis": _redis}
