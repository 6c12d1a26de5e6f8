"""The event store as a stream, by position over all tenants.

An offset is a position, and the event that stands there: every event up to it was delivered, and a store that went back
does not have it any more (``PositionsWentBack``). A micro-batch reads from the last offset to the horizon, or
``maxEventsPerTrigger`` events if those are fewer. Spark writes both ends to the checkpoint before it reads, and reads
between the same ends again after a restart. So every committed event is in exactly one micro-batch, however late its
transaction committed, and a sink that is idempotent by micro-batch gets it exactly once.

This stream has the interface of Spark 4.1; ``relay.spark.read.boundedstream`` adds that of 4.2.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, TypeVar

import psycopg
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from relay.core.checkpoint import Checkpoint
from relay.core.errors import StorageUnavailable
from relay.postgres.connect import SyncConnection
from relay.postgres.errors import translating
from relay.spark.connection import Wait, persist, transaction
from relay.spark.read.events import Events, shares

T = TypeVar("T")

POSITION: Final = "position"
_LAST_READ: Final = "lastRead"
_POLL_INTERVAL: Final = 0.05  # seconds

Offset = dict[str, Any]


class EventStream(DataSourceStreamReader):
    """A stream with the interface of Spark 4.1: a micro-batch reads up to the horizon."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self._connection: SyncConnection | None = None
        self._latest: Offset | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """The start of a stream without a checkpoint."""
        start = self.events.options.start
        if start is None:
            return self.offset(self.horizon())
        self.check_offset({POSITION: start})
        return {POSITION: start}

    def latestOffset(self) -> Offset:  # type: ignore[override]  # noqa: N802 - Spark's name, and 4.1's signature
        """The last event that may be read now. Never before an earlier answer, unless the store went back."""
        if self._latest is None:
            self._settle()
        latest = self.offset(self.horizon())
        if self._latest is not None and latest[POSITION] <= self._latest[POSITION]:
            self.check_offset(self._latest)
            return self._latest
        start = self.events.options.start or 0
        self._latest = latest if latest[POSITION] > start else {POSITION: start}
        return self._latest

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """The tasks' shares of a micro-batch. Raises PositionsWentBack."""
        self.check_offset(start)
        return list(shares(start[POSITION], end[POSITION], self.events.options.partitions))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """On an executor: one share."""
        return self.events.read(partition)

    def stop(self) -> None:
        """Close the connection, at the end of the stream or after a loss."""
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def horizon(self) -> int:
        """The position up to which may be read now. Raises StorageUnavailable after ``maxWait``."""
        return self.query(self.events.horizon)

    def offset(self, position: int) -> Offset:
        """The offset of the last event up to a position."""
        checkpoint = self.query(lambda connection: self.events.reached(connection, position))
        return {POSITION: checkpoint.position, _LAST_READ: str(checkpoint)}

    def check_offset(self, offset: Offset) -> None:
        """Raises PositionsWentBack when the event at an offset is another one. An older offset is a position alone."""
        checkpoint = Checkpoint.parse(str(offset.get(_LAST_READ, offset[POSITION])))
        self.query(lambda connection: self.events.check_position(connection, checkpoint))

    def query(self, work: Callable[[SyncConnection], T]) -> T:
        """Call ``work`` with one open connection, reopened after it was lost: Spark calls many times a second."""
        with translating("reading the horizon"):
            return persist(lambda wait: self._query(work, wait), self.events.options.max_wait)

    def _settle(self) -> None:
        """Wait for the transactions in flight: one of them may hold the horizon before what this stream has read.

        Spark 4.1 does not say where its checkpoint ends. Raises StorageUnavailable after ``maxWait``.
        """
        newest = self.query(self.events.newest)
        deadline = time.monotonic() + self.events.options.max_wait
        while (horizon := self.horizon()) < newest:
            if time.monotonic() > deadline:
                raise StorageUnavailable(f"a transaction has held the store at position {horizon}; end it")
            time.sleep(_POLL_INTERVAL)

    def _query(self, work: Callable[[SyncConnection], T], wait: Wait) -> T:
        try:
            if self._connection is None:
                self._connection = self.events.connect(wait)
                self.events.check(self._connection)
            with transaction(self._connection, reads=True):
                return work(self._connection)
        except psycopg.Error:
            self.stop()
            raise
