"""A statement's rows out of PostgreSQL by binary COPY, in portions that make a batch each. Runs on the executors.

libpq is asked for row after row without psycopg's own machinery between: that was measured to cost 1.6 to 3 µs of
processor time a row of 660 bytes, this 0.9 µs, and psql, which does nothing else, 0.6 µs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, LiteralString

from psycopg import ClientCursor
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn

from relay.postgres.connect import SyncConnection
from relay.spark.copyformat import HEADER, TRAILER
from relay.spark.read.decode import Rows
from relay.spark.read.statements import copying

_PORTION_BYTES: Final = 2 << 20
_PORTION_ROWS: Final = 10_000
_BLOCKING: Final = 0


def portions(connection: SyncConnection, select: LiteralString, values: Mapping[str, Any]) -> Iterator[Rows]:
    """The rows that a statement gives. Stopping early cancels it. Raises psycopg's errors."""
    text = ClientCursor(connection).mogrify(copying(select), values)
    line = connection.pgconn
    begun = line.exec_(text.encode())
    if begun.status != ExecStatus.COPY_OUT:
        raise error_from_result(begun)
    over = False
    try:
        yield from _received(line)
        over = True
    finally:
        if not over:
            connection.cancel_safe()
            _drain(line)
    _finish(line)


def _received(line: PGconn) -> Iterator[Rows]:
    """PostgreSQL sends a row in each message; the stream's header comes before the first, its trailer by itself."""
    receive = line.get_copy_data
    portion = Rows()
    size, message = receive(_BLOCKING)
    first = bytes(message)[len(HEADER) :]
    if len(first) > len(TRAILER):
        portion.add(first)
    while size > 0:
        size, message = receive(_BLOCKING)
        if size > len(TRAILER):
            portion.data += message
            portion.sizes.append(size)
            if len(portion.data) >= _PORTION_BYTES or len(portion.sizes) >= _PORTION_ROWS:
                yield portion
                portion = Rows()
    if portion.sizes:
        yield portion


def _finish(line: PGconn) -> None:
    """What the server says at the end. A statement that fails while it runs fails here."""
    while (result := line.get_result()) is not None:
        if result.status != ExecStatus.COMMAND_OK:
            raise error_from_result(result)


def _drain(line: PGconn) -> None:
    """Read what was sent before the cancellation came, and its error, so that the connection can be used again."""
    while line.get_copy_data(_BLOCKING)[0] > 0:
        pass
    while line.get_result() is not None:
        pass
