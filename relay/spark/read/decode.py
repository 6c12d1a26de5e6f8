"""Rows of PostgreSQL's binary COPY format to Arrow, whole columns at a time.

A row is the number of its fields and then, for each, its length and its bytes. The start of a field depends on the
lengths before it in its row, so columns are decoded in order, each over all rows of a batch at once, without a Python
object for a value. The opposite of ``relay.spark.write.encode``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from relay.core.errors import StorageError
from relay.postgres.codec import EPOCH_2000_US
from relay.spark.read.fields import FieldKind

Integers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_LARGEST: Final = np.iinfo(np.int64).max
_LARGEST_ARRAY: Final = np.iinfo(np.int32).max
_HEX: Final = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint16)
_GROUPS: Final = ((0, 8, 0), (9, 13, 8), (14, 18, 12), (19, 23, 16), (24, 36, 20))
"""The start and end of each group of a UUID in its text, and its start in the 32 digits."""
_UUID_TEXT: Final = 36


@dataclass(slots=True)
class Rows:
    """Encoded rows, one after the other, and their sizes in bytes."""

    data: bytearray = field(default_factory=bytearray)
    sizes: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Values:
    """One column of a batch: the start of each value in ``data``, its size, and which values are missing."""

    data: Bytes
    starts: Integers
    sizes: Integers
    missing: npt.NDArray[np.bool_] | None

    def fixed(self, width: int) -> Bytes:
        """The values' bytes, a row each; undefined for a missing one. Not all values may be missing."""
        wrong = self.sizes != width
        starts = self.starts
        if self.missing is not None:
            wrong &= ~self.missing
            starts = np.where(self.missing, 0, starts)
        if wrong.any():
            raise StorageError(f"COPY: a value of {int(self.sizes[wrong][0])} bytes instead of {width}")
        return _gather(self.data, starts, f"V{width}").view(np.uint8).reshape(-1, width)


def decode(rows: Rows, kinds: Sequence[FieldKind], schema: pa.Schema) -> pa.RecordBatch:
    """One batch. Raises StorageError for bytes that are not rows of these columns."""
    data = np.frombuffer(rows.data, np.uint8)
    ends = np.cumsum(np.array(rows.sizes, np.int64))
    at = np.concatenate([np.zeros(1, np.int64), ends[:-1]]) + 2
    arrays = []
    if not (_numbers(data, at - 2, ">i2") == len(kinds)).all():
        raise StorageError(f"COPY: a row without exactly {len(kinds)} fields")
    for kind, each in zip(kinds, schema, strict=True):
        values = _column(data, at)
        empty = values.missing is not None and values.missing.all()
        arrays.append(pa.nulls(len(ends), each.type) if empty else _ARRAYS[kind](values))
        at = values.starts + values.sizes
    if not (at == ends).all():
        raise StorageError("COPY: a row whose size is not that of its fields")
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(data: Bytes, at: Integers) -> _Values:
    sizes = _numbers(data, at, ">i4")
    if int((at + sizes).max()) + 4 > len(data):
        raise StorageError("COPY: a row that ends too early")
    missing = sizes < 0
    if not missing.any():
        return _Values(data, at + 4, sizes, None)
    return _Values(data, at + 4, np.where(missing, 0, sizes), missing)


def _numbers(data: Bytes, at: Integers, kind: str) -> Integers:
    return _gather(data, at, kind).astype(np.int64)


def _gather(data: Bytes, at: Integers, kind: str) -> npt.NDArray[Any]:
    """The values of a kind at these positions, which need not be aligned."""
    starts = len(data) - np.dtype(kind).itemsize + 1
    if int(at.max()) >= starts:
        raise StorageError("COPY: a row that ends too early")
    return np.ndarray((starts,), kind, data, strides=(1,))[at]


def _variable(values: _Values, kind: pa.DataType) -> pa.Array:
    """Values have other bytes between them: build an array of both, and take every other element."""
    count = len(values.starts)
    width = int(values.sizes[0])
    if values.missing is None and width and (values.sizes == width).all() and width * count < _LARGEST_ARRAY:
        return _equal_sizes(values.fixed(width), kind)
    edges = np.empty(2 * count, np.int32)
    edges[0::2] = values.starts
    edges[1::2] = values.starts + values.sizes
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(values.data)]
    both = pa.Array.from_buffers(kind, 2 * count - 1, buffers)
    return both.take(pa.array(np.arange(0, 2 * count, 2), mask=values.missing))


def _equal_sizes(values: Bytes, kind: pa.DataType) -> pa.Array:
    """Values of one size."""
    count, width = values.shape
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(offsets), pa.py_buffer(values)])


def _text(values: _Values) -> pa.Array:
    return _variable(values, pa.string())


def _bytea(values: _Values) -> pa.Array:
    return _variable(values, pa.binary())


def _jsonb(values: _Values) -> pa.Array:
    """JSON text behind a version number."""
    version = 1 if values.missing is None else (~values.missing).astype(np.int64)  # bytes
    return _text(_Values(values.data, values.starts + version, values.sizes - version, values.missing))


def _uuid(values: _Values) -> pa.Array:
    digits = _HEX[values.fixed(16)].view(np.uint8)
    text = np.full((len(digits), _UUID_TEXT), ord("-"), np.uint8)
    for begin, end, digit in _GROUPS:
        text[:, begin:end] = digits[:, digit : digit + end - begin]
    array = _equal_sizes(text, pa.string())
    return array if values.missing is None else array.take(pa.array(np.arange(len(digits)), mask=values.missing))


def _time(values: _Values) -> pa.Array:
    """Microseconds since 1970; PostgreSQL's infinities become the first and the last timestamp of Spark's."""
    since_2000 = values.fixed(8).view(">i8").ravel().astype(np.int64)
    micros = np.where(since_2000 > _LARGEST - EPOCH_2000_US, _LARGEST, since_2000 + EPOCH_2000_US)
    return pa.array(micros, mask=values.missing).cast(pa.timestamp("us", tz="UTC"))


def _integer(values: _Values) -> pa.Array:
    return pa.array(values.fixed(4).view(">i4").ravel().astype(np.int32), mask=values.missing)


def _bigint(values: _Values) -> pa.Array:
    return pa.array(values.fixed(8).view(">i8").ravel().astype(np.int64), mask=values.missing)


def _boolean(values: _Values) -> pa.Array:
    return pa.array(values.fixed(1).ravel() != 0, mask=values.missing)


_ARRAYS: Final[dict[FieldKind, Any]] = {
    FieldKind.uuid: _uuid,
    FieldKind.text: _text,
    FieldKind.jsonb: _jsonb,
    FieldKind.bytea: _bytea,
    FieldKind.time: _time,
    FieldKind.integer: _integer,
    FieldKind.bigint: _bigint,
    FieldKind.boolean: _boolean,
}
