"""Leases prolonged, and the current fence known even when the answer is lost.

The renewal runs in a transaction of its own, so that the new fence is known before COMMIT is sent. When COMMIT's
answer is lost, a second connection reads which of the two fences the rows have, locking them so that it waits for a
COMMIT that is still under way. That is repeated until it is answered, or the leases have run out for certain.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from relay.core.errors import StorageBusy, StorageError, StorageUnavailable
from relay.core.event import EventId, Fence
from relay.core.ports import Renewal
from relay.outbox.options import PostgresOptions
from relay.postgres.codec import id_array
from relay.postgres.connect import Connection, DeadlineConnection
from relay.postgres.sql import statement

_FIRST_PAUSE = 0.05  # seconds before the first read-back
_LONGEST_PAUSE = 1.0


class Renewer:
    """Renews over one connection. Calls for the same claim must not overlap one another or its settling."""

    def __init__(self, connection: DeadlineConnection, options: PostgresOptions) -> None:
        self._connection = connection
        self._options = options
        self._guard = statement("outbox/lease:renew_guard")
        self._renew = statement("outbox/lease:renew", options.table)
        self._readback = statement("outbox/lease:read_back", options.table)

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

        try:
            return await self._connection.run("renewing", work)
        except StorageUnavailable:
            if pending is None:
                raise
            if not pending.held:
                return pending
        return await self._read_back(fence, pending, started + self._options.lease_timeout)

    async def _update(self, connection: Connection, fence: Fence, event_ids: Sequence[EventId]) -> Renewal:
        timeout = str(int(self._options.statement_timeout * 1000))
        async with connection.pipeline():
            await connection.execute(self._guard, {"timeout": timeout})
            cursor = connection.cursor(binary=True)
            await cursor.execute(self._renew, self._fenced(fence, event_ids))
            rows = await cursor.fetchall()
        return _renewal(rows, fence)

    async def _read_back(self, fence: Fence, renewed: Renewal, until: float) -> Renewal:
        """Read the rows' fence: the new one where COMMIT took effect, else the old one."""
        parameters = {**self._fenced(fence, sorted(renewed.held)), "renewed": renewed.fence}

        async def work(connection: Connection) -> list[tuple[EventId, Fence]]:
            cursor = connection.cursor(binary=True)
            await cursor.execute(self._readback, parameters)
            return await cursor.fetchall()

        pause = _FIRST_PAUSE
        while True:
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            try:
                rows = await self._connection.run("reading a renewal back", work)
            except (StorageUnavailable, StorageBusy) as error:
                if time.monotonic() >= until:
                    raise StorageError(
                        "renew: the answer was lost, and the lease expired before it could be read back"
                    ) from error
                continue
            current = renewed.fence if any(row[1] == renewed.fence for row in rows) else fence
            return Renewal(current, frozenset(row[0] for row in rows if row[1] == current))

    def _fenced(self, fence: Fence, event_ids: Sequence[EventId]) -> dict[str, object]:
        return {"ids": id_array(event_ids), "relay_id": self._options.relay_id, "fence": fence}


def _renewal(rows: Sequence[tuple[EventId, Fence]], fence: Fence) -> Renewal:
    return Renewal(rows[0][1] if rows else fence, frozenset(row[0] for row in rows))
