"""The reader of a table: plans on the driver, is pickled, and reads in tasks.

Without a snapshot that the tasks share, each task sees its range as of the start of its read. A row that exists from
planning to the end is read exactly once, in one of its states meanwhile; a row that is inserted or deleted meanwhile is
read once or not at all. A task that Spark repeats reads its range again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from relay.core.errors import SchemaError, StorageError
from relay.postgres.connect import SyncConnection
from relay.postgres.errors import translating
from relay.postgres.grants import NO_PRIVILEGE, grant_on
from relay.postgres.sql import TableName
from relay.spark.connection import Wait, closing, connect, persist, transaction
from relay.spark.read.copyout import portions
from relay.spark.read.decode import decode
from relay.spark.read.fields import Field, arrow_schema, requested_fields
from relay.spark.read.filters import Conditions, Values
from relay.spark.read.ranges import Range, by_key, by_page
from relay.spark.read.read_options import TableOptions
from relay.spark.read.snapshots import adopt_snapshot, share_snapshots
from relay.spark.read.statements import parameters_of, read_statement

_TABLES: Final = ("r", "p", "m")  # relkinds that can be sampled: tables, partitioned or not, materialized views


@dataclass(frozen=True, slots=True)
class TableKind:
    """A kind of table that can be read, and the statement that reads it."""

    fields: tuple[Field, ...]
    """All of its columns."""
    key: str
    """The column for the ranges: it never changes, and an index of the table begins with it."""
    select: str
    """The name of its statement in ``sql/spark/read.sql``."""

    def conditions(self) -> Conditions:
        """No conditions yet, for the parameters of its statement."""
        return Conditions(self.fields, parameters_of(self.select))


class TableReader(DataSourceReader):
    """Reads all rows. ``FilteringReader`` lets Spark push conditions, which needs a setting of Spark's."""

    def __init__(self, options: TableOptions, kind: TableKind, chosen: tuple[Field, ...], schema: pa.Schema) -> None:
        """On the driver; does not connect."""
        self._options = options
        self._kind = kind
        self._chosen = chosen
        self._schema = schema
        self._snapshot = options.snapshot
        self._values = kind.conditions().parameters()

    def partitions(self) -> list[InputPartition]:
        """On the driver: the tasks' shares. Raises SchemaError for a missing table or right."""
        with translating(f"planning to read {self._options.table}"):
            return persist(self._ranges, self._options.max_wait)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """On an executor: one share."""
        if not isinstance(partition, Range):
            raise StorageError("the reader's shares are ranges; only Spark may call the reader")
        table = self._options.table
        select = read_statement(self._kind.select, table, [field.name for field in self._chosen])
        kinds = [field.kind for field in self._chosen]
        values = {**self._values, **partition.values()}
        with (
            translating(f"reading {table}"),
            closing(self._connect()) as connection,
            transaction(connection, reads=True),
        ):
            if self._snapshot is not None:
                adopt_snapshot(connection, self._snapshot)
            for rows in portions(connection, select, values):
                yield decode(rows, kinds, self._schema)

    def _ranges(self, wait: Wait) -> list[InputPartition]:
        with connect(self._options.url, wait=wait) as connection, transaction(connection, reads=True):
            pages = check_readable(connection, self._options.table, self._kind.key, self._chosen)
            most = self._options.partitions
            if self._snapshot is not None and "page_from" in self._values:
                return list(by_page(pages, most))
            sample = read_statement(self._kind.select, self._options.table, sample=True)
            return list(by_key(connection, sample, self._values, pages, most))

    def _connect(self) -> SyncConnection:
        connection = connect(self._options.url, wait=Wait(self._options.max_wait))
        if self._snapshot is not None:
            share_snapshots(connection)
        return connection


class FilteringReader(TableReader):
    """Reads the rows that match the query's conditions, as far as PostgreSQL can evaluate them."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """On the driver: push conditions; returns those that Spark must evaluate."""
        conditions = self._kind.conditions()
        rest = conditions.push(filters)
        self._values = conditions.parameters()
        return rest


def reader_of(options: TableOptions, kind: TableKind, schema: StructType) -> TableReader:
    """The reader of one query. Raises ConfigError for an unknown column."""
    chosen = requested_fields(schema, options.columns, kind.fields)
    reader = FilteringReader if options.pushdown else TableReader
    return reader(options, kind, chosen, arrow_schema(schema, chosen))


def check_readable(connection: SyncConnection, table: TableName, key: str, chosen: tuple[Field, ...]) -> int:
    """The table's size in pages. Raises SchemaError, which names what is missing or not granted."""
    columns = list(dict.fromkeys([key, *(field.name for field in chosen)]))
    values: Values = {"relation": table.quoted, "columns": columns}
    row = connection.execute(read_statement("describe_relation"), values).fetchone()
    relkind, missing, granted, hidden, pages = row or (None, [], False, False, 0)
    if relkind is None:
        raise SchemaError(f"option table: there is no table {table}, or this role may not see its schema")
    if relkind not in _TABLES:
        raise SchemaError(f"option table: {table} is not a table")
    if missing:
        raise SchemaError(f"option table: {table} has no column {', '.join(missing)}")
    if not granted:
        grant = grant_on("SELECT", table, connection.info.user)
        raise SchemaError(f"this role may not read {table}; run as the owner of the table: {grant}", NO_PRIVILEGE)
    if hidden:
        raise SchemaError(
            f"row-level security hides rows of {table} from this role; read as the table's owner, or as a role with "
            "BYPASSRLS"
        )
    return int(pages)
