"""The record of replays, read for the delivery log: ``relay.core.optional_parts.ReplayRecord`` on the optional table.

It is asked beside the relay's own work, over a connection of its own that is made when it is first needed, in the
event loop that asks. It needs SELECT on the table of ``sql/outbox/extensions/replay_audit.sql``. It never raises: where
the table is missing, may not be read or does not answer in time nothing is known, and for a minute nothing is asked.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from openoutbox.schema import tables_beside
from relay.core.errors import SchemaError, StorageError
from relay.core.event import EventId
from relay.outbox.extensions import replays_of
from relay.outbox.outbox_options import application_name
from relay.postgres.connect import Connection, DeadlineConnection, Generation
from relay.postgres.grants import THE_USER, grant_on, rights_text
from relay.postgres.sql import TableName, statement
from relay.postgres.url import connection_parameters

logger = logging.getLogger(__name__)

_DEADLINE = 2.0  # seconds for an answer: the delivery log waits for it
_ASK_AGAIN = 60.0  # seconds after a question that had no answer
_MISSING = "42P01"


class OutboxReplays:
    """The record of one outbox. Constructing it connects to nothing; raises ConfigError for an invalid URL."""

    def __init__(self, url: str, relay_id: str, table: TableName, clock: Callable[[], float] = time.monotonic) -> None:
        parameters = connection_parameters(url, application_name(relay_id))
        self._connection = DeadlineConnection(parameters, _DEADLINE, Generation())
        self._sql = statement("outbox/replay:first_replays", table, tables_beside(table))
        self._table = table
        self._clock = clock
        self._ask_from = clock()
        self._said = ""

    async def first_replays(self, event_ids: Sequence[EventId]) -> Mapping[EventId, datetime]:
        """When each of these events was replayed for the first time; what was never, or is not known, is left out."""
        if self._clock() < self._ask_from:
            return {}

        async def ask(connection: Connection) -> dict[EventId, datetime]:
            async with connection.cursor(binary=True) as cursor:
                await cursor.execute(self._sql, {"ids": list(event_ids), "outbox": str(self._table)})
                return {EventId(str(event_id)): first async for event_id, first in cursor}

        try:
            return await self._connection.run("reading the record of replays", ask)
        except StorageError as error:
            self._ask_from = self._clock() + _ASK_AGAIN
            self._say(error)
            return {}

    async def close(self) -> None:
        """Close the connection; never raises."""
        await self._connection.close()

    def _say(self, error: StorageError) -> None:
        """Warn once for each reason; without the replay-audit extension there is nothing to warn about."""
        if error.sqlstate == _MISSING or str(error) == self._said:
            return
        self._said = str(error)
        remedy = ""
        if isinstance(error, SchemaError):
            remedy = (
                f"; run: {grant_on(rights_text('outbox/grants', 'relay_replays'), replays_of(self._table), THE_USER)}"
            )
        logger.warning("the delivery log cannot tell which attempts follow a replay: %s%s", error, remedy)
