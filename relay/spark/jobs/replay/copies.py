"""Inserts copies of events into the outbox, each once for a replay. Runs on the executors.

Each transaction has at most ``batch_rows`` events. It records the events in the replay's ledger, deletes the rows that
they replace, and inserts the copies: so a repeated task does not insert again what a killed one has inserted. A task
may be repeated, and run beside itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import pyarrow as pa

from relay.postgres.connect import SyncConnection
from relay.spark.connection import run_each, transaction
from relay.spark.statements import SparkStatements

NAMES: Final = ("event_id", "event_type", "partition_key", "payload", "headers", "created_at", "delivered_at")
"""The columns of an event that its copy needs."""

COUNTS: Final = "inserted long, recent long, waiting long"
"""Copies inserted; events left out since the broker would drop them; events that are PENDING or DELIVERING already."""

_LOCK_WAIT: Final = "60s"
_LONGEST_BATCH_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class Copying:
    """Inserts copies; travels to the executors."""

    url: str = field(repr=False)
    statements: SparkStatements
    replay_id: UUID
    batch_rows: int
    rate: float | None
    """Events a second of each task, at most."""
    duplicate_window: float

    def copy(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One task; a row of ``COUNTS`` for each batch. Raises StorageError and its subclasses.

        A database that restarts is waited for: the ledger knows the copies of an insert whose reply was lost.
        """
        yield from run_each(self.url, "inserting copies", self._paced(batches), self._insert)

    def _paced(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        due = 0.0
        for batch in batches:
            for part in self._parts(batch):
                time.sleep(max(due - time.monotonic(), 0.0))
                due = time.monotonic() + (0.0 if self.rate is None else part.num_rows / self.rate)
                yield part

    def _parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Pieces with a bounded number of rows and bytes (a row may be larger); with a rate, of one second's rows."""
        most = self.batch_rows if self.rate is None else min(self.batch_rows, max(int(self.rate), 1))
        most = max(1, min(most, _LONGEST_BATCH_BYTES * batch.num_rows // max(batch.nbytes, 1)))
        for start in range(0, batch.num_rows, most):
            yield batch.slice(start, most)

    def _insert(self, part: pa.RecordBatch, connection: SyncConnection) -> pa.RecordBatch:
        with transaction(connection, reads=True):
            self._execute(connection, "slots:lock_timeout", {"wait": _LOCK_WAIT})
            counts = self._insert_new(connection, part.to_pydict())
        return pa.RecordBatch.from_pydict({name: pa.array([count], pa.int64()) for name, count in counts.items()})

    def _insert_new(self, connection: SyncConnection, rows: dict[str, list[Any]]) -> dict[str, int]:
        values = {"replay_id": self.replay_id, "window": self.duplicate_window, "ids": rows["event_id"]}
        known = self._execute(connection, "replay:known_replayed", values)
        new = self._execute(connection, "replay:claim_replayed", {**values, "times": rows["delivered_at"]})
        inserted: list[str] = []
        if new:
            self._execute(connection, "replay:replace_replayed", {**values, "ids": new})
            copies = {
                "new": new,
                "types": rows["event_type"],
                "keys": rows["partition_key"],
                "payloads": rows["payload"],
                "headers": rows["headers"],
                "created": rows["created_at"],
            }
            inserted = self._execute(connection, "replay:insert_replayed", {**values, **copies})
            if len(inserted) < len(new):
                self._execute(connection, "replay:unclaim_replayed", {**values, "ids": sorted({*new} - {*inserted})})
        recent = len({*rows["event_id"]} - {*known} - {*new})
        return {"inserted": len(inserted), "recent": recent, "waiting": len(new) - len(inserted)}

    def _execute(self, connection: SyncConnection, name: str, values: dict[str, Any]) -> list[str]:
        """The first column of the statement's rows, if it has any."""
        cursor = connection.execute(self.statements.query(name), values)
        return [row[0] for row in cursor.fetchall()] if cursor.description else []
