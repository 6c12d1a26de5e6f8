"""One view of the database for all tasks of a read, and for several reads: PostgreSQL's exported snapshots.

Somebody has to keep the exporting transaction open, and Spark tells a data source neither when a query begins nor when
it ends. So whoever wants a snapshot holds it, on the driver, around the queries:

    with exported_snapshot(url) as snapshot:
        spark.read.format("openoutbox").option("url", url).option("snapshot", snapshot).load().…

Meanwhile vacuum cannot remove, in the whole database, what was deleted or updated since: minutes, not hours.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg import ClientCursor, IsolationLevel

from relay.core.errors import ConfigError, StorageError
from relay.postgres.connect import SyncConnection, close_and_wait
from relay.postgres.errors import translating
from relay.postgres.sql import statement
from relay.spark.connection import connect

_GONE: Final = (psycopg.errors.InvalidParameterValue, psycopg.errors.UndefinedObject)


@contextmanager
def exported_snapshot(url: str) -> Iterator[str]:
    """The name of a snapshot that can be read from for as long as the block runs. Raises StorageError and its kinds."""
    connection = connect(url)
    try:
        share_snapshots(connection)
        with connection.transaction():
            with translating("exporting a snapshot"):
                row = connection.execute(statement("spark/snapshots:export_snapshot")).fetchone()
            if row is None:
                raise StorageError("export_snapshot: the statement gave no row")
            yield str(row[-1])
    finally:
        close_and_wait(connection)


def share_snapshots(connection: SyncConnection) -> None:
    """Let the connection's transactions see one moment each."""
    connection.isolation_level = IsolationLevel.REPEATABLE_READ


def adopt_snapshot(connection: SyncConnection, snapshot: str) -> None:
    """See what the exporting transaction sees. Raises ConfigError when that one is over."""
    try:
        ClientCursor(connection).execute(statement("spark/snapshots:adopt_snapshot"), {"snapshot": snapshot})
    except _GONE:
        raise ConfigError(
            f"option snapshot: there is no {snapshot!r}; its transaction is over, or was on another server"
        ) from None
