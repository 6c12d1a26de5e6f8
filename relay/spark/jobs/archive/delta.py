"""The tables of an archive in Delta Lake, in a folder, by Spark's DataFrame readers and writers.

    ARCHIVE/archive.json    the format, and the outbox; written when both tables exist
    ARCHIVE/events/         the rows
    ARCHIVE/runs/           the state of each run

Spark needs Delta's packages; docs/guide/spark-archive.md says which versions work together.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final

from pyspark.sql import DataFrame, SparkSession

from relay.spark.jobs.archive.model import EVENT_COLUMNS, EVENTS, RUNS
from relay.spark.jobs.archive.record import DELTA, ArchiveRecord, read_record, write_record
from relay.spark.jobs.folder import Folder
from relay.spark.jobs.parquet import ROW_GROUP_BYTES

_ROW_GROUP_SETTING: Final = "parquet.block.size"


@dataclass(frozen=True, slots=True)
class DeltaTables:
    """Two Delta tables in a folder."""

    folder: Folder

    file: ClassVar = "_metadata.file_path"
    """The column with the address of a row's file."""

    def owner(self) -> str | None:
        """The outbox of the folder's record."""
        record = read_record(self.folder)
        return None if record is None else record.outbox

    def create(self, outbox: str, first: DataFrame) -> None:
        """Create each table by a commit, then write the record; after a crash it is called again."""
        rows = self.folder.spark.createDataFrame([], EVENT_COLUMNS)
        rows.write.format(DELTA).mode("append").partitionBy("run", "day").save(self._path(EVENTS))
        first.write.format(DELTA).mode("overwrite").save(self._path(RUNS))
        write_record(self.folder, ArchiveRecord(DELTA, outbox))

    def read(self, name: str) -> DataFrame:
        """The table's newest version."""
        return self.folder.spark.read.format(DELTA).load(self._path(name))

    def append(self, name: str, rows: DataFrame) -> None:
        """Append in one commit."""
        with _small_row_groups(self.folder.spark):
            rows.write.format(DELTA).mode("append").save(self._path(name))

    def replace(self, run: str, rows: DataFrame) -> None:
        """Overwrite the run's partitions in one commit."""
        with _small_row_groups(self.folder.spark):
            writer = rows.write.format(DELTA).mode("overwrite").option("replaceWhere", f"run = '{run}'")
            writer.save(self._path(EVENTS))

    def _path(self, name: str) -> str:
        return f"{self.folder.path}/{name}"


@contextmanager
def _small_row_groups(spark: SparkSession) -> Iterator[None]:
    """Delta takes no options of Parquet's; it reads the session's settings."""
    before = spark.conf.get(_ROW_GROUP_SETTING, None)
    spark.conf.set(_ROW_GROUP_SETTING, str(ROW_GROUP_BYTES))
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(_ROW_GROUP_SETTING)
        else:
            spark.conf.set(_ROW_GROUP_SETTING, before)
