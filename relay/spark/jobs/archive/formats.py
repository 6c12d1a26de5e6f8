"""The formats of archives: which one an archive has, and how it is opened and read.

The two classes have the same methods. Rows of a run that is not published are no part of the archive. A run is *open*
from ``publish`` to ``close``: its rows may still be in the outbox. Methods raise ArchiveError, or PySparkException, for
files or tables that cannot be read or written. One run writes at a time; but the last operation of a client that is
dead may end at any time.
"""

from __future__ import annotations

from datetime import date
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession

from relay.spark.jobs.archive.delta import DeltaTables
from relay.spark.jobs.archive.files import ParquetArchive
from relay.spark.jobs.archive.iceberg import ICEBERG, IcebergTables, is_table_name
from relay.spark.jobs.archive.record import DELTA, PARQUET, read_record
from relay.spark.jobs.archive.tables import TableArchive
from relay.spark.jobs.errors import ArchiveError
from relay.spark.jobs.folder import Folder, folder_at

Archive: TypeAlias = ParquetArchive | TableArchive
"""The archive of one outbox. Used by the driver, or by a client of Spark Connect."""


def open_archive(spark: SparkSession, location: str, new: str | None = None) -> Archive:
    """The archive at a location, which may not exist yet; ``new`` is the format of a new one, by default Parquet.

    Raises ArchiveError when the archive has another format than ``new``, or one of a later release, and for a name that
    ``new`` cannot have.
    """
    folder = folder_at(spark, location.rstrip("/") or location)
    name = _recorded(folder) or new or PARQUET
    if new not in (None, name):
        raise ArchiveError(f"{location}: --format {new}: this archive has the format {name}; an archive has one format")
    if name == ICEBERG:
        if not is_table_name(location):
            raise ArchiveError(f"{location}: --format {name}: give a table's name, CATALOG.NAMESPACE.TABLE")
        return TableArchive(spark, location, IcebergTables(spark, location))
    return TableArchive(spark, folder.path, DeltaTables(folder)) if name == DELTA else ParquetArchive(folder)


def _recorded(folder: Folder) -> str | None:
    """The format of an archive that exists."""
    record = read_record(folder)
    if record is not None:
        return record.format
    is_table = is_table_name(folder.path) and IcebergTables(folder.spark, folder.path).owner() is not None
    return ICEBERG if is_table else None


def read_archive(
    spark: SparkSession, path: str, first_day: date | None = None, last_day: date | None = None
) -> DataFrame:
    """Every archived row once: the outbox's columns (``COLUMNS``), and ``run``, ``day`` and ``type``.

    The days are those on which events were delivered or died, UTC, both included; files of others are not touched.
    ``path`` is a folder, or the name of a table of Iceberg. Raises ArchiveError without an archive there.
    """
    archive = open_archive(spark, path)
    if not archive.exists():
        raise ArchiveError(f"{path}: there is no archive; relay-cli spark archive creates one")
    return archive.read((first_day, last_day))
