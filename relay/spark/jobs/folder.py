"""A folder on a file system of Hadoop's (local, HDFS, S3, …), for the few small files of a job.

On the driver, or on a client of Spark Connect, which has no way to Hadoop but Spark's own reader and writer. So there
are two kinds of ``Folder``; what one writes the other reads.

Files are UTF-8 text, by paths below the folder, with ``/`` between; hidden ones are left out. A file appears whole or
not at all, and replaces an earlier one. It is a plain file or, as Spark writes one row of text, a folder with one part.
An empty file is a missing one: where nothing can be deleted, an empty file replaces it. Methods raise ArchiveError with
the path and Spark's message.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

from pyspark.sql import SparkSession

from relay.spark.jobs.session import is_connect

if TYPE_CHECKING:
    from relay.spark.jobs.hadoopfiles import HadoopFolder
    from relay.spark.jobs.sparkfiles import SparkFolder

WORK: Final = "_work"
"""The folder below a result for what a job needs while it runs."""
_SUMMARY: Final = "summary.json"


Folder: TypeAlias = "HadoopFolder | SparkFolder"


def folder_at(spark: SparkSession, path: str) -> Folder:
    """The folder, as the session reaches it."""
    if is_connect(spark):
        from relay.spark.jobs.sparkfiles import SparkFolder  # noqa: PLC0415

        return SparkFolder(spark, path)
    from relay.spark.jobs.hadoopfiles import HadoopFolder  # noqa: PLC0415 - a Connect client has no Py4J

    return HadoopFolder(spark, path)


@contextmanager
def result_folder(spark: SparkSession, path: str) -> Iterator[dict[str, object]]:
    """Write what the block puts into the mapping as ``summary.json``, last: a result is whole when it is there.

    Removes the summary of an earlier result before, and ``WORK`` at the end.
    """
    folder = folder_at(spark, path)
    folder.delete(_SUMMARY)
    summary: dict[str, object] = {}
    try:
        yield summary
        folder.write(_SUMMARY, json.dumps(summary))
    finally:
        folder.delete(WORK)
