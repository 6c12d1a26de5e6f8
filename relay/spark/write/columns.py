"""What the columns of a DataFrame mean to the outbox, decided on the driver from its schema, before a row is written.

Raises EventError naming the column; nothing here looks at data.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
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
)

from relay.core.errors import ConfigError, EventError

KNOWN: Final = ("event_type", "payload", "event_id", "partition_key", "headers", "available_at")

_PLAIN: Final = (StringType, BooleanType, IntegralType, DecimalType, DateType, TimestampType, TimestampNTZType)
_JSON_LEAVES: Final = (*_PLAIN, BinaryType, FloatType, DoubleType, NullType)
_KEY_LEAVES: Final = (*_PLAIN, BinaryType)


class ColumnKind(StrEnum):
    """How a column's values become bytes."""

    text = "text"
    binary = "binary"
    json = "json"


@dataclass(frozen=True, slots=True)
class Columns:
    """Positions of the columns in each Arrow batch, and how those that may differ are to be read."""

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
    """The columns' places. Raises EventError naming the column that is missing, of a wrong type, or not known."""
    places = _places(schema)
    _check_presence(places, event_type, id_columns)
    types = {name: schema.fields[place].dataType for name, place in places.items()}
    keys = tuple((name, places[name.lower()]) for name in id_columns)
    for name in id_columns:
        _want(name, types[name.lower()], _KEY_LEAVES, "text, a whole number, a decimal, a boolean, a date or a time")
    _want("event_type", types.get("event_type"), (StringType,), "a string")
    _want("partition_key", types.get("partition_key"), (StringType,), "a string; cast it")
    _want("available_at", types.get("available_at"), (TimestampType,), "a timestamp with time zone")
    _want("event_id", types.get("event_id"), (StringType, BinaryType), "a UUID as a string, or its 16 bytes")
    return Columns(
        payload=places["payload"],
        payload_kind=_payload_kind(types["payload"]),
        event_type=places.get("event_type"),
        event_id=places.get("event_id"),
        event_id_kind=ColumnKind.binary if isinstance(types.get("event_id"), BinaryType) else ColumnKind.text,
        partition_key=places.get("partition_key"),
        headers=places.get("headers"),
        headers_kind=_headers_kind(types.get("headers")),
        available_at=places.get("available_at"),
        id_columns=keys,
    )


def _places(schema: StructType) -> dict[str, int]:
    places: dict[str, int] = {}
    for place, name in enumerate(schema.fieldNames()):
        if places.setdefault(name.lower(), place) != place:
            raise EventError(f"column {name}: there are two of this name; drop or rename one")
    return places


def _check_presence(places: dict[str, int], event_type: str | None, id_columns: tuple[str, ...]) -> None:
    if "payload" not in places:
        raise EventError("column payload: missing; it is the event's body (binary, string, struct, map or array)")
    if event_type is None and "event_type" not in places:
        raise EventError("column event_type: missing; add it, or give the option eventType to all rows")
    if event_type is not None and "event_type" in places:
        raise ConfigError("option eventType: there is a column event_type too; drop one of the two")
    if id_columns and "event_id" in places:
        raise ConfigError("option idColumns: there is a column event_id too; drop one of the two")
    for name in id_columns:
        if name.lower() not in places:
            raise EventError(f"column {name}: missing, though option idColumns names it")
    stranger = next((name for name in places if name not in KNOWN and name not in map(str.lower, id_columns)), None)
    if stranger is not None:
        raise EventError(
            f"column {stranger}: not a column of the outbox ({', '.join(KNOWN)}); drop it, or put it into payload"
        )


def _want(name: str, found: DataType | None, wanted: tuple[type[DataType], ...], said: str) -> None:
    if found is not None and not isinstance(found, wanted):
        raise EventError(f"column {name}: is {found.simpleString()}; it must be {said}")


def _payload_kind(found: DataType) -> ColumnKind:
    if isinstance(found, BinaryType):
        return ColumnKind.binary
    if isinstance(found, StringType):
        return ColumnKind.text
    _want("payload", found, (StructType, MapType, ArrayType), "binary, a string, or a struct, map or array")
    _check_json("payload", found)
    return ColumnKind.json


def _headers_kind(found: DataType | None) -> ColumnKind:
    if found is None or isinstance(found, StringType):
        return ColumnKind.text
    _want("headers", found, (StructType, MapType), "a map, a struct, or JSON text")
    _check_json("headers", found)
    return ColumnKind.json


def _check_json(path: str, found: DataType) -> None:
    if isinstance(found, StructType):
        for each in found.fields:
            _check_json(f"{path}.{each.name}", each.dataType)
    elif isinstance(found, ArrayType):
        _check_json(f"{path}[]", found.elementType)
    elif isinstance(found, MapType):
        _want(f"{path} (the keys)", found.keyType, (StringType, IntegralType), "a string or a whole number")
        _check_json(f"{path}.*", found.valueType)
    elif not isinstance(found, _JSON_LEAVES):
        raise EventError(f"column {path}: {found.simpleString()} has no JSON form here; make it a string first")
