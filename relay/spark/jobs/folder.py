"""A folder on a file system of Hadoop's (local, HDFS, S3, …), for the few small files of a job.

On the driver, or on a client of Spark Connect, which has no way to Hadoop but Spark's own reader and writer. So there
are two kinds of ``Folder``; what one writes the other reads. A file appears whole or not at all.
"""

from __future__ import annotations

from typing import Final, Protocol

from pyspark.sql import SparkSession

from relay.spark.jobs.session import is_connect

SUMMARY: Final = "summary.json"
"""The summary of a job; written last, so that a result is whole when it is there and not empty."""


class Folder(Protocol):
    """Small files of UTF-8 text in a folder, by paths below it, with ``/`` between.

    Methods raise ArchiveError with the path and Spark's message. A file is a plain file or, as Spark writes one row of
    text, a folder with one part. An empty file is a missing one: where nothing can be deleted, an empty file replaces
    it.
    """

    @property
    def spark(self) -> SparkSession:
        """The session."""

    @property
    def path(self) -> str:
        """Where the folder is."""

    def contents(self, where: str) -> dict[str, str]:
        """The texts of a folder's files by their names; none for a missing folder. Leaves out hidden files."""

    def read(self, where: str) -> str | None:
        """A file's text; None for a missing file."""

    def write(self, where: str, text: str) -> None:
        """Write a file, whole or not at all; replaces an earlier one. Adds a newline at the end if it is missing."""

    def delete(self, where: str) -> None:
        """Delete a file, or a folder with its content; does nothing for a missing one."""


def folder_at(spark: SparkSession, path: str) -> Folder:
    """The folder, as the session reaches it."""
    if is_connect(spark):
        from relay.spark.jobs.sparkfiles import SparkFolder  # noqa: PLC0415

        return SparkFolder(spark, path)
    from relay.spark.jobs.hadoopfiles import HadoopFolder  # noqa: PLC0415 - a Connect client has no Py4J

    return HadoopFolder(spark, path)
