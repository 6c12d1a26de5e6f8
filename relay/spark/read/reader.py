"""The reader of a table: plans on the driver, is pickled, and reads in tasks.

Without a snapshot that the tasks share, each task sees its range as of the start of its read. A row that exists from
planning to the end is read exactly once, in one of its states meanwhile; a row that is inserted or deleted meanwhile is
read once or not at all. A task that Spark repeats reads its range again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

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

_TABLES = (
    "r",
    "p",
    "m",
)  # relkinds that can be sampled: tables, partitioned or not, materialized views


@dataclass(frozen=True, slots=True)
class Source:
    """A readable table, and the statement that reads it."""

    relation: TableName
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

    def __init__(self, options: TableOptions, source: Source, chosen: tuple[Field, ...], schema: pa.Schema) -> None:
        """On the driver; does not connect."""
        self._options = options
        self._source = source
        self._chosen = chosen
        self._schema = schema
        self._snapshot = options.snapshot
        self._values = source.conditions().parameters()

    def partitions(self) -> list[InputPartition]:
        """On the driver: the tasks' shares. Raises SchemaError for a missing table or right."""
        doing = f"planning to read {self._source.relation}"
        with translating(doing):
            return persist(self._ranges, self._options.max_wait)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """On an executor: one share."""
        if not isinstance(partition, Range):
            raise StorageError("the reader's shares are ranges; only Spark may call the reader")
        relation = self._source.relation
        select = read_statement(self._source.select, relation, [field.name for field in self._chosen])
        kinds = [field.kind for field in self._chosen]
        values = {**self._values, **partition.values()}
        with (
            translating(f"reading {relation}"),
            closing(self._connect()) as connection,
            transaction(connection, reads=True),
        ):
            if self._snapshot is not None:
                adopt_snapshot(connection, self._snapshot)
            for rows in portions(connection, select, values):
                yield decode(rows, kinds, self._schema)

    def _ranges(self, wait: Wait) -> list[InputPartition]:
        with connect(self._options.url, wait=wait) as connection, transaction(connection, reads=True):
            pages = check_readable(connection, self._source, self._chosen)
            most = self._options.partitions
            if self._snapshot is not None and "page_from" in self._values:
                return list(by_page(pages, most))
            sample = read_statement(self._source.select, self._source.relation, sample=True)
            return list(by_key(connection, sample, self._values, pages, most))

    def _connect(self) -> SyncConnection:
        connection = connect(self._options.url, max_wait=self._options.max_wait)
        if self._snapshot is not None:
            share_snapshots(connection)
        return connection


class FilteringReader(TableReader):
    """Reads the rows that match the query's conditions, as far as PostgreSQL can evaluate them."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """On the driver: push conditions; returns those that Spark must evaluate."""
        conditions = self._source.conditions()
        rest = conditions.push(filters)
        self._values = conditions.parameters()
        return rest


def reader_of(options: TableOptions, source: Source, schema: StructType) -> TableReader:
    """The reader of one query. Raises ConfigError for an unknown column."""
    chosen = requested_fields(schema, options.columns, source.fields)
    kind = FilteringReader if options.pushdown else TableReader
    return kind(options, source, chosen, arrow_schema(schema, chosen))


def check_readable(connection: SyncConnection, source: Source, chosen: tuple[Field, ...]) -> int:
    """The table's size in pages. Raises SchemaError, which names what is missing or not granted."""
    columns = list(dict.fromkeys([source.key, *(field.name for field in chosen)]))
    values: Values = {"relation": source.relation.quoted, "columns": columns}
    row = connection.execute(read_statement("describe_relation"), values).fetchone()
    kind, missing, granted, hidden, pages = row or (None, [], False, False, 0)
    relation = source.relation
    if kind is None:
        raise SchemaError(f"option table: there is no table {relation}, or this role may not see its schema")
    if kind not in _TABLES:
        raise SchemaError(f"option table: {relation} is not a table")
    if missing:
        raise SchemaError(f"option table: {relation} has no column {', '.join(missing)}")
    if not granted:
        grant = grant_on("SELECT", relation, connection.info.user)
        raise SchemaError(f"this role may not read {relation}; run as the owner of the table: {grant}", NO_PRIVILEGE)
    if hidden:
        raise SchemaError(
            f"row-level security hides rows of {relation} from this role; read as the table's owner, or as a role with "
            "BYPASSRLS"
        )
    return int(pages)
