"""Real brokers as the chaos tests need them: behind a proxy that fails on purpose, and read back by event id."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, cast

import nats
import redis
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.aws import AwsAdmin
from tests.support.fixtures.kafka import create_topic
from tests.support.rabbitmq import RabbitAdmin
from tests.support.servers.aws import CREDENTIALS, publisher_url
from tests.support.servers.kafka import KafkaServer
from tests.support.servers.tcp_proxy import TcpProxy
from tests.support.servers.webhooks import WebhookServer
from tests.support.waiting import patience, wait_until

_TYPE = "PUBLISHER_TYPE"


class Broker(Protocol):
    """One broker behind ``proxy``, and one destination on it."""

    proxy: TcpProxy
    destination: str

    def env(self) -> dict[str, str]:
        """The variables of a relay that publishes to this destination."""

    def received(self) -> Counter[str]:
        """How often the broker has each event id."""


def routed(folder: Path, brokers: Mapping[str, Broker]) -> dict[str, str]:
    """The variables of a relay that publishes to several, each of which gets the events of its destination's name."""
    routes, destinations = folder / "routes.toml", folder / "destinations.toml"
    routes.write_text(
        "\n".join(f'[[route]]\ntype = "{one.destination}"\nvia = "{name}"\n' for name, one in brokers.items())
    )
    tables, env = [], {"ROUTES_FILE": str(routes), "DESTINATIONS_FILE": str(destinations)}
    for name, one in brokers.items():
        own = {"url" if key == "PUBLISHER_URL" else key.lower(): value for key, value in one.env().items()}
        env |= {key: value for key, value in one.env().items() if key in CREDENTIALS}
        lines = [f"{key} = {_toml(value)}" for key, value in own.items() if key.upper() not in (*CREDENTIALS, _TYPE)]
        tables.append("\n".join((f"[{name}]", *lines, "")))
    destinations.write_text("\n".join(tables))
    return env


def _toml(value: str) -> str:
    return value if value in ("true", "false") else json.dumps(value)


class Kafka:
    """A topic of an own Kafka that advertises the proxy's port."""

    def __init__(self, proxy: TcpProxy) -> None:
        self.proxy = proxy
        self._address = f"127.0.0.1:{proxy.port}"
        self.destination = create_topic(AdminClient({"bootstrap.servers": self._address}), f"chaos.{uuid.uuid4().hex}")

    def env(self) -> dict[str, str]:
        return {"PUBLISHER_TYPE": "kafka", "PUBLISHER_URL": self._address}

    def received(self) -> Counter[str]:
        return read_topic(self._address, self.destination)


class ProxiedKafka(KafkaServer):
    """A broker that sends its clients through a proxy."""

    def __init__(self, proxy: TcpProxy) -> None:
        super().__init__(settings={"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"})


class Nats:
    """A stream of a shared or own server, reached through a proxy; it keeps repeats, so that they can be counted."""

    def __init__(self, proxy: TcpProxy, url: str) -> None:
        self.proxy = proxy
        self._url = url
        self.destination = f"chaos{uuid.uuid4().hex}.event"
        asyncio.run(self._create())

    def env(self) -> dict[str, str]:
        return {"PUBLISHER_TYPE": "nats", "PUBLISHER_URL": f"nats://127.0.0.1:{self.proxy.port}"}

    def received(self) -> Counter[str]:
        return asyncio.run(self._read())

    async def _create(self) -> None:
        client = await nats.connect(self._url)
        name, subject = self.destination.partition(".")[0], self.destination
        await client.jetstream().add_stream(name=name, subjects=[subject], duplicate_window=0.1)
        await client.close()

    async def _read(self) -> Counter[str]:
        client = await nats.connect(self._url)
        stream = self.destination.partition(".")[0]
        jetstream = client.jetstream()
        counts: Counter[str] = Counter()
        total = (await jetstream.stream_info(stream)).state.messages
        subscription = await jetstream.subscribe(self.destination, stream=stream, ordered_consumer=True)
        while counts.total() < total:
            message = await subscription.next_msg(patience())
            counts[(message.headers or {})["Nats-Msg-Id"]] += 1
        await client.close()
        return counts


class Redis:
    """A stream of the shared Valkey, reached through a proxy."""

    def __init__(self, proxy: TcpProxy, url: str) -> None:
        self.proxy = proxy
        self._url = url
        self.destination = f"chaos.{uuid.uuid4().hex}"

    def env(self) -> dict[str, str]:
        return {"PUBLISHER_TYPE": "redis", "PUBLISHER_URL": f"redis://127.0.0.1:{self.proxy.port}/0"}

    def received(self) -> Counter[str]:
        with redis.Redis.from_url(self._url) as client:
            entries = cast("list[tuple[bytes, dict[bytes, bytes]]]", client.xrange(self.destination))
            return Counter(fields[b"id"].decode() for _, fields in entries)


class RabbitMQ:
    """A quorum queue of the shared node, reached through a proxy. Reading it takes its messages out."""

    def __init__(self, proxy: TcpProxy, url: str) -> None:
        self.proxy = proxy
        self._url = url
        self.destination = f"chaos.{uuid.uuid4().hex}"
        self._counts: Counter[str] = Counter()
        with RabbitAdmin(url) as admin:
            admin.declare(self.destination, {"x-queue-type": "quorum"})

    def env(self) -> dict[str, str]:
        login, _, _ = self._url.rpartition("@")
        return {"PUBLISHER_TYPE": "rabbitmq", "PUBLISHER_URL": f"{login}@127.0.0.1:{self.proxy.port}/"}

    def received(self) -> Counter[str]:
        with RabbitAdmin(self._url) as admin:
            self._counts.update(admin.drain(self.destination))
        return self._counts


class Webhooks:
    """The receiver of this process, reached through a proxy. By TLS, which tells a mute host from one that answers."""

    def __init__(self, proxy: TcpProxy, server: WebhookServer, authority: Path) -> None:
        self.proxy = proxy
        self._server = server
        self._authority = authority
        self.destination = f"chaos.{uuid.uuid4().hex}"

    def env(self) -> dict[str, str]:
        return {
            "PUBLISHER_TYPE": "http",
            "PUBLISHER_URL": f"https://127.0.0.1:{self.proxy.port}/hook",
            "HTTP_TLS_CA": str(self._authority),
            "HTTP_ALLOW_PRIVATE": "true",
        }

    def received(self) -> Counter[str]:
        return Counter(str(post.header("webhook-id")) for post in self._server.received(self.destination))


class Sqs:
    """A standard queue of the shared emulator, reached through a proxy. Reading it takes its messages out."""

    def __init__(self, proxy: TcpProxy, url: str) -> None:
        self.proxy = proxy
        self._admin = AwsAdmin(url)
        self.destination = f"chaos-{uuid.uuid4().hex}"
        self._counts: Counter[str] = Counter()
        self._admin.create_queue(self.destination)

    def env(self) -> dict[str, str]:
        url = publisher_url("sqs", f"http://127.0.0.1:{self.proxy.port}")
        return {"PUBLISHER_TYPE": "sqs", "PUBLISHER_URL": url, **CREDENTIALS}

    def received(self) -> Counter[str]:
        self._counts.update(message.attributes["X-Event-ID"] for message in self._admin.drain(self.destination))
        return self._counts


def read_topic(address: str, topic: str) -> Counter[str]:
    """How often a topic has each event id, by our header."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": uuid.uuid4().hex, "enable.auto.commit": False})
    counts: Counter[str] = Counter()
    try:
        partitions = consumer.list_topics(topic, timeout=patience()).topics[topic].partitions
        ends = [consumer.get_watermark_offsets(TopicPartition(topic, one), timeout=patience()) for one in partitions]
        total = sum(high - low for low, high in ends)
        consumer.assign([TopicPartition(topic, one, 0) for one in partitions])

        def complete() -> bool:
            for message in consumer.consume(1000, timeout=0.1):
                assert message.error() is None
                headers = cast("list[tuple[str, bytes]]", message.headers())
                counts[dict(headers)["X-Event-ID"].decode()] += 1
            return counts.total() >= total

        wait_until(complete, what=f"{total} messages of {topic}")
    finally:
        consumer.close()
    return counts
