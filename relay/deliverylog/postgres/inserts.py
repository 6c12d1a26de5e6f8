"""Write a batch into PostgreSQL in one transaction: its events with their destinations, then its attempts.

Rows that are new are copied in: COPY writes many rows at once and looks for no conflict, and the server writes the
first ones while the next are encoded here. A row that exists fails the transaction. Then the batch is written again by
the statements that expect such rows, and so are the next ones, until a batch has only new rows. Attempts exist where a
batch is written again, events also where they were attempted before. A row that a trigger leaves out fails it, too.

Every statement writes its rows sorted by key, and a table's rows are written by one statement: two batches with the
same rows wait for each other instead of deadlocking.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Final

from psycopg.errors import FeatureNotSupported, UniqueViolation

from relay.core.blame import kept
from relay.deliverylog.entries import LogRow, last_events
from relay.deliverylog.postgres import rows
from relay.deliverylog.postgres.partitions import month_of
from relay.deliverylog.postgres.statements import PostgresStatements
from relay.postgres.connect import Connection

_LINKS: Final = "insert:new_links"
# Text compares by code points in Python, which is the order of its bytes, as COLLATE "C" has it.
_EVENT_KEY = attrgetter("event_time", "event_id", "tenant_id")
_ATTEMPT_KEY = attrgetter("time", "attempt_id", "tenant_id")


class BatchInserts:
    """Writes batches; several may be under way at once, each on its own connection."""

    def __init__(self, sql: PostgresStatements) -> None:
        self._sql = sql
        self.expects_new_events = True
        """Whether the next batch's events are copied, unless one of them was attempted before."""
        self.expects_new_attempts = True
        """Whether the next batch's attempts are copied."""

    async def insert(self, connection: Connection, batch: Sequence[LogRow], past: Container[datetime]) -> None:
        """Write a batch without duplicates. Raises psycopg.Error or RowRefused; then nothing is written.

        The events of the months ``past`` get no row of their own; their attempts hold them.
        """
        events = sorted((row for row in last_events(batch) if month_of(row.event_time) not in past), key=_EVENT_KEY)
        first = all(map(_is_first, batch))
        new_events = first and self.expects_new_events
        new_attempts = self.expects_new_attempts
        while True:
            copying_events = new_events
            try:
                async with connection.transaction():
                    all_new = await self._insert_events(connection, events, new=new_events)
                    copying_events = False
                    await self._insert_attempts(connection, batch, new=new_attempts)
            except (UniqueViolation, FeatureNotSupported):  # the latter: COPY under row-level security
                if copying_events:
                    new_events = self.expects_new_events = False
                elif new_attempts:
                    new_attempts = self.expects_new_attempts = False
                else:
                    raise
            else:
                if first:  # the event of a retry exists, which says nothing of others
                    self.expects_new_events = all_new
                return

    async def _insert_events(self, connection: Connection, events: Sequence[LogRow], *, new: bool) -> bool:
        """Returns whether all of them were new."""
        if not events:
            return True
        if new:
            await self._copy(connection, "insert:new_events", events, rows.event_lines)
            await self._copy(connection, _LINKS, events, rows.link_lines)
            return True
        parameters = {"rows": rows.document(events, rows.event_object)}
        links = await connection.execute(self._sql.text("insert:events"), parameters)
        return links.rowcount == sum(len(set(row.matched_destination_ids)) for row in events)

    async def _insert_attempts(self, connection: Connection, batch: Sequence[LogRow], *, new: bool) -> None:
        if new:
            await self._copy(connection, "insert:new_attempts", sorted(batch, key=_ATTEMPT_KEY), rows.attempt_lines)
            return
        parameters = {"rows": rows.document(batch, rows.attempt_object)}
        attempts = await connection.execute(self._sql.text("insert:attempts"), parameters)
        self.expects_new_attempts = attempts.rowcount == len(batch)
        if not self.expects_new_attempts:
            there = await (await connection.execute(self._sql.text("insert:known_attempts"), parameters)).fetchone()
            if there is None or there[0] < len(batch):
                raise kept("writing attempts")

    async def _copy(
        self,
        connection: Connection,
        statement: str,
        batch: Sequence[LogRow],
        lines: Callable[[Sequence[LogRow]], str],
    ) -> None:
        async with connection.cursor() as cursor:
            async with cursor.copy(self._sql.text(statement)) as copy:
                for portion in rows.portions(batch):
                    await copy.write(lines(portion))
            if statement != _LINKS and cursor.rowcount < len(batch):
                raise kept("writing attempts")


def _is_first(row: LogRow) -> bool:
    """Whether the event of an attempt was probably not attempted before."""
    return row.attempt_number <= 1 and not row.manual
