"""The claims of one relay: due rows are leased, from the head on, behind it, and where claims have gone past rows.

``PostgresOutbox`` calls it; what it raises, the storage port raises. A statement either commits or changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, LiteralString, NamedTuple

import psycopg
from psycopg.types.numeric import Int8

from relay.core.blame import kept
from relay.core.clock import DatabaseClock, steady_seconds
from relay.core.errors import StorageError, StorageTimeout
from relay.core.event import Claim, EventId, OutboxEvent
from relay.outbox.left_out import PausedRows
from relay.outbox.ordered import OrderedClaim, leased
from relay.outbox.outbox_options import PostgresOptions
from relay.outbox.passed_rows import BEFORE_ALL_ROWS, DueRow, PassedRows
from relay.outbox.payloads import Appetite, PayloadReader, is_damage
from relay.outbox.plan_guard import ClaimGuard
from relay.outbox.span import BEFORE_ALL, EVERYWHERE, ClaimSpan
from relay.postgres.codec import fence_at, id_array
from relay.postgres.connect import Connection, DeadlineConnection
from relay.postgres.pipeline import one_transaction
from relay.postgres.prepared import plans_once, tags_of
from relay.postgres.sql import statement

Cursor = psycopg.AsyncCursor[tuple[Any, ...]]
Values = Mapping[str, Any] | None
Row = tuple[Any, ...]
Work = Callable[[Connection], Awaitable[list[Row]]]

_FIELDS = len(OutboxEvent._fields)
_fields = itemgetter(slice(_FIELDS))
_event = partial(tuple.__new__, OutboxEvent)  # what _make does, without a call in Python for each row
_due = itemgetter(_FIELDS, OutboxEvent._fields.index("created_at"))
_FENCE, _TID = -1, -2
_TIE = 20  # rows of a claim that share one place; fewer of them cost little
_LAST_PAGE = 2**32 - 2  # of any table
_TIE_PAGES = 1024  # of the table, in which a claim looks for the next rows of a tie
_PAYLOAD = OutboxEvent._fields.index("payload")
_payload = itemgetter(_PAYLOAD)
_MOST_STRETCHES = 16  # behind the head, looked at by one claim while it finds nothing
_ANY_BYTES = 1 << 62
_KEPT_LOOK = 1.0  # seconds between two looks for rows that claims leave as they are, twice as long after one in vain
_RAREST_KEPT_LOOK = 5.0  # seconds


class Wanted(NamedTuple):
    """What one claim may take."""

    limit: int
    max_bytes: int
    excluded: Sequence[EventId]
    without: Sequence[str]


class Claims:
    """One caller at a time."""

    def __init__(
        self, connection: DeadlineConnection, options: PostgresOptions, paused: PausedRows, clock: DatabaseClock
    ) -> None:
        self._claiming = connection
        self._clock = clock
        self._options = options
        self.paused = paused
        """What claims leave out."""
        self.passed = PassedRows(paused, in_order=options.key_order is not None)
        """What claims have gone past."""
        self.ordered = OrderedClaim(options) if options.key_order else None
        self.fan_out: tuple[str, ...] = ()
        """The tag of statements that know the column of the extension fan-out; empty without it."""
        self._durable = ("durable",) if options.durable_claims else ()
        self._kept_looked_at, self._kept_rest = float("-inf"), _KEPT_LOOK  # for rows that claims leave as they are
        self.guard, self._took = ClaimGuard(), float("inf")
        self._appetite = Appetite(options.lease_timeout)
        self._payload_reader = PayloadReader(connection, options, self._appetite)

    def _sql(self, path: str, *tags: str) -> LiteralString:
        return statement(path, self._options.table, tags=tags)

    def use_fan_out(self) -> None:
        """Read the column of the extension fan-out."""
        self.fan_out = ("fan_out",)
        if self.ordered is not None:
            self.ordered.fan_out = self.fan_out

    async def claim(
        self,
        limit: int,
        max_bytes: int,
        excluded: Sequence[EventId] = (),
        without: Sequence[str] = (),
        *,
        control: bool = False,
    ) -> Claim:
        """Lease up to ``limit`` due rows, oldest first, of ``max_bytes`` in sum (one larger row alone).

        Leaves those in ``excluded``, and those for the destinations in ``without``; in order per key only the former.
        A ``control`` is a row from elsewhere in the queue.
        """
        wanted = Wanted(limit, self._appetite.payload(max_bytes), excluded, without)
        began = steady_seconds()
        try:
            rows = await (self._claim_control(wanted) if control else self._claim_or_name(wanted))
        except StorageError as error:
            if isinstance(error, StorageTimeout):
                self._appetite.claim_failed()
            if limit == 1 and error.may_blame_row and error.event_id is None and not control:
                error.event_id = await self._due_first(wanted)
            raise
        refused = self.passed.errors()
        if not rows:
            self.guard.lift()
            return Claim(None, [], waiting=self._rows_wait, refused=refused, rest=self.passed.rest)
        fence = fence_at(rows[0][_FENCE])
        claim = Claim(fence, list(map(_event, map(_fields, rows))))
        if rows[0][_PAYLOAD] is None:
            claim = await self._payload_reader.complete(fence, claim.events)
        else:
            self._appetite.arrived(_bytes_of(claim.events), steady_seconds() - began)
        if claim.unread and not self._payload_reader.damaged:
            self._appetite.read_late(_bytes_of(claim.events))
        else:
            self._appetite.in_time(max_bytes)
        return await self._in_order(claim._replace(waiting=self._rows_wait, refused=refused, rest=self.passed.rest))

    async def _in_order(self, claim: Claim) -> Claim:
        """Without events behind one of their key that the claim left as it was: these are released, that is refused."""
        ordered = self.ordered
        if ordered is None or not ordered.wrote_less:
            return claim
        event_ids = [event.event_id for event in claim.events]
        try:
            behind = await self._claiming.run("claiming", partial(ordered.behind_kept, event_ids))
            refused = list(claim.refused)
            for kept_id in dict.fromkeys(behind.values()):
                error = kept("claiming")
                error.event_id = kept_id
                refused.append(error)
                await self._name(kept_id)
                self.passed.pass_over(kept_id)
        except StorageError:  # not raised: the rows are claimed, and are released once the database is back
            return claim._replace(events=[], unread=[*claim.unread, *event_ids])
        events = [event for event in claim.events if event.event_id not in behind]
        return claim._replace(events=events, unread=[*claim.unread, *behind], refused=tuple(refused))

    async def _claim_or_name(self, wanted: Wanted) -> list[Row]:
        """As ``_claim_undamaged``; RowRefused where an empty claim left the oldest due row as it was, unlocked.

        Looked for once a second, in five while the queue stays empty; after each empty claim while there is such a row.
        """
        rows = await self._claim_undamaged(partial(self._claim_rows, wanted))
        if rows or self.paused.everything or (now := steady_seconds()) < self._kept_looked_at + self._kept_rest:
            self._kept_rest = _KEPT_LOOK if rows else self._kept_rest
            return rows
        self._kept_looked_at = now
        if (first := await self._due_first(wanted)) is None:
            self._kept_rest = min(2 * self._kept_rest, _RAREST_KEPT_LOOK)
            return rows
        self._kept_rest = _KEPT_LOOK
        # It may be due or unlocked only since the claim, which may have looked at other rows: this one tries it.
        rows = await self._claim_undamaged(partial(self._claim_chosen, wanted, [first]))
        if not rows and await self._due_first(wanted) == first:
            self._kept_looked_at = float("-inf")
            error = kept("claiming")
            error.event_id = first if wanted.limit == 1 else None
            raise error
        return rows

    async def _claim_control(self, wanted: Wanted) -> list[Row]:
        """A row from elsewhere in the queue."""
        return await self.passed.control(partial(self._due_rows, wanted), partial(self._claim_chosen, wanted))

    @property
    def _rows_wait(self) -> bool:
        return self.ordered is not None and self.ordered.waiting

    async def _claim_undamaged(self, claim: Callable[[], Awaitable[list[Row]]]) -> list[Row]:
        """What ``claim`` brings; again without payloads where the database cannot read one of them."""
        try:
            return await claim()
        except StorageError as error:
            if not is_damage(error) or not self._appetite.inline_bytes:
                raise
            self._appetite.damage_met()  # the statement was rolled back; the reader finds out which row it is
        return await claim()

    async def _claim_rows(self, wanted: Wanted) -> list[Row]:
        """Rows that begin with the fields of ``OutboxEvent`` and end with the fence; oldest first, or in key order."""
        if self.paused.everything:
            return []
        self.paused.next_claim(wanted.excluded, wanted.without)
        if rows := await self.passed.claim(
            wanted.limit, partial(self._due_rows, wanted), partial(self._claim_chosen, wanted)
        ):
            return rows
        for _ in range(_MOST_STRETCHES):
            span = self.paused.head.span()
            if not span.is_stretch:
                break
            try:
                rows = await self._claim_span(span, wanted)
            except StorageError as error:
                if not self.passed.takes(span, error):
                    raise
            if rows:
                return rows
        return await self._claim_ahead(wanted)

    async def _claim_ahead(self, wanted: Wanted) -> list[Row]:
        """From the head on; where it is amid a tie of which no more is near, from the first row of that on."""
        span = self.paused.head.ahead()
        if (rows := await self._claim_span(span, wanted)) or span.tid is None:
            return rows
        return await self._claim_span(self.paused.head.ahead(), wanted)

    async def _claim_chosen(self, wanted: Wanted, event_ids: Sequence[EventId]) -> list[Row]:
        """Claim these rows, wherever they are."""
        return await self._claim_span(EVERYWHERE, wanted._replace(limit=len(event_ids)), event_ids)

    async def _claim_span(self, span: ClaimSpan, wanted: Wanted, chosen: Sequence[EventId] = ()) -> list[Row]:
        """One claim, from the head on, of a stretch behind it, or of ``chosen`` rows."""
        limit, max_bytes, excluded, without = wanted
        paused, left_out = self.paused.of_chosen() if chosen else (self.paused.tags, self.paused.parameters())
        tags = (
            *(("excluding",) if excluded or without else ()),
            *(("chosen",) if chosen else ()),
            *(("tied",) if span.tid else ()),
            *paused,
            *self.fan_out,
        )
        parameters = {**self._parameters(wanted), **left_out, "chosen": id_array(chosen)}
        parameters |= span.parameters() | _pages(span.tid)

        async def work(connection: Connection) -> list[Row]:
            if self.ordered is not None:
                inline = self._appetite.inline_bytes
                if chosen:
                    return await self.ordered.chosen(connection, chosen, max_bytes, inline, self.paused)
                rows = await self.ordered.rows(connection, limit, max_bytes, inline, excluded, self.paused, span)
                if rows:
                    self.passed.went_on(rows)
                return rows
            cursor = connection.cursor(binary=True)
            query = self._sql("outbox/claim:claim", *self._durable, *tags, *tags_of(connection))
            if chosen:
                await cursor.execute(query, parameters)
            elif span.tid:
                await cursor.execute(query, parameters, prepare=True)
            else:
                await self._guarded(connection, cursor, query, parameters)
            rows = leased(await cursor.fetchall())
            rows.sort(key=_due)
            if not chosen:
                self._claimed(span, rows, limit)
            return rows

        return await self._claiming.run("claiming", partial(self._measured, work))

    async def _measured(self, work: Work, connection: Connection) -> list[Row]:
        """Do the work of a claim; its fence says the database's time."""
        sent_at = steady_seconds()
        rows = await work(connection)
        if rows:
            self._clock.measured(rows[0][_FENCE], sent_at, steady_seconds())
        return rows

    def _parameters(self, wanted: Wanted) -> dict[str, Any]:
        return {
            "limit": Int8(wanted.limit),
            "max_bytes": Int8(wanted.max_bytes),
            "inline_bytes": Int8(self._appetite.inline_bytes),
            "max_attempts": self._options.retry.max_attempts,
            "relay_id": self._options.relay_id,
            **_left_out(wanted),
        }

    def _claimed(self, span: ClaimSpan, rows: Sequence[Row], limit: int) -> None:
        """Tell the head what a claim without order brought."""
        if rows:
            self.passed.went_on(rows)
            first, last = _due(rows[0]), _due(rows[-1])
            tied = rows[0][_TID] if len(rows) >= min(limit, _TIE) and first == last else None
            self.paused.head.claimed(span, len(rows), first, last, rows[0][_FENCE], tied)
        else:
            self.paused.head.found_nothing(span, self._took)

    async def _due_first(self, wanted: Wanted) -> EventId | None:
        """The row that a claim with a limit of 1 leases."""
        span = self.paused.head.span()
        ordered = self.ordered
        if ordered is None:
            first = await self._due_rows(wanted, span, 1, span.tid or BEFORE_ALL_ROWS)
            if first:
                self.passed.named(span, first[0])
            return first[0].event_id if first else None

        async def work(connection: Connection) -> list[Row]:
            return await ordered.rows(connection, 1, wanted.max_bytes, 0, wanted.excluded, self.paused, span, peek=True)

        rows = await self._claiming.run("claiming", work)
        if rows:
            await self._name(rows[0][0])
        return rows[0][0] if rows else None

    async def _name(self, event_id: EventId) -> None:
        """In order per key: say where the row is that a claim failed for."""
        if due := await self._due_rows(Wanted(1, 1, (), ()), EVERYWHERE, 1, chosen=[event_id]):
            self.passed.named(self.paused.head.span(), due[0])

    async def _first_of_keys(self, ordered: OrderedClaim, chosen: Sequence[EventId]) -> list[EventId]:
        """Of these rows, those that a claim may take."""

        async def peek(connection: Connection) -> list[Row]:
            return await ordered.chosen(connection, chosen, _ANY_BYTES, 0, self.paused, peek=True)

        return [row[0] for row in await self._claiming.run("claiming", peek)]

    async def _due_rows(
        self,
        wanted: Wanted,
        span: ClaimSpan,
        limit: int,
        tid: str = BEFORE_ALL_ROWS,
        *,
        chosen: Sequence[EventId] = (),
        newest: bool = False,
        types: Sequence[str] = (),
    ) -> list[DueRow]:
        """The first rows that claims may take (``relay.outbox.passed_rows.ReadDue``).

        In order per key of those ``chosen`` alone; of others all that are due.
        """
        if self.ordered is not None and chosen and not (chosen := await self._first_of_keys(self.ordered, chosen)):
            return []
        tried = chosen or types
        paused, left_out = self.paused.of_chosen() if tried else (self.paused.tags, self.paused.parameters())
        tags = (
            *(("chosen",) if chosen else ()),
            *(("newest",) if newest else ()),
            *(("of_types",) if types else ()),
            *paused,
        )
        query = self._sql("outbox/claim:first_due", *tags)
        values = {"limit": Int8(limit), "tid_from": tid, "chosen": id_array(chosen), "types": list(types)}
        values |= _left_out(wanted) | left_out

        async def work(connection: Connection) -> list[DueRow]:
            cursor = connection.cursor(binary=True)
            await self._guarded(connection, cursor, query, {**values, **span.parameters()})
            return [DueRow(*row) for row in await cursor.fetchall()]

        return await self._claiming.run("claiming", work)

    async def _guarded(
        self, connection: Connection, cursor: Cursor, query: LiteralString, values: Values = None
    ) -> None:
        """Run it; with the guard before it, in one round trip and one transaction, where it was slow without."""
        wanted = self.guard.on or not self.paused.head.walk_is_cheap  # dead entries: another index costs all of them
        guarded = (wanted or tags_of(connection)) and not plans_once(connection)  # such a session is guarded
        stepping = bool(self.paused.tags) and self.paused.head.ahead().first == BEFORE_ALL
        began = time.monotonic()
        try:
            if guarded:
                async with one_transaction(connection):
                    await connection.execute(self._sql("outbox/claim:guard", *tags_of(connection)))
                    await cursor.execute(query, values, prepare=True)
            else:
                await cursor.execute(query, values, prepare=True)
        except BaseException:  # a statement that is given up at its deadline is cancelled
            self.guard.failed(time.monotonic() - began)
            raise
        self._took = time.monotonic() - began
        # Right after a pause a claim steps over the paused rows: that is slow for another reason than the planner.
        if not (guarded or stepping):
            self.guard.took(self._took)


def _bytes_of(events: Sequence[OutboxEvent]) -> int:
    return sum(map(len, map(_payload, events)))


def _left_out(wanted: Wanted) -> dict[str, Any]:
    """Parameters of what one claim leaves out."""
    return {"excluded": id_array(wanted.excluded), "without": list(wanted.without)}


def _pages(tid: str | None) -> dict[str, str]:
    """Parameters of a claim behind a row of a tie."""
    page = int(tid[1:].partition(",")[0]) if tid else 0
    return {"tid_from": tid or BEFORE_ALL_ROWS, "tid_until": f"({min(page + _TIE_PAGES, _LAST_PAGE)},0)"}
