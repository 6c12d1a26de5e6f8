"""One snapshot of the database for all tasks of a read, and for several reads: PostgreSQL's exported snapshots.

The exporting transaction must stay open, and Spark does not tell a data source when a query begins or ends. So the user
holds the snapshot, on the driver, around the queries:

    with exported_snapshot(url) as snapshot:
        spark.read.format("openoutbox").option("url", url).option("snapshot", snapshot).load().…

Meanwhile vacuum cannot remove row versions that were deleted or updated since, in the whole database: hold it for
minutes, not hours.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg import ClientCursor, IsolationLevel

from relay.core.errors import ConfigError
from relay.postgres.connect import SyncConnection
from relay.postgres.errors import translating
from relay.postgres.sql import statement
from relay.spark.connection import closing, connect, transaction

_GONE: Final = (psycopg.errors.InvalidParameterValue, psycopg.errors.UndefinedObject)


@contextmanager
def exported_snapshot(url: str) -> Iterator[str]:
    """The name of a snapshot that is valid while the block runs. Raises StorageError and its subclasses."""
    with closing(connect(url)) as connection:
        share_snapshots(connection)
        with transaction(connection, reads=True):
            with translating("exporting a snapshot"):
                ((name,),) = connection.execute(statement("spark/snapshots:export_snapshot")).fetchall()
            yield str(name)


def share_snapshots(connection: SyncConnection) -> None:
    """Let each of the connection's transactions see one snapshot."""
    connection.isolation_level = IsolationLevel.REPEATABLE_READ


def adopt_snapshot(connection: SyncConnection, snapshot: str) -> None:
    """See the exporting transaction's snapshot. Raises ConfigError when that transaction has ended."""
    try:
        ClientCursor(connection).execute(statement("spark/snapshots:adopt_snapshot"), {"snapshot": snapshot})
    except _GONE:
        raise ConfigError(
            f"option snapshot: there is no {snapshot!r}; its transaction has ended, or was on another server"
        ) from None
