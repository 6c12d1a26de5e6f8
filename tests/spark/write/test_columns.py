"""Which DataFrames are events."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    CharType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from relay.core.errors import ConfigError, EventError
from relay.spark.write.columns import ColumnKind, read_columns

TYPE = ("event_type", StringType())
PAYLOAD = ("payload", StringType())


def schema(*columns: tuple[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns])


def test_text_of_a_bounded_length_is_text() -> None:
    text = schema(("event_type", VarcharType(20)), ("payload", VarcharType(9)), ("headers", CharType(2)))
    columns = read_columns(text, None, ())
    assert (columns.payload_kind, columns.headers_kind) == (ColumnKind.text, ColumnKind.text)


def test_all_columns_in_any_order_and_case() -> None:
    columns = read_columns(
        schema(
            ("Headers", MapType(StringType(), StringType())),
            ("PAYLOAD", BinaryType()),
            ("event_id", BinaryType()),
            ("available_at", TimestampType()),
            ("partition_key", StringType()),
            TYPE,
        ),
        None,
        (),
    )
    assert (columns.headers, columns.payload, columns.event_id, columns.event_type) == (0, 1, 2, 5)
    assert (columns.headers_kind, columns.payload_kind, columns.event_id_kind) == (
        ColumnKind.json,
        ColumnKind.binary,
        ColumnKind.binary,
    )


@pytest.mark.parametrize(
    "kind",
    [
        StructType([StructField("a", DateType())]),
        ArrayType(DoubleType()),
        MapType(IntegerType(), ArrayType(BinaryType())),
    ],
)
def test_structs_arrays_and_maps_are_json(kind: DataType) -> None:
    assert read_columns(schema(TYPE, ("payload", kind)), None, ()).payload_kind is ColumnKind.json


def test_business_keys_may_be_columns_of_their_own() -> None:
    columns = read_columns(
        schema(TYPE, PAYLOAD, ("Shop", StringType()), ("number", LongType())), None, ("shop", "number")
    )
    assert columns.id_columns == (("shop", 2), ("number", 3))


@pytest.mark.parametrize(
    ("columns", "event_type", "keys", "message"),
    [
        ([TYPE], None, (), "column payload: missing"),
        ([PAYLOAD], None, (), "column event_type: missing"),
        ([TYPE, ("payload", IntegerType())], None, (), "column payload: is int"),
        ([PAYLOAD, ("event_type", LongType())], None, (), "column event_type: is bigint"),
        ([TYPE, PAYLOAD, ("headers", ArrayType(StringType()))], None, (), "column headers: is array"),
        ([TYPE, PAYLOAD, ("event_id", LongType())], None, (), "column event_id: is bigint"),
        ([TYPE, PAYLOAD, ("partition_key", LongType())], None, (), "column partition_key: is bigint"),
        ([TYPE, PAYLOAD, ("available_at", TimestampNTZType())], None, (), "column available_at: is timestamp_ntz"),
        ([TYPE, PAYLOAD, ("colour", StringType())], None, (), "column colour: not a column of the outbox"),
        ([TYPE, PAYLOAD, ("Payload", StringType())], None, (), "column Payload: there are two"),
        ([TYPE, PAYLOAD], None, ("number",), "column number: missing"),
        ([TYPE, PAYLOAD, ("number", DoubleType())], None, ("number",), "column number: is double"),
        ([TYPE, ("payload", StructType([StructField("x", DayTimeIntervalType())]))], None, (), r"column payload\.x"),
        ([TYPE, ("payload", MapType(DateType(), StringType()))], None, (), r"column payload \(the keys\)"),
    ],
)
def test_what_is_wrong_is_named_by_its_column(
    columns: list[tuple[str, DataType]], event_type: str | None, keys: tuple[str, ...], message: str
) -> None:
    with pytest.raises(EventError, match=message):
        read_columns(schema(*columns), event_type, keys)


def test_two_sources_of_one_thing_are_refused() -> None:
    with pytest.raises(ConfigError, match="option eventType"):
        read_columns(schema(TYPE, PAYLOAD), "t", ())
    with pytest.raises(ConfigError, match="option idColumns"):
        read_columns(schema(TYPE, PAYLOAD, ("event_id", StringType())), None, ("payload",))
