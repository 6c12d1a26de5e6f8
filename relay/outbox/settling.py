"""Verdicts written back: as few statements as there are kinds of verdict, one transaction, one round trip.

Each statement changes only rows that this relay still holds: DELIVERING, with ``locked_by`` and the exact ``locked_at``
of the settlement's fence (``sql/outbox/settle.sql``). What is missing after it is locked, kept as it was, or lost. A
row that the database refuses fails them all: ``relay.engine.settle`` finds it by settling fewer.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, LiteralString

import psycopg
from psycopg import AsyncCursor
from psycopg.pq import TransactionStatus

from relay.core.errors import StorageUnavailable
from relay.core.event import EventId
from relay.core.storage import Settled, Settlement
from relay.outbox.outbox_options import PostgresOptions
from relay.outbox.span import Place
from relay.postgres.codec import id_array, storable_text
from relay.postgres.connect import Connection
from relay.postgres.errors import classify
from relay.postgres.pipeline import one_transaction
from relay.postgres.prepared import plan_next, plans_once, tags_of
from relay.postgres.sql import statement

logger = logging.getLogger(__name__)

_ENDING: Final = (0.02, 0.05, 0.1, 0.2, 0.4)
"""Seconds between looks whether a cancelled statement has ended. Rows that stay locked are another session's."""
Call = tuple[LiteralString, dict[str, Any]]
Released = Callable[[str, Place, Place], None]
"""Rows of this event type wait again, between the two places."""


class SettleStatements:
    """The four fenced statements of one relay on one table. With ``delete_delivered`` a delivery deletes its row."""

    def __init__(self, options: PostgresOptions, fan_out: Sequence[str] = ()) -> None:
        """``fan_out`` is the tag ``fan_out`` where the table has the column of that extension."""
        table = self._table = options.table
        self._relay_id = options.relay_id
        self._of_delivered = ("delete",) if options.delete_delivered else tuple(fan_out)
        self._with_names = tuple(fan_out)
        """The tag of what is not delivered, where some destinations have acknowledged it."""
        self._held = statement("outbox/lease:held", table)
        deletes = options.delete_delivered
        self._unlocked = statement("outbox/lease:unlocked", table, tags=["delete"] if deletes else ())
        instead = statement("outbox/settle:delivered", table, tags=(*fan_out, "checked"))
        self._instead_of_delete = instead if deletes else None
        """For rows that a DELETE leaves: they are set DELIVERED."""

    @staticmethod
    async def _together(connection: Connection, calls: Sequence[Call], *, keep: bool) -> list[AsyncCursor[Any]]:
        cursors = []
        async with one_transaction(connection):
            for number, call in enumerate(calls):
                if number:
                    await plan_next(connection)
                cursors.append(await connection.execute(*call, prepare=keep))
        return cursors

    async def execute(
        self, connection: Connection, settlements: Sequence[Settlement], released: Released, *, checked: bool
    ) -> list[Settled]:
        """Write all settlements in one transaction, count the rows, and find out which of the others are locked.

        Tells ``released`` where rows are that wait again. ``checked``: reads whether each row has changed.

        In pipeline mode all statements share one synchronisation point, which is one implicit transaction. A
        single statement is a transaction of its own and needs none.
        """
        tags = (*tags_of(connection), *(("checked",) if checked else ()))
        calls = [(place, kind, call) for place, one in enumerate(settlements) for kind, call in self._calls(one, tags)]
        keep = plans_once(connection)
        if len(calls) == 1:
            cursors = [await connection.execute(*calls[0][2], prepare=keep)]
        else:
            cursors = await self._together(connection, [call for _, _, call in calls], keep=keep)
        counts: list[dict[str, Any]] = [{} for _ in settlements]
        for (place, kind, _), cursor in zip(calls, cursors, strict=True):
            counts[place][kind] = await _written(cursor, released)
        written = [Settled(**count) for count in counts]
        in_transaction = connection.pgconn.transaction_status != TransactionStatus.IDLE
        is_committed = any(one.total for one in written) and not in_transaction
        try:
            return [
                await self._with_unwritten(connection, settlement, one, released, is_committed=is_committed)
                for settlement, one in zip(settlements, written, strict=True)
            ]
        except psycopg.Error as error:
            failure = classify(error, "reading what a settle has not written")
            if not is_committed or not failure.answered:
                raise
            # As a lost reply: what is committed must not be sent again as if it had been rolled back.
            raise StorageUnavailable(str(failure)) from error

    async def held_of_each(self, connection: Connection, settlements: Sequence[Settlement]) -> list[frozenset[EventId]]:
        """What each fence still holds, after a statement that was cut: until it has ended, it locks its rows."""
        held: list[frozenset[EventId]] = []
        for pause in _ENDING:
            held = [await self._ids(connection, self._held, settlement) for settlement in settlements]
            unlocked = [await self._ids(connection, self._unlocked, one) for one in settlements]
            if held == unlocked:
                break
            await asyncio.sleep(pause)
        return held

    async def _with_unwritten(
        self,
        connection: Connection,
        settlement: Settlement,
        settled: Settled,
        released: Released,
        *,
        is_committed: bool,
    ) -> Settled:
        """Add the rows that were not written although they are still held. Asked only when rows are missing.

        A row that is refused then raises only where nothing ``is_committed``: else it is kept, and tried again alone.
        """
        if settled.total == len(settlement):
            return settled
        held = await self._ids(connection, self._held, settlement)
        unlocked = await self._ids(connection, self._unlocked, settlement) if held else held
        if not unlocked:
            return settled._replace(locked=held)
        # They were unlocked meanwhile, or a trigger or rule keeps them: a second try tells the two apart.
        again = settlement.where(unlocked.__contains__)
        calls = list(self._calls(again, ["checked"]))
        if self._instead_of_delete is not None and again.delivered:
            calls.append(("delivered", (self._instead_of_delete, calls[0][1][1])))
        for kind, call in calls:
            try:
                written = await _written(await connection.execute(*call), released)
            except psycopg.Error:
                if not is_committed:
                    raise
                break
            settled = settled._replace(**{kind: getattr(settled, kind) + written})
            if written and call[0] is self._instead_of_delete:
                _say_not_deleted(again.delivered[0])
        held = await self._ids(connection, self._held, settlement)
        return settled._replace(locked=held - unlocked, kept=held & unlocked)

    async def _ids(self, connection: Connection, sql: LiteralString, settlement: Settlement) -> frozenset[EventId]:
        parameters = {"ids": id_array(settlement.event_ids()), **self._fenced(settlement)}
        cursor = await connection.execute(sql, parameters)
        return frozenset(event_id for (event_id,) in await cursor.fetchall())

    def _fenced(self, settlement: Settlement) -> dict[str, Any]:
        holder = self._relay_id if settlement.holder is None else settlement.holder
        return {"relay_id": holder, "fence": settlement.fence}

    def _calls(self, settlement: Settlement, tags: Sequence[str] = ()) -> Iterator[tuple[str, Call]]:
        """The statements that one settlement needs, always in the same order of kinds; ``tags`` of the connection."""
        if settlement.delivered:
            yield "delivered", self._call("delivered", settlement, tags, settlement.delivered)
        if settlement.retried:
            ids, errors, delays = zip(*settlement.retried, strict=True)
            texts = [storable_text(text) for text in errors]
            yield "retried", self._call("retried", settlement, tags, ids, errors=texts, delays=list(delays))
        if settlement.buried:
            ids, errors = zip(*settlement.buried, strict=True)
            texts = [storable_text(text) for text in errors]
            yield "buried", self._call("buried", settlement, tags, ids, errors=texts)
        if settlement.released:
            yield "released", self._call("released", settlement, tags, settlement.released)

    def _call(
        self, kind: str, settlement: Settlement, tags: Sequence[str], ids: Sequence[EventId], **more: list[Any]
    ) -> Call:
        values = {"ids": id_array(ids), **self._fenced(settlement), **more}
        own: Sequence[str] = self._of_delivered if kind == "delivered" else ()
        if settlement.acknowledged and kind != "delivered" and self._with_names:
            own = self._with_names
            values["acknowledged"] = json.dumps(settlement.acknowledged)
        if "delete" in own:  # what a trigger returns changes no row that is deleted
            tags = [tag for tag in tags if tag != "checked"]
        return statement(f"outbox/settle:{kind}", self._table, tags=(*own, *tags)), values


async def _written(cursor: AsyncCursor[Any], released: Released) -> int:
    """How many rows were written; where a statement returns their status, without those that are as they were."""
    if cursor.description is None:
        return cursor.rowcount
    rows = [row for *row, status in await cursor.fetchall() if status != "DELIVERING"]
    if rows and rows[0]:
        _tell(released, rows)
    return len(rows)


def _tell(released: Released, rows: Sequence[Sequence[Any]]) -> None:
    by_type: dict[str, list[Place]] = {}
    for event_type, due, created in rows:
        by_type.setdefault(event_type, []).append((due, created))
    for event_type, places in by_type.items():
        released(event_type, min(places), max(places))


def _say_not_deleted(event_id: EventId) -> None:
    logger.error(
        "ON_DELIVERED=delete does not work on this table: a trigger or a rule keeps event %s, which is set DELIVERED "
        "instead. Remove the trigger or rule for DELETE, or set ON_DELIVERED=keep and prune",
        event_id,
        extra={"action": "delete_kept", "event_id": event_id},
    )
