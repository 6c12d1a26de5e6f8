"""What ``enqueue`` and ``inbox`` take, as protocols, so that types are checked whichever library is installed.

A class of a library that is not installed is Any to a type checker, and a union with Any takes everything. The
protocols name what tells the right object from a wrong one: a connection from an engine, a pool or a URL, and a
synchronous one from an asynchronous one. At run time ``openoutbox.channel`` looks at the classes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol, TypeAlias


class PsycopgConnection(Protocol):
    """``psycopg.Connection``."""

    def transaction(self) -> AbstractContextManager[Any]: ...

    def commit(self) -> None: ...


class PsycopgCursor(Protocol):
    """``psycopg.Cursor``."""

    @property
    def connection(self) -> PsycopgConnection: ...

    def close(self) -> None:
        """Close it. SQLAlchemy's AsyncConnection has a ``connection``, too, and is closed by a coroutine."""


class SqlAlchemyTarget(Protocol):
    """``sqlalchemy.Connection``, ``Session`` and ``scoped_session``."""

    def execute(self, statement: Any, /) -> Any: ...  # noqa: ANN401 - SQLAlchemy's

    def begin_nested(self) -> AbstractContextManager[Any]: ...

    def commit(self) -> None: ...


class DjangoConnection(Protocol):
    """``django.db.connection`` and the members of ``django.db.connections``, which have no types."""

    @property
    def alias(self) -> str:
        """The name of its database in ``settings.DATABASES``."""

    @property
    def in_atomic_block(self) -> bool:
        """Whether an ``atomic`` block is open."""

    def get_autocommit(self) -> bool:
        """Whether each statement outside a block commits at once; Django's default."""

    def cursor(self) -> Any: ...  # noqa: ANN401 - a cursor of Django, which has no types


class AsyncPsycopgConnection(Protocol):
    """``psycopg.AsyncConnection``."""

    def transaction(self) -> AbstractAsyncContextManager[Any]: ...

    def commit(self) -> Awaitable[None]: ...


class AsyncPsycopgCursor(Protocol):
    """``psycopg.AsyncCursor``."""

    @property
    def connection(self) -> AsyncPsycopgConnection: ...


class AsyncSqlAlchemyTarget(Protocol):
    """``AsyncConnection``, ``AsyncSession`` and ``async_scoped_session`` of ``sqlalchemy.ext.asyncio``."""

    def execute(self, statement: Any, /) -> Awaitable[Any]: ...  # noqa: ANN401 - SQLAlchemy's

    def begin_nested(self) -> AbstractAsyncContextManager[Any]: ...

    def commit(self) -> Awaitable[None]: ...


class AsyncpgConnection(Protocol):
    """``asyncpg.Connection``, its own or one of a pool; asyncpg has no types."""

    def execute(self, query: str, /, *args: Any) -> Awaitable[str]:  # noqa: ANN401 - any parameter
        """Send a statement; its status, ``INSERT 0 1``."""

    def fetch(self, query: str, /, *args: Any) -> Awaitable[Sequence[Any]]: ...  # noqa: ANN401 - any parameter

    def transaction(self) -> Any: ...  # noqa: ANN401 - asyncpg's

    def is_in_transaction(self) -> bool: ...

    def is_closed(self) -> bool:
        """Whether the connection is closed or lost."""


SyncTarget: TypeAlias = PsycopgConnection | PsycopgCursor | SqlAlchemyTarget | DjangoConnection
AsyncTarget: TypeAlias = AsyncPsycopgConnection | AsyncPsycopgCursor | AsyncSqlAlchemyTarget | AsyncpgConnection
