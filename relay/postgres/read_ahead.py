"""Read what has arrived before the event loop is asked to wait for more.

libpq reads 16 KiB at a time, and psycopg waits for the socket after each read: 35 times for a claim of 1,000 events of
512 bytes, and each time nine system calls begin and end the watching. PostgreSQL sends a reply at once when the
statement has run, so the next piece is nearly always there, and one system call says so: that claim waits 3 times.
"""

from __future__ import annotations

import select
from collections.abc import Generator
from typing import Any, Final, TypeVar

import psycopg
from psycopg.waiting import READY_R, WAIT_R

T = TypeVar("T")

MOST_IN_A_ROW: Final = 16  # reads (256 KiB) until other tasks get their turn


class EagerConnection(psycopg.AsyncConnection[Any]):
    """A connection that waits for its socket only if nothing has arrived."""

    async def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> T:  # noqa: ANN401 - psycopg's own
        """Run psycopg's protocol generator; what else it is called with depends on its version."""
        return await super().wait(read_on(gen, self.pgconn.socket), *args, **options)


def read_on(protocol: Generator[Any, Any, T], fileno: int) -> Generator[Any, Any, T]:
    """Pass the generator's waits on, but for those for data that has arrived."""
    poll = select.poll()
    poll.register(fileno, select.POLLIN)
    in_a_row = 0
    try:
        state = next(protocol)
        while True:
            if state == WAIT_R and in_a_row < MOST_IN_A_ROW and poll.poll(0):
                in_a_row += 1
                state = protocol.send(READY_R)
            else:
                in_a_row = 0
                state = protocol.send((yield state))
    except StopIteration as end:
        result: T = end.value
        return result
