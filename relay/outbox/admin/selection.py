"""Which events a change of many takes: their number, and their locations, oldest first and a bounded number at once.

An event takes part as it was when the change began, or when the operator saw it: one that was changed since is left
out, and so is one that a relay or another operator holds at that moment. Reading the locations locks nothing, however
rare the events are; a batch locks the rows that it writes, in a transaction of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal
from uuid import UUID

from relay.core.blame import kept, quarters
from relay.core.errors import StorageError
from relay.core.event import Status
from relay.outbox.admin import examination
from relay.outbox.admin.causes import LONGEST, CauseMark
from relay.outbox.admin.connection import Connection, Moment, database_time, rows, short_transaction
from relay.outbox.admin.examination import Examination, ExaminedEvent, SearchPosition, seconds_since_1970
from relay.postgres.errors import translating
from relay.postgres.operating import uninterrupted
from relay.postgres.refused import BulkRefusals
from relay.postgres.sql import TableName, statement

COUNT_MOST: Final = 5_000_000
"""Where counting stops."""
_DOING: Final = "changing events"
_MOST_JUDGED: Final = 100_000  # events that are counted by their errors
_MOST_ERRORS: Final = 20_000
_LONGEST_WAIT: Final = 1.0  # seconds; then the caller may stop the change, and sees that it still runs

Kind = Literal["pending", "delivered", "dead"]
Bound = datetime | timedelta
"""A time, or how long ago by the database's clock."""
Apply = Callable[[Mapping[str, object]], Sequence[tuple[UUID, bool]]]
"""Changes a batch by its locations: the events that it chose, and whether each was written."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which events; None and empty mean no filter. Times are those at which events came into their status."""

    kinds: tuple[Kind, ...] = ("dead",)
    ids: tuple[UUID, ...] = ()
    event_type: str | None = None
    partition_key: str | None = None
    since: Bound | None = None
    until: Bound | None = None
    """Exclusive."""
    error: str | None = None
    """A part of ``last_error``; case does not matter."""
    error_code: str | None = None
    """What ``last_error`` says before its first colon, as dead letters are grouped by."""
    cause: CauseMark | None = None
    """As ``causes`` and a search group events: exactly those that they show."""
    unchanged_since: datetime | None = None
    """When the caller saw the events: those that were changed later are left out."""


@dataclass(frozen=True, slots=True)
class BulkOptions:
    """How many events are changed."""

    limit: int | None = None
    """Most events."""
    rate: float | None = None
    """Most events a second."""
    batch_size: int = 500
    reason: str = ""
    who: str = ""
    """Beside the database user, in the record."""

    def next_size(self, done: int) -> int:
        """Most events of the next batch; 0 when the limit is reached."""
        size = self.batch_size
        if self.rate is not None:
            size = min(size, max(int(self.rate), 1))
        return size if self.limit is None else min(size, self.limit - done)


class SelectionReader:
    """Reads a selection on one connection. The tags ``later`` and ``untried`` of the statements narrow it."""

    def __init__(
        self,
        connection: Connection,
        table: TableName,
        selection: Selection,
        tags: Sequence[str] = (),
        unchanged: Moment | None = None,
    ) -> None:
        """``unchanged`` replaces the times of the selection and of the beginning, for a caller with the locks."""
        self._connection = connection
        self._table = table
        self._ids = selection.ids
        self._cause = selection.cause
        self._tags = tuple(tags)
        self.refusals = BulkRefusals(_DOING)
        """What the database refused to change; the caller ends with ``refusals.end``."""
        self.now = database_time(connection)
        seen = selection.unchanged_since
        self.unchanged: Moment = unchanged or (self.now if seen is None else min(seen, self.now))
        self._filters: dict[str, object] = {
            "earliest": _at(selection.since, self.now) or "-infinity",
            "until": _at(selection.until, self.now) or "infinity",
            "event_type": selection.event_type,
            "partition_key": selection.partition_key,
            "error": selection.error,
            "error_code": selection.error_code,
            "unchanged": self.unchanged,
        }

    def count(self, kind: Kind, most: int = COUNT_MOST, earliest: datetime | None = None) -> tuple[int, Moment | None]:
        """How many events, counted up to ``most``, and the latest time; those since ``earliest``, if it is later."""
        since = self._filters["earliest"]
        if earliest is not None:
            since = max(earliest, since) if isinstance(since, datetime) else earliest
        ids = [str(id_) for id_ in self._ids] or None
        values = {**self._filters, "earliest": since, "most": most, "ids": ids}
        if self._cause is not None:
            judged = self._count_by_errors(kind, values, self._cause)
            count, latest = judged or self._count_by_reading(kind, most, since)
            return min(count, most), latest
        [(count, latest)] = rows(self._connection, "outbox/bulk:count", self._table, values, kind, *self._tags)
        return count, latest

    def _count_by_errors(
        self, kind: Kind, values: Mapping[str, object], cause: CauseMark
    ) -> tuple[int, Moment | None] | None:
        """As ``count``: the statement counts the events of each error. None where there are too many of either."""
        code = cause.code if values["error_code"] is None else values["error_code"]
        bounds = {"most": _MOST_JUDGED, "errors": _MOST_ERRORS, "longest": LONGEST}
        values = {**values, **bounds, "error_code": code}
        found = rows(self._connection, "outbox/bulk:count", self._table, values, kind, "errors", *self._tags)
        if len(found) == _MOST_ERRORS or sum(events for events, _, _ in found) == _MOST_JUDGED:
            return None
        held = [(events, latest) for events, latest, error in found if cause.holds(error)]
        return sum(events for events, _ in held), max(
            (latest for _, latest in held), key=seconds_since_1970, default=None
        )

    def _count_by_reading(self, kind: Kind, most: int, earliest: object) -> tuple[int, Moment | None]:
        """As ``count``, where the statement cannot tell which events take part."""
        count, latest = 0, None
        for part in self.read(kind, earliest):
            count += len(part)
            latest = part[-1].event.since if part else latest
            if count >= most:
                break
        return count, latest

    def read(self, kind: Kind, earliest: object = None) -> Iterator[list[ExaminedEvent]]:
        """The events, oldest first, those since ``earliest``; a part examines a bounded number of rows, or is empty."""
        status, most = Status(kind.upper()), examination.EXAMINED
        filters = self._filters if earliest is None else {**self._filters, "earliest": earliest}
        tags = ("bulk", *self._tags)
        reading = Examination(status, filters, most, most, ascending=True, tags=tags, cause=self._cause)
        if self._ids:
            yield reading.read_ids(self._connection, self._table, self._ids)
            return
        position: SearchPosition | None = None
        while True:
            with short_transaction(self._connection):
                self._connection.execute(statement("outbox/claim:guard"))
                part = reading.read(self._connection, self._table, position)
            yield part.rows
            if part.end is None:
                return
            position = part.end

    def locations(self, events: Sequence[ExaminedEvent]) -> Mapping[str, object]:
        """The parameters of the statements that change a batch."""
        ids = [str(each.event.event_id) for each in events]
        return {"ids": ids, "tids": [each.tid for each in events], "unchanged": self.unchanged}

    def change(
        self,
        kind: Kind,
        options: BulkOptions,
        done: int,
        apply: Apply,
        on_batch: Callable[[int], None],
    ) -> int:
        """Change the events of one kind in batches; ``done`` and what is returned are the totals of all kinds.

        ``apply`` changes a batch in a transaction; what is refused to it is left to ``refusals``. ``on_batch``
        receives the total after each batch, after each part without events, and every second of a wait for the rate;
        it may raise to stop.
        """
        pace = _Pace(options.rate)
        for part in self.read(kind):
            first = 0
            while first < len(part) and (size := options.next_size(done)):
                while pace.wait():
                    on_batch(done)
                with uninterrupted():
                    changed = self._apply(part[first : first + size], apply)
                    pace.add(changed)
                    first += size
                    done += changed
                    on_batch(done)
            if not options.next_size(done):
                break
            if not part:
                on_batch(done)
        return done

    def _apply(self, events: Sequence[ExaminedEvent], apply: Apply) -> int:
        """Change a batch, in parts where the database refuses a row; returns how many events were changed."""
        try:
            with translating(_DOING), short_transaction(self._connection):
                batch = apply(self.locations(events))
        except StorageError as error:
            if not error.may_blame_row:
                raise
            if len(events) == 1:
                self.refusals.failed(str(events[0].event.event_id), error)
                return 0
            parts = quarters(events)
            if not error.guesses_row and len(events) > 2:  # soon, whether it is the database
                parts = [events[:1], events[-1:], events[1:-1]]
            return sum(self._apply(part, apply) for part in parts)
        written = [event_id for event_id, is_written in batch if is_written]
        for event_id, is_written in batch:
            if not is_written:
                self.refusals.failed(str(event_id), kept(_DOING))
            if written:
                self.refusals.went_through()
        return len(written)


class _Pace:
    """At most so many events a second, counted from the start."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._due = time.monotonic()

    def add(self, events: int) -> None:
        """Count a batch."""
        if self._rate is not None:
            self._due += events / self._rate

    def wait(self) -> bool:
        """Sleep until the next batch may begin, for a second at most; whether it must not begin yet."""
        rest = self._due - time.monotonic() if self._rate is not None else 0.0
        time.sleep(min(max(rest, 0.0), _LONGEST_WAIT))
        return rest > _LONGEST_WAIT


def _at(bound: Bound | None, now: datetime) -> datetime | None:
    return now - bound if isinstance(bound, timedelta) else bound
