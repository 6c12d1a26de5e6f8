"""What operations at a table have in common, whichever table it is: reads, short transactions, the size of batches.

Their connections are synchronous, in autocommit mode, with nothing prepared on the server.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from types import FrameType
from typing import Any, Final, LiteralString

from relay.postgres.connect import SyncConnection as Connection
from relay.postgres.sql import statement

OPERATOR: Final = "openoutbox-relay-cli"
"""The ``application_name`` of an operation."""
_LOCK_TIMEOUT: Final = "500"  # milliseconds; an operation gives way to a change of the table itself
_LONGEST_BATCH: Final = 0.2  # seconds
_SMALLEST_BATCH: Final = 50


def fetch(connection: Connection, sql: LiteralString, parameters: Mapping[str, object]) -> list[tuple[Any, ...]]:
    """The rows that a statement returns, decoded from the binary protocol."""
    with connection.cursor(binary=True) as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall() if cursor.description else []


@contextmanager
def short_transaction(connection: Connection) -> Iterator[None]:
    """One transaction that waits half a second for a lock at most, then fails with StorageBusy."""
    with connection.transaction():
        connection.execute(statement("session:lock_guard"), {"timeout": _LOCK_TIMEOUT})
        yield


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back a first Ctrl-C until the block has ended, so that what it commits is counted; a second ends it at once.

    Outside the main thread, which alone receives Ctrl-C, it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupted = False

    def hold(_number: int, _frame: FrameType | None) -> None:
        nonlocal interrupted
        if interrupted:
            raise KeyboardInterrupt
        interrupted = True

    before = signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupted:
        raise KeyboardInterrupt


def database_time(connection: Connection) -> datetime:
    """The database's clock, by which every age is counted."""
    [(now,)] = fetch(connection, statement("session:clock"), {})
    if not isinstance(now, datetime):
        raise TypeError(f"the database clock returned a non-finite timestamp: {now}")
    return now


def next_size(size: int, most: int, seconds: float) -> int:
    """How many rows the next batch may have, after one of ``size`` rows took ``seconds``."""
    fitting = int(size * _LONGEST_BATCH / seconds) if seconds > 0 else most
    return max(min(fitting, size * 2, most), min(_SMALLEST_BATCH, most))
