"""``format("openoutbox_eventstore")``: the event store for Spark, as a batch and as a stream.

Spark registers it automatically from the top-level module ``pyspark_openoutbox_eventstore``;
``spark.dataSource.register`` does the same by hand. Options and columns are in docs/guide/spark.md.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from relay.core.errors import ConfigError
from relay.spark.read.eventreader import EventReader
from relay.spark.read.events import Events
from relay.spark.read.eventstream import EventStream
from relay.spark.read.fields import EVENTS, fields_of, schema_of
from relay.spark.read.read_options import event_options

_SINCE_4_2: Final = "pyspark.sql.streaming.datasource"


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
