"""How long a small micro-batch takes, beside the same one into a sink that does nothing; part of ``benchmarks.spark``.

A stream of files, each of 100 rows and a micro-batch of its own. Both sinks take the same files in turn; the times are
Spark's own, of whole micro-batches, and the first ones of each stream, in which workers start, are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

_BATCHES = 40
_FIRST = 10
_ROWS = 100


class NothingWriter(DataSourceStreamArrowWriter):
    """Reads all batches and drops them."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Counts the rows, so that each batch is read."""
        sum(batch.num_rows for batch in iterator)
        return WriterCommitMessage()

    def commit(self, messages: object, batchId: int) -> None:  # noqa: N803 - Spark's names
        """Nothing is left to do."""


class Nothing(DataSource):
    """A sink of streams that stores nothing."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format(…)``."""
        return "nothing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> NothingWriter:  # noqa: ARG002, N802 - Spark's
        """Spark's cost alone."""
        return NothingWriter()


def measure_batches(session: SparkSession, url: str, folder: Path, rounds: int = 2) -> dict[str, float]:
    """The median milliseconds of a micro-batch into each sink, and of what ours takes more."""
    session.dataSource.register(Nothing)
    files = str(folder / "batches")
    session.range(_BATCHES * _ROWS).repartition(_BATCHES).write.json(files)
    took: dict[str, list[float]] = {"nothing": [], "openoutbox": []}
    for number in range(rounds):
        for sink in took:
            took[sink] += _times(session, url, files, sink, str(folder / f"{sink}-{number}"))
    medians = {sink: median(each) for sink, each in took.items()}
    return {**medians, "more": medians["openoutbox"] - medians["nothing"]}


def _times(session: SparkSession, url: str, files: str, sink: str, checkpoint: str) -> list[float]:
    rows = session.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(files)
    events = rows.selectExpr("'t' AS event_type", "struct(id) AS payload")
    writer = events.writeStream.format(sink).option("checkpointLocation", checkpoint).trigger(availableNow=True)
    query = (writer.option("url", url) if sink == "openoutbox" else writer).start()
    query.awaitTermination()
    times = [float(each.durationMs["triggerExecution"]) for each in query.recentProgress if each.numInputRows]
    return times[_FIRST:]
