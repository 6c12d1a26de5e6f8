"""Recognises connections and sessions of psycopg, asyncpg, SQLAlchemy and Django, and sends statements through them.

``enqueue``, ``inbox.once`` and the relay's event store use it. No library is imported before an object of it is
handed in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast

from openoutbox.failure import StatementFailure
from openoutbox.ports import AsyncChannel, SyncChannel

if TYPE_CHECKING:
    from openoutbox import through_asyncpg, through_django, through_psycopg, through_sqlalchemy

    SyncTarget: TypeAlias = through_psycopg.SyncTarget | through_sqlalchemy.SyncTarget | through_django.SyncTarget
    AsyncTarget: TypeAlias = through_psycopg.AsyncTarget | through_asyncpg.AsyncTarget | through_sqlalchemy.AsyncTarget


def sync_channel(target: object) -> SyncChannel | None:
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


def async_channel(target: object) -> AsyncChannel | None:
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
            asyncpg.AsyncpgChannel(cast("through_asyncpg.AsyncTarget", target))
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


def type_name(target: object) -> str:
    """The module and class of an object, for error messages."""
    return f"{type(target).__module__}.{type(target).__qualname__}"


def _library(target: object) -> str | None:
    """Which library an object comes from, or is derived from, without importing any."""
    roots = {base.__module__.partition(".")[0] for base in type(target).__mro__}
    return next((name for name in ("psycopg", "sqlalchemy", "django", "asyncpg") if name in roots), None)
