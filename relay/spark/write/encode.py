"""Columns to PostgreSQL's binary COPY format, whole Arrow arrays at a time.

A row of that format is the number of its fields and then, for each, its length and its bytes. Joining the columns'
bytes with arrays of lengths between them, element by element, gives one Arrow array whose data *is* the stream, without
a Python object for a row. This module does not know the outbox; ``relay.spark.write.frames`` builds its rows.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from relay.postgres.codec import EPOCH_2000_US

_NO_VALUE: Final = -1
_JSONB_VERSION: Final = b"\x01"

Integers = npt.NDArray[np.integer[Any]]


def field_count(count: int) -> pa.Scalar:
    """The start of every row."""
    return pa.scalar(count.to_bytes(2, "big"), pa.binary())


def variable(column: pa.Array) -> list[pa.Array]:
    """Fields of text or bytea: length and bytes, or the mark of NULL."""
    column = column.cast(pa.binary())
    lengths = pc.fill_null(pc.binary_length(column), _NO_VALUE)
    return [_big_endian(lengths.to_numpy(zero_copy_only=False), ">i4"), _without_nulls(column)]


def jsonb(column: pa.Array) -> list[pa.Array]:
    """Fields of jsonb: JSON text behind a version number; no nulls."""
    lengths = pc.binary_length(column).to_numpy(zero_copy_only=False) + len(_JSONB_VERSION)
    return [_big_endian(lengths, ">i4"), pa.scalar(_JSONB_VERSION, pa.binary()), column.cast(pa.binary())]


def fixed(values: npt.NDArray[np.uint8]) -> list[pa.Array]:
    """Fields of equal length, one for each row of ``values``, for example the 16 bytes of a UUID."""
    width = values.shape[1]
    return [_length(width), _binary(np.ascontiguousarray(values), width)]


def numbers(start: int, count: int) -> list[pa.Array]:
    """Fields of bigint: one number after the other."""
    return [_length(8), _big_endian(np.arange(start, start + count), ">i8")]


def constant(field: bytes | None) -> list[pa.Scalar]:
    """One field for every row; None is NULL."""
    if field is None:
        return [_length(_NO_VALUE)]
    return [pa.scalar(len(field).to_bytes(4, "big") + field, pa.binary())]


def timestamps(column: pa.Array) -> list[pa.Array]:
    """Fields of timestamptz, from an array of timestamps; nulls are NULL."""
    micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    since_2000 = pc.subtract(pc.fill_null(micros, EPOCH_2000_US), EPOCH_2000_US)
    eight = _big_endian(since_2000.to_numpy(zero_copy_only=False), ">i8")
    if not column.null_count:
        return [_length(8), eight]
    lengths = np.where(np.asarray(column.is_null()), _NO_VALUE, 8)
    return [_big_endian(lengths, ">i4"), pc.if_else(column.is_valid(), eight, pa.scalar(b"", pa.binary()))]


def rows(parts: list[pa.Array | pa.Scalar]) -> pa.BinaryArray:
    """The rows' bytes, one element a row, contiguous in memory."""
    merged: list[pa.Array | pa.Scalar] = []  # each part costs the same for a row, however short it is
    for is_constant, group in groupby(parts, lambda part: isinstance(part, pa.Scalar)):
        neighbours = list(group)
        constants = b"".join(part.as_py() for part in neighbours) if is_constant else b""
        merged += [pa.scalar(constants, pa.binary())] if is_constant else neighbours
    return pc.binary_join_element_wise(*merged, pa.scalar(b"", pa.binary()))


def stream(joined: pa.BinaryArray) -> memoryview:
    """All elements of ``rows`` as one view of their memory."""
    _, offsets, data = joined.buffers()
    starts = np.frombuffer(offsets, np.int32)
    return memoryview(data)[starts[joined.offset] : starts[joined.offset + len(joined)]]


def _length(count: int) -> pa.Scalar:
    """The length of each field of a column."""
    return pa.scalar(count.to_bytes(4, "big", signed=True), pa.binary())


def _binary(values: npt.NDArray[Any], width: int) -> pa.Array:
    """Contiguous values of ``width`` bytes each."""
    array = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(values), [None, pa.py_buffer(values)])
    return array.cast(pa.binary())


def _big_endian(values: Integers, kind: str) -> pa.Array:
    swapped = values.astype(kind)
    return _binary(swapped, swapped.itemsize)


def _without_nulls(column: pa.Array) -> pa.Array:
    return pc.fill_null(column, pa.scalar(b"", pa.binary())) if column.null_count else column
