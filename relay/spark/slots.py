"""At most ``maxConnections`` of a job's tasks hold a connection at a time, over all of its executors.

Two gates, since a task must not connect only to check whether it may:

1. On its own machine, before it connects: one of ``maxConnections`` names in Linux's abstract socket namespace. The
   kernel frees a name when its process ends, however it ends; no file remains.
2. In the database, after it has connected: one of as many advisory locks, held by its transaction. They count the tasks
   of other machines too. A task without a free lock disconnects at once and tries again later.

So executors of one machine never hold more connections. With several machines, a task without a free lock is connected
for the milliseconds that the check takes, and then waits without a connection.
"""

from __future__ import annotations

import errno
import random
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID

from relay.postgres.connect import SyncConnection, close_and_wait
from relay.postgres.errors import translating
from relay.spark.statements import SparkStatements

_FIRST_WAIT: Final = 0.02  # seconds
_LONGEST_WAIT: Final = 1.0


def _no_work(_: SyncConnection) -> None:
    """The default for ``begin``."""


@contextmanager
def slot(
    run_id: UUID,
    slots: int,
    statements: SparkStatements,
    open_connection: Callable[[], SyncConnection],
    begin: Callable[[SyncConnection], None] = _no_work,
) -> Iterator[SyncConnection]:
    """A connection inside a transaction of its own, which is committed at the end, or rolled back by an exception.

    ``begin`` is the transaction's first work, before it takes a slot. Waits without a deadline: the tasks that hold the
    slots end.
    """
    wait = _FIRST_WAIT
    while True:
        with _local_slot(run_id, slots), _closing(open_connection()) as connection, connection.transaction():
            begin(connection)
            if _take(connection, run_id, slots, statements):
                yield connection
                return
        time.sleep(wait * random.uniform(0.5, 1.5))
        wait = min(wait * 2, _LONGEST_WAIT)


@contextmanager
def _closing(connection: SyncConnection) -> Iterator[SyncConnection]:
    try:
        yield connection
    finally:
        close_and_wait(connection)


def _take(connection: SyncConnection, run_id: UUID, slots: int, statements: SparkStatements) -> bool:
    space = int.from_bytes(run_id.bytes[:4], "big", signed=True)
    with translating("taking one of the job's connections"):
        return bool(
            connection.execute(statements.query("slots:take_slot"), {"slots": slots, "space": space}).fetchall()
        )


@contextmanager
def _local_slot(run_id: UUID, slots: int) -> Iterator[None]:
    """Hold one of the names while the block runs. On other systems than Linux only the database counts."""
    if sys.platform != "linux":
        yield
        return
    with _bind(run_id, slots):
        yield


def _bind(run_id: UUID, slots: int) -> socket.socket:
    wait = _FIRST_WAIT
    while True:
        for number in random.sample(range(slots), slots):
            holder = socket.socket(socket.AF_UNIX)
            try:
                holder.bind(f"\0openoutbox-spark-{run_id}-{number}")
            except OSError as error:
                holder.close()
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                return holder
        time.sleep(wait * random.uniform(0.5, 1.5))
        wait = min(wait * 1.2, 0.25)
