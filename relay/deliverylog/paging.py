"""From a listing's query to the scan of a driver, and from its rows to a page.

Rules of a page: one row more than the limit is read. A first page has no ``prev``; going forward there is always a
``prev``, and a ``next`` only if there is more; going backward there is always a ``next``, and a ``prev`` only if
there is more. An empty first page has neither; a page past an end still has a cursor back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, NamedTuple, TypeVar

from relay.deliverylog import cursor as cursors
from relay.deliverylog import limits
from relay.deliverylog.cursor import Position
from relay.deliverylog.errors import InvalidQuery
from relay.deliverylog.limits import check_values
from relay.deliverylog.query import DEFAULT_LIMIT, MOST_LIMIT, ListAttempts, ListEvents, Page, TimeWindow
from relay.deliverylog.records import STATUSES, AttemptRecord, LoggedEvent
from relay.deliverylog.times import AFTER_ALL, BEFORE_ALL, clamped, floored, from_ms, to_ms

Item = TypeVar("Item")
_ORDERS = ("asc", "desc")
_SORTS = {"time": cursors.BY_TIME, "event_time": cursors.BY_EVENT_TIME}


@dataclass(frozen=True, slots=True)
class Scan:
    """What a driver reads: up to ``fetch`` rows that pass, in (time, id, tenant) order, from ``position`` on.

    All times are UTC and whole milliseconds; filters hold distinct values and are absent where they do not filter.
    """

    resource: str
    filters: Mapping[str, tuple[str, ...]]
    """Column name -> alternatives."""
    window: Mapping[str, datetime]
    """Any of gte, lte, gt, lt."""
    order: str
    sort_by: str
    limit: int
    position: Position | None
    backward: bool
    with_data: bool = True

    @property
    def fetch(self) -> int:
        """One more than the limit, to know whether there is more."""
        return self.limit + 1

    @property
    def descending(self) -> bool:
        """Whether to read from later to earlier: the query's order, reversed when paging backward."""
        return (self.order == "desc") != self.backward


class PageRows(NamedTuple, Generic[Item]):
    """What a driver read for a page: up to ``fetch`` rows in reading order."""

    items: list[Item]
    cut: bool = False
    """Whether the last row belongs to the next page, because the page would have too many bytes with it."""


def within_bytes(items: list[Item], size: Callable[[Item], int]) -> PageRows[Item]:
    """The first of the rows, up to and with the one that exceeds a page's bytes, at least the second."""
    total = 0
    for number, item in enumerate(items):
        total += size(item)
        if number > 0 and total > limits.MOST_PAGE_BYTES:
            return PageRows(items[: number + 1], cut=True)
    return PageRows(items)


def event_bytes(event: LoggedEvent) -> int:
    """How much an event adds to a page's bytes."""
    return len(event.data) + sum(len(name) + len(value) for name, value in event.metadata.items())


def attempt_bytes(record: AttemptRecord) -> int:
    """How much an attempt with its event adds to a page's bytes."""
    response = record.attempt.response_data
    return event_bytes(record.event) + (0 if response is None else len(str(response)))


def scan_events(query: ListEvents) -> Scan:
    """Raises InvalidQuery, InvalidTimeRange, InvalidCursor or VersionMismatch for an invalid query."""
    filters = _filters(
        tenant_id=query.tenant_ids,
        event_id=query.event_ids,
        destination_id=query.destination_ids,
        topic=query.topics,
    )
    return _scan(cursors.EVENTS, query, filters, "time")


def scan_attempts(query: ListAttempts) -> Scan:
    """Raises InvalidQuery, InvalidTimeRange, InvalidCursor or VersionMismatch for an invalid query."""
    filters = _filters(
        tenant_id=query.tenant_ids,
        event_id=query.event_ids,
        destination_id=query.destination_ids,
        destination_type=query.destination_types,
        status=query.status,
        topic=query.topics,
        code=query.codes,
    )
    unknown = [status for status in filters.get("status", ()) if status not in STATUSES]
    if unknown:
        raise InvalidQuery(f"unknown status {unknown[0]!r}; choose from {', '.join(STATUSES)}")
    if len(filters.get("status", ())) == len(STATUSES):
        del filters["status"]  # both statuses are all attempts
    if query.sort_by not in _SORTS:
        raise InvalidQuery(f"cannot sort by {query.sort_by!r}; choose from {', '.join(_SORTS)}")
    return _scan(cursors.ATTEMPTS, query, filters, query.sort_by)


def storable(text: str) -> bool:
    """Whether the log can hold a text: valid UTF-8 without NUL."""
    if "\x00" in text:
        return False
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def event_position(event: LoggedEvent) -> Position:
    """An event's position in the order."""
    return Position(to_ms(event.time), event.id, event.tenant_id)


def attempt_position(record: AttemptRecord) -> Position:
    """An attempt's position in the order, by either sort."""
    attempt, event = record.attempt, record.event
    return Position(to_ms(attempt.time), attempt.id, attempt.tenant_id, to_ms(event.time), event.id)


def page(scan: Scan, rows: PageRows[Item], position_of: Callable[[Item], Position]) -> Page[Item]:
    """The page of the rows that were read, in reading order, with the cursors of its neighbours."""
    limit = len(rows.items) - 1 if rows.cut else scan.limit
    items = rows.items[:limit]
    beyond = position_of(rows.items[limit]) if len(rows.items) > limit else None
    if not items:
        return _past_the_end(scan)
    if scan.backward:
        items.reverse()
    before, after = (beyond, scan.position) if scan.backward else (scan.position, beyond)
    has_next = scan.backward or beyond is not None
    has_prev = beyond is not None if scan.backward else scan.position is not None
    return Page(
        items,
        next=_cursor(scan, position_of(items[-1]), after) if has_next else None,
        prev=_cursor(scan, position_of(items[0]), before) if has_prev else None,
    )


def _past_the_end(scan: Scan) -> Page[Item]:
    if scan.position is None:
        return Page([])
    edge = to_ms(BEFORE_ALL if scan.descending else AFTER_ALL)
    back = _cursor(scan, Position(edge, "", None, edge, ""), None)
    return Page([], next=back) if scan.backward else Page([], prev=back)


def _cursor(scan: Scan, edge: Position, neighbour: Position | None) -> str:
    twins = neighbour is not None and (edge.ms, edge.id) == (neighbour.ms, neighbour.id)
    position = edge if twins else edge._replace(tenant_id=None)
    return cursors.encode(scan.resource, position, version=_SORTS[scan.sort_by], order=scan.order)


def _scan(resource: str, query: ListEvents | ListAttempts, filters: dict[str, tuple[str, ...]], sort_by: str) -> Scan:
    if query.order not in _ORDERS:
        raise InvalidQuery(f"unknown order {query.order!r}; choose from {', '.join(_ORDERS)}")
    if query.next and query.prev:
        raise InvalidQuery("next and prev exclude each other; pass one of them")
    cursor = query.next or query.prev
    position = None
    if cursor:
        position = cursors.decode(cursor, resource, version=_SORTS[sort_by], order=query.order)
        position = position._replace(ms=_bounded_ms(position.ms), event_ms=_bounded_ms(position.event_ms))
    limit = query.limit if query.limit and query.limit > 0 else DEFAULT_LIMIT
    return Scan(
        resource=resource,
        filters=filters,
        window=_window(query.time),
        order=query.order,
        sort_by=sort_by,
        limit=min(limit, MOST_LIMIT),
        position=position,
        backward=bool(query.prev),
        with_data=query.include_data,
    )


def _bounded_ms(milliseconds: int) -> int:
    return to_ms(clamped(from_ms(milliseconds)))


def _window(window: TimeWindow | None) -> dict[str, datetime]:
    if window is None:
        return {}
    bounds = {"gte": window.gte, "lte": window.lte, "gt": window.gt, "lt": window.lt}
    return {name: clamped(floored(bound, name)) for name, bound in bounds.items() if bound is not None}


def _filters(**filters: str | Sequence[str] | None) -> dict[str, tuple[str, ...]]:
    alternatives = {
        name: (values,) if isinstance(values, str) else tuple(dict.fromkeys(values or ()))
        for name, values in filters.items()
    }
    for name, values in alternatives.items():
        check_values(name, len(values))
        for value in values:
            if not storable(value):
                raise InvalidQuery(f"the filter {name} holds {value!r}, which is not a valid {name}")
    return {name: values for name, values in alternatives.items() if values}
