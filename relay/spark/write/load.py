"""A partition's frames into a table by binary COPY, inside the caller's transaction.

``load_staging`` sends all frames in one COPY: no other task writes those rows. ``DirectLoad`` writes to the outbox,
which may already contain an event: each ``batch_rows`` rows are one COPY behind a savepoint, and stay in memory until
it ends. If it fails on an existing ``event_id``, the same rows, and all later ones, are inserted from a temporary table
with ``ON CONFLICT DO NOTHING``: one repeated row is seldom alone. Those that exist are compared (``repeats``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, LiteralString

import psycopg

from relay.postgres.codec import COPY_HEADER, COPY_TRAILER
from relay.postgres.connect import SyncConnection
from relay.spark.statements import SparkStatements
from relay.spark.write.frames import Frame
from relay.spark.write.repeats import check_repeats

_CHUNK_BYTES: Final = 64 << 20  # held in memory until their COPY ends


def load_staging(connection: SyncConnection, statement: LiteralString, frames: Iterable[Frame]) -> int:
    """Copy all frames; returns the number of rows that the table has taken, which a trigger may make smaller."""
    with connection.cursor() as cursor:
        with cursor.copy(statement) as copy:
            copy.write(COPY_HEADER)
            for frame in frames:
                copy.write(frame.data)
            copy.write(COPY_TRAILER)
        return cursor.rowcount


@dataclass(slots=True)
class DirectLoad:
    """Writes frames to the outbox; counts all rows in ``rows`` and the new ones in ``inserted``."""

    connection: SyncConnection
    statements: SparkStatements
    batch_rows: int
    careful: bool
    """Whether rows may exist already: then the COPY into the outbox is not tried."""
    rows: int = 0
    inserted: int = 0
    unchecked: int = 0
    """Rows that exist already and were not compared."""

    def load(self, frames: Iterable[Frame]) -> None:
        """Write the frames."""
        rest = iter(frames)
        for first in rest:
            chunk = _Chunk(first, rest, self.batch_rows)
            inserted = None if self.careful else self._copy(chunk)
            if inserted is None:
                self.careful = True
                inserted = self._insert(chunk)
            self.rows += chunk.count
            self.inserted += inserted

    def _copy(self, chunk: _Chunk) -> int | None:
        """Copy into the outbox; returns the number of rows, or None when one of them exists already."""
        try:
            with self.connection.transaction():
                return load_staging(self.connection, self.statements.query("direct:copy_events"), chunk)
        except psycopg.errors.UniqueViolation:
            return None

    def _insert(self, chunk: _Chunk) -> int:
        """Insert the missing rows from a temporary table; returns their number."""
        self.connection.execute(self.statements.query("direct:create_repeat"))
        load_staging(self.connection, self.statements.query("direct:copy_repeat"), chunk)
        inserted = self.connection.execute(self.statements.query("direct:insert_repeat")).rowcount
        if inserted < chunk.count and not check_repeats(self.connection, self.statements, "direct:others_repeat"):
            self.unchecked += chunk.count - inserted
        self.connection.execute(self.statements.query("direct:empty_repeat"))
        return inserted


class _Chunk:
    """Frames up to a number of rows and bytes, read from an iterator once and stored, to be sent twice."""

    def __init__(self, first: Frame, rest: Iterator[Frame], most_rows: int) -> None:
        self._frames = [first]
        self._rest: Iterator[Frame] | None = rest
        self._most_rows = most_rows
        self.count = first.count
        self._bytes = len(first.data)

    def __iter__(self) -> Iterator[Frame]:
        yield from self._frames
        while self._rest is not None and self.count < self._most_rows and self._bytes < _CHUNK_BYTES:
            frame = next(self._rest, None)
            if frame is None:
                self._rest = None
                return
            self._frames.append(frame)
            self.count += frame.count
            self._bytes += len(frame.data)
            yield frame
        self._rest = None
