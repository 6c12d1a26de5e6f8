"""How long vacuum has been kept from the relay's table, read once a minute; said once when that becomes long.

Where the database user may not see who holds the horizon, claims show it by their cost: for as long as a walk over the
dead entries before their head is not cheap. Used by ``SlowReads``; raises what the storage port raises.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from relay.core.errors import SchemaError
from relay.outbox.head import Head
from relay.postgres.connect import Connection, DeadlineConnection
from relay.postgres.horizon import HELD_LONG, HorizonWatch, XminHorizon
from relay.postgres.sql import statement

logger = logging.getLogger(__name__)

_SAY_AGAIN: Final = 3600.0  # seconds


class HorizonReader:
    """The readings of one relay."""

    def __init__(self, connection: DeadlineConnection, head: Head, clock: Callable[[], float] = time.monotonic) -> None:
        self._connection = connection
        self._head = head
        self._clock = clock
        self._watch = HorizonWatch(clock)
        self._sql = statement("horizon:held")
        self._dear_since: float | None = None
        self._said_at = float("-inf")

    async def held(self) -> float:
        """Seconds for which the horizon has been held."""
        now = self._clock()
        if self._head.walk_is_cheap:
            self._dear_since = None
        elif self._dear_since is None:
            self._dear_since = now
        try:
            horizon = await self._connection.run("reading the xmin horizon", self._read)
        except SchemaError:  # its views were revoked
            return now - (now if self._dear_since is None else self._dear_since)
        seconds = self._watch.held(horizon)
        if horizon.holder is not None and seconds >= HELD_LONG and now >= self._said_at + _SAY_AGAIN:
            self._said_at = now
            holder = horizon.holder
            logger.warning("%s; %s", holder.said(seconds), holder.remedy, extra={"action": "horizon_held"})
        return seconds

    async def _read(self, connection: Connection) -> XminHorizon:
        cursor = connection.cursor(binary=True)
        await cursor.execute(self._sql)
        [row] = await cursor.fetchall()
        return XminHorizon.of(row)
