"""The readable columns, their types in Spark and in Arrow, and the selection of a reader's columns.

Raises ConfigError, which names the column, on the driver, before a row is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from relay.core.errors import ConfigError


class FieldKind(Enum):
    """The type in which PostgreSQL sends a column, by its name, in Spark and in Arrow."""

    uuid = "uuid", StringType(), pa.string()
    text = "text", StringType(), pa.string()
    jsonb = "jsonb", StringType(), pa.string()
    bytea = "bytea", BinaryType(), pa.binary()
    time = "time", TimestampType(), pa.timestamp("us", tz="UTC")
    integer = "integer", IntegerType(), pa.int32()
    bigint = "bigint", LongType(), pa.int64()
    boolean = "boolean", BooleanType(), pa.bool_()

    def __init__(self, _: str, spark: DataType, arrow: pa.DataType) -> None:
        self.spark = spark
        self.arrow = arrow


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a table."""

    name: str
    kind: FieldKind
    nullable: bool = False


def _fields(text: str) -> tuple[Field, ...]:
    """A table's columns; ``null`` stands behind one that may be null."""
    words = [column.split() for column in text.split(", ")]
    return tuple(Field(name, FieldKind[kind], nullable=bool(null)) for name, kind, *null in words)


OUTBOX: Final = _fields(
    "event_id uuid, event_type text, partition_key text null, payload bytea, headers jsonb, status text, "
    "attempts integer, last_error text null, available_at time, locked_by text null, "
    "locked_at time null, delivered_at time null, created_at time, updated_at time"
)
"""The contract's columns, in its order."""

DELIVERIES: Final = _fields(
    "id text, event_id text, tenant_id text, destination_id text, destination_type text, topic text, "
    "status text, time time, attempt_number integer, manual boolean, code text null, "
    "response_data text null, event_time time, eligible_for_retry boolean, event_data bytea, "
    "event_metadata jsonb, event_topic text, event_destination_id text"
)
"""An attempt in the delivery log, with its event."""

EVENTS: Final = _fields(
    "sequence_num bigint, tenant_id uuid, stream_id uuid, version integer, type text, meta jsonb, "
    "data jsonb null, log_date time"
)
"""The event store's columns, in the order of its statements."""


def schema_of(fields: Sequence[Field]) -> StructType:
    """The columns as Spark's schema."""
    return StructType([StructField(field.name, field.kind.spark, field.nullable) for field in fields])


def fields_of(names: Sequence[str], fields: Sequence[Field]) -> tuple[Field, ...]:
    """The columns of these names; all columns for no name. Raises ConfigError for an unknown name."""
    known = {field.name: field for field in fields}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigError(f"column {', '.join(unknown)}: no such column; known are {', '.join(known)}")
    return tuple(known[name] for name in names) if names else tuple(fields)


def requested_fields(schema: StructType, names: Sequence[str], fields: Sequence[Field]) -> tuple[Field, ...]:
    """The columns of the query's schema, which a user may set, and of the option ``columns``.

    Raises ConfigError for an unknown name, a wrong type, and when schema and option differ.
    """
    chosen = fields_of([name.lower() for name in schema.fieldNames()], fields)
    if names and chosen != fields_of(names, fields):
        raise ConfigError("option columns: the schema has other columns; set one of the two")
    for field, column in zip(chosen, schema.fields, strict=True):
        type_ = field.kind.spark
        if column.dataType != type_:
            raise ConfigError(
                f"column {column.name}: is {column.dataType.simpleString()} in the user's schema; it must be "
                f"{type_.simpleString()}, and may be cast afterwards"
            )
    return chosen


def arrow_schema(schema: StructType, fields: Sequence[Field]) -> pa.Schema:
    """The schema that Spark requires of a batch."""
    pairs = zip(fields, schema.fields, strict=True)
    return pa.schema([pa.field(column.name, field.kind.arrow, column.nullable) for field, column in pairs])
