"""``format("openoutbox_deliverylog")``: the delivery log's attempts, where PostgreSQL keeps it.

Spark registers it by itself from the top-level module ``pyspark_openoutbox_deliverylog``; ``spark.dataSource.register``
does the same by hand. Options and columns are in docs/spark.md.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from relay.spark.read.fields import DELIVERIES, named, schema_of
from relay.spark.read.options import delivery_options
from relay.spark.read.reader import Source, TableReader, reader_of

_KEY: Final = "time"


class DeliveryLogDataSource(DataSource):
    """Reads one row for each attempt to deliver an event."""

    @classmethod
    def name(cls) -> str:
        """As ``format(…)`` is given it."""
        return "openoutbox_deliverylog"

    def schema(self) -> StructType:
        """What is read where the user gives no schema. Raises ConfigError, naming option or column."""
        return schema_of(named(delivery_options(self.options).columns, DELIVERIES))

    def reader(self, schema: StructType) -> TableReader:
        """Of one query. Raises ConfigError, naming option or column."""
        options = delivery_options(self.options)
        return reader_of(options, Source(options.table, DELIVERIES, _KEY, "read_deliveries"), schema)
