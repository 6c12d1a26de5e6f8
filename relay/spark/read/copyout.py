"""A statement's rows out of PostgreSQL by binary COPY, in portions of one batch each. Runs on the executors.

It calls libpq for each row, without psycopg's own loop. Measured processor time for a row of 660 bytes: 1.6 to 3 µs
with psycopg's loop, 0.9 µs with this one, 0.6 µs for psql, which does nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, LiteralString

from psycopg import ClientCursor
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn

from relay.postgres.codec import COPY_HEADER, COPY_TRAILER
from relay.postgres.connect import SyncConnection
from relay.spark.read.decode import Rows
from relay.spark.read.statements import copy_out

_PORTION_BYTES: Final = 2 << 20
_PORTION_ROWS: Final = 10_000
_BLOCKING: Final = 0


def portions(connection: SyncConnection, select: LiteralString, values: Mapping[str, Any]) -> Iterator[Rows]:
    """The rows of a statement. Stopping early cancels it. Raises psycopg's errors."""
    text = ClientCursor(connection).mogrify(copy_out(select), values)
    line = connection.pgconn
    result = line.exec_(text.encode())
    if result.status != ExecStatus.COPY_OUT:
        raise error_from_result(result)
    complete = False
    try:
        yield from _receive(line)
        complete = True
    finally:
        if not complete:
            connection.cancel_safe()
            _drain(line)
    _finish(line)


def _receive(line: PGconn) -> Iterator[Rows]:
    """PostgreSQL sends one row a message; the first one has the stream's header too, the last one only its trailer."""
    receive = line.get_copy_data
    size, message = receive(_BLOCKING)
    first = bytearray(message)[len(COPY_HEADER) :]
    portion = Rows(first, [len(first)]) if len(first) > len(COPY_TRAILER) else Rows()
    while size > 0:
        size, message = receive(_BLOCKING)
        if size > len(COPY_TRAILER):
            portion.data += message
            portion.sizes.append(size)
            if len(portion.data) >= _PORTION_BYTES or len(portion.sizes) >= _PORTION_ROWS:
                yield portion
                portion = Rows()
    if portion.sizes:
        yield portion


def _finish(line: PGconn) -> None:
    """Read the statement's result. A statement that failed after its first row raises its error here."""
    while (result := line.get_result()) is not None:
        if result.status != ExecStatus.COMMAND_OK:
            raise error_from_result(result)


def _drain(line: PGconn) -> None:
    """Read the rows sent before the cancellation, and its error, so that the connection can be used again."""
    while line.get_copy_data(_BLOCKING)[0] > 0:
        pass
    while line.get_result() is not None:
        pass
