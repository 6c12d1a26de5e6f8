"""The real servers of a benchmark, and a fresh table and destination for each cell."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import nats
import psycopg
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from psycopg import sql

from relay.core.sqltext import load_sql
from relay.demo.postgres import PostgresServer
from tests.services.kafka import KafkaServer
from tests.services.nats import NatsServer

_PARTITIONS = 6


class Servers:
    """PostgreSQL with fsync on, and the brokers that are asked for."""

    def __init__(self, publishers: Sequence[str]) -> None:
        self._publishers = publishers
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        settings = {"shared_buffers": "512MB", "max_wal_size": "4GB", "synchronous_commit": "on"}
        self._postgres = self._stack.enter_context(PostgresServer(durable=True, settings=settings))
        if "kafka" in self._publishers:
            self._kafka = self._stack.enter_context(KafkaServer())
        if "nats" in self._publishers:
            self._nats = self._stack.enter_context(NatsServer())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stack.close()

    def url(self, publisher: str) -> str:
        """The PUBLISHER_URL."""
        return {"kafka": lambda: self._kafka.url, "nats": lambda: self._nats.url}.get(publisher, lambda: "")()

    def fresh_table(self) -> str:
        """The URL of a new database with an empty outbox."""
        name = f"bench_{uuid.uuid4().hex[:10]}"
        with psycopg.connect(self._postgres.url, autocommit=True) as admin:
            admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        url = self._postgres.database_url(name)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(load_sql("outbox/schema.sql").encode())
        return url

    def drop_table(self, url: str) -> None:
        """Drop the database of ``fresh_table``."""
        with psycopg.connect(self._postgres.url, autocommit=True) as admin:
            name = url.rpartition("/")[2]
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def prepare(self, publisher: str, target: str) -> None:
        """Make the topic or stream called ``target``."""
        if publisher == "kafka":
            admin = AdminClient({"bootstrap.servers": self._kafka.url})
            admin.create_topics([NewTopic(target, num_partitions=_PARTITIONS)])[target].result(30)
        if publisher == "nats":
            asyncio.run(self._make_stream(target))

    async def _make_stream(self, target: str) -> None:
        client = await nats.connect(self._nats.url)
        await client.jetstream().add_stream(name=target, subjects=[target])
        await client.close()

    def messages(self, publisher: str, target: str) -> int | None:
        """How many messages the destination holds; None where there is none to ask."""
        if publisher == "kafka":
            return self._kafka_messages(target)
        return asyncio.run(self._stream_messages(target)) if publisher == "nats" else None

    def _kafka_messages(self, target: str) -> int:
        consumer = Consumer({"bootstrap.servers": self._kafka.url, "group.id": "benchmark"})
        try:
            marks = [consumer.get_watermark_offsets(TopicPartition(target, n), timeout=10) for n in range(_PARTITIONS)]
            return sum(high - low for low, high in marks)
        finally:
            consumer.close()

    async def _stream_messages(self, target: str) -> int:
        client = await nats.connect(self._nats.url)
        try:
            return int((await client.jetstream().stream_info(target)).state.messages)
        finally:
            await client.close()
