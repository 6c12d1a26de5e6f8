"""Writes and streams without a JVM: what Spark does with the data sources, on Arrow data, one task after the other.

What a write puts into the database, what it refuses, and what a stream reads needs no more than this. That Spark calls
the data sources so is the part of the tests that have a session.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext, cloudpickle
from pyspark.sql.pandas.types import from_arrow_schema

from relay.spark import OutboxDataSource
from relay.spark.read.events import Events
from relay.spark.read.eventstore import EventStoreDataSource
from relay.spark.read.eventstream import EventStream
from relay.spark.read.read_options import event_options
from relay.spark.write.tasks import Written
from relay.spark.write.writers import BatchWriter

BOUNDED: Final = find_spec("pyspark.sql.streaming.datasource") is not None
"""Whether this Spark can bound a micro-batch: 4.1 cannot."""
NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})


def save(
    rows: pa.Table,
    partitions: int = 1,
    *,
    mode: str = "append",
    properties: Mapping[str, str] = NO_PROPERTIES,
    **options: object,
) -> None:
    """Write the rows as ``.write.format("openoutbox")`` does. Raises the data source's own errors, not Spark's.

    ``properties`` are those that Spark gives to tasks.
    """
    source = OutboxDataSource({name: str(value) for name, value in options.items()})
    writer = source.writer(from_arrow_schema(rows.schema), mode == "overwrite")
    assert isinstance(writer, BatchWriter)
    try:
        shares = enumerate(_shares(rows, partitions))
        writer.commit([_written(writer, number, share, properties) for number, share in shares])
    except BaseException:
        writer.abort([])
        raise


def _shares(rows: pa.Table, partitions: int) -> Sequence[pa.Table]:
    step = -(-rows.num_rows // partitions)
    return [rows.slice(number * step, step) for number in range(partitions)]


def _written(writer: BatchWriter, partition: int, rows: pa.Table, properties: Mapping[str, str]) -> Written:
    """One task: the writer and its message are pickled on their ways."""
    copy: BatchWriter = pickle.loads(cloudpickle.dumps(writer))  # type: ignore[no-untyped-call]
    context: Any = TaskContext._getOrCreate()
    context._partitionId, context._attemptNumber, context._localProperties = partition, 0, properties
    try:
        message: Written = pickle.loads(pickle.dumps(copy.write(iter(rows.to_batches()))))
    finally:
        TaskContext._taskContext = None
    return message


class EventCopy:
    """A stream of the event store, micro-batch by micro-batch, and the positions that it has read.

    It has the interface of this Spark. Its offsets are in ``checkpoint`` as JSON, where ``restart`` finds them.
    """

    def __init__(self, url: str, **options: str) -> None:
        self._source = {"url": url, "storeSchema": "bank", "columns": "sequence_num", **options}
        self.positions: list[int] = []
        self.reader = self._started()
        self.checkpoint = json.dumps(self.reader.initialOffset())

    def restart(self) -> None:
        """Stop it, and start it from its checkpoint."""
        self.close()
        self.reader = self._started()

    def close(self) -> None:
        """Stop it."""
        self.reader.stop()

    def micro_batch(self, most: int | None = None) -> int:
        """Read the next events, at most so many where Spark can bound them; returns their number."""
        start = json.loads(self.checkpoint)
        end = json.loads(json.dumps(self._latest(start, most)))
        before = len(self.positions)
        if end != start:
            for share in self.reader.partitions(start, end):
                for batch in self.reader.read(pickle.loads(pickle.dumps(share))):
                    self.positions += batch.column("sequence_num").to_pylist()
        self.checkpoint = json.dumps(end)
        return len(self.positions) - before

    def _latest(self, start: Any, most: int | None) -> Any:
        if not BOUNDED:
            return self.reader.latestOffset()
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows  # noqa: PLC0415 - not in Spark 4.1

        limit = ReadAllAvailable() if most is None else ReadMaxRows(most)
        return self.reader.latestOffset(start, limit)  # type: ignore[call-arg]

    def _started(self) -> EventStream:
        source = EventStoreDataSource(dict(self._source))
        reader = source.streamReader(source.schema())
        assert isinstance(reader, EventStream)
        return reader


class EventCopyOf41(EventCopy):
    """The same with the interface of Spark 4.1 on each Spark, which reads up to whatever other offset it gets."""

    def _latest(self, start: Any, most: int | None) -> Any:
        return self.reader.latestOffset()

    def _started(self) -> EventStream:
        schema = EventStoreDataSource(dict(self._source)).schema()
        return EventStream(Events.of(event_options(self._source), schema))
