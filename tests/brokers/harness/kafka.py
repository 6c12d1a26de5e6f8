"""A real Apache Kafka of the suite's own, which may be paused and restarted."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any, cast

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Message as KafkaMessage
from confluent_kafka.admin import AdminClient

from relay.brokers.kafka.publisher import KafkaPublisher
from relay.localservers.process import free_port
from tests.brokers.harness.base import Features, ServerHarness, StoredMessage
from tests.support.fixtures.kafka import create_topic
from tests.support.options import kafka_options
from tests.support.servers.kafka import KafkaServer
from tests.support.servers.tcp_proxy import TcpProxy
from tests.support.waiting import wait_until


class ProxiedKafka(KafkaServer):
    """A broker with a second listener, whose clients are sent through a proxy."""

    def __init__(self, proxy: TcpProxy) -> None:
        protocols = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT"}
        super().__init__(settings=protocols)
        self._proxy = proxy

    def _write_properties(self) -> Path:
        self._proxy.target = free_port()
        self._more_listeners = {"PROXIED": self._proxy.target}
        ways = {"PLAINTEXT": self.port, "PROXIED": self._proxy.port}
        self._settings["advertised.listeners"] = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ways.items())
        return super()._write_properties()


class KafkaHarness(ServerHarness):
    """Topics of one partition."""

    features = Features(
        receipts=True,
        hangs=True,
        stops=True,
        missing_destination="UNKNOWN_TOPIC_OR_PART",
        invalid_names=("", ".", "..", "a b", "ünï", "a/b", "a*", "x" * 250),
        too_large=2_000_000,
        runs=True,
    )

    def __init__(self, server: KafkaServer, proxy: TcpProxy) -> None:
        super().__init__(server, proxy)
        self._server = server

    def publisher(self, **options: Any) -> KafkaPublisher:
        return KafkaPublisher(kafka_options(**({"url": self.url} | options)))

    async def destination(self) -> str:
        def create() -> str:
            admin = AdminClient({"bootstrap.servers": self._server.url})
            return create_topic(admin, f"conformance.{uuid.uuid4().hex[:12]}")

        return await asyncio.to_thread(create)

    async def read(self, destination: str, count: int) -> list[StoredMessage]:
        return await asyncio.to_thread(self._read, destination, count)

    def _read(self, destination: str, count: int) -> list[StoredMessage]:
        settings = {"bootstrap.servers": self._server.url, "group.id": "none", "enable.auto.commit": False}
        consumer = Consumer(settings)
        consumer.assign([TopicPartition(destination, 0, 0)])
        messages: list[KafkaMessage] = []

        def enough() -> bool:
            messages.extend(message for message in consumer.consume(1000, timeout=0.1) if message.error() is None)
            return len(messages) >= count

        try:
            wait_until(enough, what=f"{count} messages of {destination}")
        finally:
            consumer.close()
        return [_message(message) for message in messages][:count]


def _message(message: KafkaMessage) -> StoredMessage:
    pairs = cast("list[tuple[str, bytes]]", message.headers() or [])
    headers = [(name, value.decode()) for name, value in pairs]
    identities = [value for name, value in headers if name.lower() == "x-event-id"]
    assert len(identities) == 1, "our header arrives once, in whatever case"
    value, key = message.value(), message.key()
    assert value is not None, "an empty payload is a value of no length, never a tombstone"
    return StoredMessage(
        identities[0],
        None if key is None else key.decode(),
        value,
        [(name, text) for name, text in headers if name != "X-Event-ID"],
    )
