"""``format("openoutbox")``: the data source that writes DataFrames into the outbox and reads its rows.

Spark registers it automatically from the top-level module ``pyspark_openoutbox``; ``spark.dataSource.register`` does
the same by hand. Options and columns are in docs/guide/spark.md.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from relay.core.errors import ConfigError
from relay.spark.read.fields import OUTBOX, fields_of, schema_of
from relay.spark.read.read_options import outbox_options
from relay.spark.read.reader import TableKind, TableReader, reader_of
from relay.spark.write.columns import read_columns
from relay.spark.write.write_options import WriteOptions, write_options
from relay.spark.write.writers import BatchWriter, StreamWriter

_OUTBOX_TABLE: Final = TableKind(OUTBOX, key="event_id", select="read_events")


class OutboxDataSource(DataSource):
    """Writes events into the outbox and reads its rows. All checks run on the driver, before a row moves."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format(…)``."""
        return "openoutbox"

    def schema(self) -> StructType:
        """The schema of a read without a user's schema. Raises ConfigError, which names option or column."""
        return schema_of(fields_of(outbox_options(self.options).columns, OUTBOX))

    def reader(self, schema: StructType) -> TableReader:
        """The reader of one query. Raises ConfigError, which names option or column."""
        return reader_of(outbox_options(self.options), _OUTBOX_TABLE, schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """The writer of one ``save()``. Raises ConfigError, EventError and SchemaError, which name option or column."""
        options = self._options(overwrite)
        return BatchWriter(options, read_columns(schema, options.event_type, options.id_columns))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's name
        """The writer of one micro-batch. Raises the errors of ``writer``."""
        options = self._options(overwrite)
        return StreamWriter(options, read_columns(schema, options.event_type, options.id_columns))

    def _options(self, overwrite: bool) -> WriteOptions:
        if overwrite:
            raise ConfigError('events can only be added: .mode("append"), and outputMode("append") for a stream')
        return write_options(self.options)
