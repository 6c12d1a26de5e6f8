"""The real servers of a benchmark, and a fresh table for each cell."""

from __future__ import annotations

import signal
import sys
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import FrameType, TracebackType
from typing import NoReturn, Self

import psycopg
from psycopg import sql

from benchmarks.destinations import BROKERS, Destinations
from benchmarks.process import cpu_seconds
from relay.localservers.postgres import DEFAULT_BUILD, PostgresServer
from relay.outbox.migrate import migrate
from relay.postgres.sql import TableName

SETTINGS = {"shared_buffers": "512MB", "max_wal_size": "4GB", "synchronous_commit": "on"}
_DROP_SLOTS = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s"
_WAL = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    """End the benchmark in good order, as Ctrl-C does: its servers and relays would run on."""
    sys.exit(128 + signal.SIGTERM)


class Servers:
    """PostgreSQL with fsync on, and the requested brokers."""

    def __init__(
        self, publishers: Sequence[str], settings: Mapping[str, str] | None = None, *, build: str = DEFAULT_BUILD
    ) -> None:
        """``settings`` are PostgreSQL's, beside those of all benchmarks; ``build`` brings its binaries."""
        self._build = build
        self._publishers = publishers
        self._settings = SETTINGS | dict(settings or {})
        self._stack = ExitStack()
        self.brokers: dict[str, Destinations] = {}
        """By PUBLISHER_TYPE; the null publisher has none."""

    def __enter__(self) -> Self:
        signal.signal(signal.SIGTERM, _end)
        self._postgres = self._stack.enter_context(
            PostgresServer(build=self._build, durable=True, settings=self._settings)
        )
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

    def broker_cpu(self, publisher: str) -> float | None:
        """CPU seconds of the broker's process so far; None where there is no broker."""
        return cpu_seconds(self.brokers[publisher].pid) if publisher in self.brokers else None

    def postgres_wal(self) -> int:
        """Bytes of write-ahead log so far."""
        with psycopg.connect(self._postgres.url) as admin:
            (written,) = admin.execute(_WAL).fetchone() or (0,)
            return int(written)

    def url(self, publisher: str) -> str:
        """The PUBLISHER_URL."""
        return self.brokers[publisher].url if publisher in self.brokers else ""

    def fresh_database(self) -> str:
        """The URL of a new, empty database."""
        name = f"bench_{uuid.uuid4().hex[:10]}"
        with psycopg.connect(self._postgres.url, autocommit=True) as admin:
            admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self._postgres.database_url(name)

    def fresh_table(self) -> str:
        """The URL of a new database with an empty outbox."""
        url = self.fresh_database()
        migrate(url, TableName())
        return url

    def drop_table(self, url: str) -> None:
        """Drop the database of ``fresh_table`` or ``fresh_database``, and replication slots that read from it."""
        with psycopg.connect(self._postgres.url, autocommit=True) as admin:
            name = url.rpartition("/")[2]
            admin.execute(_DROP_SLOTS, (name,))
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
