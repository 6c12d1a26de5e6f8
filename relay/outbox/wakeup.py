"""Wake-ups: a connection that listens for the notifications of the optional ``wake-up`` extension.

The daemon wires it (``relay.app.build``) when ``WAKE_UP`` is on. It promises nothing but speed: an event that is not
announced, because the connection was lost, the trigger is missing or the notifications are thinned out, is found by
polling. It needs a session, so it does not work behind a pooler in transaction mode; it needs no right but to connect.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

import psycopg

from relay.core.errors import StorageError
from relay.outbox.outbox_options import application_name
from relay.outbox.table_check import creation
from relay.postgres.connect import Connection, connect_async
from relay.postgres.errors import classify
from relay.postgres.sql import TableName, statement, without_parameters
from relay.postgres.url import connection_parameters

logger = logging.getLogger(__name__)

CHANNEL = "openoutbox_channel"
"""The name that stands in ``sql/outbox/wake.sql``."""
_SIGN_OF_LIFE = 30.0  # seconds without a notification after which the connection is asked
_READ_WITHIN = 1.0  # seconds for what came to turn out as a notification


class OutboxWakeUps:
    """Listens on a connection of its own. Raises ConfigError for an invalid URL; connects to nothing yet."""

    def __init__(self, url: str, relay_id: str, table: TableName) -> None:
        self._parameters = connection_parameters(url, application_name(relay_id))
        self._table = table
        self.problem = ""
        """See ``WakeUps``."""

    async def listen(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` once the connection listens and at every wake-up; ends by StorageError only."""
        try:
            async with await connect_async(self._parameters) as connection:
                await self._subscribe(connection)
                wake()  # no notification announced what was inserted until now
                while True:
                    if not await _readable(connection.fileno(), _SIGN_OF_LIFE):
                        await connection.execute(statement("session:ping"))
                        if self.problem:
                            await self._look(connection)
                        wake()  # for what may have come with the answer
                        continue
                    async for _ in connection.notifies(timeout=_READ_WITHIN, stop_after=1):
                        wake()
        except psycopg.Error as error:
            failure = classify(error, "listening for wake-ups")
            self.problem = str(failure)
            raise failure from error

    async def _subscribe(self, connection: Connection) -> None:
        channel = await self._look(connection)
        if self.problem:
            logger.warning("%s", self.problem, extra={"action": "no_wake_up"})
        await connection.execute(without_parameters(statement("outbox/wake:listen", names={CHANNEL: channel})))

    async def _look(self, connection: Connection) -> str:
        """The channel; notes whether the table has the trigger."""
        cursor = await connection.execute(statement("outbox/wake:channel"), {"table": self._table.quoted})
        channel, has_trigger = await cursor.fetchone() or (None, False)
        if channel is None:
            self.problem = f"listening for wake-ups: there is no table {self._table}"
            raise StorageError(self.problem)
        missing = f"WAKE_UP is on, but table {self._table} has no wake-up trigger; add it: "
        self.problem = "" if has_trigger else f"{missing}{creation(self._table)} --with wake-up"
        return str(channel)


async def _readable(fileno: int, seconds: float) -> bool:
    """Whether a socket can be read within that time. (psycopg's own waiting would look ten times a second.)"""
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(fileno, readable.set)
    try:
        with suppress(TimeoutError):
            await asyncio.wait_for(readable.wait(), seconds)
    finally:
        loop.remove_reader(fileno)
    return readable.is_set()
