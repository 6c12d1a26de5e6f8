"""Reads the events of a page from their tenants' partitions.

Reading one event from a partition takes PostgreSQL a few microseconds, and planning that takes tens of them: it opens
the table and its indexes, and compares what it knows of them with each tenant of the list. So a page of many tenants
is read by prepared statements, whose plans PostgreSQL keeps: groups of tenants that came in two pages one after the
other. A prepared statement names its tenants as constants, and so plans and locks their partitions only.

The plans belong to the database's session. Behind a pooler in transaction mode the session changes between statements:
then every page is planned.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, LiteralString, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from psycopg.types.numeric import Int8

from relay.eventstore.database import Row
from relay.eventstore.decoding import Read, fetch_together
from relay.eventstore.model import MOST_PAGE_BYTES
from relay.eventstore.statements import EventStoreStatements
from relay.postgres.sql import PARTITIONS_AT_ONCE, statement

T = TypeVar("T")

_MOST_GROUPS: Final = 50
"""For one connection: their plans take the server about 20 kB for each tenant. psycopg keeps 100 statements."""
_READS_AT_ONCE: Final = 4
"""Statements in one trip to the database, which holds their locks together: three for each of up to 80 partitions."""
_WORTH_A_STATEMENT: Final = 5
"""Tenants of a page in one group. Fewer are read together with others: a statement costs as much as planning four."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Tenants whose partitions one prepared statement reads."""

    tenants: tuple[UUID, ...]
    of_all_streams: LiteralString
    of_slots: LiteralString
    """As ``of_all_streams``, for the streams of a part of a subscription."""


class Groups:
    """The groups of one connection."""

    def __init__(self, statements: EventStoreStatements) -> None:
        self._statements = statements
        self._groups: OrderedDict[Group, None] = OrderedDict()  # the one that was used last is the last
        self._group_of: dict[UUID, Group] = {}
        self._ungrouped: set[UUID] = set()
        """Tenants of the previous page that were read without a group."""

    def split(self, tenants: Sequence[UUID]) -> tuple[list[Group], list[UUID]]:
        """The groups that read a page of these tenants, and the tenants that are read without one.

        A group may have tenants that the page does not have.
        """
        counts = Counter(group for tenant in tenants if (group := self._group_of.get(tenant)) is not None)
        used = {group: None for group, count in counts.items() if count >= _WORTH_A_STATEMENT}
        for group in used:
            self._groups.move_to_end(group)
        rest = [tenant for tenant in tenants if self._group_of.get(tenant) not in used]
        repeated = [tenant for tenant in rest if tenant in self._ungrouped and tenant not in self._group_of]
        self._ungrouped = set(rest)
        for start in range(0, len(repeated) - PARTITIONS_AT_ONCE + 1, PARTITIONS_AT_ONCE):
            if not self._has_room(used):
                break
            used[self._add(repeated[start : start + PARTITIONS_AT_ONCE])] = None
        return list(used), [tenant for tenant in rest if self._group_of.get(tenant) not in used]

    def _has_room(self, used: dict[Group, None]) -> bool:
        """Whether one more group may be added. Removes the one that was unused for longest, unless the page uses it."""
        if len(self._groups) < _MOST_GROUPS:
            return True
        oldest = next(iter(self._groups))
        if oldest in used:
            return False
        del self._groups[oldest]
        for tenant in oldest.tenants:
            del self._group_of[tenant]
        return True

    def _add(self, tenants: Sequence[UUID]) -> Group:
        fetch_from = self._statements.fetch_from
        group = Group(tuple(tenants), fetch_from(tenants), fetch_from(tenants, "part"))
        self._groups[group] = None
        self._group_of |= dict.fromkeys(tenants, group)
        return group


class TenantPartitions:
    """Reads pages for one store."""

    def __init__(self, statements: EventStoreStatements) -> None:
        self._statements = statements
        self._groups: WeakKeyDictionary[AsyncConnection[TupleRow], Groups] = WeakKeyDictionary()

    async def fetch(
        self,
        connection: AsyncConnection[TupleRow],
        page: Sequence[Row],
        after: int,
        values: Mapping[str, object],
    ) -> tuple[list[Row], int]:
        """The events of a page, in its order, and the position up to which they were fetched.

        Leaves out events whose tenant was dropped meanwhile. ``values`` are those of ``feed_page``; the page has every
        event that they select, up to its last position. ``MOST_PAGE_BYTES`` of bodies end it before that.
        """
        if not page:
            return [], after
        tenants: list[UUID] = list(dict.fromkeys(row[1] for row in page))
        kept, rest = await self._split(connection, tenants, values)
        planned = list(_parts(rest, PARTITIONS_AT_ONCE))
        # Int8: a prepared statement is one for the sizes of its numbers too.
        share = MOST_PAGE_BYTES // (len(kept) + len(planned))
        bounds: dict[str, object] = {**values, "after": Int8(after), "most_bytes": Int8(share)}
        part, keep_plans = "slots" in values, statement("session:keep_plans")  # any other one would be for all tenants
        fetch = self._statements.text("eventstore/read:fetch_page", *(["part"] if part else []))
        rows: list[Row] = []
        last = int(page[-1][0])
        for groups in _parts(kept, _READS_AT_ONCE):
            bounds |= {"last": Int8(last)}
            texts = [group.of_slots if part else group.of_all_streams for group in groups]
            found = await fetch_together(connection, [Read(sql, bounds, prepare=True) for sql in texts], keep_plans)
            rows += found
            last = min((int(row[0]) for row in found if row[8] >= share), default=last)
        for listed in _parts(planned, _READS_AT_ONCE):
            bounds |= {"last": Int8(last)}
            found = await fetch_together(connection, [Read(fetch, bounds | {"tenants": some}) for some in listed])
            rows += found
            last = min((int(row[0]) for row in found if row[8] >= share), default=last)
        events = sorted((row[:8] for row in rows if row[0] <= last), key=lambda row: int(row[0]))
        return events, last

    async def _split(
        self, connection: AsyncConnection[TupleRow], tenants: list[UUID], values: Mapping[str, object]
    ) -> tuple[list[Group], list[UUID]]:
        """The groups whose plans are kept, and the other tenants of a page.

        Of some tenants only, the page does not have the events of all tenants of a group.
        """
        if len(tenants) <= PARTITIONS_AT_ONCE or values["tenants"] is not None:
            return [], tenants
        known = self._known_groups(connection)
        return ([], tenants) if known is None else known.split(tenants)

    def _known_groups(self, connection: AsyncConnection[TupleRow]) -> Groups | None:
        """None for a connection that cannot keep a plan."""
        if connection.prepare_threshold is None:
            return None
        if connection not in self._groups:
            self._groups[connection] = Groups(self._statements)
        return self._groups[connection]


def _parts(items: list[T], size: int) -> Iterator[list[T]]:
    """The items in parts of that size; the last one may be smaller."""
    return (items[start : start + size] for start in range(0, len(items), size))
