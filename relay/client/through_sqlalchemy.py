"""The INSERT over SQLAlchemy 2, with any PostgreSQL driver below it (psycopg, psycopg2, asyncpg).

Imported only when a connection or session of SQLAlchemy is handed in; its asynchronous half, which needs greenlet,
only for an asynchronous one.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from sqlalchemy import Connection, CursorResult, TextClause, text
from sqlalchemy.orm import Session, scoped_session

from relay.client.insert import InsertRows

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

    AsyncTarget: TypeAlias = AsyncConnection | AsyncSession | async_scoped_session[Any]

SyncTarget: TypeAlias = Connection | Session | scoped_session[Any]

SYNC = (Connection, Session, scoped_session)

_PARAMETER = re.compile(r"%\((\w+)\)s")


def async_classes() -> tuple[type, ...]:
    """What ``insert_async`` takes."""
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session  # noqa: PLC0415

    return (AsyncConnection, AsyncSession, async_scoped_session)


def insert(target: SyncTarget, statement: str, rows: InsertRows) -> int:
    """Send it; the number of new rows. A session begins its transaction automatically, as for any statement."""
    return cast("CursorResult[Any]", target.execute(_clause(statement), rows)).rowcount


async def insert_async(target: AsyncTarget, statement: str, rows: InsertRows) -> int:
    """As ``insert``, on an asynchronous connection or session."""
    return cast("CursorResult[Any]", await target.execute(_clause(statement), rows)).rowcount


@lru_cache(maxsize=64)
def _clause(statement: str) -> TextClause:
    """SQLAlchemy's form of a statement with ``%(name)s`` parameters: ``:name``, and every other colon escaped."""
    escaped = statement.replace(":", r"\:")
    named = _PARAMETER.sub(r":\1", escaped).replace("%%", "%")
    return text(named).execution_options(preserve_rowcount=True)
