"""The meaning of a DataFrame's columns for the outbox, from its schema, on the driver, before a row is written.

Raises EventError, which names the column; reads no data.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    NullType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from relay.core.errors import ConfigError, EventError

KNOWN: Final = ("event_type", "payload", "event_id", "partition_key", "headers", "available_at")

_TEXT: Final = (StringType, CharType, VarcharType)
_PLAIN: Final = (*_TEXT, BooleanType, IntegralType, DecimalType, DateType, TimestampType, TimestampNTZType)
_JSON_LEAVES: Final = (*_PLAIN, BinaryType, FloatType, DoubleType, NullType)
_KEY_LEAVES: Final = (*_PLAIN, BinaryType)


class ColumnKind(StrEnum):
    """How a column's values become bytes."""

    text = "text"
    binary = "binary"
    json = "json"


@dataclass(frozen=True, slots=True)
class Columns:
    """Positions of the columns in each Arrow batch, and the kinds of those with several allowed types."""

    payload: int
    payload_kind: ColumnKind
    event_type: int | None = None
    event_id: int | None = None
    event_id_kind: ColumnKind = ColumnKind.text
    partition_key: int | None = None
    headers: int | None = None
    headers_kind: ColumnKind = ColumnKind.text
    available_at: int | None = None
    id_columns: tuple[tuple[str, int], ...] = ()


def read_columns(schema: StructType, event_type: str | None, id_columns: tuple[str, ...]) -> Columns:
    """The columns' positions. Raises EventError for a column that is missing, of a wrong type, or unknown."""
    indices = _indices(schema)
    _check_presence(indices, event_type, id_columns)
    types = {name: schema.fields[index].dataType for name, index in indices.items()}
    keys = tuple((name, indices[name.lower()]) for name in id_columns)
    for name in id_columns:
        _check_type(
            name, types[name.lower()], _KEY_LEAVES, "text, a whole number, a decimal, a boolean, a date or a time"
        )
    _check_type("event_type", types.get("event_type"), _TEXT, "a string")
    _check_type("partition_key", types.get("partition_key"), _TEXT, "a string; cast it")
    _check_type("available_at", types.get("available_at"), (TimestampType,), "a timestamp with time zone")
    _check_type("event_id", types.get("event_id"), (*_TEXT, BinaryType), "a UUID as a string, or its 16 bytes")
    return Columns(
        payload=indices["payload"],
        payload_kind=_payload_kind(types["payload"]),
        event_type=indices.get("event_type"),
        event_id=indices.get("event_id"),
        event_id_kind=ColumnKind.binary if isinstance(types.get("event_id"), BinaryType) else ColumnKind.text,
        partition_key=indices.get("partition_key"),
        headers=indices.get("headers"),
        headers_kind=_headers_kind(types.get("headers")),
        available_at=indices.get("available_at"),
        id_columns=keys,
    )


def _indices(schema: StructType) -> dict[str, int]:
    indices: dict[str, int] = {}
    for index, name in enumerate(schema.fieldNames()):
        if indices.setdefault(name.lower(), index) != index:
            raise EventError(f"column {name}: there are two of this name; drop or rename one")
    return indices


def _check_presence(indices: dict[str, int], event_type: str | None, id_columns: tuple[str, ...]) -> None:
    if "payload" not in indices:
        raise EventError("column payload: missing; it is the event's body (binary, string, struct, map or array)")
    if event_type is None and "event_type" not in indices:
        raise EventError("column event_type: missing; add it, or set the option eventType for all rows")
    if event_type is not None and "event_type" in indices:
        raise ConfigError("option eventType: the frame has a column event_type too; drop one of the two")
    if id_columns and "event_id" in indices:
        raise ConfigError("option idColumns: the frame has a column event_id too; drop one of the two")
    for name in id_columns:
        if name.lower() not in indices:
            raise EventError(f"column {name}: missing, though option idColumns names it")
    unknown = next((name for name in indices if name not in KNOWN and name not in map(str.lower, id_columns)), None)
    if unknown is not None:
        raise EventError(
            f"column {unknown}: not a column of the outbox ({', '.join(KNOWN)}); drop it, or put it into payload"
        )


def _check_type(name: str, type_: DataType | None, allowed: tuple[type[DataType], ...], names: str) -> None:
    if type_ is not None and not isinstance(type_, allowed):
        raise EventError(f"column {name}: is {type_.simpleString()}; it must be {names}")


def _payload_kind(type_: DataType) -> ColumnKind:
    if isinstance(type_, BinaryType):
        return ColumnKind.binary
    if isinstance(type_, _TEXT):
        return ColumnKind.text
    _check_type("payload", type_, (StructType, MapType, ArrayType), "binary, a string, or a struct, map or array")
    _check_json("payload", type_)
    return ColumnKind.json


def _headers_kind(type_: DataType | None) -> ColumnKind:
    if type_ is None or isinstance(type_, _TEXT):
        return ColumnKind.text
    _check_type("headers", type_, (StructType, MapType), "a map, a struct, or JSON text")
    _check_json("headers", type_)
    return ColumnKind.json


def _check_json(path: str, type_: DataType) -> None:
    if isinstance(type_, StructType):
        for each in type_.fields:
            _check_json(f"{path}.{each.name}", each.dataType)
    elif isinstance(type_, ArrayType):
        _check_json(f"{path}[]", type_.elementType)
    elif isinstance(type_, MapType):
        _check_type(f"{path} (the keys)", type_.keyType, (*_TEXT, IntegralType), "a string or a whole number")
        _check_json(f"{path}.*", type_.valueType)
    elif not isinstance(type_, _JSON_LEAVES):
        raise EventError(f"column {path}: {type_.simpleString()} has no JSON form here; make it a string first")
