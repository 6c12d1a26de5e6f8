"""Search the outbox page by page, newest first, in both directions. Reads only, and locks nothing.

A page takes ``SEARCH_SECONDS`` at most, however deep it is and however rare the filter's events are: a page with few
events, or none, may have a next one, and ``examined_until`` says how far the search has come. A cursor is a position in
the order of ``relay.outbox.admin.examination``, and the direction in which its page goes on from there.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from relay.core.durations import time_text
from relay.core.errors import OutboxError
from relay.core.event import Status
from relay.outbox.admin import examination
from relay.outbox.admin.browse import ListedEvent
from relay.outbox.admin.causes import CauseMark
from relay.outbox.admin.connection import Moment, operating, short_transaction
from relay.outbox.admin.examination import FIRST, LAST, ORDER, Examination, ExaminedEvent, ExaminedPart, SearchPosition
from relay.outbox.admin.readings import limit_statements
from relay.postgres.sql import TableName, statement

SEARCH_SECONDS: Final = 2.0
"""A page that is not full begins no step that would end later, if that takes as long as the one before."""
LONGEST_PAGE: Final = 200

_DOING: Final = "searching the outbox"
_SHORT_STEP: Final = 0.2  # seconds; after a step that took less, the next one examines twice as many rows
_GROWTH: Final = 16  # times the first step, at most
_PAYLOADS: Final = 500  # that the first step reads
_VERSION: Final = "2"
_NEXT: Final = "next"
_PREVIOUS: Final = "prev"


class CursorRefused(OutboxError, ValueError):
    """A cursor that no page of a search has returned."""


@dataclass(frozen=True, slots=True)
class EventSearch:
    """Which events; None means no filter. Times are those at which events came into their status."""

    statuses: tuple[Status, ...] = ORDER
    event_type: str | None = None
    partition_key: str | None = None
    error: str | None = None
    """A part of ``last_error``; case does not matter."""
    error_code: str | None = None
    """What ``last_error`` says before its first colon."""
    cause: CauseMark | None = None
    header: tuple[str, str] | None = None
    """A header's name and its value, as JSON text where it is no string."""
    payload: bytes | None = None
    """A part of it."""
    since: datetime | None = None
    until: datetime | None = None
    """Exclusive."""
    limit: int = 50
    cursor: str | None = None

    @property
    def step(self) -> int:
        """How many rows of each status the first step examines; as many as the page holds where every row passes."""
        if self.payload is not None:
            return min(_PAYLOADS, examination.EXAMINED)
        filters = (self.event_type, self.partition_key, self.error, self.error_code, self.cause, self.header)
        return examination.EXAMINED if any(value is not None for value in filters) else self.limit + 1

    def examination(self, status: Status, wanted: int, most: int, *, ascending: bool) -> Examination:
        """How a step reads one status: one event more than is ``wanted`` says that another page follows."""
        header, value = self.header or (None, None)
        filters = {
            "earliest": self.since or "-infinity",
            "until": self.until or "infinity",
            "event_type": self.event_type,
            "partition_key": self.partition_key,
            "error": self.error,
            "error_code": self.error_code,
            "header": header,
            "header_value": value,
            "payload": self.payload,
        }
        return Examination(status, filters, wanted + 1, max(most, wanted + 1), ascending, cause=self.cause)


class SearchPage(NamedTuple):
    """One page of a search."""

    events: list[ListedEvent]
    next: str | None
    """The cursor of the next page; None at the end."""
    prev: str | None
    """The cursor of the page before this one; None at the beginning."""
    examined_until: Moment | None
    """Where the search stopped because it had examined enough rows; None when the page is full or the last one."""


def search_events(url: str, table: TableName, search: EventSearch) -> SearchPage:
    """One page. Raises CursorRefused, and StorageBusy when a statement takes longer than ``STATEMENT_SECONDS``."""
    start, backward = (None, False) if search.cursor is None else _decoded(search.cursor)
    deadline = time.monotonic() + SEARCH_SECONDS
    statuses = [status for status in ORDER if status in search.statuses]
    shown: list[ExaminedEvent] = []
    position, most = start, search.step
    with operating(url, table, _DOING) as connection, short_transaction(connection):
        connection.execute(statement("outbox/claim:guard"))
        limit_statements(connection)
        while True:
            began, wanted = time.monotonic(), search.limit - len(shown)
            steps = (search.examination(status, wanted, most, ascending=backward) for status in statuses)
            parts = [step.read(connection, table, position) for step in steps]
            events, position, stop = _merged(parts, wanted, backward=backward)
            shown += events
            if position is None or len(shown) == search.limit or 2 * (now := time.monotonic()) - began >= deadline:
                break  # another step of the same time would end after it
            if now - began < _SHORT_STEP:
                most = min(2 * most, _GROWTH * search.step)
    return _page(shown, position, start, None if len(shown) == search.limit else stop, backward=backward)


def find_events(
    url: str,
    table: TableName,
    search: EventSearch,
    *,
    oldest_first: bool = False,
    on_pause: Callable[[Moment | None], None] = lambda _: None,
) -> list[ListedEvent]:
    """Up to ``search.limit`` events, page after page to the end; ``on_pause`` hears how far it has come between two.

    Raises as ``search_events``.
    """
    events: list[ListedEvent] = []
    cursor = _encoded(LAST, _PREVIOUS) if oldest_first else None
    while True:
        page = search_events(url, table, replace(search, limit=search.limit - len(events), cursor=cursor))
        events += reversed(page.events) if oldest_first else page.events
        cursor = page.prev if oldest_first else page.next
        if cursor is None or len(events) >= search.limit:
            return events
        on_pause(page.examined_until)


def _merged(
    parts: list[ExaminedPart], wanted: int, *, backward: bool
) -> tuple[list[ExaminedEvent], SearchPosition | None, SearchPosition | None]:
    """The events of all statuses; where the search goes on, None at the end; where a status stopped before its end.

    What lies behind the position where one of them stopped belongs to a later step.
    """

    def key(position: SearchPosition) -> tuple[Any, ...]:
        return position.key(ascending=backward)

    stop = min((part.end for part in parts if part.end is not None), key=key, default=None)
    merged = sorted((row for part in parts for row in part.rows), key=lambda row: key(row.position))
    if stop is not None:
        merged = [row for row in merged if key(row.position) <= key(stop)]
    events = merged[:wanted]
    return events, events[-1].position if len(merged) > wanted else stop, stop


def _page(
    shown: list[ExaminedEvent],
    far: SearchPosition | None,
    start: SearchPosition | None,
    stop: SearchPosition | None,
    *,
    backward: bool,
) -> SearchPage:
    near = None if start is None else _near(shown, far, backward=backward)
    following, previous = (near, far) if backward else (far, near)
    return SearchPage(
        [row.event for row in (reversed(shown) if backward else shown)],
        None if following is None else _encoded(following, _NEXT),
        None if previous is None else _encoded(previous, _PREVIOUS),
        None if stop is None else stop.since,
    )


def _near(shown: list[ExaminedEvent], far: SearchPosition | None, *, backward: bool) -> SearchPosition:
    """Where the page on the side that the search came from begins: before this page, or before what it has examined."""
    if shown:
        return shown[0].position
    return far or (FIRST if backward else LAST)


def _encoded(position: SearchPosition, direction: str) -> str:
    since = time_text(position.since, "microseconds")
    text = f"{_VERSION}|{direction}|{since}|{position.status}|{position.tid}"
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decoded(cursor: str) -> tuple[SearchPosition, bool]:
    """The position, and whether the page lies before it."""
    try:
        text = base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)).decode()
        version, direction, since, status, tid = text.split("|")
        moment: Any = since if since.endswith("infinity") else datetime.fromisoformat(since)
        if version != _VERSION or direction not in {_NEXT, _PREVIOUS}:
            raise ValueError(text)
        if since not in {"infinity", "-infinity"} if isinstance(moment, str) else moment.tzinfo is None:
            raise ValueError(text)
        block, offset = examination.block_and_offset(tid)
        if tid != f"({block},{offset})" or not (0 <= block < 2**32 and 0 <= offset < 2**16):
            raise ValueError(text)
        return SearchPosition(moment, Status(status), tid), direction == _PREVIOUS
    except (ValueError, binascii.Error):
        raise CursorRefused(f"cursor: {cursor!r} is not from a page of a search; leave it out to begin") from None
