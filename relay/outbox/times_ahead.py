"""Times that are ahead of the database's clock: it was set back, or a failover led to a server whose clock is behind.

A lease begins at the database's NOW(), and an event is inserted at it, so neither time is ever ahead of it. By the
database's clock such a lease does not expire for a long time. The relay's own monotonic clock decides instead: a lease
whose time stays the same for LEASE_TIMEOUT has not been renewed, and is reclaimed. A holder that lives renews its lease
meanwhile, and each renewal changes the time. Up to a minute ahead nothing is done but wait, so that a failover between
two clocks that nearly agree takes no lease.

Events that wait for such a time are only named, in log and metric: the application may have scheduled them.
Used by ``Reaping`` and ``SlowReads``. It raises what the connection raises.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from relay.postgres.connect import Connection
from relay.postgres.sql import TableName, statement

logger = logging.getLogger(__name__)

MOST_ROWS: Final = 10_000
"""Rows that are counted, and fences that are remembered."""
_SAY_AGAIN: Final = 3600.0  # seconds
_WHAT: Final = {
    "locked_at": "%d leases have a locked_at up to %.0f s ahead of the database's clock, which was set back, or is "
    "behind that of the server before it. Each is reclaimed once it stays unchanged for LEASE_TIMEOUT. Synchronize the "
    "clocks of all servers that may lead",
    "created_at": "%d events that wait have a created_at up to %.0f s ahead of the database's clock, which was set "
    "back, or is behind that of the server before it. No relay claims an event before its available_at. Synchronize "
    "the clocks of all servers that may lead; relay-cli check shows how to send these events now",
}


class LeasesAhead:
    """Since when the relay has seen each lease that is ahead of the database's clock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: dict[float | None, float] = {}
        """By ``locked_at`` in seconds since 1970; None for leases without one."""

    def expired(self, fences: Iterable[float | None], lease: float) -> list[float | None]:
        """Of the leases that are ahead now, or have no time, those that have not changed for ``lease`` seconds."""
        now = self._clock()
        self._since = {fence: self._since.get(fence, now) for fence in fences}
        return [fence for fence, since in self._since.items() if now - since >= lease]


class TimesAhead:
    """The rows whose time is ahead: counted, and named in the log once an hour."""

    def __init__(self, table: TableName) -> None:
        self._sql = statement("outbox/backlog:times_ahead", table)
        self._said_at: dict[str, float] = {}

    async def read(self, connection: Connection) -> Mapping[str, int]:
        """How many rows there are, by column."""
        cursor = connection.cursor(binary=True)
        await cursor.execute(self._sql, {"most": MOST_ROWS})
        counts = dict.fromkeys(_WHAT, 0)
        for column, count, seconds in await cursor.fetchall():
            counts[column] = count
            self._say(column, count, seconds)
        return counts

    def _say(self, column: str, count: int, seconds: float) -> None:
        now = time.monotonic()
        if now - self._said_at.get(column, float("-inf")) >= _SAY_AGAIN:
            self._said_at[column] = now
            logger.warning(_WHAT[column], count, seconds, extra={"action": "times_ahead", "column": column})
