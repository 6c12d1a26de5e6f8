"""Reclaim expired leases, from where the last reap ended on, so that leases that ended before cost a reap nothing.

Each is a failed attempt: the statement (``sql/outbox/lease.sql:reap``) makes its event PENDING with the backoff, or
DEAD once its attempts are used up.

Each claim, renewal and settle leaves a dead entry in the index of leases, and vacuum removes none of them while a
transaction of another session is open from before. As for claims (``relay.outbox.head``) a reap begins at a head: the
time of lease before which the last one has left no expired lease. What may be behind it:

| what | seen by |
|---|---|
| an expired lease that was locked, or left out by its id, when a reap went past it | a walk over all |
| the lease of a claim that committed later than LEASE_TIMEOUT after its begin | a walk over all |
| a lease of before the database's clock was set back, once it has expired | a walk over all |

A walk over all is every reap while it is cheap (``CHEAP``): then there is no head. Where it is not, it is made after
the reap from the head, over the connection of the slow reads, for a fortieth of the time: a lease behind the head is
reclaimed after at most 40 walks and one interval of the reaper. A walk that is cut off at its deadline says nothing
about the database, and is tried again later. Leases ahead of the clock, or without a time, expire by
``relay.outbox.times_ahead``.

Where ``MOST_ALIKE`` rows are left out by their ids, and the database refuses more, each call takes one page of the
expired leases instead, and tries it in quarters down to single rows: so good leases among any number of refused ones
are reclaimed, and no list grows. A round over all pages that meets none that is refused ends that. Used by
``PostgresOutbox``; raises what the storage port raises.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from relay.core.blame import MOST_ALIKE, kept, quarters
from relay.core.errors import StorageError, StorageTimeout
from relay.core.event import EventId
from relay.core.proofs import ExpiredLeases, LeasedRow
from relay.core.storage import READING_SHARE, Reaped
from relay.outbox.outbox_options import PostgresOptions
from relay.outbox.times_ahead import MOST_ROWS, LeasesAhead
from relay.postgres.codec import id_array
from relay.postgres.connect import Connection, DeadlineConnection
from relay.postgres.sql import statement

CHEAP: Final = 0.05
"""Seconds of a reap that walks over all leases, beside which a head is not worth it."""
_MARGIN: Final = 30.0  # seconds; a claim commits earlier after its begin, and a lease is seen before it expires
_FROM_THE_FIRST: Final = float("-inf")
_PAGE: Final = 100  # leases
_MOST_OWN: Final = 100_000  # leases of a former life
_BEFORE_ALL: Final = (float("-inf"), "(0,0)")


class Reaping:
    """The reaps of one relay. Not to be called again before a call has ended."""

    def __init__(
        self,
        connection: DeadlineConnection,
        slow: DeadlineConnection,
        options: PostgresOptions,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._slow = slow
        self._clock = clock
        retry = options.retry
        self._retry = {
            "base_delay": retry.base_delay,
            "max_delay": retry.max_delay,
            "jitter": retry.jitter,
            "max_attempts": retry.max_attempts,
        }
        self._table = options.table
        self._ahead = LeasesAhead(clock)
        self._ahead_asked = False
        self._now = statement("session:clock")
        self._leases_ahead = statement("outbox/lease:leases_ahead", options.table)
        self._expired_page = statement("outbox/lease:expired_page", options.table)
        self.head = _FROM_THE_FIRST
        """The time, in seconds since 1970, at whose leases a reap begins where a walk over all is not cheap."""
        self._cheap = True
        self._walk_at = _FROM_THE_FIRST
        self._in_pages = False
        self._page_after = _BEFORE_ALL
        """The last lease of the last page, and its place in the table."""
        self._refused = False
        """Whether the round over all pages has met a refused lease."""

    async def reap(self, limit: int, lease: float, excluded: Sequence[EventId]) -> Reaped:
        """Reclaim up to ``limit`` leases older than ``lease`` seconds, and as many that are behind the head."""
        values = {**self._retry, "limit": limit, "lease": lease, "excluded": id_array(excluded)}
        self._in_pages = self._in_pages or len(excluded) >= MOST_ALIKE
        reaped = await (self._reap_page(values) if self._in_pages else self._reap_past(values))
        if reaped.total >= limit or reaped.kept or reaped.more:
            return reaped  # called again at once
        expired = self._ahead.expired(await self._connection.run("reaping", self._read_ahead), lease)
        if times := [time for time in expired if time is not None]:
            reaped = _sum(reaped, await self._reap(self._connection, {**values, "ahead": times}, "ahead"))
        if None in expired:
            reaped = _sum(reaped, await self._reap(self._connection, values, "timeless"))
        return reaped

    async def expired(self, limit: int, lease: float, excluded: Sequence[EventId], *, first: bool) -> ExpiredLeases:
        """The next page of expired leases, for who asks about them before they are reclaimed; from the head on.

        A round ends with those that are ahead of the database's clock.
        """
        values = {"lease": lease, "excluded": id_array(excluded), "page": limit, "ahead": []}
        if first:
            walks = self._cheap or self.head == _FROM_THE_FIRST or self._clock() >= self._walk_at
            self._page_after, self._ahead_asked = _BEFORE_ALL if walks else (self.head, _BEFORE_ALL[1]), False
            rows, at = await self._first_page(values, walks=walks)
            if not rows:
                self.head = at.timestamp() - max(lease, _MARGIN) - 1.0
        else:
            rows, at = await self._connection.run("reaping", partial(self._read_rows, values, ("asked",)))
        if rows:
            self._page_after = rows[-1][-2:]
        elif not self._ahead_asked:
            self._ahead_asked = True
            expired = self._ahead.expired(await self._connection.run("reaping", self._read_ahead), lease)
            if times := [time for time in expired if time is not None]:
                values["ahead"] = times
                rows, at = await self._connection.run("reaping", partial(self._read_rows, values, ("asked", "ahead")))
        return ExpiredLeases([LeasedRow(*row[:3]) for row in rows], at if rows else None)

    async def _first_page(self, values: dict[str, Any], *, walks: bool) -> tuple[list[tuple[Any, ...]], datetime]:
        """The first page, and what it costs where it walks over what is behind the head."""
        work = partial(self._read_rows, values, ("asked",))
        if not walks or self.head == _FROM_THE_FIRST:
            return await self._connection.run("reaping", work)
        began = self._clock()
        try:
            return await (self._connection if self._cheap else self._slow).run("reaping", work)
        except StorageTimeout:
            self._page_after = (self.head, _BEFORE_ALL[1])
            return await self._connection.run("reaping", work)
        finally:
            took = self._clock() - began
            self._cheap, self._walk_at = took <= CHEAP, self._clock() + took / READING_SHARE

    async def _read_rows(
        self, values: dict[str, Any], tags: Sequence[str], connection: Connection
    ) -> tuple[list[tuple[Any, ...]], datetime]:
        locked_from, tid_from = self._page_after
        cursor = connection.cursor(binary=True)
        parameters = {**values, "locked_from": locked_from, "tid_from": tid_from}
        await cursor.execute(statement("outbox/lease:expired_page", self._table, tags=tags), parameters)
        rows = await cursor.fetchall()
        await cursor.execute(self._now)
        [(at,)] = await cursor.fetchall()
        return rows, at

    async def own_leases(self, relay_id: str) -> list[LeasedRow]:
        """The oldest leases of this RELAY_ID."""
        sql, values = statement("outbox/lease:own_leases", self._table), {"relay_id": relay_id, "most": _MOST_OWN}

        async def work(connection: Connection) -> list[LeasedRow]:
            cursor = connection.cursor(binary=True)
            await cursor.execute(sql, values)
            return [LeasedRow(*row) for row in await cursor.fetchall()]

        return await self._slow.run("reading own leases", work)

    async def reap_exactly(
        self,
        rows: Sequence[LeasedRow],
        lease: float,
        acknowledged: Mapping[EventId, str],
        *,
        former: bool = False,
    ) -> Reaped:
        """Reclaim the leases of these rows under these fences; without rows those without a time.

        ``acknowledged`` needs the column of the extension fan-out.
        """
        values: dict[str, Any] = {**self._retry, "lease": lease, "excluded": id_array(()), "limit": _PAGE}
        if not rows:
            expired = self._ahead.expired(await self._connection.run("reaping", self._read_ahead), lease)
            return await self._reap(self._connection, values, "timeless") if None in expired else Reaped(0, 0)
        values["holders"], values["fences"] = [row.holder for row in rows], [row.fence for row in rows]
        values["asked"] = id_array([row.event_id for row in rows])
        values["acknowledged"] = json.dumps(dict(acknowledged))
        tags = ["asked", *(["fan_out"] if acknowledged else []), *(["former"] if former else [])]
        return await self._reap_in_parts(values, [row.event_id for row in rows], *tags)

    async def _reap_past(self, values: dict[str, Any]) -> Reaped:
        """Reclaim what has expired by the database's clock."""
        if self._cheap or self.head == _FROM_THE_FIRST:
            return await self._walk(self._connection, values)
        reaped = await self._reap(self._connection, {**values, "locked_from": self.head})
        if self._clock() < self._walk_at:
            return reaped
        try:
            return _sum(reaped, await self._walk(self._slow, values))
        except StorageTimeout:
            self._walk_at = self._clock() + 60.0 / READING_SHARE
            return reaped

    async def _reap_page(self, values: dict[str, Any]) -> Reaped:
        """Reclaim the next page of expired leases; an empty one ends the round."""
        page = await self._connection.run("reaping", partial(self._read_page, values))
        if not page:
            self._in_pages, self._refused, self._page_after = self._refused, False, _BEFORE_ALL
            return Reaped(0, 0)
        self._page_after = page[-1][1:]
        reaped = await self._reap_in_parts(values, [row[0] for row in page])
        self._refused = self._refused or bool(reaped.refused)
        return reaped

    async def _reap_in_parts(self, values: dict[str, Any], event_ids: Sequence[EventId], *tags: str) -> Reaped:
        """Reclaim these leases, in quarters down to single ones where the database refuses some."""
        total, refused = Reaped(0, 0), []
        parts: deque[Sequence[EventId]] = deque([event_ids])
        while parts:
            part = parts.popleft()
            reaped, error = await self._reap_chosen(values, part, *tags)
            total = _sum(total, reaped)
            if error is not None and len(part) > 1:
                parts.extendleft(reversed(quarters(part)))
            elif error is not None:
                error.event_id = part[0]
                refused.append(error)
        return total._replace(kept=0, refused=tuple(refused), more=True)

    async def _reap_chosen(
        self, values: dict[str, Any], event_ids: Sequence[EventId], *tags: str
    ) -> tuple[Reaped, StorageError | None]:
        """Reclaim these leases; with the error where the database refuses one of them."""
        chosen = {**values, "chosen": id_array(event_ids), "limit": len(event_ids)}
        try:
            reaped = await self._reap(self._connection, chosen, "chosen", *tags)
        except StorageError as error:
            if not error.may_blame_row:
                raise
            return Reaped(0, 0), error
        return reaped, kept("reaping") if reaped.kept else None

    async def _read_page(self, values: dict[str, Any], connection: Connection) -> list[tuple[Any, ...]]:
        locked_from, tid_from = self._page_after
        parameters = {**values, "locked_from": locked_from, "tid_from": tid_from, "page": _PAGE}
        return await (await connection.execute(self._expired_page, parameters)).fetchall()

    async def _read_ahead(self, connection: Connection) -> list[float | None]:
        cursor = connection.cursor(binary=True)
        await cursor.execute(self._leases_ahead, {"most": MOST_ROWS})
        return [fence for (fence,) in await cursor.fetchall()]

    async def _walk(self, connection: DeadlineConnection, values: dict[str, Any]) -> Reaped:
        """Reap from the first lease on, and learn what that costs."""
        began = self._clock()
        reaped = await self._reap(connection, {**values, "locked_from": _FROM_THE_FIRST})
        took = self._clock() - began
        written = reaped.total
        # Rows that are written take their time, too: a reap that found many says nothing about the walk.
        self._cheap = took <= CHEAP if written < 10 else self._cheap
        self._walk_at = self._clock() + (0.0 if written == values["limit"] else took / READING_SHARE)
        return reaped

    async def _reap(self, connection: DeadlineConnection, values: dict[str, Any], *tags: str) -> Reaped:
        """One statement. With a limit of 1 for a row that is read before: of several of one time it may be any."""
        if values["limit"] > 1 or "chosen" in tags:
            return await self._reap_up_to(connection, values, *tags)
        row = await self._expired_first(connection, values, tags)
        if row is None:
            return Reaped(0, 0)
        try:
            reaped = await self._reap_up_to(connection, {**values, "chosen": id_array([row])}, *tags, "chosen")
        except StorageError as error:
            error.event_id = row
            raise
        return reaped._replace(kept_row=row if reaped.kept else None)

    async def _reap_up_to(self, connection: DeadlineConnection, values: dict[str, Any], *tags: str) -> Reaped:
        sql = statement("outbox/lease:reap", self._table, tags=(*tags, *(("excluding",) if values["excluded"] else ())))

        async def work(connection: Connection) -> tuple[Any, ...]:
            cursor = connection.cursor(binary=True)
            await cursor.execute(sql, values)
            [row] = await cursor.fetchall()
            return row

        retried, buried, at, kept = await connection.run("reaping", work)
        if not kept and retried + buried < values["limit"] and not tags:
            self.head = at - max(values["lease"], _MARGIN) - 1.0
        return Reaped(retried, buried, kept)

    async def _expired_first(
        self, connection: DeadlineConnection, values: dict[str, Any], tags: Sequence[str]
    ) -> EventId | None:
        sql = statement("outbox/lease:first_expired", self._table, tags=tags)

        async def work(connection: Connection) -> tuple[Any, ...] | None:
            return await (await connection.execute(sql, values)).fetchone()

        row = await connection.run("reaping", work)
        return row[0] if row else None


def _sum(one: Reaped, other: Reaped) -> Reaped:
    return Reaped(
        one.retried + other.retried, one.buried + other.buried, one.kept + other.kept, one.kept_row or other.kept_row
    )
