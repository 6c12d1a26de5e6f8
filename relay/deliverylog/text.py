"""The log's queries and results as text and JSON, for the command line and the HTTP API."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from relay.core import durations
from relay.deliverylog.errors import InvalidQuery, InvalidTimeRange
from relay.deliverylog.query import Granularity, MetricsResult, Row
from relay.deliverylog.records import AttemptRecord, LoggedAttempt, LoggedEvent

_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_GRANULARITY = re.compile(r"([0-9]{1,3})([smhdwM])")


def parse_time(text: str) -> datetime:
    """An ISO 8601 time with a zone; a date alone is its UTC midnight. Raises InvalidTimeRange."""
    try:
        return durations.parse_time(text)
    except ValueError as error:
        raise InvalidTimeRange(str(error)) from error


def parse_granularity(text: str) -> Granularity:
    """For example ``5m``, ``1h``, ``1w`` or ``1M`` (a month). Raises InvalidQuery."""
    match = _GRANULARITY.fullmatch(text)
    if match is None:
        raise InvalidQuery(f"{text!r} is not a granularity; write a number and one of s m h d w M, for example 1h")
    return Granularity(int(match.group(1)), match.group(2))


def parse_filters(pairs: list[str]) -> dict[str, list[Any]]:
    """``name=value`` pairs, several of one name being alternatives. Raises InvalidQuery."""
    filters: dict[str, list[Any]] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator:
            raise InvalidQuery(f"{pair!r} is not a filter; write name=value, for example topic=orders")
        filters.setdefault(name, []).append(_typed(name, value))
    return filters


def _typed(name: str, value: str) -> str | bool | int:
    if name == "manual" and value in ("true", "false"):
        return value == "true"
    if name == "attempt_number" and value.isascii() and value.isdecimal() and len(value) <= 10:
        return int(value)
    return value


def time_text(time: datetime) -> str:
    """UTC, to the millisecond."""
    return durations.time_text(time, "milliseconds")


def event_json(event: LoggedEvent, *, with_data: bool = True) -> dict[str, Any]:
    """An event for a program; its data in base64, since it may be any bytes."""
    data = {"data_base64": base64.b64encode(event.data).decode("ascii")} if with_data else {}
    return {
        "id": event.id,
        "tenant_id": event.tenant_id,
        "destination_id": event.destination_id,
        "matched_destination_ids": event.matched_destination_ids,
        "time": time_text(event.time),
        "topic": event.topic,
        "eligible_for_retry": event.eligible_for_retry,
        **data,
        "metadata": dict(event.metadata),
    }


def attempt_json(record: AttemptRecord, *, with_data: bool = True) -> dict[str, Any]:
    """An attempt for a program, with its event."""
    attempt = {name: getattr(record.attempt, name) for name in LoggedAttempt.__slots__}
    return {**attempt, "time": time_text(record.attempt.time), "event": event_json(record.event, with_data=with_data)}


def metrics_json(result: MetricsResult) -> dict[str, Any]:
    """A result of metrics for a program."""
    return {"rows": [row_json(row) for row in result.rows], **metrics_summary(result)}


def metrics_summary(result: MetricsResult) -> dict[str, Any]:
    """What a result of metrics says about its rows."""
    return {
        "query_time_ms": result.query_time_ms,
        "row_count": result.row_count,
        "row_limit": result.row_limit,
        "truncated": result.truncated,
    }


def encode_json(value: object) -> bytes:
    """A value as JSON."""
    return _compact(value).encode()


def json_document(name: str, items: Iterable[object], rest: dict[str, Any]) -> bytes:
    """``{name: items, **rest}`` as JSON. Items are encoded one by one: other threads run between two of them."""
    encoded = ",".join([_compact(item) for item in items])
    return f'{{"{name}":[{encoded}],{_compact(rest)[1:]}'.encode()


def row_json(row: Row) -> Row:
    """A row of metrics for a program."""
    return {name: time_text(value) if isinstance(value, datetime) else value for name, value in row.items()}
