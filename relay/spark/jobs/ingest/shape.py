"""A DataFrame of events from any DataFrame, by the job's arguments. Builds expressions only; reads no data."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from relay.core.errors import ConfigError
from relay.spark.jobs.ingest.arguments import IngestArguments
from relay.spark.write.columns import KNOWN

_BETWEEN_KEYS: Final = ":"


def shape(frame: DataFrame, job: IngestArguments) -> tuple[DataFrame, tuple[str, ...]]:
    """The events, and the names of their business key's columns in this frame.

    Raises ConfigError, which names the column, for one that the source does not have.
    """
    _check_names(frame, job)
    columns = {"payload": _payload(frame, job), "event_type": _event_type(job)}
    if job.key:
        columns["partition_key"] = _key(job.key)
    if job.headers:
        columns["headers"] = f.struct(*(_column(column).alias(name) for name, column in job.headers))
    if job.event_id:
        columns["event_id"] = _column(job.event_id)
    if job.available_at:
        columns["available_at"] = _column(job.available_at).cast("timestamp")
    keys = {_key_name(name): _column(name) for name in job.id_columns}
    selected = [column.alias(name) for name, column in {**columns, **keys}.items()]
    return frame.select(*selected), tuple(keys)


def _column(name: str) -> Column:
    """A column by its whole name, which may contain dots."""
    return f.col(f"`{name.replace('`', '``')}`")


def _key_name(name: str) -> str:
    return f"key {name}" if name.lower() in KNOWN else name


def _check_names(frame: DataFrame, job: IngestArguments) -> None:
    known = {name.lower() for name in frame.columns}
    options = {
        "--event-type-column": (job.event_type_column,),
        "--payload-columns": job.payload_columns,
        "--raw-payload": (job.raw_payload,),
        "--key": job.key,
        "--headers": tuple(column for _, column in job.headers),
        "--event-id": (job.event_id,),
        "--id-columns": job.id_columns,
        "--available-at": (job.available_at,),
    }
    for option, names in options.items():
        for name in names:
            if name is not None and name.lower() not in known:
                raise ConfigError(f"{option}: the source has no column {name}; it has {', '.join(frame.columns)}")


def _event_type(job: IngestArguments) -> Column:
    if job.event_type_column is not None:
        return _column(job.event_type_column)
    return f.lit(job.event_type)


def _payload(frame: DataFrame, job: IngestArguments) -> Column:
    if job.raw_payload is not None:
        return _column(job.raw_payload)
    return f.struct(*(_column(name) for name in job.payload_columns or frame.columns))


def _key(names: tuple[str, ...]) -> Column:
    """The key columns as one string; NULL when one of them is."""
    first, *others = (_column(name).cast("string") for name in names)
    return f.concat(first, *(part for other in others for part in (f.lit(_BETWEEN_KEYS), other)))
