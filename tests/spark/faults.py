"""The data source with accidents: what happens to real jobs, at a chosen moment.

Each accident happens once (a file in the folder ``marks`` remembers it), to the first attempt at partition 0; with the
fault ``kill``, another one to the second attempt.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from relay.core.errors import OutboxError
from relay.spark import OutboxDataSource
from relay.spark.write.columns import Columns, read_columns
from relay.spark.write.liveness import is_dead, this_driver
from relay.spark.write.tasks import Written, current_task
from relay.spark.write.write_options import WriteOptions
from relay.spark.write.writers import BatchWriter, Messages, StreamWriter
from tests.support.waiting import wait_until


class Accident(OutboxError):
    """A test caused it."""


class Marks:
    """What has happened already, as files that every process sees."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def first_time(self, name: str) -> bool:
        """Whether this has not happened before; it has now."""
        try:
            (self.folder / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def happened(self, name: str) -> bool:
        """Whether this has happened."""
        return (self.folder / name).exists()


def kill_executor() -> None:
    """Kill the executor that this Python process works for."""
    os.kill(int(this_driver().split("/")[-2]), signal.SIGKILL)


def wait_for_death(marks: Marks) -> None:
    """Leave the mark ``stopped`` and wait until the driver that this Python process works for is killed."""
    driver = this_driver()
    marks.first_time("stopped")
    wait_until(lambda: is_dead(driver), 600, "the driver's death")
    raise Accident("the driver is dead")


class FaultyWriter(BatchWriter):
    """A writer to which ``fault`` happens."""

    def __init__(self, options: WriteOptions, columns: Columns, fault: str, marks: Marks) -> None:
        super().__init__(options, columns)
        self.fault = fault
        self.marks = marks

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        if current_task().partitionId() != 0:
            return super().write(iterator)
        attempt = current_task().attemptNumber()
        self.marks.first_time(f"begun-{attempt}")
        written = super().write(self._disturbed(iterator))
        if self.fault == "raise-after" and self.marks.first_time("raised"):
            raise Accident("after the database's commit")
        if self.fault == "kill" and attempt == 1:
            kill_executor()
        if self.fault == "twice":
            self._wait_for_the_other()
        return written

    def _disturbed(self, iterator: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(iterator):
            yield batch
            if number == 0:
                self._disturb()

    def _disturb(self) -> None:
        """In the middle of the partition."""
        if self.fault == "raise-within" and self.marks.first_time("raised"):
            raise Accident("in the middle of the partition")
        if self.fault == "kill" and current_task().attemptNumber() == 0:
            wait_until(lambda: self.marks.happened("begun-1"), 300, "the second attempt")
            kill_executor()
        if self.fault == "hold" and self.marks.first_time("held"):
            wait_until(lambda: self.marks.happened("released"), 300, "the test")

    def _wait_for_the_other(self) -> None:
        """Return only when two attempts at this partition have committed."""
        attempt = current_task().attemptNumber()
        self.marks.first_time(f"written-{attempt}")
        try:
            wait_until(lambda: all(map(self.marks.happened, ("written-0", "written-1"))), 300, "both attempts")
        except TimeoutError:
            self.marks.first_time("alone")  # Spark would try again, one attempt after the other
            raise

    def commit(self, messages: Messages) -> None:
        if self.fault == "stop-before-commit":
            wait_for_death(self.marks)
        super().commit(messages)


class FaultyStreamWriter(StreamWriter):
    """A stream's writer to which ``fault`` happens at its second micro-batch."""

    def __init__(self, options: WriteOptions, columns: Columns, fault: str, marks: Marks) -> None:
        super().__init__(options, columns)
        self.fault = fault
        self.marks = marks

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803 - Spark's name
        if batchId == 1 and self.fault == "stop-before-commit":
            wait_for_death(self.marks)
        super().commit(messages, batchId)
        if batchId == 1 and self.fault == "stop-after-commit":
            wait_for_death(self.marks)


class FaultySource(OutboxDataSource):
    """``format("openoutbox_faulty")``: options ``fault`` and ``marks``, and those of the real one."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._fault: str = self.options.pop("fault")
        self._marks = Marks(self.options.pop("marks"))

    @classmethod
    def name(cls) -> str:
        return "openoutbox_faulty"

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        options = self._options(overwrite)
        columns = read_columns(schema, options.event_type, options.id_columns)
        return FaultyWriter(options, columns, self._fault, self._marks)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        options = self._options(overwrite)
        columns = read_columns(schema, options.event_type, options.id_columns)
        return FaultyStreamWriter(options, columns, self._fault, self._marks)
