"""Several ``DeadlineConnection``s for many callers: a pool that a silent network cannot fill with dead connections.

A connection that was cut is replaced when a caller needs it, at once: nothing waits for a schedule of retries.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

from psycopg.adapt import AdaptersMap

from relay.core.durations import in_words
from relay.core.errors import StorageBusy
from relay.postgres.connect import DeadlineConnection, Generation, Work, read_committed
from relay.postgres.url import ConnectionParameters

T = TypeVar("T")


class DeadlinePool:
    """Up to ``size`` connections. Connects on demand; every method belongs to the event loop of the first call."""

    def __init__(
        self,
        parameters: ConnectionParameters,
        *,
        size: int,
        deadline: float,
        longest_wait: float,
        adapters: AdaptersMap,
        schema_hint: str,
        on_connect: Work[None] = read_committed,
    ) -> None:
        """``deadline`` is in seconds; a caller waits ``longest_wait`` seconds for a place.

        The other parameters are those of ``DeadlineConnection``.
        """
        generation = Generation()
        self._connections = [
            DeadlineConnection(
                parameters, deadline, generation, adapters=adapters, schema_hint=schema_hint, on_connect=on_connect
            )
            for _ in range(size)
        ]
        self._idle = list(self._connections)
        self._places = asyncio.Semaphore(size)
        self._longest_wait = longest_wait

    @property
    def connected(self) -> int:
        """Number of open connections."""
        return sum(connection.connected for connection in self._connections)

    async def run(self, doing: str, work: Work[T], deadline: float | None = None) -> T:
        """As ``DeadlineConnection.run``. Raises StorageBusy when every connection stays in use for ``longest_wait``."""
        try:
            if self._places.locked():
                async with asyncio.timeout(self._longest_wait):
                    await self._places.acquire()
            else:
                await self._places.acquire()  # at once
        except TimeoutError:
            in_use = len(self._connections)
            raise StorageBusy(
                f"{doing}: all {in_use} connections were in use for {in_words(self._longest_wait)}; try again later"
            ) from None
        connection = self._idle.pop()  # the last one used: it is the most likely to be connected
        try:
            return await connection.run(doing, work, deadline)
        finally:
            self._idle.append(connection)
            self._places.release()

    async def close(self) -> None:
        """Close every connection, after cancelling and cutting off what still runs; never raises."""
        await asyncio.gather(*(connection.close() for connection in self._connections))
