"""A folder on a file system of Hadoop's (local, HDFS, S3, …), for the few small files of a job.

On the driver, or on a client of Spark Connect, which has no way to Hadoop but Spark's own reader and writer. So there
are two kinds of ``Files``; what one writes the other reads. A file appears whole or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from pyspark.sql import SparkSession

from relay.spark.jobs.session import is_connect

SUMMARY: Final = "summary.json"
"""The summary of a job; written last, so that a result is whole when it is there and not empty."""


class Files(Protocol):
    """Small files of UTF-8 text, by their paths. Methods raise ArchiveError with the path and Spark's message.

    A file is a plain file or, as Spark writes one row of text, a folder with one part. An empty file is a missing one:
    where nothing can be deleted, an empty file replaces it.
    """

    def contents(self, path: str) -> dict[str, str]:
        """The texts of a folder's files by their names; none for a missing folder. Leaves out hidden files."""

    def read(self, path: str) -> str | None:
        """A file's text; None for a missing file."""

    def write(self, path: str, text: str) -> None:
        """Write a file, whole or not at all; replaces an earlier one. The text ends with a newline."""

    def delete(self, path: str) -> None:
        """Delete a file, or a folder with its content; does nothing for a missing one."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder; methods take paths relative to ``path``, with ``/`` between, and raise ArchiveError."""

    spark: SparkSession
    path: str

    def contents(self, where: str) -> dict[str, str]:
        """The texts of the files in a folder below it, by their names; none for a missing folder."""
        return self._files.contents(f"{self.path}/{where}")

    def read(self, where: str) -> str | None:
        """A file's text; None for a missing file."""
        return self._files.read(f"{self.path}/{where}")

    def write(self, where: str, text: str) -> None:
        """Write a file, whole or not at all; replaces an earlier one. Adds a newline at the end if it is missing."""
        self._files.write(f"{self.path}/{where}", text if text.endswith("\n") else f"{text}\n")

    def delete(self, where: str) -> None:
        """Delete a file, or a folder with its content; does nothing for a missing one."""
        self._files.delete(f"{self.path}/{where}")

    @property
    def _files(self) -> Files:
        return files_of(self.spark)


def files_of(spark: SparkSession) -> Files:
    """The files that the session reaches."""
    if is_connect(spark):
        from relay.spark.jobs.sparkfiles import SparkFiles  # noqa: PLC0415

        return SparkFiles(spark)
    from relay.spark.jobs.hadoopfiles import HadoopFiles  # noqa: PLC0415 - a Connect client has no Py4J

    return HadoopFiles(spark)
