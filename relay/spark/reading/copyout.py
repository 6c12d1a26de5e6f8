"""A statement's rows out of PostgreSQL by binary COPY, in portions that make a batch each. Runs on the executors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, LiteralString

from psycopg import Copy

from relay.spark.connecting import Connection
from relay.spark.encode import HEADER, TRAILER
from relay.spark.reading.statements import copying

Row = bytes | bytearray | memoryview

_PORTION_BYTES: Final = 4 << 20
_PORTION_ROWS: Final = 10_000


def portions(connection: Connection, select: LiteralString, values: Mapping[str, Any]) -> Iterator[list[Row]]:
    """Lists of rows, each row the bytes of its fields. Stopping early cancels the statement."""
    with connection.cursor() as cursor, cursor.copy(copying(select), values) as copy:
        portion: list[Row] = []
        size = 0
        for row in _rows(copy):
            portion.append(row)
            size += len(row)
            if size >= _PORTION_BYTES or len(portion) >= _PORTION_ROWS:
                yield portion
                portion, size = [], 0
        if portion:
            yield portion


def _rows(copy: Copy) -> Iterator[Row]:
    """PostgreSQL sends a row in each message; the stream's header comes before the first, its trailer by itself."""
    messages = iter(copy)
    first = next(messages, b"")[len(HEADER) :]
    if first and first != TRAILER:
        yield first
    for message in messages:
        if len(message) != len(TRAILER):
            yield message
