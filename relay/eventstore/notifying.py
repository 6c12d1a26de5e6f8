"""Appends whose notifications leave their transaction: NOTIFY locks the commits of the whole database.

On a session of the connection's own, a procedure appends, commits and then notifies, all by one statement. What fails
after the commit is no failure of the append; the session remembers which one it has committed.
"""

from __future__ import annotations

import itertools
from typing import Final
from weakref import WeakKeyDictionary

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from relay.eventstore.database import execute
from relay.eventstore.statements import EventStoreStatements

_APPENDING: Final = frozenset({"23", "ES"})
"""The classes of errors that only an append has: conflicts mostly, which need no question."""
_tokens: Final = itertools.count(1)


class LateNotifications:
    """Knows which connections can notify after the commit. A pooler's cannot: their settings are not their own."""

    def __init__(self, statements: EventStoreStatements) -> None:
        self.statements = statements
        self._known: WeakKeyDictionary[AsyncConnection[TupleRow], bool] = WeakKeyDictionary()

    async def token(self, connection: AsyncConnection[TupleRow]) -> int | None:
        """A new one for the next append; None where it must notify within its transaction, or not at all.

        Asked once for each connection: after notifications were switched, either way of appending is right.
        """
        if connection.prepare_threshold is None:
            return None
        if connection not in self._known:
            [(afterwards,)] = await execute(connection, self.statements.text("eventstore/append:notifies_afterwards"))
            self._known[connection] = afterwards
        return next(_tokens) if self._known[connection] else None

    async def committed(
        self, connection: AsyncConnection[TupleRow], token: int, error: psycopg.Error
    ) -> list[int] | None:
        """What the append with this token has returned, if it was committed and its notifications alone have failed."""
        if error.sqlstate is None or error.sqlstate[:2] in _APPENDING:
            return None
        try:
            [(appended,)] = await execute(connection, self.statements.text("eventstore/append:appended"))
        except psycopg.Error:
            return None  # the connection is lost
        return list(appended[1:]) if appended is not None and appended[0] == token else None
