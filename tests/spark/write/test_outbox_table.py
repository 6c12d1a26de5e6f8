"""Tables on which rows would be written twice, or skipped without a word: refused before a row is written."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from relay.core.errors import SchemaError, StorageError
from relay.spark.statements import SparkStatements
from relay.spark.write.columns import ColumnKind, Columns
from relay.spark.write.tasks import Task
from relay.spark.write.write_options import Commit, WriteOptions
from relay.spark.write.writers import BatchWriter
from tests.spark.ledger import runs
from tests.support.fixtures.outbox import Outbox

COLUMNS = Columns(payload=0, payload_kind=ColumnKind.text)


def writer(outbox: Outbox, commit: Commit = Commit.ATOMIC) -> tuple[BatchWriter, Task]:
    """The writer of a ``save()``, and its one task."""
    options = WriteOptions(outbox.url, event_type="t", commit=commit)
    batch = BatchWriter(options, COLUMNS)
    statements = SparkStatements(options.table, options.staging_schema)
    return batch, Task(options, COLUMNS, statements, batch._run, 0, first=True)


def rows(count: int) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"payload": [str(number) for number in range(count)]})


@pytest.mark.parametrize(
    "key",
    [
        "ADD COLUMN number INT",
        "ADD UNIQUE (event_id, event_type)",
        "ADD UNIQUE (event_id) DEFERRABLE",
    ],
)
def test_without_a_key_that_finds_repeated_rows(outbox: Outbox, key: str) -> None:
    outbox.database.run("ALTER TABLE openoutbox_events DROP CONSTRAINT openoutbox_events_pkey")
    outbox.database.run(f"ALTER TABLE openoutbox_events {key}")
    with pytest.raises(SchemaError, match="ADD PRIMARY KEY"):
        writer(outbox)


@pytest.mark.parametrize(
    "index",
    [
        "CREATE UNIQUE INDEX other ON openoutbox_events (event_type, partition_key)",
        "CREATE UNIQUE INDEX other ON openoutbox_events (partition_key) INCLUDE (event_id)",
        "CREATE UNIQUE INDEX other ON openoutbox_events ((event_id::text || event_type))",
        "ALTER TABLE openoutbox_events ADD CONSTRAINT other EXCLUDE (partition_key WITH =)",
    ],
)
def test_with_an_index_that_refuses_events_of_new_ids(outbox: Outbox, index: str) -> None:
    outbox.database.run(index)
    with pytest.raises(SchemaError, match="has the index other, which may refuse"):
        writer(outbox)


def test_an_index_that_refuses_no_other_rows_is_no_obstacle(outbox: Outbox) -> None:
    outbox.database.run("CREATE UNIQUE INDEX other ON openoutbox_events (event_type, event_id)")
    batch, task = writer(outbox)
    batch.commit([task.write(rows(10))])
    assert runs(outbox) == [("committed", 10, 10)]


def test_a_trigger_that_drops_rows_is_named(outbox: Outbox) -> None:
    outbox.database.run(
        "CREATE FUNCTION drop_it() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RETURN CASE WHEN NEW.payload = '7' THEN NULL ELSE NEW END; END $$"
    )
    outbox.database.run(
        "CREATE TRIGGER dropping BEFORE INSERT ON openoutbox_events FOR EACH ROW EXECUTE FUNCTION drop_it()"
    )
    batch, task = writer(outbox)
    with pytest.raises(StorageError, match="10 rows were staged and 9 inserted; a trigger"):
        batch.commit([task.write(rows(10))])
    assert outbox.rows("event_id") == []
    batch, task = writer(outbox, Commit.PARTITION)
    batch.commit([task.write(rows(10))])
    assert runs(outbox)[1:] == [("committed", 10, 9)]
