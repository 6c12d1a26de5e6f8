"""One form for both sides of a reconciliation: fingerprints in place of contents.

``expected`` makes it of outbox rows, as the relay would send them to Kafka; ``from_kafka`` of what Spark's Kafka source
reads; ``from_table`` of a consumer's table. Bodies are compared by SHA-256, keys as bytes, headers by the SHA-256 of
their names and values in the order of the names. Pure functions of DataFrames, which read and write nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType

from relay.core.errors import ConfigError
from relay.core.event import OutboxEvent
from relay.core.formats.message import USER_PREFIX, MessageFormat
from relay.core.headers import REPLAY_HEADER, Header, wire_headers

EVENT_ID_HEADER: Final = "X-Event-ID"
ORDER_COLUMN: Final = "insertion_order"

_FORMATTED: Final = ("event_id", "event_type", "partition_key", "payload", "headers")
_SUMS: Final = "payload binary, headers binary"
_UUID: Final = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"


def expected(rows: DataFrame, ignored: Sequence[str], message_format: MessageFormat | None = None) -> DataFrame:
    """Outbox rows, with the columns of the contract; headers named in ``ignored``, in any case, are left out.

    ``message_format`` is what the relay made messages with; None is the contract's own form.

    ``place`` is the order of insertion: the column ``insertion_order`` where there is one, else ``created_at``, which
    events of one transaction share.
    """
    place = f.col(ORDER_COLUMN).cast("long") if ORDER_COLUMN in rows.columns else f.unix_micros("created_at")
    names = tuple(sorted(name.lower() for name in ignored))
    payload_sum = _sum(f.col("payload").cast("binary"))
    headers_sum = f.udf(lambda text: expected_headers(text, names), BinaryType(), useArrow=True)(
        f.col("headers").cast("string")
    )
    if message_format is not None:
        sums = f.udf(lambda *row: _formatted_sums(message_format, names, *row), _SUMS, useArrow=True)
        columns = [f.col(name).cast("binary" if name == "payload" else "string") for name in _FORMATTED]
        rows = rows.withColumn("_sums", sums(*columns, f.unix_micros("created_at")))
        payload_sum, headers_sum = f.col("_sums.payload"), f.col("_sums.headers")
    return rows.select(
        f.lower("event_id").alias("event_id"),
        f.col("event_type").alias("topic"),
        "status",
        f.col("partition_key").cast("binary").alias("key"),
        payload_sum.alias("payload_sum"),
        headers_sum.alias("headers_sum"),
        "created_at",
        "delivered_at",
        place.alias("place"),
    )


def from_kafka(messages: DataFrame, ignored: Sequence[str]) -> DataFrame:
    """Messages of Spark's Kafka source, read with ``includeHeaders``. ``event_id`` is null where it is no UUID."""
    return messages.select(
        _event_id(_header(EVENT_ID_HEADER)).alias("event_id"),
        f.col("topic"),
        f.col("key"),
        _sum(f.col("value")).alias("payload_sum"),
        _headers_sum(f.col("headers"), ignored).alias("headers_sum"),
        f.coalesce(_header(REPLAY_HEADER).cast("string"), f.lit("")).alias("replay_id"),
        f.col("partition").cast("long").alias("partition"),
        f.col("offset").cast("long").alias("offset"),
        f.col("timestamp").alias("time"),
    )


def from_table(frame: DataFrame, columns: Mapping[str, str], ignored: Sequence[str]) -> DataFrame:
    """A consumer's table; ``columns`` has the column of each field. Fields without a column are null.

    Headers are a map of strings, or their JSON text. Raises ConfigError for a missing column.
    """
    missing = [f"{field}={name}" for field, name in columns.items() if name not in frame.columns]
    if missing:
        known = ", ".join(frame.columns[:50])
        raise ConfigError(f"--consumer-columns: {', '.join(missing)}: the consumer's table has no such column: {known}")
    headers = _table_headers(frame, columns.get("headers"), ignored)
    place = columns.get("offset")
    return frame.select(
        _event_id(f.col(columns["event_id"])).alias("event_id"),
        _or_null(columns, "topic", "string").alias("topic"),
        _or_null(columns, "key", "binary").alias("key"),
        _sum(f.col(columns["payload"]).cast("binary")).alias("payload_sum")
        if "payload" in columns
        else f.lit(None).cast("binary").alias("payload_sum"),
        headers.alias("headers_sum"),
        f.lit("").alias("replay_id"),
        f.coalesce(_or_null(columns, "partition", "long"), f.lit(0)).alias("partition"),
        (_orderable(frame, place) if place else f.lit(0).cast("long")).alias("offset"),
        _or_null(columns, "time", "timestamp").alias("time"),
    )


@lru_cache(maxsize=4096)
def expected_headers(text: str, ignored: tuple[str, ...]) -> bytes:
    """The fingerprint of the headers with which the relay sends this ``headers`` column."""
    return _headers_digest(_guarded(wire_headers(text)), ignored)


def _formatted_sums(
    message_format: MessageFormat,
    ignored: tuple[str, ...],
    *row: Any,  # noqa: ANN401 - the columns of ``_FORMATTED``
) -> tuple[bytes, bytes]:
    """The fingerprints of body and headers of the message that a format makes of a row; the last column is a time."""
    event_id, event_type, key, payload, headers, created = row
    event = OutboxEvent(event_id.lower(), event_type, key, bytes(payload), headers, 0, 0.0, None, created / 1e6)
    message = message_format(event)
    digest = _headers_digest([*message.own, *_guarded(message.others)], ignored)
    return hashlib.sha256(message.payload).digest(), digest


def _guarded(headers: Iterable[Header]) -> list[Header]:
    reserved = EVENT_ID_HEADER.lower()
    return [(f"{USER_PREFIX}{name}" if name.lower() == reserved else name, value) for name, value in headers]


def _headers_digest(headers: Iterable[Header], ignored: tuple[str, ...]) -> bytes:
    texts = sorted(
        f"{name.encode().hex()}={value.encode().hex()}".upper()
        for name, value in headers
        if name.lower() not in ignored
    )
    return hashlib.sha256(",".join(texts).encode()).digest()


def _header(name: str) -> Column:
    """The value of the first header of this name."""
    return f.get(f.filter("headers", lambda header: header["key"] == name), 0)["value"]


def _headers_sum(headers: Column, ignored: Sequence[str]) -> Column:
    names = [name.lower() for name in ignored]
    compared = f.filter(
        f.coalesce(headers, f.array().cast("array<struct<key:string,value:binary>>")),
        lambda header: (header["key"] != EVENT_ID_HEADER) & ~f.lower(header["key"]).isin(names),
    )
    texts = f.transform(
        compared,
        lambda header: f.concat(
            f.hex(header["key"].cast("binary")), f.lit("="), f.coalesce(f.hex(header["value"]), f.lit("-"))
        ),
    )
    return _sum(f.array_join(f.array_sort(texts), ",").cast("binary"))


def _table_headers(frame: DataFrame, name: str | None, ignored: Sequence[str]) -> Column:
    if name is None:
        return f.lit(None).cast("binary")
    if frame.schema[name].dataType.typeName() == "map":
        pairs = f.transform(
            f.map_entries(f.col(name).cast("map<string,string>")),
            lambda entry: f.struct(entry["key"].alias("key"), entry["value"].cast("binary").alias("value")),
        )
        return _headers_sum(pairs, ignored)
    names = tuple(sorted(each.lower() for each in ignored))
    return f.udf(lambda text: expected_headers(text or "{}", names), BinaryType(), useArrow=True)(f.col(name))


def _event_id(text: Column) -> Column:
    lowered = f.lower(text.cast("string"))
    return f.when(lowered.rlike(_UUID), lowered)


def _or_null(columns: Mapping[str, str], field: str, kind: str) -> Column:
    return f.col(columns[field]).cast(kind) if field in columns else f.lit(None).cast(kind)


def _orderable(frame: DataFrame, name: str) -> Column:
    kind = frame.schema[name].dataType.typeName()
    return f.unix_micros(name) if kind == "timestamp" else f.col(name).cast("long")


def _sum(binary: Column) -> Column:
    """SHA-256; null for null."""
    return f.unhex(f.sha2(binary, 256))
