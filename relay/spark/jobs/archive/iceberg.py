"""The tables of an archive in a catalog of Iceberg, by Spark's DataFrame readers and writers.

    CATALOG.NAMESPACE.NAME        the rows
    CATALOG.NAMESPACE.NAME_runs   the state of each run; its first row has the outbox

Spark needs Iceberg's runtime, and the catalog in its settings; docs/guide/spark-archive.md says which versions work
together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from relay.spark.jobs.archive.model import CREATED, EVENT_COLUMNS, EVENT_NAMES, EVENTS, RUNS
from relay.spark.jobs.errors import ArchiveError
from relay.spark.jobs.parquet import ROW_GROUP_BYTES

ICEBERG: Final = "iceberg"

_NAME: Final = re.compile(r"\w+(\.\w+)+")


@dataclass(frozen=True, slots=True)
class IcebergTables:
    """Two Iceberg tables of a catalog."""

    spark: SparkSession
    location: str
    """The name of the table of rows, with its catalog and namespace."""

    file: ClassVar = "_file"
    """The column with the address of a row's file."""

    def owner(self) -> str | None:
        """The outbox in the first row of ``RUNS``. Raises ArchiveError for a table without such a row."""
        if not self._exists(RUNS):
            return None
        first = self.read(RUNS).where(f.col("state") == CREATED).select("outbox").first()
        if first is None:
            raise ArchiveError(f"{self._name(RUNS)}: is not a table of an archive; archive into another name")
        return str(first["outbox"])

    def create(self, outbox: str, first: DataFrame) -> None:  # noqa: ARG002 - the first row has the outbox
        """Create the table of rows, then ``RUNS`` with its first row; after a crash it is called again.

        Raises ArchiveError for a foreign table.
        """
        if not self._exists(EVENTS):
            rows = self.spark.createDataFrame([], EVENT_COLUMNS).writeTo(self._name(EVENTS)).using(ICEBERG)
            rows = rows.tableProperty("write.parquet.row-group-size-bytes", str(ROW_GROUP_BYTES))
            rows.partitionedBy(f.col("run"), f.col("day")).create()
        elif self.read(EVENTS).columns != list(EVENT_NAMES):
            raise ArchiveError(f"{self.location}: is a table with other columns; archive into another name")
        first.writeTo(self._name(RUNS)).using(ICEBERG).create()

    def read(self, name: str) -> DataFrame:
        """The table's current snapshot, which another process may have committed."""
        self.spark.catalog.refreshTable(self._name(name))
        return self.spark.read.table(self._name(name))

    def append(self, name: str, rows: DataFrame) -> None:
        """Append in one commit."""
        rows.writeTo(self._name(name)).append()

    def replace(self, run: str, rows: DataFrame) -> None:
        """Overwrite the run's partitions in one commit."""
        rows.writeTo(self._name(EVENTS)).overwrite(f.col("run") == run)

    def _exists(self, name: str) -> bool:
        return table_exists(self.spark, self._name(name))

    def _name(self, name: str) -> str:
        return self.location if name == EVENTS else f"{self.location}_{name}"


def is_table_name(location: str) -> bool:
    """Whether a location is a table's name with its catalog, and no folder's path."""
    return _NAME.fullmatch(location) is not None


def table_exists(spark: SparkSession, name: str) -> bool:
    """Whether the table exists; not where Spark does not know its catalog."""
    try:
        return spark.catalog.tableExists(name)
    except AnalysisException:
        return False
