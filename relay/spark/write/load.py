"""A partition's frames into a table by binary COPY, inside the caller's transaction.

``load_staging`` sends everything in one COPY: no other task writes those rows. ``DirectLoad`` writes to the outbox
itself, where an event may be already: each ``batch_rows`` rows are one COPY behind a savepoint and are kept until it is
through. If it fails on an ``event_id`` that is there, the same rows go by way of a temporary table and ``ON CONFLICT
DO NOTHING``, and so do all that follow: one repeated row is seldom alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, LiteralString

import psycopg

from relay.postgres.connect import SyncConnection
from relay.spark.copyformat import HEADER, TRAILER
from relay.spark.statements import SparkStatements
from relay.spark.write.frames import Frame

_CHUNK_BYTES: Final = 64 << 20  # kept in memory until their COPY is through


def load_staging(connection: SyncConnection, statement: LiteralString, frames: Iterable[Frame]) -> int:
    """Copy all frames; the number of rows."""
    count = 0
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.write(HEADER)
        for frame in frames:
            copy.write(frame.data)
            count += frame.count
        copy.write(TRAILER)
    return count


@dataclass(slots=True)
class DirectLoad:
    """Writes frames to the outbox; afterwards ``rows`` and ``inserted`` say how many came and how many were new."""

    connection: SyncConnection
    statements: SparkStatements
    batch_rows: int
    careful: bool
    """Whether rows may be there already: then the attempt to copy them straight in is not made."""
    rows: int = 0
    inserted: int = 0

    def load(self, frames: Iterable[Frame]) -> None:
        """Write all of them."""
        waiting = iter(frames)
        for first in waiting:
            chunk = _Chunk(first, waiting, self.batch_rows)
            inserted = None if self.careful else self._straight(chunk)
            if inserted is None:
                self.careful = True
                inserted = self._around(chunk)
            self.rows += chunk.count
            self.inserted += inserted

    def _straight(self, chunk: _Chunk) -> int | None:
        """The number of rows, or None when one of them is there already."""
        try:
            with self.connection.transaction():
                return load_staging(self.connection, self.statements.query("direct:copy_events"), chunk)
        except psycopg.errors.UniqueViolation:
            return None

    def _around(self, chunk: _Chunk) -> int:
        """The number of rows that were new."""
        self.connection.execute(self.statements.query("direct:create_repeat"))
        load_staging(self.connection, self.statements.query("direct:copy_repeat"), chunk)
        inserted = self.connection.execute(self.statements.query("direct:insert_repeat")).rowcount
        self.connection.execute(self.statements.query("direct:empty_repeat"))
        return inserted


class _Chunk:
    """Frames up to a number of rows and bytes, taken from an iterator once and kept, so that they can be sent twice."""

    def __init__(self, first: Frame, waiting: Iterator[Frame], most_rows: int) -> None:
        self._kept = [first]
        self._waiting: Iterator[Frame] | None = waiting
        self._most_rows = most_rows
        self.count = first.count
        self._bytes = len(first.data)

    def __iter__(self) -> Iterator[Frame]:
        yield from self._kept
        while self._waiting is not None and self.count < self._most_rows and self._bytes < _CHUNK_BYTES:
            frame = next(self._waiting, None)
            if frame is None:
                self._waiting = None
                return
            self._kept.append(frame)
            self.count += frame.count
            self._bytes += len(frame.data)
            yield frame
        self._waiting = None
