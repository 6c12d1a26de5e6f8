"""What a relay reads that may be slow: the backlog, the lag, upkeep, and rows behind the head of claims.

All over one connection, so that no claim, settle, renewal or reap waits for it. Each of these walks index entries that
a transaction of another session may keep from being removed; the engine's loops pace them by what they cost
(``READING_SHARE`` of the time), and each has the deadline of a statement (``outbox_options.LONGEST_STATEMENT``). Used
by ``PostgresOutbox``; raises what the storage port raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, LiteralString

from relay.core.errors import StorageTimeout
from relay.core.storage import Backlog, Rest, Upkeep
from relay.outbox.horizon import HorizonReader
from relay.outbox.left_out import PausedRows
from relay.outbox.modewatch import ModeWatch
from relay.outbox.outbox_options import PostgresOptions
from relay.outbox.times_ahead import TimesAhead
from relay.postgres.connect import Connection, DeadlineConnection
from relay.postgres.pipeline import one_transaction
from relay.postgres.sql import statement


class SlowReads:
    """The slow reads of one relay."""

    def __init__(self, connection: DeadlineConnection, options: PostgresOptions, paused: PausedRows) -> None:
        self._connection = connection
        self._table = options.table
        self._paused = paused
        self._guard = statement("outbox/claim:guard", options.table)
        self._oldest_delivered_age = statement("outbox/backlog:oldest_delivered_age", options.table)
        self._horizon = HorizonReader(connection, paused.head)
        self._ahead = TimesAhead(options.table)
        self._mode_watch = ModeWatch(options.table) if options.delete_delivered else None

    async def find(self) -> None:
        """Find where claims begin."""
        await self._connection.run("finding where claims begin", self._paused.find)

    async def look(self) -> Rest:
        """Look for rows that claims have gone past."""
        if self._paused.everything:
            return Rest(1.0, claimable=False)
        return await self._connection.run("looking behind the head of claims", self._paused.look)

    async def backlog(self) -> Backlog:
        """Count and age what waits."""
        tags, parameters = self._paused.of_the_lag()
        sql = statement("outbox/backlog:backlog", self._table, tags=tags)

        async def work(connection: Connection) -> tuple[Any, ...]:
            cursor = connection.cursor(binary=True)
            await cursor.execute(sql, parameters)
            [row] = await cursor.fetchall()
            return row

        return Backlog(*await self._connection.run("reading the backlog", work))

    async def oldest_due_age(self) -> float:
        """The lag alone."""
        tags, parameters = self._paused.of_the_lag()
        sql = statement("outbox/backlog:oldest_due_age", self._table, tags=tags)

        async def work(connection: Connection) -> float:
            return await self._age(connection, sql, parameters)

        return await self._connection.run("reading the lag", work)

    async def upkeep(self) -> Upkeep:
        """How far prune and vacuum are behind; looks for the deliveries of relays in another mode, too."""

        async def work(connection: Connection) -> float:
            age = await self._age(connection, self._oldest_delivered_age)
            if self._mode_watch is not None:
                await self._mode_watch.look(connection)
            return age

        held = await self._horizon.held()
        age = ahead = None
        with suppress(StorageTimeout):
            ahead = await self._connection.run("reading the times ahead of the clock", self._ahead.read)
            age = await self._connection.run("reading the oldest delivery", work)
        return Upkeep(age, held, ahead)

    async def _age(
        self, connection: Connection, sql: LiteralString, parameters: Mapping[str, Any] | None = None
    ) -> float:
        cursor = connection.cursor(binary=True)
        async with one_transaction(connection):
            await connection.execute(self._guard)
            await cursor.execute(sql, parameters)
        row = await cursor.fetchone()
        return float(row[0]) if row else 0.0
