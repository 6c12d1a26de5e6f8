"""Notice, at a relay with ON_DELIVERED=delete, that another relay on the table, or a trigger, keeps what is delivered.

The reverse shows in no row: what another relay deletes is gone. ``relay-cli check`` finds it by watching leased rows.
"""

from __future__ import annotations

import logging
from typing import Final

from relay.postgres.connect import Connection
from relay.postgres.sql import TableName, statement

logger = logging.getLogger(__name__)

_RECENTLY: Final = (
    30.0  # seconds; shorter than the time between two looks, so that a restart that overlaps is not reported
)


class ModeWatch:
    """Looks at rows that became DELIVERED, each time that its owner calls it."""

    def __init__(self, table: TableName) -> None:
        self._table = table
        self._delivered_recently = statement("outbox/backlog:delivered_recently", table)
        self._started = False

    async def look(self, connection: Connection) -> None:
        """Log a warning when a row became DELIVERED within the last 30 s.

        The first look says nothing: before it, this relay's predecessor may have had the other mode. Raises what the
        statement raises.
        """
        if not self._started:
            self._started = True
            return
        cursor = await connection.execute(self._delivered_recently, {"seconds": _RECENTLY})
        if await cursor.fetchone() == (True,):
            logger.warning(
                "ON_DELIVERED=delete, but rows of table %s became DELIVERED in the last %g s: another relay has "
                "ON_DELIVERED=keep, or a trigger or a rule keeps the rows (see delete_kept); set the same mode for "
                "every relay on the table",
                self._table,
                _RECENTLY,
                extra={"action": "other_mode"},
            )
