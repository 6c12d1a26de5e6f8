"""Claims in order per key, whatever waits: the one statement that makes them, and where it looks next.

Rows that may not be claimed yet are behind others of their key: in flight, backing off, dead and holding it. A claim
looks at the oldest due rows. Where all of those are behind others (one key with a long backlog is enough), the next
one goes from key to key instead, each of which costs a single probe however many rows it has, and takes rows without
a key by an index of their own. The keys are walked round and round, each relay from a place of its own, so that none
is passed over. Neither way costs more when more is waiting.
"""

from __future__ import annotations

import random
from typing import Any, Final

from relay.core.sqltext import statement
from relay.storage.lane import Connection
from relay.storage.options import KeyOrder, PostgresOptions

_WINDOW: Final = 3  # due rows looked at for each one wanted: enough where several relays claim side by side
_KEYS: Final = 1000  # keys looked at by one statement; a few milliseconds
_WALKS: Final = 10  # such statements in one claim, while nothing is found
LONGEST_RUN: Final = 100
"""Most rows behind the first one of a key in one claim."""

_FIRST_HASH: Final = -(2**63)
_LAST_HASH: Final = 2**63 - 1
_FRONT: Final = 3  # columns before the event's: rows in the window, whether it is the last key, its hash

Row = tuple[Any, ...]


class OrderedClaim:
    """The claim of one relay. Not to be called again before a call has ended."""

    def __init__(self, options: PostgresOptions, longest_run: int = LONGEST_RUN) -> None:
        self._guard = statement("outbox/queries/claim_ordered_guard.sql")
        self._sql = statement("outbox/queries/claim_ordered.sql", options.table)
        self._fixed = {
            "relay_id": options.relay_id,
            "block": options.key_order is KeyOrder.BLOCK,
            "run": longest_run,
            "max_attempts": options.retry.max_attempts,
        }
        self._by_key = False
        self._from = random.randrange(_FIRST_HASH, _LAST_HASH)

    async def rows(self, connection: Connection, limit: int, max_bytes: int) -> list[Row]:
        """Claim up to ``limit`` rows: fields of ``OutboxEvent``, then the fence; the rows of a key are in order."""
        bounds = {"limit": limit, "max_bytes": max_bytes}
        if not self._by_key:
            window = limit * _WINDOW
            rows = await self._execute(connection, {**bounds, "window": window, "keys": 0, "from": _FIRST_HASH})
            self._by_key = rows[0][0] == window and len(rows) < limit
            if found := _claimed(rows):
                return found
        return await self._walk(connection, bounds) if self._by_key else []

    async def _walk(self, connection: Connection, bounds: dict[str, int]) -> list[Row]:
        """Go from key to key until something is claimed, once around at most."""
        self._by_key = False
        wrapped = False
        for _ in range(_WALKS):
            rows = await self._execute(connection, {**bounds, "window": 0, "keys": _KEYS, "from": self._from})
            _, at_the_end, last = rows[0][:_FRONT]
            at_the_end = at_the_end or last == _LAST_HASH
            self._from = _FIRST_HASH if at_the_end else last + 1
            if found := _claimed(rows):
                return found
            if at_the_end and wrapped:
                break
            wrapped = wrapped or at_the_end
        return []

    async def _execute(self, connection: Connection, parameters: dict[str, int]) -> list[Row]:
        async with connection.pipeline():  # one round trip, one transaction
            await connection.execute(self._guard)
            cursor = connection.cursor(binary=True)
            await cursor.execute(self._sql, {**self._fixed, **parameters})
            return await cursor.fetchall()


def _claimed(rows: list[Row]) -> list[Row]:
    """The rows as an unordered claim returns them; the statement returns one, of NULLs, for a claim of none."""
    if rows[0][_FRONT] is None:
        return []
    return [row[_FRONT:] for row in rows]
