"""The pauses of an outbox as the relay reads them: ``relay.core.optional_parts.Pauses`` on the optional table.

It uses the storage's connection for what is quick. Whether the table is there comes with each ping. It needs SELECT on
the table of ``sql/outbox/extensions/pause.sql``.
"""

from __future__ import annotations

from collections.abc import Sequence

from relay.core.pause import Pause
from relay.outbox.extensions import pauses_of
from relay.outbox.storage import PostgresOutbox
from relay.postgres.grants import THE_USER, granting, rights_text
from relay.postgres.sql import TableName

_DEADLINE = 2.0  # seconds


class OutboxPauses:
    """Reads the pauses for the claims of ``storage``."""

    def __init__(self, storage: PostgresOutbox, table: TableName) -> None:
        self._storage = storage
        self._table = table

    async def read(self) -> Sequence[Pause]:
        """The pauses in force; claims that are sent from now on obey them."""
        paused = self._storage.paused
        if not self._storage.extensions.pauses:
            paused.set(())
            return ()
        with granting(rights_text("outbox/grants", "relay_pauses"), pauses_of(self._table), THE_USER):
            return await self._storage.watching.run("reading the pauses", paused.read, _DEADLINE)
