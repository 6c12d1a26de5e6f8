"""The readable columns, their types in Spark and in Arrow, and the selection of a reader's columns.

Raises ConfigError, which names the column, on the driver, before a row is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
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


class FieldKind(StrEnum):
    """The type in which PostgreSQL sends a column."""

    uuid = "uuid"
    text = "text"
    jsonb = "jsonb"
    bytea = "bytea"
    time = "time"
    integer = "integer"
    bigint = "bigint"
    boolean = "boolean"


_SPARK: Final[dict[FieldKind, DataType]] = {
    FieldKind.uuid: StringType(),
    FieldKind.text: StringType(),
    FieldKind.jsonb: StringType(),
    FieldKind.bytea: BinaryType(),
    FieldKind.time: TimestampType(),
    FieldKind.integer: IntegerType(),
    FieldKind.bigint: LongType(),
    FieldKind.boolean: BooleanType(),
}
_ARROW: Final[dict[FieldKind, pa.DataType]] = {
    FieldKind.uuid: pa.string(),
    FieldKind.text: pa.string(),
    FieldKind.jsonb: pa.string(),
    FieldKind.bytea: pa.binary(),
    FieldKind.time: pa.timestamp("us", tz="UTC"),
    FieldKind.integer: pa.int32(),
    FieldKind.bigint: pa.int64(),
    FieldKind.boolean: pa.bool_(),
}


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a table."""

    name: str
    kind: FieldKind
    nullable: bool = False


OUTBOX: Final = (
    Field("event_id", FieldKind.uuid),
    Field("event_type", FieldKind.text),
    Field("partition_key", FieldKind.text, nullable=True),
    Field("payload", FieldKind.bytea),
    Field("headers", FieldKind.jsonb),
    Field("status", FieldKind.text),
    Field("attempts", FieldKind.integer),
    Field("last_error", FieldKind.text, nullable=True),
    Field("available_at", FieldKind.time),
    Field("locked_by", FieldKind.text, nullable=True),
    Field("locked_at", FieldKind.time, nullable=True),
    Field("delivered_at", FieldKind.time, nullable=True),
    Field("created_at", FieldKind.time),
    Field("updated_at", FieldKind.time),
)
"""The contract's columns, in its order."""

DELIVERIES: Final = (
    Field("id", FieldKind.text),
    Field("event_id", FieldKind.text),
    Field("tenant_id", FieldKind.text),
    Field("destination_id", FieldKind.text),
    Field("destination_type", FieldKind.text),
    Field("topic", FieldKind.text),
    Field("status", FieldKind.text),
    Field("time", FieldKind.time),
    Field("attempt_number", FieldKind.integer),
    Field("manual", FieldKind.boolean),
    Field("code", FieldKind.text, nullable=True),
    Field("response_data", FieldKind.text, nullable=True),
    Field("event_time", FieldKind.time),
    Field("eligible_for_retry", FieldKind.boolean),
    Field("event_data", FieldKind.bytea),
    Field("event_metadata", FieldKind.jsonb),
    Field("event_topic", FieldKind.text),
    Field("event_destination_id", FieldKind.text),
)
"""An attempt in the delivery log, with its event."""

EVENTS: Final = (
    Field("sequence_num", FieldKind.bigint),
    Field("tenant_id", FieldKind.uuid),
    Field("stream_id", FieldKind.uuid),
    Field("version", FieldKind.integer),
    Field("type", FieldKind.text),
    Field("meta", FieldKind.jsonb),
    Field("data", FieldKind.jsonb, nullable=True),
    Field("log_date", FieldKind.time),
)
"""The event store's columns, in the order of its statements."""


def schema_of(fields: Sequence[Field]) -> StructType:
    """The columns as Spark's schema."""
    return StructType([StructField(field.name, _SPARK[field.kind], field.nullable) for field in fields])


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
        type_ = _SPARK[field.kind]
        if column.dataType != type_:
            raise ConfigError(
                f"column {column.name}: is {column.dataType.simpleString()} in the user's schema; it must be "
                f"{type_.simpleString()}, and may be cast afterwards"
            )
    return chosen


def arrow_schema(schema: StructType, fields: Sequence[Field]) -> pa.Schema:
    """The schema that Spark requires of a batch."""
    pairs = zip(fields, schema.fields, strict=True)
    return pa.schema([pa.field(column.name, _ARROW[field.kind], column.nullable) for field, column in pairs])
