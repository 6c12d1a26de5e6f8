"""Connections of drivers and executors to the outbox's database.

A full database is retried: other tasks, and other programs, close their connections.
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
"""Seconds for which a full or starting database is retried."""

URL_OPTION: Final = "option url"
"""The source that an error names for an invalid URL of a data source."""


def connect(url: str, name: str = APPLICATION) -> SyncConnection:
    """A connection in autocommit mode, without prepared statements.

    ``name`` is shown in pg_stat_activity. Raises StorageUnavailable; for a full database after ten minutes.
    """
    until = time.monotonic() + _PATIENCE
    wait = 0.05
    while True:
        try:
            return connections.connect(_parameters(url, name))
        except psycopg.OperationalError as error:
            if not is_full(error) or time.monotonic() > until:
                refused = classify(error, "connecting to the database")
                unavailable = StorageUnavailable(str(refused), error.sqlstate)
                unavailable.advice = refused.advice
                raise unavailable from None
        time.sleep(wait * random.uniform(0.5, 1.5))
        wait = min(wait * 1.5, 2.0)


@lru_cache(maxsize=16)  # logs a warning about the URL once, and not for each connection
def _parameters(url: str, name: str) -> ConnectionParameters:
    """Libpq's parameters, with the job's name even if the URL has another one."""
    return {**connection_parameters(url, name, source=URL_OPTION, streams=True), "application_name": name}
