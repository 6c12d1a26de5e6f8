"""At most ``numPartitions`` of a write's tasks hold a connection at a time, over all of its executors.

Two gates, since a task must not connect only to check whether it may:

1. On its own machine, before it connects: one of ``numPartitions`` names in Linux's abstract socket namespace. The
   kernel frees a name when its process ends, however it ends; no file remains.
2. In the database, after it has connected: one of as many advisory locks, held by its transaction. They count the tasks
   of other machines too. A task without a free lock disconnects at once and tries again later.

So executors of one machine never hold more connections. With several machines, a task without a free lock is connected
for the milliseconds that the check takes, and then waits without a connection. Of each machine one task at a time
checks, and goes on checking until it has a lock, while the others wait for their turn: the database sees one connection
for each machine besides those of the tasks that work, however many cores wait.
"""

from __future__ import annotations

import errno
import math
import random
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Final
from uuid import UUID

from relay.postgres.connect import SyncConnection
from relay.postgres.errors import translating
from relay.spark.connection import closing, transaction
from relay.spark.statements import SparkStatements

_FIRST_WAIT: Final = 0.02  # seconds
_LONGEST_WAIT: Final = 1.0
_LONGEST_TURN: Final = 10.0
"""Seconds that a task waits for its turn to check; the task before it may wait for a database that is unavailable."""


@contextmanager
def slot(
    run_id: UUID,
    slots: int,
    statements: SparkStatements,
    open_connection: Callable[[], SyncConnection],
) -> Iterator[SyncConnection]:
    """A connection inside a ``transaction`` of its own, which is committed at the end, or rolled back by an exception.

    Waits without a deadline: the tasks that hold the slots end.
    """
    wait = _FIRST_WAIT
    holder: socket.socket | None = None
    with ExitStack() as turn:  # the right to check for a free lock; other tasks go ahead after a long wait
        while True:
            if holder is None and sys.platform == "linux":
                holder = _bind([_address(run_id, "turn")], time.monotonic() + _LONGEST_TURN)
                turn.enter_context(holder or nullcontext())
            with (
                _local_slot(run_id, slots),
                closing(open_connection()) as connection,
                transaction(connection),
            ):
                if _take(connection, run_id, slots, statements):
                    turn.close()
                    yield connection
                    return
            time.sleep(wait * random.uniform(0.5, 1.5))
            wait = min(wait * 2, _LONGEST_WAIT)


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
    with _bind([_address(run_id, str(number)) for number in range(slots)], math.inf) or nullcontext():
        yield


def _address(run_id: UUID, name: str) -> str:
    return f"\0openoutbox-spark-{run_id}-{name}"


def _bind(addresses: Sequence[str], until: float) -> socket.socket | None:
    """A holder of one of the addresses; None when all were taken ``until`` this time."""
    wait = _FIRST_WAIT
    while True:
        for address in random.sample(addresses, len(addresses)):
            holder = socket.socket(socket.AF_UNIX)
            try:
                holder.bind(address)
            except OSError as error:
                holder.close()
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                return holder
        if time.monotonic() >= until:
            return None
        time.sleep(wait * random.uniform(0.5, 1.5))
        wait = min(wait * 1.2, 0.25)
