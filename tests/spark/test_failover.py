"""A database that restarts, or whose standby is promoted, in the middle of a write, a read and a deletion.

Without Spark: what Spark does to a task that fails, another attempt, the tests do.
"""

from __future__ import annotations

import hashlib
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import psycopg
import pyarrow as pa
import pytest
from psycopg import OperationalError

from relay.core.errors import StorageBusy, StorageUnavailable
from relay.localservers.postgres import PostgresServer
from relay.postgres.sql import TableName
from relay.spark.connection import Wait, connect
from relay.spark.jobs.archive.delete import Removal
from relay.spark.jobs.archive.lock import ArchiveLock
from relay.spark.read.fields import OUTBOX, schema_of
from relay.spark.read.reader import TableReader
from relay.spark.source import OutboxDataSource
from relay.spark.statements import SparkStatements
from relay.spark.write.columns import ColumnKind, Columns
from relay.spark.write.tasks import Batches, Task, Written
from relay.spark.write.write_options import Commit, WriteOptions
from relay.spark.write.writers import BatchWriter
from tests.support.fixtures.outbox import Outbox
from tests.support.fixtures.postgres import create_database
from tests.support.servers.standby import StandbyServer
from tests.support.waiting import wait_until

T = TypeVar("T")
STATEMENTS = SparkStatements(TableName(), "openoutbox_spark")
ROWS = 200


@pytest.fixture
def own_outbox(own_postgres: PostgresServer) -> Outbox:
    """An outbox on a server of its own."""
    return Outbox.create(create_database(own_postgres.url))


def batches(between: Callable[[], object] = list) -> Batches:
    """The partition's rows, too many to be carried to the driver; ``between`` is called in the middle."""
    bodies = [str(number).ljust(1000) for number in range(ROWS)]
    yield pa.RecordBatch.from_pydict({"payload": bodies[: ROWS // 2]})
    between()
    yield pa.RecordBatch.from_pydict({"payload": bodies[ROWS // 2 :]})


class Write:
    """A ``save()`` with one partition."""

    def __init__(self, url: str, commit: Commit) -> None:
        options = WriteOptions(url, event_type="t", commit=commit)
        columns = Columns(payload=0, payload_kind=ColumnKind.text)
        self.writer = BatchWriter(options, columns)
        self._task = Task(options, columns, STATEMENTS, self.writer._run, 0, first=True)

    def attempt(self, between: Callable[[], object] = list) -> Written:
        """One attempt of its task."""
        return self._task.write(batches(between))


def reader(url: str) -> TableReader:
    """A read of the whole outbox."""
    return OutboxDataSource({"url": url}).reader(schema_of(OUTBOX))


def count(read: TableReader) -> int:
    """Plan and read it."""
    return sum(batch.num_rows for share in read.partitions() for batch in read.read(share))


def archived(outbox: Outbox) -> list[pa.RecordBatch]:
    """Delivered rows as ``Removal`` gets them from an archive's files, in two batches."""
    outbox.database.run("UPDATE openoutbox_events SET status = 'DELIVERED', delivered_at = now()")
    stored = outbox.rows("event_id::text, updated_at, payload, event_type, headers::text")
    rows = [
        (event_id, changed, hashlib.sha256(hashlib.sha256(body).digest() + f"{type_}\n\n{headers}".encode()).digest())
        for event_id, changed, body, type_, headers in stored
    ]
    halves = (rows[: len(rows) // 2], rows[len(rows) // 2 :])
    return [
        pa.RecordBatch.from_arrays(
            [pa.array(column) for column in zip(*half, strict=True)], ["event_id", "updated_at", "digest"]
        )
        for half in halves
    ]


def while_down(caplog: pytest.LogCaptureFixture, work: Callable[[], T], start: Callable[[], object]) -> T:
    """Do ``work`` while no server is up; ``start`` one when it waits."""
    caplog.clear()
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(work)
        wait_until(lambda: result.done() or "waiting for the database" in caplog.text, what="waiting")
        start()
        return result.result(60)


def test_a_restart_in_the_middle_of_a_write_its_commit_and_a_read(
    own_postgres: PostgresServer, own_outbox: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    write = Write(own_outbox.url, Commit.ATOMIC)
    with pytest.raises(StorageUnavailable):
        write.attempt(own_postgres.stop)
    written = while_down(caplog, write.attempt, own_postgres.start)
    own_postgres.stop()
    while_down(caplog, lambda: write.writer.commit([written]), own_postgres.start)
    assert len(own_outbox.rows("event_id")) == ROWS
    own_outbox.fill("more", 20_000)  # more than fits into the socket's buffers
    read = reader(own_outbox.url)
    (share, *_) = read.partitions()

    def read_and_stop() -> None:
        for _ in read.read(share):
            own_postgres.stop()

    with pytest.raises(StorageUnavailable):
        read_and_stop()
    assert while_down(caplog, lambda: count(reader(own_outbox.url)), own_postgres.start) == ROWS + 20_000


def test_a_restart_in_the_middle_of_a_deletion_and_of_an_archiving_without_it(
    own_postgres: PostgresServer, own_outbox: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    own_outbox.fill("t", ROWS)
    own_outbox.database.run("UPDATE openoutbox_events SET partition_key = NULL")
    removal = Removal(own_outbox.url, STATEMENTS, 50, 1).remove(archived(own_outbox))
    lock = ArchiveLock(own_outbox.url, STATEMENTS)
    assert lock.still_held()
    assert next(removal).num_rows == 0
    own_postgres.stop()
    left = while_down(caplog, lambda: [batch.num_rows for batch in removal], own_postgres.start)
    assert (left, own_outbox.rows("event_id")) == ([0, 0, 0], [])
    assert not lock.still_held()  # it was lost, and is held again
    assert lock.still_held()
    own_postgres.stop()
    own_postgres.start()
    other = ArchiveLock(own_outbox.url, STATEMENTS)
    with pytest.raises(StorageBusy, match="is being archived by another run"):
        lock.still_held()
    other.close()


@pytest.fixture
def standby(own_postgres: PostgresServer, own_outbox: Outbox) -> Iterator[StandbyServer]:
    """It confirms every commit of the outbox's server."""
    with StandbyServer(own_postgres) as server:
        server.follow_synchronously()
        yield server


def test_a_standby_that_is_promoted_in_the_middle_of_a_write_a_read_and_a_deletion(
    own_postgres: PostgresServer, own_outbox: Outbox, standby: StandbyServer, caplog: pytest.LogCaptureFixture
) -> None:
    hosts = f"127.0.0.1:{own_postgres.port},127.0.0.1:{standby.port}"
    url = f"postgresql://postgres@{hosts}/{own_outbox.database.name}"
    own_outbox.fill("old", ROWS)
    own_outbox.database.run("UPDATE openoutbox_events SET partition_key = NULL")
    removal = Removal(url, STATEMENTS, ROWS, 1).remove(archived(own_outbox))
    assert next(removal).num_rows == 0
    write = Write(url, Commit.PARTITION)
    with pytest.raises(StorageUnavailable):
        write.attempt(lambda: own_postgres.stop(signal.SIGQUIT))
    with ThreadPoolExecutor(3) as pool:
        written, read = pool.submit(write.attempt), pool.submit(reader(url).partitions)
        left = pool.submit(lambda: [batch.num_rows for batch in removal])
        wait_until(lambda: caplog.text.count("waiting for the database") >= 3, what="all three to wait")
        standby.promote()
        write.writer.commit([written.result(60)])
        assert left.result(60) == [0]
        assert read.result(60)
    assert count(reader(url)) == ROWS


@pytest.mark.parametrize(
    ("message", "waits"),
    [
        ("connection failed: connection to server failed: Connection refused", True),
        ("FATAL:  the database system is starting up", True),
        ("FATAL:  sorry, too many clients already", True),
        ("connection failed: session is read-only", True),
        ("connection timeout expired", True),
        ('FATAL:  password authentication failed for user "u"', False),
        ('Connection refused; on the other host: FATAL:  database "d" does not exist', False),
        ("failed to resolve host 'nowhere'", False),
    ],
)
def test_which_servers_are_waited_for(monkeypatch: pytest.MonkeyPatch, message: str, waits: bool) -> None:
    def fail(*_: object) -> None:
        raise OperationalError(message)

    paused: list[float] = []
    monkeypatch.setattr("relay.postgres.connect.connect", fail)
    monkeypatch.setattr("relay.spark.connection.time.sleep", paused.append)
    with pytest.raises(StorageUnavailable, match="connecting to the database"):
        connect("postgresql://u@h/d", wait=Wait(0.001))
    assert bool(paused) == waits


def test_a_connection_that_writes_is_not_to_a_standby(own_postgres: PostgresServer) -> None:
    with psycopg.connect(own_postgres.url, autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        admin.execute("SELECT pg_reload_conf()")
    with pytest.raises(StorageUnavailable, match="read-only"):
        connect(own_postgres.url, writes=True, wait=Wait(0))
    connect(own_postgres.url).close()
