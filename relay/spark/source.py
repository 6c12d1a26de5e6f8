"""``format("openoutbox")``: what Spark finds and makes when a DataFrame is written to the outbox, or read from it.

Spark registers it by itself from the top-level module ``pyspark_openoutbox``; ``spark.dataSource.register`` does the
same by hand. Options and columns are in docs/spark.md.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from relay.core.errors import ConfigError
from relay.spark.read.fields import OUTBOX, named, schema_of
from relay.spark.read.options import outbox_options
from relay.spark.read.reader import Source, TableReader, reader_of
from relay.spark.write.columns import read_columns
from relay.spark.write.options import WriteOptions, write_options
from relay.spark.write.writers import BatchWriter, StreamWriter

_KEY: Final = "event_id"


class OutboxDataSource(DataSource):
    """Writes events into the outbox and reads its rows. All checks are made on the driver, before a row moves."""

    @classmethod
    def name(cls) -> str:
        """As ``format(…)`` is given it."""
        return "openoutbox"

    def schema(self) -> StructType:
        """What is read where the user gives no schema. Raises ConfigError, naming option or column."""
        return schema_of(named(outbox_options(self.options).columns, OUTBOX))

    def reader(self, schema: StructType) -> TableReader:
        """Of one query. Raises ConfigError, naming option or column."""
        options = outbox_options(self.options)
        return reader_of(options, Source(options.table, OUTBOX, _KEY, "read_events"), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Of one ``save()``. Raises ConfigError, EventError and SchemaError, naming option or column."""
        options = self._options(overwrite)
        return BatchWriter(options, read_columns(schema, options.event_type, options.id_columns))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's name
        """Of one micro-batch. Raises as ``writer`` does."""
        options = self._options(overwrite)
        return StreamWriter(options, read_columns(schema, options.event_type, options.id_columns))

    def _options(self, overwrite: bool) -> WriteOptions:
        if overwrite:
            raise ConfigError('events are only ever added: .mode("append"), and outputMode("append") for a stream')
        return write_options(self.options)
