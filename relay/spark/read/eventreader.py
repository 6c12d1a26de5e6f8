"""A batch of the event store's events: from one position to another, or to the end at the planning of the query."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from relay.core.checkpoint import Checkpoint
from relay.postgres.errors import translating
from relay.spark.connection import Wait, persist, transaction
from relay.spark.read.events import Events, Share, shares


class EventReader(DataSourceReader):
    """Plans on the driver, is pickled, and reads in tasks."""

    def __init__(self, events: Events) -> None:
        self._events = events

    def partitions(self) -> list[InputPartition]:
        """On the driver: the tasks' shares. Raises ConfigError and SchemaError for an unreadable store."""
        options = self._events.options
        with translating("planning to read events"):
            horizon = persist(self._horizon, options.max_wait)
        end = horizon if options.end is None else min(options.end, horizon)
        start = end if options.start is None else options.start
        return list(shares(start, end, options.partitions)) or [Share(end, end)]

    def _horizon(self, wait: Wait) -> int:
        with self._events.connect(wait) as connection, transaction(connection, reads=True):
            self._events.check(connection)
            self._events.question(connection, Checkpoint(self._events.options.start or 0))
            return self._events.horizon(connection)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """On an executor: one share."""
        return self._events.read(partition)
