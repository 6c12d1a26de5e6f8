"""``format("openoutbox_eventstore")``: the event store for Spark, as a batch and as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from relay.core.checkpoint import Checkpoint
from relay.core.errors import ConfigError
from relay.postgres.errors import translating
from relay.spark.connection import Wait, persist, transaction
from relay.spark.read.events import Events, Share, shares
from relay.spark.read.eventstream import EventStream
from relay.spark.read.fields import EVENTS, fields_of, schema_of
from relay.spark.read.read_options import event_options

_SINCE_4_2: Final = "pyspark.sql.streaming.datasource"


class EventReader(DataSourceReader):
    """A batch: from one position to another, or to the end at the planning of the query.

    Plans on the driver, is pickled, and reads in tasks.
    """

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
            self._events.check_position(connection, Checkpoint(self._events.options.start or 0))
            return self._events.horizon(connection)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """On an executor: one share."""
        return self._events.read(partition)


class EventStoreDataSource(DataSource):
    """Reads the events of all tenants by their positions."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format(…)``."""
        return "openoutbox_eventstore"

    def schema(self) -> StructType:
        """The schema of a read without a user's schema. Raises ConfigError, which names option or column."""
        return schema_of(fields_of(event_options(self.options).columns, EVENTS))

    def reader(self, schema: StructType) -> EventReader:
        """The reader of one query. Raises ConfigError, which names option or column."""
        options = event_options(self.options)
        if options.most_events is not None:
            raise ConfigError("option maxEventsPerTrigger: is for streams only; a batch reads from start to end")
        return EventReader(Events.of(options, schema))

    def streamReader(self, schema: StructType) -> EventStream:  # noqa: N802 - Spark's name
        """The reader of one stream. Raises ConfigError, which names option or column."""
        options = event_options(self.options)
        if options.end is not None:
            raise ConfigError("option end: is for batches only; a stream has no end")
        events = Events.of(options, schema)
        if find_spec(_SINCE_4_2) is not None:
            from relay.spark.read.boundedstream import BoundedEventStream  # noqa: PLC0415 - Spark 4.1 lacks its base

            return BoundedEventStream(events)
        if options.most_events is not None:
            raise ConfigError("option maxEventsPerTrigger: needs Spark 4.2; Spark 4.1 cannot bound a micro-batch")
        return EventStream(events)
