"""At most ``maxConnections`` of a job's tasks hold a connection at a time, over all of its executors.

Two gates, since a task may not connect only to ask whether it may connect:

1. On its own machine, before it connects: one of ``maxConnections`` names in Linux's abstract socket namespace. A name
   is given up by the kernel when its process ends, however it ends, and leaves no file.
2. In the database, when it has connected: one of as many advisory locks, held by its transaction. They count the tasks
   of other machines too. A task that finds all of them taken leaves at once and tries again later.

So executors of one machine never hold more, even for a moment; with several machines, one that asks while all locks
are taken is connected for the milliseconds that asking takes, and then waits outside.
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


def _nothing(_: SyncConnection) -> None:
    """At the beginning of a transaction."""


@contextmanager
def slot(
    run_id: UUID,
    slots: int,
    statements: SparkStatements,
    open_connection: Callable[[], SyncConnection],
    begin: Callable[[SyncConnection], None] = _nothing,
) -> Iterator[SyncConnection]:
    """A connection inside a transaction of its own, which is committed at the end, or rolled back by an exception.

    ``begin`` is the transaction's first work, before it asks for a slot. Waits as long as it takes: the tasks that hold
    the slots come to an end.
    """
    wait = _FIRST_WAIT
    while True:
        with _local_slot(run_id, slots), _leaving(open_connection()) as connection, connection.transaction():
            begin(connection)
            if _taken(connection, run_id, slots, statements):
                yield connection
                return
        time.sleep(wait * random.uniform(0.5, 1.5))
        wait = min(wait * 2, _LONGEST_WAIT)


@contextmanager
def _leaving(connection: SyncConnection) -> Iterator[SyncConnection]:
    try:
        yield connection
    finally:
        close_and_wait(connection)


def _taken(connection: SyncConnection, run_id: UUID, slots: int, statements: SparkStatements) -> bool:
    space = int.from_bytes(run_id.bytes[:4], "big", signed=True)
    with translating("taking one of the job's connections"):
        return bool(
            connection.execute(statements.query("slots:take_slot"), {"slots": slots, "space": space}).fetchall()
        )


@contextmanager
def _local_slot(run_id: UUID, slots: int) -> Iterator[None]:
    """One of the names, for as long as the block runs. Elsewhere than on Linux the database alone counts."""
    if sys.platform != "linux":
        yield
        return
    with _bound(run_id, slots):
        yield


def _bound(run_id: UUID, slots: int) -> socket.socket:
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
