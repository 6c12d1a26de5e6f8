"""A folder on a file system of Hadoop's (local, HDFS, S3, …), for the few small files of a job.

On the driver only. Writing a file is atomic: it is written under another name and renamed. Raises ArchiveError with the
path and the file system's message.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from relay.core.errors import OutboxError


class ArchiveError(OutboxError):
    """The archive's folder cannot be used, or its content is wrong; no row was deleted from the outbox for it."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder; methods take paths relative to ``path``, with ``/`` between."""

    spark: SparkSession
    path: str

    def names(self, where: str) -> list[str]:
        """The names in a folder below it, sorted; empty for a missing folder."""
        with self._open(where) as (files, path):
            if not files.exists(path):
                return []
            return sorted(str(status.getPath().getName()) for status in files.listStatus(path))

    def read(self, where: str) -> str | None:
        """A file's text; None for a missing file."""
        with self._open(where) as (files, path):
            if not files.exists(path):
                return None
            stream = files.open(path)
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()

    def write(self, where: str, text: str) -> None:
        """Write a file, whole or not at all; replaces an earlier one."""
        parent, _, name = where.rpartition("/")
        part = f"{parent}/.{name}.{uuid4().hex}"
        with self._open(where) as (files, path):
            stream = files.create(self._at(part), True)
            stream.write(bytearray(text.encode()))
            stream.close()
            if files.exists(path):
                files.delete(path, False)
            if not files.rename(self._at(part), path):
                raise ArchiveError(f"{self.path}/{where}: could not be renamed from its temporary name")

    def delete(self, where: str) -> None:
        """Delete a file, or a folder with its content; does nothing for a missing one."""
        with self._open(where) as (files, path):
            if files.exists(path) and not files.delete(path, True):
                raise ArchiveError(f"{self.path}/{where}: could not be deleted")

    @property
    def _jvm(self) -> JavaObject:
        return self.spark.sparkContext._jvm  # noqa: SLF001 - PySpark has no other way to Hadoop's file systems

    def _at(self, where: str) -> JavaObject:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.path}/{where}" if where else self.path)

    @contextmanager
    def _open(self, where: str) -> Iterator[tuple[JavaObject, JavaObject]]:
        """The file system and the path. Raises ArchiveError for an exception of Java's."""
        try:
            path = self._at(where)
            settings = self.spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
            yield path.getFileSystem(settings), path
        except Py4JJavaError as error:
            message = str(error.java_exception.toString()).partition("\n")[0]
            raise ArchiveError(f"{self.path}/{where}: {message}") from None
