"""Reclaim expired leases, from where the last reap ended on, so that leases that ended before cost a reap nothing.

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
about the database, and is tried again later. Leases ahead of the clock, or without a
time, expire by ``relay.outbox.ahead``. Used by
``PostgresOutbox``; raises what the storage port raises.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from relay.core.beside import SHARE
from relay.core.errors import StorageError, StorageTimeout
from relay.core.event import EventId
from relay.core.ports import Reaped
from relay.outbox.ahead import MOST_ROWS, LeasesAhead
from relay.outbox.options import PostgresOptions
from relay.postgres.codec import id_array
from relay.postgres.connect import Connection, DeadlineConnection
from relay.postgres.sql import statement

CHEAP: Final = 0.05
"""Seconds of a reap that walks over all leases, beside which a head is not worth it."""
_MARGIN: Final = 30.0  # seconds; a claim commits earlier after its begin, and a lease is seen before it expires
_FROM_THE_FIRST: Final = float("-inf")


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
        self._leases_ahead = statement("outbox/lease:leases_ahead", options.table)
        self.head = _FROM_THE_FIRST
        """The time, in seconds since 1970, at whose leases a reap begins where a walk over all is not cheap."""
        self._cheap = True
        self._walk_at = _FROM_THE_FIRST

    async def reap(self, limit: int, lease: float, excluded: Sequence[EventId]) -> Reaped:
        """Reclaim up to ``limit`` leases older than ``lease`` seconds, and as many that are behind the head."""
        values = {**self._retry, "limit": limit, "lease": lease, "excluded": id_array(excluded)}
        reaped = await self._reap_past(values)
        if reaped.total >= limit or reaped.kept:
            return reaped  # called again at once
        expired = self._ahead.expired(await self._connection.run("reaping", self._read_ahead), lease)
        if times := [time for time in expired if time is not None]:
            reaped = _sum(reaped, await self._reap(self._connection, {**values, "ahead": times}, "ahead"))
        if None in expired:
            reaped = _sum(reaped, await self._reap(self._connection, values, "timeless"))
        return reaped

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
            self._walk_at = self._clock() + 60.0 / SHARE
            return reaped

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
        self._walk_at = self._clock() + (0.0 if written == values["limit"] else took / SHARE)
        return reaped

    async def _reap(self, connection: DeadlineConnection, values: dict[str, Any], *tags: str) -> Reaped:
        sql = statement("outbox/lease:reap", self._table, tags=(*tags, *(("excluding",) if values["excluded"] else ())))

        async def work(connection: Connection) -> tuple[Any, ...]:
            cursor = connection.cursor(binary=True)
            await cursor.execute(sql, values)
            [row] = await cursor.fetchall()
            return row

        try:
            retried, buried, at, kept = await connection.run("reaping", work)
        except StorageError as error:
            if values["limit"] == 1 and error.may_blame_row:
                error.event_id = await self._expired_first(connection, values, tags)
            raise
        if kept:
            row = await self._expired_first(connection, values, tags) if values["limit"] == 1 else None
            return Reaped(retried, buried, kept, row)
        if retried + buried < values["limit"] and not tags:
            self.head = at - max(values["lease"], _MARGIN) - 1.0
        return Reaped(retried, buried)

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
