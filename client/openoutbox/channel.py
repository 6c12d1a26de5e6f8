"""Recognises connections and sessions of psycopg, asyncpg, SQLAlchemy and Django, and sends statements through them.

``enqueue``, ``inbox.once`` and the relay's event store use it. No library is imported before an object of it is
handed in.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Final, LiteralString, cast

from openoutbox.failure import StatementFailure
from openoutbox.names import TableName
from openoutbox.ports import AsyncCaller, SyncCaller, Values

if TYPE_CHECKING:
    from openoutbox import targets, through_sqlalchemy

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
_NO_TABLE: Final = "42P01"
_IS_THERE: Final = "23505"
_ADDED: Final = "rows added again: "
"""In the message of ``insert_again`` and ``mark_again``, before the number."""


def sync_channel(target: object) -> SyncCaller | None:
    """The channel of a synchronous connection, cursor or session; None for any other object."""
    library = _library(target)
    if library == "psycopg":
        from openoutbox import through_psycopg as psycopg  # noqa: PLC0415

        return psycopg.PsycopgChannel(target) if isinstance(target, psycopg.SYNC) else None
    if library == "sqlalchemy":
        from openoutbox import through_sqlalchemy as alchemy  # noqa: PLC0415

        return alchemy.AlchemyChannel(target) if isinstance(target, alchemy.SYNC) else None
    if library == "django":
        from openoutbox import through_django as django  # noqa: PLC0415

        connection = django.django_connection(target)
        return None if connection is None else django.DjangoChannel(connection)
    return None


def async_channel(target: object) -> AsyncCaller | None:
    """The channel of an asynchronous connection, cursor or session; None for any other object."""
    library = _library(target)
    if library == "psycopg":
        from openoutbox import through_psycopg as psycopg  # noqa: PLC0415

        return psycopg.AsyncPsycopgChannel(target) if isinstance(target, psycopg.ASYNC) else None
    if library == "sqlalchemy":
        from openoutbox import through_sqlalchemy as alchemy  # noqa: PLC0415

        if isinstance(target, alchemy.async_classes()):
            return alchemy.AsyncAlchemyChannel(cast("through_sqlalchemy.AsyncTarget", target))
    if library == "asyncpg":
        from openoutbox import through_asyncpg as asyncpg  # noqa: PLC0415

        return (
            asyncpg.AsyncpgChannel(cast("targets.AsyncpgConnection", target))
            if isinstance(target, asyncpg.ASYNC)
            else None
        )
    return None


def failure_of(error: BaseException) -> StatementFailure | None:
    """The failure that an error of a channel reports; None for any other error."""
    library = _library(error)
    if library == "psycopg":
        from openoutbox import through_psycopg as psycopg  # noqa: PLC0415

        return psycopg.failure_of(error)
    if library == "sqlalchemy":
        from openoutbox import through_sqlalchemy as alchemy  # noqa: PLC0415

        return alchemy.failure_of(error)
    if library == "django":
        from openoutbox import through_django as django  # noqa: PLC0415

        return django.failure_of(error)
    if library == "asyncpg":
        from openoutbox import through_asyncpg as asyncpg  # noqa: PLC0415

        return asyncpg.failure_of(error)
    return None


@contextmanager
def naming_table(command: str, table: TableName, default: str) -> Iterator[None]:
    """Add a note to a driver's error for a missing table: the command that makes it."""
    try:
        yield
    except Exception as error:
        failure = failure_of(error)
        if failure is not None and failure.sqlstate == _NO_TABLE:
            option = "" if str(table) == default else f" --table {table}"
            error.add_note(f"There is no table {table} in this database. Create it: {command}{option}")
        raise


def leaves_out(channel: SyncCaller, insert: LiteralString, values: Values) -> bool:
    """Whether the table leaves this row out in silence. ``insert`` always fails, and its error says why."""
    try:
        with nullcontext() if channel.commits_at_once() else channel.savepoint():
            channel.fetch(insert, values)
    except Exception as error:  # noqa: BLE001 - any other one is raised
        return _was_left_out(error)
    return False


async def leaves_out_async(channel: AsyncCaller, insert: LiteralString, values: Values) -> bool:
    """As ``leaves_out``."""
    try:
        async with nullcontext() if await channel.commits_at_once() else channel.savepoint():
            await channel.fetch(insert, values)
    except Exception as error:  # noqa: BLE001 - as above
        return _was_left_out(error)
    return False


def _was_left_out(error: Exception) -> bool:
    failure = failure_of(error)
    if failure is None or not (failure.sqlstate == _IS_THERE or _ADDED in failure.message):
        raise error
    return f"{_ADDED}0" in failure.message


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


def _library(target: object) -> str | None:
    """Which library an object comes from, or is derived from, without importing any."""
    roots = {base.__module__.partition(".")[0] for base in type(target).__mro__}
    return next((name for name in ("psycopg", "sqlalchemy", "django", "asyncpg") if name in roots), None)
