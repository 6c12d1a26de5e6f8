"""Rows of PostgreSQL's binary COPY format to Arrow, whole columns at a time.

A row is the number of its fields and then, for each, its length and its bytes. Where a field begins depends on the
lengths before it in its row, so the walk goes from column to column, over all rows of a batch at once; no Python object
is made for a value. The opposite of ``relay.spark.encode``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from relay.core.errors import StorageError
from relay.spark.encode import EPOCH_2000_US
from relay.spark.reading.fields import Kind

Integers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_PADDING: Final = bytes(16)
"""So that a look at the place of a missing value at the very end stays inside."""
_LARGEST: Final = np.iinfo(np.int64).max
_HEX: Final = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint16)
_GROUPS: Final = ((0, 8, 0), (9, 13, 8), (14, 18, 12), (19, 23, 16), (24, 36, 20))
"""Where a UUID's groups stand in its text, and where in its 32 digits they begin."""
_UUID_TEXT: Final = 36


@dataclass(frozen=True, slots=True)
class _Values:
    """One column of a batch: where in ``data`` each value begins, how long it is, and which are missing."""

    data: Bytes
    starts: Integers
    sizes: Integers
    missing: npt.NDArray[np.bool_] | None

    def fixed(self, width: int) -> Bytes:
        """The values' bytes, a row each."""
        wrong = self.sizes != width
        if self.missing is not None:
            wrong &= ~self.missing
        if wrong.any():
            raise StorageError(f"COPY: a value of {int(self.sizes[wrong][0])} bytes where there must be {width}")
        return np.lib.stride_tricks.sliding_window_view(self.data, width)[self.starts]


def decode(rows: Sequence[bytes | bytearray | memoryview], kinds: Sequence[Kind], schema: pa.Schema) -> pa.RecordBatch:
    """One batch. Raises StorageError for bytes that are no rows of these columns."""
    data = np.frombuffer(b"".join([*rows, _PADDING]), np.uint8)
    ends = np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)))
    at = np.concatenate([np.zeros(1, np.int64), ends[:-1]]) + 2
    arrays = []
    if not (_numbers(data, at - 2, ">i2") == len(kinds)).all():
        raise StorageError(f"COPY: a row that has not {len(kinds)} fields")
    for kind in kinds:
        values = _column(data, at)
        arrays.append(_ARRAYS[kind](values))
        at = values.starts + values.sizes
    if not (at == ends).all():
        raise StorageError("COPY: a row that is not as long as its fields")
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(data: Bytes, at: Integers) -> _Values:
    sizes = _numbers(data, at, ">i4")
    missing = sizes < 0
    if not missing.any():
        return _Values(data, at + 4, sizes, None)
    return _Values(data, at + 4, np.where(missing, 0, sizes), missing)


def _numbers(data: Bytes, at: Integers, kind: str) -> Integers:
    width = np.dtype(kind).itemsize
    if len(at) and int(at.max()) + width > len(data):
        raise StorageError("COPY: a row that ends too early")
    found = np.lib.stride_tricks.sliding_window_view(data, width)[at]
    return found.view(kind).ravel().astype(np.int64)


def _variable(values: _Values, kind: pa.DataType) -> pa.Array:
    """Values lie in memory with other bytes between them: an array of both is made, and every other element taken."""
    count = len(values.starts)
    edges = np.empty(2 * count, np.int32)
    edges[0::2] = values.starts
    edges[1::2] = values.starts + values.sizes
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(values.data)]
    both = pa.Array.from_buffers(kind, max(2 * count - 1, 0), buffers)
    return both.take(pa.array(np.arange(0, 2 * count, 2), mask=values.missing))


def _text(values: _Values) -> pa.Array:
    return _variable(values, pa.string())


def _bytea(values: _Values) -> pa.Array:
    return _variable(values, pa.binary())


def _jsonb(values: _Values) -> pa.Array:
    """JSON text behind a version number."""
    there = 1 if values.missing is None else (~values.missing).astype(np.int64)
    return _text(_Values(values.data, values.starts + there, values.sizes - there, values.missing))


def _uuid(values: _Values) -> pa.Array:
    digits = _HEX[values.fixed(16)].view(np.uint8)
    text = np.full((len(digits), _UUID_TEXT), ord("-"), np.uint8)
    for begin, end, digit in _GROUPS:
        text[:, begin:end] = digits[:, digit : digit + end - begin]
    offsets = np.arange(len(digits) + 1, dtype=np.int32) * _UUID_TEXT
    array = pa.Array.from_buffers(pa.string(), len(digits), [None, pa.py_buffer(offsets), pa.py_buffer(text)])
    return array if values.missing is None else array.take(pa.array(np.arange(len(digits)), mask=values.missing))


def _time(values: _Values) -> pa.Array:
    """Microseconds since 1970; PostgreSQL's infinities become the first and the last moment that Spark can hold."""
    since_2000 = values.fixed(8).view(">i8").ravel().astype(np.int64)
    micros = np.where(since_2000 > _LARGEST - EPOCH_2000_US, _LARGEST, since_2000 + EPOCH_2000_US)
    return pa.array(micros, mask=values.missing).cast(pa.timestamp("us", tz="UTC"))


def _integer(values: _Values) -> pa.Array:
    return pa.array(values.fixed(4).view(">i4").ravel().astype(np.int32), mask=values.missing)


def _bigint(values: _Values) -> pa.Array:
    return pa.array(values.fixed(8).view(">i8").ravel().astype(np.int64), mask=values.missing)


def _boolean(values: _Values) -> pa.Array:
    return pa.array(values.fixed(1).ravel() != 0, mask=values.missing)


_ARRAYS: Final[dict[Kind, Any]] = {
    Kind.uuid: _uuid,
    Kind.text: _text,
    Kind.jsonb: _jsonb,
    Kind.bytea: _bytea,
    Kind.time: _time,
    Kind.integer: _integer,
    Kind.bigint: _bigint,
    Kind.boolean: _boolean,
}
