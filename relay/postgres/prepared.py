"""Statements that are prepared on the server, where no pooler stands between: parsed and planned once, not each time.

Without a pooler the process id in the protocol's key data is that of the backend that answers. Such a session plans its
statements once and for all parameters (``plan_cache_mode``), which the statements themselves undo for their own
transaction before they change a row (tag ``prepared``): what a trigger of the application does is planned as ever. All
of it is set in the round trip that asks for the isolation level; nothing is sent for a single statement.

Callers pass ``prepare=True`` to psycopg with the statements that they send often. It prepares nothing on a connection
that did not pass through here, and keeps ``_MOST`` statements a connection. ``Prepared`` belongs to one adapter and is
used by its ``DeadlineConnection``.

When things fail: a statement that the server no longer knows, or no longer runs since its columns have changed, is sent
once more over a new connection. A pooler that answers like a server is found out in this way: from then on nothing is
prepared.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from enum import StrEnum
from typing import Final
from weakref import WeakSet

import psycopg
from psycopg import IsolationLevel
from psycopg.pq import TransactionStatus

from relay.postgres.connect import READ_COMMITTED, Connection, Work, read_committed
from relay.postgres.sql import statement

logger = logging.getLogger(__name__)

_MOST: Final = 32
_NEVER: Final = 2**31  # uses of a statement after which psycopg would prepare it unasked
_OUTDATED: Final = "RevalidateCachedQuery"
_UNKNOWN: Final = frozenset({"FetchPreparedStatement", "StorePreparedStatement"})
"""Where PostgreSQL raises these errors: triggers raise any SQLSTATE, and messages are translated."""


class Preparation(StrEnum):
    """STORAGE_PREPARED."""

    AUTO = "auto"
    """Where no pooler stands between."""
    ON = "on"
    """Also behind a pooler that keeps prepared statements."""
    OFF = "off"


def tags_of(connection: Connection) -> tuple[str, ...]:
    """The tag of statements that this connection prepares; empty where it prepares none."""
    return () if connection.prepare_threshold is None else ("prepared",)


_KEEP_PLANS: Final = statement("session:keep_plans")
_PLANNING_ONCE: Final[WeakSet[Connection]] = WeakSet()


def plans_once(connection: Connection) -> bool:
    """Whether its session is set up for plans that are kept, so that a claim need not be guarded."""
    return connection in _PLANNING_ONCE


async def plan_next(connection: Connection) -> None:
    """The next statement of this transaction gets a plan that is kept, though the one before has undone that."""
    if plans_once(connection):
        await connection.execute(_KEEP_PLANS, prepare=True)


class Prepared:
    """Which connections of an adapter prepare statements."""

    def __init__(self, preparation: Preparation) -> None:
        self._preparation = preparation
        self._errors = 0  # since names were taken back

    def session(self, *tags: str) -> Work[None]:
        """What a new connection does, in place of ``read_committed``; ``tags`` are those of the statement."""
        sql = statement("session:prepared", tags=tags)

        async def begin(connection: Connection) -> None:
            if self._preparation is Preparation.OFF:
                await read_committed(connection)
                return
            cursor = await connection.execute(sql, {"process": connection.info.backend_pid})
            level, settings = await cursor.fetchone() or ("", None)
            if level != READ_COMMITTED:
                await connection.set_isolation_level(IsolationLevel.READ_COMMITTED)
            if settings is not None:
                _PLANNING_ONCE.add(connection)
            if settings is not None or self._preparation is Preparation.ON:
                connection.prepare_threshold, connection.prepared_max = _NEVER, _MOST

        return begin

    async def recover(self, connection: Connection, error: psycopg.Error) -> bool:
        """After an error: whether the same work may succeed over a new connection, since a statement was lost.

        psycopg forgets the name of a statement that fails when it is first executed, and the server keeps it: after as
        many errors as there may be names, all are taken back.
        """
        place = error.diag.source_function
        if not tags_of(connection):
            return False
        if place in _UNKNOWN:
            self._end()
            return True
        self._errors = (self._errors + 1) % _MOST
        if self._errors == 0 and connection.pgconn.transaction_status == TransactionStatus.IDLE:
            with suppress(psycopg.Error):
                await connection.execute("BEGIN")
                await connection.execute("DEALLOCATE ALL")
                await connection.rollback()  # which has psycopg forget all names
        return place == _OUTDATED

    def _end(self) -> None:
        """Prepare nothing any more; other connections find it out in their turn."""
        if self._preparation is not Preparation.OFF:
            self._preparation = Preparation.OFF
            logger.warning(
                "the server does not know a statement that this session has prepared: a pooler stands between. "
                "Statements are not prepared any more; set STORAGE_PREPARED=off",
                extra={"action": "preparing_ended"},
            )
