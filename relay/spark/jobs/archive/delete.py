"""Deletes archived rows from the outbox. Runs on the executors, over the rows that were read back from the files.

Each transaction deletes ``batch_rows`` rows by primary key. A row is deleted only if it still is the archived one: the
database compares ``updated_at`` and a digest of the contents, which Spark computes from the file. A row that differs
(it was replayed meanwhile) stays, and its id is returned. A task may be repeated, and run beside itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from relay.postgres.connect import SyncConnection
from relay.spark.connection import run_each, transaction
from relay.spark.statements import SparkStatements

_LOCK_WAIT = "60s"


@dataclass(frozen=True, slots=True)
class Removal:
    """How rows are deleted; travels to the executors."""

    url: str = field(repr=False)
    statements: SparkStatements
    batch_rows: int
    connections: int

    def remaining(self, archived: DataFrame) -> DataFrame:
        """Delete when it is evaluated; the ``event_id`` of every row that is in the table afterwards.

        At most ``connections`` tasks delete, each over one connection.
        """
        rows = archived.select("event_id", "updated_at", _digest().alias("digest"))
        return rows.coalesce(self.connections).mapInArrow(self.remove, "event_id string")

    def remove(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One task. Raises StorageError and its subclasses.

        A database that restarts is waited for: a deletion that is repeated finds its rows gone.
        """
        starts = ((batch, start) for batch in batches for start in range(0, batch.num_rows, self.batch_rows))
        parts = (batch.slice(start, self.batch_rows) for batch, start in starts)
        yield from run_each(self.url, "deleting archived rows", parts, self._remove)

    def _remove(self, batch: pa.RecordBatch, connection: SyncConnection) -> pa.RecordBatch:
        ids = batch.column("event_id").to_pylist()
        values = {
            "ids": ids,
            "changes": batch.column("updated_at").to_pylist(),
            "digests": batch.column("digest").to_pylist(),
        }
        left: list[str] = []
        with transaction(connection, reads=True):
            connection.execute(self.statements.query("slots:lock_timeout"), {"wait": _LOCK_WAIT})
            deleted = connection.execute(self.statements.query("archive:remove_archived"), values).fetchall()
            if deleted != [(len(ids),)]:
                rows = connection.execute(self.statements.query("archive:archived_left"), {"ids": ids}).fetchall()
                left = [event_id for (event_id,) in rows]
        return pa.RecordBatch.from_pydict({"event_id": pa.array(left, pa.string())})


def _digest() -> Column:
    """The digest that the statement ``remove_archived`` computes of a row."""
    described = f.concat(
        f.col("event_type"),
        f.lit("\n"),
        f.coalesce(f.concat(f.lit("="), f.col("partition_key")), f.lit("")),
        f.lit("\n"),
        f.col("headers"),
    )
    body = f.unhex(f.sha2(f.col("payload"), 256))
    return f.unhex(f.sha2(f.concat(body, f.encode(described, "UTF-8")), 256))
