"""The pauses of an outbox as the relay reads them: ``relay.core.ports.Pauses`` on the optional table.

It uses the connection of the storage that nothing else of the relay waits for; without the table it needs none:
whether it is there comes with each ping. It needs SELECT on the table of ``sql/outbox/extensions/pause.sql``.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from relay.core.errors import SchemaError, StorageError
from relay.core.pause import Pause
from relay.outbox.extensions import pauses_of
from relay.outbox.storage import PostgresOutbox
from relay.postgres.grants import THE_USER, granting
from relay.postgres.sql import TableName

logger = logging.getLogger(__name__)

_DEADLINE = 2.0  # seconds


class OutboxPauses:
    """Reads the pauses for the claims of ``storage``."""

    def __init__(self, storage: PostgresOutbox, table: TableName) -> None:
        self._storage = storage
        self._table = table

    async def read(self) -> Sequence[Pause]:
        """The pauses in force; one round of looking for what is not paused follows (``relay.outbox.paused``)."""
        try:
            pauses = await self._read()
        except SchemaError:
            await self._look()
            raise
        await self._look()
        return pauses

    async def _look(self) -> None:
        """Look past the rows that are left out: with the extension, or because destinations do not answer."""
        paused = self._storage.paused
        if not paused.patterns:
            return
        try:
            await self._storage.watching.run("skipping paused rows", paused.look)
        except StorageError as error:  # claims step over more rows until it works
            logger.debug("%s", error)

    async def _read(self) -> Sequence[Pause]:
        paused = self._storage.paused
        if not self._storage.extensions.pauses:
            paused.set(())
            return ()
        with granting("SELECT", pauses_of(self._table), THE_USER):
            return await self._storage.watching.run("reading the pauses", paused.read, _DEADLINE)
