"""Reads the events of one status in order, a bounded number of rows at a time. Reads only, and locks nothing.

The order is (time in the status, status, location in the table). The contract's indexes give it for each status,
newest first or, ascending, oldest first. However rare the events of a filter are, one call examines a bounded number
of rows and says where it ended.

Very many rows may share one time, because ``created_at`` is the time of the transaction that inserted them. Rows of
such a group are read by their location in the table, where one transaction writes them side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple
from uuid import UUID

from relay.core.event import Status
from relay.outbox.admin.browse import ListedEvent
from relay.outbox.admin.causes import CauseMark
from relay.outbox.admin.connection import Connection, Moment, rows
from relay.postgres.sql import TableName

EXAMINED: Final = 10_000
"""Rows that one step examines where a filter may let few of them pass."""
ORDER: Final = tuple(Status)
"""The statuses in the order of events of one time."""
BELOW_ALL: Final = "(0,0)"
ABOVE_ALL: Final = "(4294967295,65535)"
"""Locations before and after every row of a table."""

_BLOCKS: Final = 512  # of the table, 4 MiB, that one statement reads of a large group
_STEPS: Final = 8  # such statements in one call


class SearchPosition(NamedTuple):
    """A position in the order: behind the row ``tid`` of those with this time and status."""

    since: Moment
    status: Status
    tid: str

    def key(self, *, ascending: bool) -> tuple[float, int, tuple[int, int]]:
        """What sorts positions in the order."""
        block, offset = block_and_offset(self.tid)
        sign = 1 if ascending else -1
        return (sign * seconds_since_1970(self.since), -sign * ORDER.index(self.status), (sign * block, sign * offset))


FIRST: Final = SearchPosition("infinity", ORDER[0], ABOVE_ALL)
LAST: Final = SearchPosition("-infinity", ORDER[-1], BELOW_ALL)
"""The ends of the order, newest first."""


class ExaminedEvent(NamedTuple):
    """An event that passes the filter, and its location in the table."""

    event: ListedEvent
    tid: str

    @property
    def position(self) -> SearchPosition:
        """Its position in the order."""
        since = self.event.since
        return SearchPosition("-infinity" if since is None else since, Status(self.event.status), self.tid)


class ExaminedPart(NamedTuple):
    """Events of one status, and where their examination ended; None at the end of the status."""

    rows: list[ExaminedEvent]
    end: SearchPosition | None


@dataclass(frozen=True, slots=True)
class Examination:
    """What is read: parameters and tags are those of ``page`` in ``sql/outbox/search.sql``."""

    status: Status
    filters: Mapping[str, object]
    wanted: int
    """A call returns at least so many events, unless it has examined ``most`` rows before."""
    most: int
    ascending: bool = False
    tags: Sequence[str] = field(default=())
    cause: CauseMark | None = None
    """Only events of this cause."""

    def read(self, connection: Connection, table: TableName, start: SearchPosition | None) -> ExaminedPart:
        """The events behind ``start``. Needs a transaction with ``claim:guard``."""
        part = _Reading(connection, table, self).read(start)
        return part if self.cause is None else part._replace(rows=self._of_cause(part.rows, self.cause))

    @staticmethod
    def _of_cause(events: list[ExaminedEvent], cause: CauseMark) -> list[ExaminedEvent]:
        marks: dict[str | None, bool] = {}
        for each in events:
            error = each.event.last_error
            if error not in marks:
                marks[error] = cause.holds(error)
        return [each for each in events if marks[each.event.last_error]]

    def read_ids(self, connection: Connection, table: TableName, ids: Sequence[UUID]) -> list[ExaminedEvent]:
        """Those of these events that pass."""
        values = {"ids": [str(id_) for id_ in ids], "most": len(ids), "limit": len(ids)}
        events = _Reading(connection, table, self).fetch("ids", **values)[0]
        return events if self.cause is None else self._of_cause(events, self.cause)


class _Reading:
    """One call of an examination."""

    def __init__(self, connection: Connection, table: TableName, examination: Examination) -> None:
        self._connection = connection
        self._table = table
        self._what = examination
        self._status = examination.status
        # What is left out by its cause is left out afterwards: the statement must return all that it has examined.
        cause = examination.cause
        self._most = examination.most
        self._wanted = examination.wanted if cause is None else self._most
        self._filters = dict(examination.filters)
        if cause is not None and self._filters.get("error_code") is None:
            self._filters["error_code"] = cause.code
        self._near, self._far = (BELOW_ALL, ABOVE_ALL) if examination.ascending else (ABOVE_ALL, BELOW_ALL)

    def read(self, start: SearchPosition | None) -> ExaminedPart:
        """The rows behind ``start``."""
        result: list[ExaminedEvent] = []
        bound: Moment = "-infinity" if self._what.ascending else "infinity"
        inclusive = True
        if start is not None:
            bound = start.since
            distance = ORDER.index(self._status) - ORDER.index(start.status)
            inclusive = distance < 0 if self._what.ascending else distance > 0
            if start.status is self._status:
                group = self._group(start)
                result += group.rows
                if group.end is not None or len(result) >= self._wanted:
                    return ExaminedPart(result, group.end or result[-1].position)
        window, examined, furthest = self.fetch("window", *(["inclusive"] if inclusive else []), bound=bound)
        if examined < self._most:
            return ExaminedPart(result + window, None)
        # The window may have been cut within a group of rows of one time: that group is read on its own.
        result += [row for row in window if row.event.since != furthest]
        top = SearchPosition(furthest, self._status, self._near)
        if len(result) >= self._wanted:
            return ExaminedPart(result, top)
        group = self._group(top)
        return ExaminedPart(result + group.rows, group.end or top._replace(tid=self._far))

    def _group(self, start: SearchPosition) -> ExaminedPart:
        """Rows of one time behind ``start``, in the order of their location; ``end`` None when none is left."""
        ties, examined, _ = self.fetch("ties", bound=start.since, tid=start.tid, most=EXAMINED + 1)
        if examined <= EXAMINED:
            return ExaminedPart(ties, ties[-1].position if len(ties) >= self._wanted else None)
        result: list[ExaminedEvent] = []
        tid = start.tid
        for _ in range(_STEPS):
            edge, last = self._edge(tid)
            result += self.fetch("blocks", bound=start.since, tid=tid, edge=edge, most=2**40)[0]
            tid = edge
            if len(result) >= self._wanted:
                return ExaminedPart(result, result[-1].position)
            if last:
                return ExaminedPart(result, None)
        return ExaminedPart(result, start._replace(tid=tid))

    def _edge(self, tid: str) -> tuple[str, bool]:
        """Where the next blocks behind ``tid`` end, and whether they are the last ones."""
        [(blocks,)] = rows(self._connection, "outbox/search:blocks", self._table, {"table": self._table.quoted})
        block = min(block_and_offset(tid)[0], int(blocks))
        if self._what.ascending:
            return f"({block + _BLOCKS},0)", block + _BLOCKS >= int(blocks)
        low = max(block - _BLOCKS, 0)
        return f"({low},0)", low == 0

    def fetch(self, *tags: str, **values: object) -> tuple[list[ExaminedEvent], int, Moment]:
        """Rows that pass, how many were examined, and the time of the last one."""
        parameters = {
            "limit": self._wanted,
            "most": self._most,
            "tid": ABOVE_ALL,
            "edge": BELOW_ALL,
            "bound": None,
            "ids": None,
            "unchanged": None,
            "header": None,
            "header_value": None,
            "payload": None,
            **self._filters,
            **values,
        }
        direction = ["ascending"] if self._what.ascending else []
        variant = (self._status.lower(), *self._what.tags, *direction, *tags)
        fetched = rows(self._connection, "outbox/search:page", self._table, parameters, *variant)
        *_, examined, furthest = fetched[0]
        passing = [ExaminedEvent(ListedEvent(*row[:11]), row[11]) for row in fetched if row[0] is not None]
        return passing, examined, furthest


def block_and_offset(tid: str) -> tuple[int, int]:
    """Block and offset. Raises ValueError for text of another form."""
    block, offset = tid[1:-1].split(",")
    return int(block), int(offset)


def seconds_since_1970(moment: Moment) -> float:
    """For comparing times, to the microsecond."""
    if isinstance(moment, datetime):
        since = moment - datetime(1970, 1, 1, tzinfo=UTC)
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return float(moment.replace("infinity", "inf"))
