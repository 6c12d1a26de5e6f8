"""``format("openoutbox_deliverylog")``: the attempts of a delivery log in PostgreSQL."""

from __future__ import annotations

from typing import Final

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from relay.spark.read.fields import DELIVERIES, fields_of, schema_of
from relay.spark.read.read_options import delivery_options
from relay.spark.read.reader import TableKind, TableReader, reader_of

_ATTEMPTS_TABLE: Final = TableKind(DELIVERIES, key="time", select="read_deliveries")


class DeliveryLogDataSource(DataSource):
    """Reads one row for each attempt to deliver an event."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format(…)``."""
        return "openoutbox_deliverylog"

    def schema(self) -> StructType:
        """The schema of a read without a user's schema. Raises ConfigError, which names option or column."""
        return schema_of(fields_of(delivery_options(self.options).columns, DELIVERIES))

    def reader(self, schema: StructType) -> TableReader:
        """The reader of one query. Raises ConfigError, which names option or column."""
        return reader_of(delivery_options(self.options), _ATTEMPTS_TABLE, schema)
