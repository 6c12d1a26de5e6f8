"""Where operators' connections come from: those of commands, and those of the console, which keeps them.

A command connects, and closes at its end. Within ``keeping`` a caller leaves the connection to the next one: a
new one costs the server more than most answers do. One is used again only where the server answers on it within a
second, so a lost one is replaced, and a hung server is what it is for a new connection: unavailable.
"""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

import psycopg
from psycopg.pq import TransactionStatus

from relay.core.errors import StorageUnavailable
from relay.postgres.codec import MOMENTS
from relay.postgres.connect import SyncConnection, connect
from relay.postgres.errors import translating
from relay.postgres.operating import OPERATOR
from relay.postgres.url import connection_parameters

MOST_KEPT: Final = 8
"""Connections that wait for their next use; how many are used at once is for the callers to bound."""
LONGEST_IDLE: Final = 60.0
"""Seconds without a use after which one is not used again."""
_LONGEST_LIFE: Final = 600.0  # seconds; then another password, role or address is in force
_ANSWERS_WITHIN: Final = 1.0  # seconds


class _Connected(NamedTuple):
    connection: SyncConnection
    made: float
    used: float = 0.0


class KeptConnections:
    """Connections to one database that wait for their next use. Threads may call it at once."""

    def __init__(self, url: str) -> None:
        """Connects to nothing yet."""
        self._url = url
        self._lock = threading.Lock()
        self._idle: list[_Connected] = []
        self._keeps = True

    @contextmanager
    def one(self) -> Iterator[SyncConnection]:
        """As ``operator_connection``. What is in a transaction at the end is closed, as is what cannot be kept."""
        connected = self._taken() or _Connected(_connected(self._url), time.monotonic())
        try:
            yield connected.connection
        except StorageUnavailable:  # so are the others, then
            self._forget()
            raise
        finally:
            self._give_back(connected)

    def close(self) -> None:
        """Keep none from now on."""
        self._keeps = False
        self._forget()

    def _taken(self) -> _Connected | None:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                last = self._idle.pop()  # the one used last, so that the others grow old when few are needed
            now = time.monotonic()
            if now - last.used < LONGEST_IDLE and now - last.made < _LONGEST_LIFE and _answers(last.connection):
                return last
            _close(last.connection)

    def _give_back(self, connected: _Connected) -> None:
        connection, now = connected.connection, time.monotonic()
        with self._lock:
            old = [each for each in self._idle if now - each.used >= LONGEST_IDLE]
            self._idle = [each for each in self._idle if now - each.used < LONGEST_IDLE]
            keeps = self._keeps and len(self._idle) < MOST_KEPT
            if keeps and connection.pgconn.transaction_status == TransactionStatus.IDLE:
                self._idle.append(connected._replace(used=now))
            else:
                old.append(connected)
        for each in old:
            _close(each.connection)

    def _forget(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for each in idle:
            _close(each.connection)


_kept: Final[dict[str, KeptConnections]] = {}
"""By URL."""


@contextmanager
def keeping(url: str) -> Iterator[None]:
    """Keep operators' connections to this database for the next ones, in this process, until the end of the block."""
    kept = _kept[url] = KeptConnections(url)
    try:
        yield
    finally:
        if _kept.get(url) is kept:
            del _kept[url]
        kept.close()


@contextmanager
def operator_connection(url: str) -> Iterator[SyncConnection]:
    """A connection of an operator, in autocommit mode, whose times are of any year.

    Raises ConfigError for a wrong URL and StorageUnavailable; the errors of statements are the driver's.
    """
    kept = _kept.get(url)
    if kept is not None:
        with kept.one() as connection:
            yield connection
        return
    with _connected(url) as connection:
        yield connection


def _connected(url: str) -> SyncConnection:
    parameters = connection_parameters(url, OPERATOR)
    with translating():
        return connect(parameters, MOMENTS)


def _answers(connection: SyncConnection) -> bool:
    """Whether the server answers at once. The driver's own statements wait without end for a server that hangs."""
    server, waiting = connection.pgconn, select.poll()
    try:
        server.send_query(b"")
        server.flush()
        waiting.register(server.socket, select.POLLIN)
        while waiting.poll(_ANSWERS_WITHIN * 1000):
            server.consume_input()
            while not server.is_busy():
                if server.get_result() is None:
                    return server.transaction_status == TransactionStatus.IDLE
    except (psycopg.Error, OSError):
        return False
    return False


def _close(connection: SyncConnection) -> None:
    with suppress(psycopg.Error, OSError):
        connection.close()
