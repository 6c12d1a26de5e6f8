"""What a role or a database sets by default ends no write and no read, and hides no row from one."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from relay.core.errors import SchemaError, StorageError
from relay.spark.connection import APPLICATION, transaction
from relay.spark.read.ranges import Range
from relay.spark.read.reader import TableReader
from relay.spark.read.snapshots import exported_snapshot
from relay.spark.source import OutboxDataSource
from relay.spark.statements import SparkStatements
from relay.spark.write.columns import ColumnKind, Columns
from relay.spark.write.tasks import Batches, Task
from relay.spark.write.write_options import Commit, WriteOptions
from relay.spark.write.writers import BatchWriter
from tests.spark.plain import save
from tests.spark.write.test_runs import Staging, waits_for_a_transaction
from tests.support.fixtures.outbox import Outbox
from tests.support.waiting import wait_until

COLUMNS = Columns(payload=0, payload_kind=ColumnKind.binary)
LIMITS = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "transaction_timeout"]


@pytest.fixture
def impatient(outbox: Outbox) -> Outbox:
    """The server ends each transaction and statement of a new connection after a second."""
    with outbox.database.connect() as connection:
        known = connection.execute("SELECT name FROM pg_settings WHERE name = ANY(%s)", [LIMITS]).fetchall()
        for (limit,) in known:
            connection.execute(f"ALTER DATABASE \"{connection.info.dbname}\" SET {limit} = '1s'".encode())
    return outbox


def outlast(outbox: Outbox) -> None:
    """Wait until Spark's transactions are older than the limits, or gone."""
    young = (
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s "
        "AND now() - xact_start < interval '1500 milliseconds'"
    )
    wait_until(lambda: not outbox.database.run(young, [APPLICATION]), what="more than the limits to pass")


def slowly(outbox: Outbox) -> Batches:
    """Rows that take Spark longer than the limits."""
    for letter in (b"a", b"b"):
        yield pa.RecordBatch.from_pydict({"payload": [letter * 200_000]})
        outlast(outbox)


@pytest.mark.parametrize(("commit", "batch_rows"), [("atomic", 10), ("partition", 10), ("partition", 1)])
def test_a_write_takes_longer_than_the_limits(impatient: Outbox, commit: str, batch_rows: int) -> None:
    options = WriteOptions(impatient.url, event_type="t", commit=Commit(commit), batch_rows=batch_rows)
    writer = BatchWriter(options, COLUMNS)
    statements = SparkStatements(options.table, options.staging_schema)
    writer.commit([Task(options, COLUMNS, statements, writer._run, 0, first=True).write(slowly(impatient))])
    assert len(impatient.rows("event_id")) == 2


@pytest.mark.parametrize("commit", ["atomic", "partition"])
def test_a_write_is_durable_where_the_default_is_not(outbox: Outbox, commit: str) -> None:
    """Spark takes it for committed, and would not come back to it after a crash of the server."""
    with outbox.database.connect() as connection:
        connection.execute(f'ALTER DATABASE "{connection.info.dbname}" SET synchronous_commit = off'.encode())
    outbox.database.run(
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN NEW.partition_key := current_setting('synchronous_commit'); RETURN NEW; END $$"
    )
    outbox.database.run("CREATE TRIGGER note BEFORE INSERT ON openoutbox_events FOR EACH ROW EXECUTE FUNCTION note()")
    save(pa.table({"event_type": ["t"], "payload": ["x"]}), url=outbox.url, commit=commit)
    assert outbox.rows("partition_key") == [("on",)]


def test_a_commit_waits_longer_than_the_limits(impatient: Outbox) -> None:
    staging = Staging(impatient)
    event_id = uuid.uuid4()
    staging.stage_ids([event_id])
    insert = "INSERT INTO openoutbox_events (event_id, event_type, payload) VALUES (%s, 't', 'x')"
    with impatient.database.connect(autocommit=True) as other, ThreadPoolExecutor(1) as pool, transaction(other):
        other.execute(insert, [event_id])
        commit = pool.submit(staging.commit, [1], 1)
        wait_until(lambda: waits_for_a_transaction(impatient), what="the commit to wait for the other transaction")
        outlast(impatient)
        other.execute("DELETE FROM openoutbox_events WHERE event_id = %s", [event_id])
    assert commit.result(60) == (1, 1)


def reader_of(outbox: Outbox, url: str, **options: str) -> TableReader:
    source = OutboxDataSource({"url": url, "columns": "event_id,payload", **options})
    return source.reader(source.schema())


def fill(outbox: Outbox) -> None:
    outbox.database.run(
        "INSERT INTO openoutbox_events (event_id, event_type, payload) "
        "SELECT gen_random_uuid(), 't', convert_to(repeat('x', 10000), 'UTF8') FROM generate_series(1, 2000)"
    )


def test_a_read_takes_longer_than_the_limits(impatient: Outbox) -> None:
    fill(impatient)
    with exported_snapshot(impatient.reader_url) as snapshot:
        outlast(impatient)
        reader = reader_of(impatient, impatient.reader_url, snapshot=snapshot)
        batches = reader.read(Range())
        count = next(batches).num_rows
        outlast(impatient)
        assert count + sum(batch.num_rows for batch in batches) == 2000


def test_a_read_refuses_what_a_policy_would_hide(outbox: Outbox) -> None:
    fill(outbox)
    outbox.database.run("CREATE POLICY mine ON openoutbox_events USING (partition_key = 'mine')")
    reader = reader_of(outbox, outbox.reader_url)
    shares = reader.partitions()
    outbox.database.run("ALTER TABLE openoutbox_events ENABLE ROW LEVEL SECURITY")
    with pytest.raises(StorageError, match="affected by row-level security"):
        list(reader.read(shares[0]))
    with pytest.raises(SchemaError, match="hides rows of openoutbox_events from this role; read as the table's owner"):
        reader.partitions()
    owner = reader_of(outbox, outbox.url)
    assert sum(batch.num_rows for share in owner.partitions() for batch in owner.read(share)) == 2000
