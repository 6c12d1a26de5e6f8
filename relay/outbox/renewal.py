"""Renew leases, and know the current fence even when the reply is lost.

The renewal runs in a transaction of its own, so that the new fence is known before COMMIT is sent. When COMMIT's reply
is lost, a second connection reads which of the two fences the rows have. A COMMIT that is still under way holds all of
the rows, so the old fence counts only once one of them can be locked. The read is repeated until it is answered, or
until the leases have expired for certain. So it is where the look for locked rows fails, after the COMMIT.

Rows that another session has locked are skipped: they keep the lease they have, and delay no other row's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial

from relay.core.errors import StorageError, StorageUnavailable
from relay.core.event import EventId, Fence
from relay.core.storage import Renewal
from relay.outbox.outbox_options import PostgresOptions
from relay.postgres.codec import id_array
from relay.postgres.connect import Connection, DeadlineConnection
from relay.postgres.prepared import plans_once, tags_of
from relay.postgres.sql import statement

_FIRST_PAUSE = 0.05  # seconds before the first read-back
_LONGEST_PAUSE = 1.0


class Renewer:
    """Renews over one connection. Calls for the same claim must not overlap one another or its settling."""

    def __init__(self, connection: DeadlineConnection, options: PostgresOptions) -> None:
        self._connection = connection
        self._options = options
        self._guard = statement("outbox/lease:renew_guard")
        self._readback = statement("outbox/lease:read_back", options.table)
        self._held = statement("outbox/lease:held", options.table)

    async def renew(self, fence: Fence, event_ids: Sequence[EventId]) -> Renewal:
        """Renew what is still held under ``fence``; with nothing held the fence stays as it was."""
        if not event_ids:
            return Renewal(fence, frozenset())
        pending: Renewal | None = None
        started = time.monotonic()

        async def work(connection: Connection) -> Renewal:
            nonlocal pending
            async with connection.transaction():
                renewal = await self._update(connection, fence, event_ids)
                pending = renewal
            return renewal

        is_committed = False
        try:
            renewal = await self._connection.run("renewing", work)
            is_committed = True
            if len(renewal.held) == len(event_ids):
                return renewal
            look = partial(self._held_under, fence=fence, event_ids=event_ids)
            return renewal._replace(unchanged=await self._connection.run("renewing", look))
        except StorageError as error:
            # Where the server answered it was rolled back, or is committed and only the look failed.
            if pending is None or not pending.held or (error.answered and not is_committed):
                raise
        return await self._read_back(fence, pending.fence, event_ids, started + self._options.lease_timeout)

    async def _update(self, connection: Connection, fence: Fence, event_ids: Sequence[EventId]) -> Renewal:
        timeout = str(int(self._options.statement_timeout * 1000))
        async with connection.pipeline():
            await connection.execute(self._guard, {"timeout": timeout})
            cursor = connection.cursor(binary=True)
            renew = statement("outbox/lease:renew", self._options.table, tags=tags_of(connection))
            await cursor.execute(renew, self._fenced(fence, event_ids), prepare=plans_once(connection))
            rows = await cursor.fetchall()
        return _renewal(rows, fence)

    async def _read_back(self, fence: Fence, renewed: Fence, event_ids: Sequence[EventId], until: float) -> Renewal:
        """Read the rows' fence: ``renewed`` where COMMIT took effect, else ``fence``."""
        parameters = {**self._fenced(fence, event_ids), "renewed": renewed}

        async def work(connection: Connection) -> Renewal | None:
            cursor = await connection.execute(self._readback, parameters)
            ended = await cursor.fetchone() is not None
            held = await self._held_under(connection, renewed, event_ids)
            unchanged = await self._held_under(connection, fence, event_ids)
            return Renewal(renewed if held else fence, held, unchanged) if ended or held or not unchanged else None

        pause = _FIRST_PAUSE
        cause: StorageError | None = None
        while time.monotonic() < until:
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            try:
                renewal = await self._connection.run("reading a renewal back", work)
            except StorageError as error:
                cause = error
                continue
            if renewal is not None:
                return renewal
        raise StorageUnavailable(
            "renewing: the reply was lost, and the lease expired before it could be read back"
        ) from cause

    async def _held_under(
        self, connection: Connection, fence: Fence, event_ids: Sequence[EventId]
    ) -> frozenset[EventId]:
        cursor = await connection.execute(self._held, self._fenced(fence, event_ids))
        return frozenset(event_id for (event_id,) in await cursor.fetchall())

    def _fenced(self, fence: Fence, event_ids: Sequence[EventId]) -> dict[str, object]:
        return {"ids": id_array(event_ids), "relay_id": self._options.relay_id, "fence": fence}


def _renewal(rows: Sequence[tuple[EventId, Fence]], fence: Fence) -> Renewal:
    """Without rows that a BEFORE trigger returned as they were."""
    renewed = [row for row in rows if row[1] != fence]
    return Renewal(renewed[0][1] if renewed else fence, frozenset(row[0] for row in renewed))
