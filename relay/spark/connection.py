"""Connections of drivers and executors to the outbox's database, and waiting for one that is unavailable.

A database that restarts, fails over or is full is waited for: by ``connect``, and by ``persist`` for work that may be
done again. Both give up ``maxWait`` seconds after the first failure.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Final, TypeVar

import psycopg
from psycopg import IsolationLevel

from relay.core.errors import StorageUnavailable
from relay.postgres import connect as connections
from relay.postgres.connect import SyncConnection, close_and_wait
from relay.postgres.errors import classify, is_passing, may_connect_later, translating
from relay.postgres.sql import statement
from relay.postgres.url import ConnectionParameters, connection_parameters

_log = logging.getLogger(__name__)

P = TypeVar("P")
T = TypeVar("T")

APPLICATION: Final = "openoutbox-spark"
"""The name of Spark's connections in pg_stat_activity."""
DEFAULT_MAX_WAIT: Final = 600.0
"""Seconds for which an unavailable database is waited for."""

URL_OPTION: Final = "option url"
"""The source that an error names for an invalid URL of a data source."""

_TRANSACTION_TIMEOUT: Final = 170_000
"""The version of PostgreSQL that has it."""
_FIRST_PAUSE: Final = 0.05  # seconds
_LONGEST_PAUSE: Final = 2.0
_LOG_INTERVAL: Final = 30.0


class Wait:
    """The time that an unavailable database is waited for, from the first failure on."""

    def __init__(self, max_wait: float = DEFAULT_MAX_WAIT) -> None:
        """``max_wait`` is in seconds; 0 does not wait."""
        self._max_wait = max_wait
        self._until: float | None = None
        self._logged = -_LOG_INTERVAL
        self._pause = _FIRST_PAUSE

    def pause(self, error: Exception) -> bool:
        """Sleep until the next try; returns False, at once, when the time is over."""
        now = time.monotonic()
        if self._until is None:
            self._until = now + self._max_wait
        if now >= self._until:
            return False
        if now - self._logged >= _LOG_INTERVAL:
            self._logged = now
            _log.warning("waiting for the database, for another %.0f s at most: %s", self._until - now, error)
        time.sleep(min(self._pause * random.uniform(0.5, 1.5), self._until - now))
        self._pause = min(self._pause * 1.5, _LONGEST_PAUSE)
        return True


def connect(url: str, *, writes: bool = False, wait: Wait | None = None) -> SyncConnection:
    """A connection in autocommit mode, without prepared statements. Its transactions read what is committed.

    A connection that ``writes`` is to a primary. ``wait`` may have begun with another failure of the same work.
    Raises StorageUnavailable: for a server that refuses connections, does not answer, is starting, full, or only a
    standby, when the time is over; for a wrong password and the like at once.
    """
    wait = wait or Wait()
    while True:
        try:
            connection = connections.connect(_parameters(url, writes))
        except psycopg.OperationalError as error:
            if not may_connect_later(error) or not wait.pause(error):
                refused = classify(error, "connecting to the database")
                unavailable = StorageUnavailable(str(refused), error.sqlstate)
                unavailable.advice = refused.advice
                raise unavailable from None
        else:
            # A stricter default of role or database would fail one of two tasks that open the same run.
            connection.isolation_level = IsolationLevel.READ_COMMITTED
            return connection


@contextmanager
def closing(connection: SyncConnection) -> Iterator[SyncConnection]:
    """Close the connection at the end of the block, and wait until the server has ended it."""
    try:
        yield connection
    finally:
        close_and_wait(connection)


@contextmanager
def transaction(connection: SyncConnection, *, reads: bool = False) -> Iterator[None]:
    """A transaction with ``own_settings``."""
    with connection.transaction():
        own_settings(connection, reads=reads)
        yield


def own_settings(connection: SyncConnection, *, reads: bool = False) -> None:
    """Let no default of role, database or URL end the present transaction.

    With ``reads``, a statement from which row-level security would hide rows fails.
    """
    tags = {"reads": reads, "since_17": connection.info.server_version >= _TRANSACTION_TIMEOUT}
    connection.execute(statement("spark/transactions:own_settings", tags=[tag for tag, on in tags.items() if on]))


def persist(work: Callable[[Wait], T], max_wait: float) -> T:
    """Do ``work``, and again while the database fails for a reason that passes. ``work`` must be repeatable.

    It passes its ``Wait`` to ``connect``. Raises psycopg's errors, and StorageUnavailable of ``connect``.
    """
    wait = Wait(max_wait)
    while True:
        try:
            return work(wait)
        except psycopg.Error as error:
            if not is_passing(error) or not wait.pause(error):
                raise


def run_each(url: str, doing: str, parts: Iterable[P], work: Callable[[P, SyncConnection], T]) -> Iterator[T]:
    """In a task: the result of ``work`` for each part, as by ``persist``, over one connection.

    It is opened for the first part, and again after a loss. Raises StorageError and its subclasses.
    """
    connection: SyncConnection | None = None

    def once(part: P, wait: Wait) -> T:
        nonlocal connection
        if connection is None:
            connection = connect(url, writes=True, wait=wait)
        try:
            return work(part, connection)
        except psycopg.Error:
            close_and_wait(connection)  # also one that is open still: after a failover its server may be a standby
            connection = None
            raise

    try:
        for part in parts:
            with translating(doing):
                result = persist(partial(once, part), DEFAULT_MAX_WAIT)
            yield result
    finally:
        if connection is not None:
            close_and_wait(connection)


@lru_cache(maxsize=16)  # logs a warning about the URL once, and not for each connection
def _parameters(url: str, writes: bool) -> ConnectionParameters:
    """Libpq's parameters, with ``APPLICATION`` even if the URL has another name."""
    primary: ConnectionParameters = {"target_session_attrs": "read-write"} if writes else {}
    parameters = connection_parameters(url, APPLICATION, source=URL_OPTION, streams=True)
    return {**primary, **parameters, "application_name": APPLICATION}
