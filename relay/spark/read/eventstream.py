"""The event store as a stream, by position over all tenants.

An offset is a position: every event up to it was delivered. A micro-batch reads from the last one to the horizon, or
over ``maxEventsPerTrigger`` events if those are fewer; Spark remembers both ends in the checkpoint before it reads, and
reads between the same ends again after a restart. So every committed event is in exactly one micro-batch, however
late its transaction committed, and a sink that is idempotent by micro-batch gets it exactly once.

This is the stream as Spark 4.1 knows it; ``relay.spark.read.boundedstream`` adds what came with 4.2.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import psycopg
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from relay.core.errors import StorageUnavailable
from relay.postgres.connect import SyncConnection
from relay.postgres.errors import classify
from relay.spark.read.events import Events, shares

POSITION: Final = "position"
_TRIES: Final = 5

Offset = dict[str, Any]


class EventStream(DataSourceStreamReader):
    """A stream, as Spark 4.1 asks for it: a micro-batch takes all there is."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self._connection: SyncConnection | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Where a stream begins that has no checkpoint yet."""
        start = self.events.options.start
        return {POSITION: self.horizon() if start is None else start}

    def latestOffset(self) -> Offset:  # type: ignore[override]  # noqa: N802 - Spark's name, and 4.1's signature
        """How far may be read now."""
        return {POSITION: max(self.horizon(), self.events.options.start or 0)}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """The tasks' shares of a micro-batch."""
        return list(shares(start[POSITION], end[POSITION], self.events.options.partitions))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """On an executor: one share."""
        return self.events.read(partition)

    def stop(self) -> None:
        """When the stream ends."""
        self._disconnect()

    def horizon(self) -> int:
        """How far may be read now. Raises StorageUnavailable when the database stays away for some time."""
        return self.asked(self.events.horizon)

    def asked(self, ask: Callable[[SyncConnection], int]) -> int:
        """The answer of one connection, which is opened again after it was lost: Spark asks many times a second."""
        for tries in range(1, _TRIES):
            try:
                return self._ask(ask)
            except StorageUnavailable:
                self._disconnect()
                time.sleep(tries)
        return self._ask(ask)

    def _ask(self, ask: Callable[[SyncConnection], int]) -> int:
        try:
            if self._connection is None:
                self._connection = self.events.connect()
                self.events.check(self._connection)
            return ask(self._connection)
        except psycopg.Error as error:
            raise classify(error, "looking for new events") from error

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None
