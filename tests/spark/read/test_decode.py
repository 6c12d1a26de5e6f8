"""Rows of binary COPY, as its documentation has them, come out of ``decode`` as the values that went in."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay.core.errors import StorageError
from relay.spark.read.decode import Rows, decode
from relay.spark.read.fields import Field, FieldKind, arrow_schema, schema_of

FIELDS = tuple(Field(kind.name, kind, nullable=True) for kind in FieldKind)
SCHEMA = arrow_schema(schema_of(FIELDS), FIELDS)
SINCE_2000 = 946_684_800_000_000


ENCODERS: dict[FieldKind, Callable[[Any], bytes]] = {
    FieldKind.uuid: lambda value: uuid.UUID(value).bytes,
    FieldKind.text: str.encode,
    FieldKind.jsonb: lambda value: b"\x01" + str(value).encode(),
    FieldKind.bytea: bytes,
    FieldKind.time: lambda value: struct.pack("!q", value - SINCE_2000),
    FieldKind.integer: lambda value: struct.pack("!i", value),
    FieldKind.bigint: lambda value: struct.pack("!q", value),
    FieldKind.boolean: lambda value: struct.pack("!?", value),
}


def encoded(value: Any, kind: FieldKind) -> bytes | None:
    return None if value is None else ENCODERS[kind](value)


def row(*fields: bytes | None) -> bytes:
    parts = [struct.pack("!i", -1) if each is None else struct.pack("!i", len(each)) + each for each in fields]
    return struct.pack("!h", len(fields)) + b"".join(parts)


def received(*rows: bytes) -> Rows:
    return Rows(bytearray(b"".join(rows)), [len(each) for each in rows])


VALUES = {
    FieldKind.uuid: st.uuids().map(str),
    FieldKind.text: st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20),
    FieldKind.jsonb: st.sampled_from(["{}", '{"a": "é"}', "null"]),
    FieldKind.bytea: st.binary(max_size=40),
    FieldKind.time: st.integers(-(1 << 60), 1 << 60),
    FieldKind.integer: st.integers(-(1 << 31), (1 << 31) - 1),
    FieldKind.bigint: st.integers(-(1 << 63), (1 << 63) - 1),
    FieldKind.boolean: st.booleans(),
}
ROWS = st.lists(st.tuples(*(st.none() | VALUES[field.kind] for field in FIELDS)), min_size=1, max_size=30)


@settings(deadline=None)
@given(ROWS)
def test_every_value_comes_back(rows: list[tuple[Any, ...]]) -> None:
    sent = [row(*(encoded(value, field.kind) for value, field in zip(each, FIELDS, strict=True))) for each in rows]
    batch = decode(received(*sent), [field.kind for field in FIELDS], SCHEMA)
    batch.validate(full=True)
    columns = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in batch.columns]
    assert list(zip(*(column.to_pylist() for column in columns), strict=True)) == rows


def test_infinities_are_the_ends_of_what_spark_can_hold() -> None:
    schema = pa.schema([pa.field("t", pa.timestamp("us", tz="UTC"))])
    sent = received(*(row(struct.pack("!q", each)) for each in ((1 << 63) - 1, -(1 << 63))))
    batch = decode(sent, [FieldKind.time], schema)
    assert batch.column(0).cast(pa.int64()).to_pylist() == [(1 << 63) - 1, -(1 << 63) + SINCE_2000]


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (row(b"a", b"b"), "without exactly 1 fields"),
        (row(b"a") + b"x", "size is not that of its fields"),
        (row(b"a")[:-1], "ends too early"),
        (struct.pack("!h", 1), "ends too early"),
    ],
)
def test_other_bytes_are_refused(sent: bytes, message: str) -> None:
    with pytest.raises(StorageError, match=message):
        decode(received(sent), [FieldKind.text], pa.schema([pa.field("t", pa.string())]))


def test_a_fixed_value_of_another_length_is_refused() -> None:
    with pytest.raises(StorageError, match="3 bytes instead of 16"):
        decode(received(row(b"abc")), [FieldKind.uuid], pa.schema([pa.field("t", pa.string())]))
