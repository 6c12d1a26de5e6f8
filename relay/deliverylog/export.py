"""Writes a range of the log as CSV or JSON lines, attempt by attempt in the order of time."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from relay.deliverylog.interface import DeliveryLog
from relay.deliverylog.query import MOST_LIMIT, ListAttempts
from relay.deliverylog.records import LoggedAttempt
from relay.deliverylog.text import attempt_json, encode_json

FORMATS: Final = ("csv", "jsonl")
_EVENT: Final = ("destination_id", "matched_destination_ids", "time", "topic", "eligible_for_retry", "metadata")
_ATTEMPT: Final = LoggedAttempt.__slots__


class ExportPage(NamedTuple):
    """A page of an export."""

    text: str
    attempts: int
    """Attempts so far, these included."""


async def export_attempts(
    store: DeliveryLog, filters: ListAttempts, form: str, *, with_data: bool
) -> AsyncIterator[ExportPage]:
    """Every attempt that passes the filters, the oldest first; the CSV's header comes with the first page.

    ``form`` is one of ``FORMATS``. The filters' limit, order and cursors are not used. Times are in UTC, payloads in
    base64, and in CSV what is a list or a map is JSON, None is empty and a flag is ``true`` or ``false``.
    """
    query = replace(filters, order="asc", sort_by="time", limit=MOST_LIMIT, prev=None, include_data=with_data)
    text = _csv([_header(with_data=with_data)]) if form == "csv" else ""
    count, cursor = 0, None
    while True:
        page = await store.list_attempts(replace(query, next=cursor))
        count += len(page.items)
        attempts = [attempt_json(record, with_data=with_data) for record in page.items]
        text += _csv(map(_cells, attempts)) if form == "csv" else "".join(map(_line, attempts))
        if text:
            yield ExportPage(text, count)
        text, cursor = "", page.next
        if cursor is None:
            return


def _header(*, with_data: bool) -> list[str]:
    return [*_ATTEMPT, *(f"event_{name}" for name in _EVENT), *(["event_data_base64"] if with_data else [])]


def _line(fields: dict[str, Any]) -> str:
    return f"{encode_json(fields).decode()}\n"


def _cells(fields: dict[str, Any]) -> list[str]:
    event = fields["event"]
    names = (*_EVENT, *(["data_base64"] if "data_base64" in event else []))
    return [_cell(value) for value in (*(fields[name] for name in _ATTEMPT), *(event[name] for name in names))]


def _cell(value: object) -> str:
    if isinstance(value, (dict, list, bool)):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else str(value)


def _csv(lines: Iterable[Sequence[str]]) -> str:
    target = io.StringIO()
    csv.writer(target, lineterminator="\n").writerows(lines)
    return target.getvalue()
