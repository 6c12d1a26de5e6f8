"""Recognises connections and sessions of psycopg, asyncpg, SQLAlchemy and Django, and sends statements through them.

``enqueue``, ``inbox.once`` and the relay's event store use it. No library is imported before an object of it is
handed in.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import lru_cache
from importlib import import_module
from types import TracebackType
from typing import Any, Final, LiteralString

from openoutbox.failure import StatementFailure
from openoutbox.names import TableName
from openoutbox.ports import AsyncCaller, SyncCaller, Values

OPEN_A_TRANSACTION: Final = (
    "Open a transaction around it: psycopg and asyncpg connection.transaction(), SQLAlchemy without "
    "isolation_level=AUTOCOMMIT, Django transaction.atomic()"
)
_OPEN_A_CONNECTION: Final = {
    "Engine": "with engine.begin() as connection: ...",
    "AsyncEngine": "async with engine.begin() as connection: ...",
    "sessionmaker": "with maker.begin() as session: ...",
    "async_sessionmaker": "async with maker.begin() as session: ...",
    "ConnectionPool": "with pool.connection() as connection: ...",
    "AsyncConnectionPool": "async with pool.connection() as connection: ...",
    "Pool": "async with pool.acquire() as connection, connection.transaction(): ...",
    "str": "connect, and pass the connection of your own statements",
}
"""What is handed in by mistake, and what to pass in its place."""
_LIBRARIES: Final = frozenset({"psycopg", "sqlalchemy", "django", "asyncpg"})
_NO_TABLE: Final = "42P01"
_IS_THERE: Final = "23505"
_ADDED: Final = "rows added again: "
"""In the message of the statements with the tag ``again``, before the number."""


def sync_channel(target: object) -> SyncCaller | None:
    """The channel of a synchronous connection, cursor or session; None for any other object."""
    kind: Any = type(target)
    make = _sync_maker(kind)
    return None if make is None else make(target)


def async_channel(target: object) -> AsyncCaller | None:
    """The channel of an asynchronous connection, cursor or session; None for any other object."""
    kind: Any = type(target)
    make = _async_maker(kind)
    return None if make is None else make(target)


@lru_cache(maxsize=64)
def _sync_maker(kind: type) -> Callable[[Any], SyncCaller | None] | None:
    """What makes the channel for objects of a class. To find it again for each call would cost a tenth of an INSERT."""
    library = _library(kind)
    if library == "psycopg":
        from openoutbox import through_psycopg as psycopg  # noqa: PLC0415

        return psycopg.PsycopgChannel if issubclass(kind, psycopg.SYNC) else None
    if library == "sqlalchemy":
        from openoutbox import through_sqlalchemy as alchemy  # noqa: PLC0415

        return alchemy.AlchemyChannel if issubclass(kind, alchemy.SYNC) else None
    if library == "django":
        from openoutbox import through_django as django  # noqa: PLC0415

        return django.django_channel
    return None


@lru_cache(maxsize=64)
def _async_maker(kind: type) -> Callable[[Any], AsyncCaller] | None:
    library = _library(kind)
    if library == "psycopg":
        from openoutbox import through_psycopg as psycopg  # noqa: PLC0415

        return psycopg.AsyncPsycopgChannel if issubclass(kind, psycopg.ASYNC) else None
    if library == "sqlalchemy":
        from openoutbox import through_sqlalchemy as alchemy  # noqa: PLC0415

        return alchemy.AsyncAlchemyChannel if issubclass(kind, alchemy.async_classes()) else None
    if library == "asyncpg":
        from openoutbox import through_asyncpg as asyncpg  # noqa: PLC0415

        return asyncpg.AsyncpgChannel if issubclass(kind, asyncpg.ASYNC) else None
    return None


def failure_of(error: BaseException) -> StatementFailure | None:
    """The failure that an error of a channel reports; None for any other error."""
    library = _library(type(error))
    if library is None:
        return None
    through: StatementFailure | None = import_module(f"openoutbox.through_{library}").failure_of(error)
    return through


class naming_table:  # noqa: N801 - a context manager, called as a function
    """Add a note to a driver's error for a missing table: the command that makes it."""

    __slots__ = ("_command", "_default", "_table")

    def __init__(self, command: str, table: str | TableName, default: str) -> None:
        self._command, self._table, self._default = command, table, default

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None:
            name_table(error, self._command, self._table, self._default)


def name_table(error: BaseException, command: str, table: str | TableName, default: str) -> None:
    """What ``naming_table`` does with an error. A ``try`` costs nothing where there is none."""
    failure = failure_of(error)
    if failure is not None and failure.sqlstate == _NO_TABLE:
        option = "" if str(table) == default else f" --table {table}"
        error.add_note(f"There is no table {table} in this database. Create it: {command}{option}")


async def leaves_out(channel: AsyncCaller, insert: LiteralString, values: Values) -> bool:
    """Whether the table leaves this row out in silence. ``insert`` always fails, and its error says why."""
    try:
        async with nullcontext() if await channel.commits_at_once() else channel.savepoint():
            await channel.fetch(insert, values)
    except Exception as error:
        failure = failure_of(error)
        if failure is None or not (failure.sqlstate == _IS_THERE or _ADDED in failure.message):
            raise
        return f"{_ADDED}0" in failure.message
    return False


def wrong_target(function: str, target: object, kind: str, libraries: str, other: str) -> TypeError:
    """The error for an object that is no connection, or one of the other kind."""
    remedy = _OPEN_A_CONNECTION.get(type(target).__name__) or f"for the other kind of connection: {other}(...)"
    return TypeError(
        f"{function} takes {kind} connection, cursor or session of {libraries}, not {type_name(target)}; {remedy}"
    )


def no_target(function: str, target: object) -> TypeError:
    """The error of what takes both kinds, for any other object."""
    known = "a connection, cursor or session of psycopg, asyncpg, SQLAlchemy or Django"
    return TypeError(f"{function} takes {known} to PostgreSQL, not {type_name(target)}")


def type_name(target: object) -> str:
    """The module and class of an object, for error messages."""
    return f"{type(target).__module__}.{type(target).__qualname__}"


def _library(kind: type) -> str | None:
    """Which library a class comes from, or is derived from, without importing any."""
    roots = (base.__module__.partition(".")[0] for base in kind.__mro__)
    return next((root for root in roots if root in _LIBRARIES), None)
