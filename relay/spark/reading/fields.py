"""The columns that can be read, what each is to Spark and to Arrow, and which of them a reader was asked for.

Raises ConfigError naming the column, on the driver, before a row is read.
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


class Kind(StrEnum):
    """How PostgreSQL sends a column."""

    uuid = "uuid"
    text = "text"
    jsonb = "jsonb"
    bytea = "bytea"
    time = "time"
    integer = "integer"
    bigint = "bigint"
    boolean = "boolean"


_SPARK: Final[dict[Kind, DataType]] = {
    Kind.uuid: StringType(),
    Kind.text: StringType(),
    Kind.jsonb: StringType(),
    Kind.bytea: BinaryType(),
    Kind.time: TimestampType(),
    Kind.integer: IntegerType(),
    Kind.bigint: LongType(),
    Kind.boolean: BooleanType(),
}
_ARROW: Final[dict[Kind, pa.DataType]] = {
    Kind.uuid: pa.string(),
    Kind.text: pa.string(),
    Kind.jsonb: pa.string(),
    Kind.bytea: pa.binary(),
    Kind.time: pa.timestamp("us", tz="UTC"),
    Kind.integer: pa.int32(),
    Kind.bigint: pa.int64(),
    Kind.boolean: pa.bool_(),
}


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a table."""

    name: str
    kind: Kind
    nullable: bool = False


OUTBOX: Final = (
    Field("event_id", Kind.uuid),
    Field("event_type", Kind.text),
    Field("partition_key", Kind.text, nullable=True),
    Field("payload", Kind.bytea),
    Field("headers", Kind.jsonb),
    Field("status", Kind.text),
    Field("attempts", Kind.integer),
    Field("last_error", Kind.text, nullable=True),
    Field("available_at", Kind.time),
    Field("locked_by", Kind.text, nullable=True),
    Field("locked_at", Kind.time, nullable=True),
    Field("delivered_at", Kind.time, nullable=True),
    Field("created_at", Kind.time),
    Field("updated_at", Kind.time),
)
"""The contract's columns, in its order."""

DELIVERIES: Final = (
    Field("id", Kind.text),
    Field("event_id", Kind.text),
    Field("tenant_id", Kind.text),
    Field("destination_id", Kind.text),
    Field("destination_type", Kind.text),
    Field("topic", Kind.text),
    Field("status", Kind.text),
    Field("time", Kind.time),
    Field("attempt_number", Kind.integer),
    Field("manual", Kind.boolean),
    Field("code", Kind.text, nullable=True),
    Field("response_data", Kind.text, nullable=True),
    Field("event_time", Kind.time),
    Field("eligible_for_retry", Kind.boolean),
    Field("event_data", Kind.bytea),
    Field("event_metadata", Kind.jsonb),
    Field("event_topic", Kind.text),
    Field("event_destination_id", Kind.text),
)
"""An attempt in the delivery log, with its event."""

EVENTS: Final = (
    Field("sequence_num", Kind.bigint),
    Field("tenant_id", Kind.uuid),
    Field("stream_id", Kind.uuid),
    Field("version", Kind.integer),
    Field("type", Kind.text),
    Field("meta", Kind.jsonb),
    Field("data", Kind.jsonb, nullable=True),
    Field("log_date", Kind.time),
)
"""The event store's columns, in the order in which its statements give them."""


def schema_of(fields: Sequence[Field]) -> StructType:
    """The columns as Spark is told them."""
    return StructType([StructField(field.name, _SPARK[field.kind], field.nullable) for field in fields])


def named(names: Sequence[str], fields: Sequence[Field]) -> tuple[Field, ...]:
    """The columns of these names, all where none is named. Raises ConfigError for a name that is not known."""
    known = {field.name: field for field in fields}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigError(f"column {', '.join(unknown)}: there is none; there are {', '.join(known)}")
    return tuple(known[name] for name in names) if names else tuple(fields)


def asked_for(schema: StructType, names: Sequence[str], fields: Sequence[Field]) -> tuple[Field, ...]:
    """The columns of a schema that the user may have given, and by name, too.

    Raises ConfigError for another name or type, and where the two differ.
    """
    chosen = named([name.lower() for name in schema.fieldNames()], fields)
    if names and chosen != named(names, fields):
        raise ConfigError("option columns: there is a schema of other columns too; give one of the two")
    for field, given in zip(chosen, schema.fields, strict=True):
        wanted = _SPARK[field.kind]
        if given.dataType != wanted:
            raise ConfigError(
                f"column {given.name}: is {given.dataType.simpleString()} in the given schema; it must be "
                f"{wanted.simpleString()}, and may be cast afterwards"
            )
    return chosen


def arrow_schema(schema: StructType, fields: Sequence[Field]) -> pa.Schema:
    """What Spark expects of a batch, to the letter."""
    pairs = zip(fields, schema.fields, strict=True)
    return pa.schema([pa.field(given.name, _ARROW[field.kind], given.nullable) for field, given in pairs])
