"""What a statement is sent through, whichever driver the connection belongs to: protocols and their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, LiteralString, Protocol, TypeAlias

Values: TypeAlias = Mapping[str, Any]
Row: TypeAlias = tuple[Any, ...]


class SyncChannel(Protocol):
    """Sends statements with ``%(name)s`` parameters in the transaction of a synchronous connection or session."""

    def send(self, statement: LiteralString, values: Values) -> int:
        """Send a statement; its row count, or -1 in psycopg's pipeline mode, where it is not known yet."""

    def fetch(self, statement: LiteralString, values: Values) -> Sequence[Row]:
        """Send a statement; its rows as plain tuples."""

    def savepoint(self) -> AbstractContextManager[object]:
        """A savepoint of the transaction, which begins when none is open. An error rolls back to it.

        On an idle connection in autocommit mode it is a transaction. With SQLAlchemy it fails there (SQLSTATE 25P01).
        """


class SyncCaller(SyncChannel, Protocol):
    """A channel over what an application handed in: its transaction and its unsent changes are the application's."""

    def commits_at_once(self) -> bool:
        """Whether a statement would be a transaction of its own: autocommit mode, and none is open."""

    def transaction(self) -> AbstractContextManager[object]:
        """A transaction that its end commits, on a connection without an open one.

        Raises InboxRefused for one with an open transaction; SQLAlchemy and Django raise their own error.
        """

    def flush(self) -> None:
        """Send the changes that a SQLAlchemy session still holds; elsewhere nothing."""


class AsyncChannel(Protocol):
    """As ``SyncChannel``, for an asynchronous connection or session."""

    async def send(self, statement: LiteralString, values: Values) -> int: ...

    async def fetch(self, statement: LiteralString, values: Values) -> Sequence[Row]: ...

    def savepoint(self) -> AbstractAsyncContextManager[object]: ...


class AsyncCaller(AsyncChannel, Protocol):
    """As ``SyncCaller``, for an asynchronous connection or session."""

    async def commits_at_once(self) -> bool: ...

    def transaction(self) -> AbstractAsyncContextManager[object]: ...

    async def flush(self) -> None: ...
