"""Connections of drivers and executors to the outbox's database.

A database that has no connection left is waited for: other tasks, and other programs, give theirs back.
"""

from __future__ import annotations

import random
import time
from functools import lru_cache
from typing import Final

import psycopg

from relay.core.errors import StorageUnavailable
from relay.postgres import connect as connections
from relay.postgres.connect import SyncConnection
from relay.postgres.errors import classify, is_full
from relay.postgres.url import ConnectionParameters, connection_parameters

APPLICATION: Final = "openoutbox-spark"
"""The name of Spark's connections in pg_stat_activity."""
_PATIENCE: Final = 600.0
"""Seconds that a full or starting database is waited for."""

URL_OPTION: Final = "option url"
"""What an error calls the URL of a data source."""


def connect(url: str, name: str = APPLICATION) -> SyncConnection:
    """A connection that commits each statement alone unless told otherwise; nothing is prepared on the server.

    ``name`` is shown in pg_stat_activity. Raises StorageUnavailable, after ten minutes where the database is full.
    """
    until = time.monotonic() + _PATIENCE
    wait = 0.05
    while True:
        try:
            return connections.connect(_parameters(url, name))
        except psycopg.OperationalError as error:
            if not is_full(error) or time.monotonic() > until:
                raise StorageUnavailable(str(classify(error, "connecting to the database")), error.sqlstate) from None
        time.sleep(wait * random.uniform(0.5, 1.5))
        wait = min(wait * 1.5, 2.0)


@lru_cache(maxsize=16)  # a warning about the URL is logged once, not once a connection
def _parameters(url: str, name: str) -> ConnectionParameters:
    """They name the job's connections in the database, whatever name the URL gives."""
    return {**connection_parameters(url, name, source=URL_OPTION, streams=True), "application_name": name}
