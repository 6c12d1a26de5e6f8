"""From any DataFrame to one that is events: which column becomes what. Expressions only; no data is read here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from relay.core.errors import ConfigError
from relay.spark.write.columns import KNOWN

_BETWEEN_KEYS: Final = ":"


@dataclass(frozen=True, slots=True)
class Shape:
    """What each column of the outbox is made of: names of the source's columns."""

    event_type: str | None = None
    """One for all rows; else ``event_type_column``."""
    event_type_column: str | None = None
    payload_columns: tuple[str, ...] = ()
    """One JSON object of these; of all columns where none is named."""
    raw_payload: str | None = None
    """A column whose text or bytes are the body as they are."""
    key: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    """Name of the header and column of its value."""
    event_id: str | None = None
    id_columns: tuple[str, ...] = ()
    available_at: str | None = None


def shape(frame: DataFrame, wanted: Shape) -> tuple[DataFrame, tuple[str, ...]]:
    """The events, and the names that their business key's columns have there.

    Raises ConfigError naming a column that the source does not have.
    """
    _check_names(frame, wanted)
    columns = {"payload": _payload(frame, wanted), "event_type": _event_type(wanted)}
    if wanted.key:
        columns["partition_key"] = _key(wanted.key)
    if wanted.headers:
        columns["headers"] = f.struct(*(_column(column).alias(name) for name, column in wanted.headers))
    if wanted.event_id:
        columns["event_id"] = _column(wanted.event_id)
    if wanted.available_at:
        columns["available_at"] = _column(wanted.available_at).cast("timestamp")
    keys = {_own_name(name): _column(name) for name in wanted.id_columns}
    everything = {**columns, **keys}
    return frame.select(*(column.alias(name) for name, column in everything.items())), tuple(keys)


def _column(name: str) -> Column:
    """A column by its whole name, dots and all."""
    return f.col(f"`{name.replace('`', '``')}`")


def _own_name(name: str) -> str:
    return f"key {name}" if name.lower() in KNOWN else name


def _check_names(frame: DataFrame, wanted: Shape) -> None:
    there = {name.lower() for name in frame.columns}
    named = {
        "--event-type-column": (wanted.event_type_column,),
        "--payload-columns": wanted.payload_columns,
        "--raw-payload": (wanted.raw_payload,),
        "--key": wanted.key,
        "--headers": tuple(column for _, column in wanted.headers),
        "--event-id": (wanted.event_id,),
        "--id-columns": wanted.id_columns,
        "--available-at": (wanted.available_at,),
    }
    for option, names in named.items():
        for name in names:
            if name is not None and name.lower() not in there:
                raise ConfigError(f"{option}: the source has no column {name}; it has {', '.join(frame.columns)}")


def _event_type(wanted: Shape) -> Column:
    if wanted.event_type_column is not None:
        return _column(wanted.event_type_column)
    return f.lit(wanted.event_type)


def _payload(frame: DataFrame, wanted: Shape) -> Column:
    if wanted.raw_payload is not None:
        return _column(wanted.raw_payload)
    return f.struct(*(_column(name) for name in wanted.payload_columns or frame.columns))


def _key(names: tuple[str, ...]) -> Column:
    """One text of all key columns; NULL where one of them is."""
    first, *others = (_column(name).cast("string") for name in names)
    return f.concat(first, *(part for other in others for part in (f.lit(_BETWEEN_KEYS), other)))
