"""Files by Hadoop's own interface, through the driver's JVM: ``relay.spark.jobs.folder`` says what they promise.

A file is written under another name and renamed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from relay.spark.jobs.errors import ArchiveError
from relay.spark.jobs.javaerrors import JAVA_ERRORS, java_message

_END: Final = "\n"


@dataclass(frozen=True, slots=True)
class HadoopFolder:
    """Plain files; reads those of Spark's writer too."""

    spark: SparkSession
    path: str

    def contents(self, where: str) -> dict[str, str]:
        """The texts of a folder's files by their names; none for a missing folder."""
        with self._open(where) as (files, target):
            if not files.exists(target):
                return {}
            texts = {_name(each): self._text(files, each) for each in _visible(files, target)}
        return {name: text for name, text in texts.items() if text}

    def read(self, where: str) -> str | None:
        """A file's text; None for a missing file."""
        with self._open(where) as (files, target):
            if not files.exists(target):
                return None
            return self._text(files, files.getFileStatus(target)) or None

    def write(self, where: str, text: str) -> None:
        """Write a file and rename it. Adds a newline at the end if it is missing."""
        parent, _, name = f"{self.path}/{where}".rpartition("/")
        part = f"{parent}/.{name}.{uuid4().hex}"
        with self._open(where) as (files, target):
            stream = files.create(self._at(part), True)
            stream.write(bytearray(f"{text.removesuffix(_END)}{_END}".encode()))
            stream.close()
            if files.exists(target):
                files.delete(target, True)
            if not files.rename(self._at(part), target):
                raise ArchiveError(f"{parent}/{name}: could not be renamed from its temporary name")

    def delete(self, where: str) -> None:
        """Delete a file, or a folder with its content; does nothing for a missing one."""
        with self._open(where) as (files, target):
            if files.exists(target) and not files.delete(target, True):
                raise ArchiveError(f"{self.path}/{where}: could not be deleted")

    def _text(self, files: JavaObject, status: JavaObject) -> str:
        """The text of a file, or of the newest part in a folder; empty where there is no part."""
        if status.isDirectory():
            parts = _visible(files, status.getPath())
            if not parts:
                return ""
            status = max(parts, key=lambda part: int(part.getModificationTime()))
        stream = files.open(status.getPath())
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    @property
    def _jvm(self) -> Any:  # noqa: ANN401 - Py4J has no types
        return self.spark.sparkContext._jvm  # noqa: SLF001 - PySpark has no other way to Hadoop's file systems

    def _at(self, path: str) -> JavaObject:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    @contextmanager
    def _open(self, where: str) -> Iterator[tuple[JavaObject, JavaObject]]:
        """The file system and the path. Raises ArchiveError for an exception of Java's."""
        path = f"{self.path}/{where}"
        try:
            target = self._at(path)
            settings = self.spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
            yield target.getFileSystem(settings), target
        except JAVA_ERRORS as error:
            raise ArchiveError(f"{path}: {java_message(error)}") from None


def _visible(files: JavaObject, target: JavaObject) -> list[JavaObject]:
    """The files of a folder without those that Spark's reader takes for hidden ones."""
    return [status for status in files.listStatus(target) if not _name(status).startswith((".", "_"))]


def _name(status: JavaObject) -> str:
    return str(status.getPath().getName())
