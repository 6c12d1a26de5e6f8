"""Files by Spark's own reader and writer, for Spark Connect: ``relay.spark.jobs.folder`` says what they promise.

Spark writes a file as a folder of its name with one part, which it renames from a hidden folder when the part is whole.
A client that is killed meanwhile leaves the hidden folder, or nothing, or the part; a Spark Connect server may end the
write up to minutes later. Spark cannot delete: an empty part replaces what was there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Row, SparkSession

from relay.spark.jobs.errors import ArchiveError


@dataclass(frozen=True, slots=True)
class SparkFolder:
    """Folders with one part; reads plain files too, but for those whose names begin with ``_`` or ``.``."""

    spark: SparkSession
    path: str

    def contents(self, where: str) -> dict[str, str]:
        """The texts of a folder's files by their names; none for a missing folder."""
        mark = f"/{where.rpartition('/')[2]}/"
        rows = self._rows(where, "path", "modificationTime", "content")
        newest = {
            str(row["path"]).rpartition(mark)[2].partition("/")[0]: row
            for row in sorted(rows, key=lambda row: row["modificationTime"])
        }
        return {name: bytes(row["content"]).decode() for name, row in newest.items() if row["content"]}

    def read(self, where: str) -> str | None:
        """A file's text; None for a missing file."""
        rows = self._rows(where, "modificationTime", "content")
        if not rows:
            return None
        newest = max(rows, key=lambda row: row["modificationTime"])
        return bytes(newest["content"]).decode() or None

    def write(self, where: str, text: str) -> None:
        """Write a row of text."""
        self._write(where, [(text.removesuffix("\n"),)])

    def delete(self, where: str) -> None:
        """Write no row over it."""
        if self._rows(where, "path", most=1):
            self._write(where, [])

    def _write(self, where: str, rows: Sequence[tuple[str]]) -> None:
        path = f"{self.path}/{where}"
        frame = self.spark.createDataFrame(list(rows), "value string").coalesce(1)
        with _naming(path):
            frame.write.mode("overwrite").option("lineSep", "\n").option("compression", "none").text(path)

    def _rows(self, where: str, *columns: str, most: int | None = None) -> list[Row]:
        """Columns of all visible files below the path, or of the file itself; none for a missing path."""
        path = f"{self.path}/{where}"
        frame = self.spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(path).select(*columns)
        with _naming(path):
            try:
                return list((frame if most is None else frame.limit(most)).collect())
            except AnalysisException as error:
                if error.getCondition() == "PATH_NOT_FOUND":
                    return []
                raise


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Raise ArchiveError, which names the path, for Spark's errors."""
    try:
        yield
    except PySparkException as error:
        raise ArchiveError(f"{path}: {str(error).partition(chr(10))[0]}") from None
