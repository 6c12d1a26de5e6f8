"""A relay's counts in the minutes of its table: ``relay.core.optional_parts.MinuteSeries`` on the optional table.

It uses the storage's connection for what is quick, with a short deadline, and none while the table is missing: whether
it is there comes with each ping. It needs SELECT, INSERT, UPDATE and DELETE on the table of
``sql/outbox/extensions/series.sql``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from openoutbox.schema import tables_beside
from relay.core.optional_parts import TypeCounts
from relay.outbox.storage import PostgresOutbox
from relay.postgres.connect import Connection
from relay.postgres.grants import THE_USER, granting, rights_text
from relay.postgres.sql import TableName, statement

RETENTION: Final = 7 * 86_400.0
"""Seconds for which a minute's row is stored."""
_DEADLINE: Final = 2.0  # seconds


class OutboxSeries:
    """The counts of one relay."""

    most_types: Final = 5

    def __init__(self, storage: PostgresOutbox, table: TableName) -> None:
        self._storage = storage
        self._place = tables_beside(table)["openoutbox_series"]
        self._sql = statement("outbox/series:add", table, tables_beside(table))

    async def add(self, counts: Sequence[TypeCounts], lag: float, gathered: float) -> float | None:
        """Add the counts; returns the seconds until the next minute begins, None without the extension."""
        if not self._storage.extensions.series:
            return None
        types, delivered, failed, dead = map(list, zip(*counts, strict=True))
        parameters: dict[str, Any] = {
            "types": types,
            "delivered": delivered,
            "failed": failed,
            "dead": dead,
            "lag": lag,
            "gathered": gathered,
            "retention": RETENTION,
        }

        async def work(connection: Connection) -> float:
            cursor = await connection.execute(self._sql, parameters)
            [(seconds,)] = await cursor.fetchall()
            return float(seconds)

        with granting(rights_text("outbox/grants", "relay_series"), self._place, THE_USER):
            return await self._storage.watching.run("adding to the series", work, _DEADLINE)
