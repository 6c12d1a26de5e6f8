"""Stored rows as events, and the rows that no Python value can represent.

A plain INSERT may store what this room would not: numbers that Python's own types cannot hold, JSON nested deeper than
the decoder goes, times beyond Python's calendar. Numbers become ``Decimal``. Of a row with anything else, the value is
replaced by its fault while the rows are fetched, so that one row does not hide the others, and ``decoded`` names it.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, LiteralString

import psycopg
from psycopg import AsyncConnection, AsyncCursor
from psycopg.abc import Buffer
from psycopg.rows import TupleRow, tuple_row
from psycopg.types.datetime import TimestamptzLoader

from relay.eventstore.database import Row, Values, execute
from relay.eventstore.errors import UndecodableEvent
from relay.eventstore.model import StoredEvent
from relay.postgres.pipeline import one_transaction


@dataclass(frozen=True, slots=True)
class Fault:
    """In the place of a value that could not be decoded."""

    reason: str


def decode_body(text: str | bytes) -> object:
    """The value of a JSON text that PostgreSQL wrote: without blanks, in UTF-8. A ``Fault`` where it has none."""
    document = text if isinstance(text, str) else str(text, "utf-8")
    # It also fails on an integer that is too long for Python's reader, and no fault: ``_exact`` reads that, or says why
    # the text has no value. Most bodies have neither, so the quicker decoder comes first.
    with contextlib.suppress(ValueError, RecursionError):
        return _plain(document)[0]
    try:
        return _exact(document)[0]
    except (ValueError, RecursionError) as error:
        return Fault(f"JSON: {error}")


@dataclass(frozen=True, slots=True)
class Read:
    """A reading statement."""

    sql: LiteralString
    values: Values
    prepare: bool = False
    """Whether the connection keeps it prepared."""


async def fetch_together(
    connection: AsyncConnection[Any], reads: Sequence[Read], setting: LiteralString | None = None
) -> list[Row]:
    """As ``fetch_events``, for several statements, in one trip to the database and one transaction.

    ``setting`` is a statement that is sent before them, for this transaction.
    """
    async with one_transaction(connection), contextlib.AsyncExitStack() as stack:
        cursors = []
        if setting is not None:
            await connection.execute(setting, prepare=False)  # its row is of no use
        for read in reads:
            cursor = await stack.enter_async_context(AsyncCursor[TupleRow](connection, row_factory=tuple_row))
            cursors.append(await cursor.execute(read.sql, read.values, prepare=read.prepare))
        rows: list[Row] | None = None
        try:
            rows = [row for cursor in cursors for row in await cursor.fetchall()]
        except psycopg.DataError as error:  # not raised: psycopg forgets what it has prepared with a ROLLBACK
            if error.sqlstate is not None:
                raise
    if rows is not None:
        return rows
    return [row for read in reads for row in await fetch_events(connection, read.sql, read.values)]


async def fetch_events(connection: AsyncConnection[Any], sql: LiteralString, values: Values) -> list[Row]:
    """The rows of a reading statement, for ``decoded``. Times are decoded one by one only where one has a fault."""
    try:
        return await execute(connection, sql, values)
    except psycopg.DataError as error:
        if error.sqlstate is not None:
            raise
    async with AsyncCursor[TupleRow](connection, row_factory=tuple_row) as cursor:
        cursor.adapters.register_loader("timestamptz", _TimeOrFault)
        await cursor.execute(sql, values, prepare=False)
        return await cursor.fetchall()


def decoded(rows: Iterable[Row]) -> list[StoredEvent | UndecodableEvent]:
    """The events of rows, in their order; in the place of a row with a fault the error that names it."""
    return [_decoded(row) for row in rows]


def _decoded(row: Row) -> StoredEvent | UndecodableEvent:
    event = StoredEvent(*row)
    for name, value in (("meta", event.meta), ("data", event.data), ("log_date", event.log_date)):
        if isinstance(value, Fault):
            reason = f"{name}: {value.reason}"
            return UndecodableEvent(event.sequence_num, event.tenant_id, event.stream_id, event.version, reason)
    return event


class _TimeOrFault(TimestamptzLoader):
    """As psycopg's, with a fault for a time beyond Python's calendar."""

    def load(self, data: Buffer) -> Any:  # noqa: ANN401 -- a time or a fault
        try:
            return super().load(data)
        except psycopg.DataError as error:
            return Fault(str(error))


def _fraction(text: str) -> float | Decimal:
    """A float, or where it would be infinite, or 0 in the place of a small number, the exact value."""
    value = float(text)
    exact = math.isfinite(value) and (value or not text.strip("-0."))
    return value if exact else Decimal(text)


def _integer(text: str) -> int | Decimal:
    """An int, or a Decimal beyond the digits that Python reads as one."""
    try:
        return int(text)
    except ValueError:
        return Decimal(text)


_plain: Final = json.JSONDecoder(parse_float=_fraction).raw_decode
_exact: Final = json.JSONDecoder(parse_float=_fraction, parse_int=_integer).raw_decode
