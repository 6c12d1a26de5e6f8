"""Arrow batches of a DataFrame to rows of the outbox: checks, ids, and the bytes of COPY.

Raises EventError, which names the column, for values that the outbox cannot store. Runs on the executors, and in a dry
run.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relay.core.errors import EventError
from relay.postgres.codec import EPOCH_2000_US
from relay.spark.write.columns import ColumnKind, Columns
from relay.spark.write.encode import (
    constant,
    field_count,
    fixed,
    jsonb,
    numbers,
    rows,
    stream,
    timestamps,
    variable,
)
from relay.spark.write.identity import Ids, Occurrences, ids_of_content, ids_of_keys, read_ids
from relay.spark.write.jsontext import json_column

LARGEST_SUM: Final = 1 << 63
"""Sums are modulo this, to fit a bigint."""
_NO_HEADERS: Final = b"\x01{}"  # of jsonb
_PIECE_BYTES: Final = 32 << 20  # encoded at once; Arrow's own limit is 2 GiB


@dataclass(frozen=True, slots=True)
class Frame:
    """Encoded rows."""

    data: memoryview
    count: int


@dataclass(frozen=True, slots=True)
class Parts:
    """The checked columns of a batch, arrays of one length; ``available_at`` is None without such a column."""

    event_type: pa.Array
    partition_key: pa.Array
    payload: pa.Array
    headers: pa.Array
    available_at: pa.Array | None


@dataclass(slots=True)
class Framer:
    """Encodes one partition's batches; create one for each attempt at a partition."""

    columns: Columns
    event_type: str | None
    job: str
    space: UUID
    """The namespace of ids that are derived from content: of the job and this partition."""
    seen: Occurrences = field(default_factory=Occurrences)
    growth: float = 128.0
    """How many bytes come of one of Arrow's, by the last piece: as JSON a struct has its fields' names in each row."""
    summed: bool = False
    """Whether ``id_sum`` is wanted."""
    id_sum: int = 0
    """A sum over the rows that is the same however they are divided into partitions: of their ids, or, where those are
    derived from the content, of its checksums."""
    staged: int = 0
    """The number of staged rows."""
    size: int = 0
    """Bytes of all frames."""

    def frames(self, batch: pa.RecordBatch, default_time: bytes | None, attempt: int | None) -> Iterator[Frame]:
        """The rows of one batch, in pieces of bounded size.

        ``default_time`` is the field for a row without ``available_at``, None for NULL. Staged rows begin with
        ``attempt`` and their number in the partition.
        """
        if not batch.num_rows:
            return
        start = 0
        while start < batch.num_rows:
            step = max(1, int(_PIECE_BYTES / self.growth / max(1, batch.nbytes) * batch.num_rows))
            piece = batch.slice(start, step)
            data = stream(self._rows(piece, default_time, attempt))
            self.growth = max(1.0, len(data) / max(1, piece.nbytes))
            self.size += len(data)
            yield Frame(data, piece.num_rows)
            start += step

    def ids(self, batch: pa.RecordBatch, parts: Parts) -> Ids:
        """The event ids of the batch."""
        if self.columns.event_id is not None:
            column = batch.column(self.columns.event_id)
            ids = read_ids(_plain(column), text=self.columns.event_id_kind is ColumnKind.text)
        elif self.columns.id_columns:
            names = [name for name, _ in self.columns.id_columns]
            keys = [_plain(batch.column(index)) for _, index in self.columns.id_columns]
            ids = ids_of_keys(self.job, parts.event_type, names, keys)
        else:
            content = rows([*self._body(parts), *_time(parts, None)])
            self._add(map(zlib.crc32, content.to_pylist()) if self.summed else ())
            return ids_of_content(self.space, content, self.seen)
        self._add(ids[:, :4].copy().view(np.uint32).ravel().tolist() if self.summed else ())
        return ids

    def parts(self, batch: pa.RecordBatch) -> Parts:
        """The batch's columns as they are stored. Raises EventError for nulls and empty names."""
        return Parts(
            self._event_type(batch),
            self._optional(batch, self.columns.partition_key, None),
            _bytes(batch.column(self.columns.payload), self.columns.payload_kind, "payload"),
            self._headers(batch),
            None if self.columns.available_at is None else batch.column(self.columns.available_at),
        )

    def _add(self, numbers: Iterable[int]) -> None:
        self.id_sum = (self.id_sum + sum(numbers)) % LARGEST_SUM

    def _rows(self, batch: pa.RecordBatch, default_time: bytes | None, attempt: int | None) -> pa.BinaryArray:
        parts = self.parts(batch)
        mark: list[pa.Array | pa.Scalar] = []
        if attempt is not None:
            mark = [*constant(attempt.to_bytes(8, "big")), *numbers(self.staged, batch.num_rows)]
            self.staged += batch.num_rows
        body = [*self._body(parts), *_time(parts, default_time)]
        return rows([field_count(6 if attempt is None else 8), *mark, *fixed(self.ids(batch, parts)), *body])

    def _body(self, parts: Parts) -> list[pa.Array | pa.Scalar]:
        return [
            *variable(parts.event_type),
            *(constant(None) if self.columns.partition_key is None else variable(parts.partition_key)),
            *variable(parts.payload),
            *(constant(_NO_HEADERS) if self.columns.headers is None else jsonb(parts.headers)),
        ]

    def _event_type(self, batch: pa.RecordBatch) -> pa.Array:
        if self.columns.event_type is None:
            return pa.repeat(pa.scalar(self.event_type, pa.string()), batch.num_rows)
        types = _bytes(batch.column(self.columns.event_type), ColumnKind.text, "event_type")
        empty = pc.sum(pc.equal(pc.binary_length(types), 0)).as_py()
        if empty:
            raise EventError(f"column event_type: empty in {empty} rows; it names the topic, subject or stream")
        return types

    def _headers(self, batch: pa.RecordBatch) -> pa.Array:
        headers = self._optional(batch, self.columns.headers, "{}")
        if self.columns.headers_kind is not ColumnKind.json:
            return pc.fill_null(headers, "{}")
        return pc.if_else(headers.is_valid(), json_column(headers), "{}")

    @staticmethod
    def _optional(batch: pa.RecordBatch, index: int | None, default: str | None) -> pa.Array:
        if index is None:
            return pa.repeat(pa.scalar(default, pa.string()), batch.num_rows)
        return _plain(batch.column(index))


def _time(parts: Parts, default: bytes | None) -> list[pa.Array | pa.Scalar]:
    if parts.available_at is None:
        return constant(default)
    column = parts.available_at
    if default is not None and column.null_count:
        column = pc.fill_null(column.cast(pa.timestamp("us", column.type.tz)), _time_of(default, column.type))
    return timestamps(column)


def _time_of(default: bytes, kind: pa.DataType) -> pa.Scalar:
    from_2000 = int.from_bytes(default, "big", signed=True)
    return pa.scalar(from_2000 + EPOCH_2000_US, pa.int64()).cast(pa.timestamp("us", kind.tz))


def _bytes(column: pa.Array, kind: ColumnKind, name: str) -> pa.Array:
    if column.null_count:
        raise EventError(f"column {name}: null in {column.null_count} rows; every event needs one")
    return json_column(column) if kind is ColumnKind.json else _plain(column)


def _plain(column: pa.Array) -> pa.Array:
    """The column without Arrow's 64-bit variants, which some of Spark's settings produce."""
    if pa.types.is_large_string(column.type):
        return column.cast(pa.string())
    return column.cast(pa.binary()) if pa.types.is_large_binary(column.type) else column
