"""The real servers of a benchmark, and a fresh table for each cell."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import psycopg
from psycopg import sql

from benchmarks.destinations import BROKERS, Destinations
from benchmarks.process import cpu_seconds
from relay.localservers.postgres import PostgresServer
from relay.outbox.migrate import migrate
from relay.postgres.sql import TableName

SETTINGS = {"shared_buffers": "512MB", "max_wal_size": "4GB", "synchronous_commit": "on"}


class Servers:
    """PostgreSQL with fsync on, and the requested brokers."""

    def __init__(self, publishers: Sequence[str], settings: Mapping[str, str] | None = None) -> None:
        """``settings`` are PostgreSQL's, beside those of all benchmarks."""
        self._publishers = publishers
        self._settings = SETTINGS | dict(settings or {})
        self._stack = ExitStack()
        self.brokers: dict[str, Destinations] = {}
        """By PUBLISHER_TYPE; the null publisher has none."""

    def __enter__(self) -> Self:
        self._postgres = self._stack.enter_context(PostgresServer(durable=True, settings=self._settings))
        for name in dict.fromkeys(self._publishers):
            if name in BROKERS:
                self.brokers[name] = BROKERS[name](self._stack)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stack.close()

    @property
    def postgres(self) -> PostgresServer:
        """The database server."""
        return self._postgres

    def postgres_cpu(self) -> float:
        """CPU seconds of all PostgreSQL processes so far."""
        return cpu_seconds(self._postgres.pid)

    def url(self, publisher: str) -> str:
        """The PUBLISHER_URL."""
        return self.brokers[publisher].url if publisher in self.brokers else ""

    def fresh_table(self) -> str:
        """The URL of a new database with an empty outbox."""
        name = f"bench_{uuid.uuid4().hex[:10]}"
        with psycopg.connect(self._postgres.url, autocommit=True) as admin:
            admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        url = self._postgres.database_url(name)
        migrate(url, TableName())
        return url

    def drop_table(self, url: str) -> None:
        """Drop the database of ``fresh_table``."""
        with psycopg.connect(self._postgres.url, autocommit=True) as admin:
            name = url.rpartition("/")[2]
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
