"""The outbox in PostgreSQL: ``relay.core.ports.OutboxStorage`` over any table that meets the contract.

The daemon (``relay.app.run``) wires it and the engine calls it. It needs SELECT on the table and UPDATE on eight of its
columns (with ON_DELIVERED=delete also DELETE, with the extension fan-out also UPDATE on its column), no other right. It
holds four connections: one claims, one settles and renews, one keeps house (reap, ping, pauses, the list of relays),
and one reads what may be slow (the backlog, the lag, looking behind the head of claims), so that none of them waits for
another. A ping that would have to wait for the housekeeping goes over a fifth one, made for it and closed after it: a
server that hangs keeps every statement waiting up to its deadline, and must be found out sooner. All times are those of
the database.

When things fail: a statement either commits or changes nothing; errors are those of the port. The commit of a claim
does not wait for the disk, every other one does. After a failover, or when a server turns read-only, every connection
is opened again from the URL.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import itemgetter
from typing import Any, LiteralString, NamedTuple

import psycopg
from psycopg.types.numeric import Int8

from relay.core.blame import kept
from relay.core.clock import steady_seconds
from relay.core.errors import SchemaError, StorageError, StorageTimeout, StorageUnavailable
from relay.core.event import Claim, EventId, Fence, OutboxEvent
from relay.core.ports import Backlog, Reaped, Renewal, Rest, Settled, Settlement
from relay.core.upkeep import Upkeep
from relay.outbox.connections import connections
from relay.outbox.extensions import pauses_of, relays_of
from relay.outbox.guard import ClaimGuard
from relay.outbox.head import BEFORE_ALL, ClaimSpan
from relay.outbox.options import PostgresOptions
from relay.outbox.ordered import OrderedClaim
from relay.outbox.paused import PausedRows
from relay.outbox.payloads import Appetite, PayloadReader, is_damage
from relay.outbox.reaping import Reaping
from relay.outbox.renewal import Renewer
from relay.outbox.settling import SettleStatements
from relay.outbox.slowreads import SlowReads
from relay.outbox.tablecheck import check_table
from relay.postgres.codec import id_array
from relay.postgres.connect import Connection, DeadlineConnection, Generation
from relay.postgres.pipeline import one_transaction
from relay.postgres.prepared import plans_once, tags_of
from relay.postgres.sql import statement
from relay.postgres.url import SECONDS_PER_HOST, connection_parameters, hosts

logger = logging.getLogger(__name__)

Cursor = psycopg.AsyncCursor[tuple[Any, ...]]
Values = Mapping[str, Any] | None

_FIELDS = len(OutboxEvent._fields)
_fields = itemgetter(slice(_FIELDS))
_event = partial(tuple.__new__, OutboxEvent)  # what _make does, without a call in Python for each row
_due = itemgetter(_FIELDS, OutboxEvent._fields.index("created_at"))
_FENCE = -1
_PAYLOAD = OutboxEvent._fields.index("payload")
_LONGEST_CLOSE = 1.0  # seconds
_MOST_STRETCHES = 16  # behind the head, looked at by one claim while it finds nothing
_KEPT_LOOK = 1.0  # seconds between two looks for rows that claims leave as they are
_ALL_AGAIN = (
    "table %s has no column acknowledged_by that this user may write: an event that one of several destinations has "
    "not acknowledged is sent to all of them again; add the column with relay-cli migrate --with fan-out, and grant "
    "the relay's user UPDATE (acknowledged_by)"
)


class Extensions(NamedTuple):
    """Which optional tables there are, by the last ping."""

    relays: bool = False
    pauses: bool = False


class PostgresOutbox:
    """The adapter. Constructing it connects to nothing; raises ConfigError for an invalid URL."""

    def __init__(self, options: PostgresOptions) -> None:
        self._options = options
        self._generation = Generation()
        self._connections = connections(options, self._generation)
        self._claiming, self._settling, self._housekeeping, self._spare, slow = self._connections
        self.watching = self._housekeeping
        """The connection for what is quick and must not wait for slow reads: pauses, the list of relays."""
        patience = min(options.ping_timeout, options.statement_timeout)
        self._ping_deadline = patience + SECONDS_PER_HOST * (hosts(connection_parameters(options.url, "")) - 1)
        self.paused = PausedRows(options.table, time.monotonic)
        """What claims leave out."""
        self.extensions = Extensions()
        self.longest_lease = 0.0
        """The longest LEASE_TIMEOUT of the other living relays, in seconds, where it is known."""
        self._ordered = OrderedClaim(options) if options.key_order else None
        self._kept_looked_at = float("-inf")  # for rows that claims leave as they are
        self._reaping = Reaping(self._housekeeping, slow, options)
        self._guard = ClaimGuard()
        self._guard_sql = self._sql("outbox/claim:guard")
        self._reads = SlowReads(slow, options, self.paused)
        self._ping = self._sql("outbox/table:ping")
        self._beside = {"relays": relays_of(options.table).quoted, "pauses": pauses_of(options.table).quoted}
        self._fan_out: tuple[str, ...] = ()
        """The tag of statements that know the column of the extension fan-out; empty without it."""
        self._settle = SettleStatements(options)
        self._appetite = Appetite(options.lease_timeout)
        self._payload_reader = PayloadReader(self._claiming, options, self._appetite)
        self._renewer = Renewer(self._settling, options)

    def _sql(self, path: str, *tags: str) -> LiteralString:
        return statement(path, self._options.table, tags=tags)

    async def open(self) -> None:
        """Connect and look at the table; SchemaError says what is wrong with it and what to do.

        Reads the pauses, too: no claim begins before they are known. Where this user may not read them it claims all.
        """

        async def check(connection: Connection) -> None:
            options = self._options
            in_order, deletes = options.key_order is not None, options.delete_delivered
            if await check_table(connection, options.table, key_order=in_order, delete_delivered=deletes):
                self._use_fan_out()
            elif options.fan_out:
                logger.warning(_ALL_AGAIN, options.table, extra={"action": "fan_out_not_recorded"})

        await self._housekeeping.run("reading the table", check)
        await self.ping()
        if self.extensions.pauses:
            with suppress(SchemaError):  # the loop that reads them says so
                await self._housekeeping.run("reading the pauses", self.paused.read)
        await self._reads.find()

    def _use_fan_out(self) -> None:
        """Read and write the column of the extension fan-out."""
        self._fan_out = ("fan_out",)
        self._settle = SettleStatements(self._options, self._fan_out)
        if self._ordered is not None:
            self._ordered.fan_out = self._fan_out

    async def close(self) -> None:
        """Close the connections, cutting off what still runs; never raises, takes a second at most."""
        closing = [asyncio.ensure_future(connection.close()) for connection in self._connections]
        _, late = await asyncio.wait(closing, timeout=_LONGEST_CLOSE)
        for task in late:
            task.cancel()

    async def claim(
        self, limit: int, max_bytes: int, excluded: Sequence[EventId] = (), without: Sequence[str] = ()
    ) -> Claim:
        """Lease up to ``limit`` due rows, oldest first, of ``max_bytes`` in sum (one larger row alone).

        Leaves those in ``excluded``, and those for the destinations in ``without``; in order per key only the former.
        """
        most_bytes = self._appetite.payload(max_bytes)
        began = steady_seconds()
        try:
            rows = await self._claim_or_name(limit, most_bytes, excluded, without)
        except StorageError as error:
            if isinstance(error, StorageTimeout):
                self._appetite.claim_failed()
            if limit == 1 and error.may_blame_row and error.event_id is None:
                error.event_id = await self._due_first(most_bytes, excluded, without)
            raise
        if not rows:
            self._guard.lift()
            return Claim(None, [], waiting=self._rows_wait)
        claim = Claim(rows[0][_FENCE], list(map(_event, map(_fields, rows))))
        if rows[0][_PAYLOAD] is None:
            claim = await self._payload_reader.complete(rows[0][_FENCE], claim.events)
        else:
            self._appetite.arrived(sum(len(event.payload) for event in claim.events), steady_seconds() - began)
        if claim.unread and not self._payload_reader.damaged:
            self._appetite.read_late(sum(len(event.payload) for event in claim.events))
        else:
            self._appetite.in_time(max_bytes)
        return claim._replace(waiting=self._rows_wait)

    async def _claim_or_name(
        self, limit: int, max_bytes: int, excluded: Sequence[EventId], without: Sequence[str]
    ) -> list[tuple[Any, ...]]:
        """As ``_claim_undamaged``; RowRefused where an empty claim left the oldest due row as it was, unlocked.

        Looked for once a second, and after each empty claim while there is such a row.
        """
        rows = await self._claim_undamaged(limit, max_bytes, excluded, without)
        now = steady_seconds()
        if rows or self.paused.everything or now < self._kept_looked_at + _KEPT_LOOK:
            return rows
        self._kept_looked_at = now
        first = await self._due_first(max_bytes, excluded, without)
        if first is None:
            return rows
        # It may be due, or unlocked, only since the claim. This one finds it due and unlocked.
        rows = await self._claim_undamaged(limit, max_bytes, excluded, without)
        if not rows and await self._due_first(max_bytes, excluded, without) == first:
            self._kept_looked_at = float("-inf")
            error = kept("claiming")
            error.event_id = first if limit == 1 else None
            raise error
        return rows

    def leave_out(self, event_types: Sequence[str], in_part: Sequence[str] = ()) -> None:
        """Leave these event types out of the claims that are sent from now on (``relay.outbox.paused``).

        Those ``in_part`` as a whole without the extension fan-out, and in order per key, where they hold up their keys.
        """
        if self._fan_out and self._ordered is None:
            self.paused.leave_out(event_types, in_part)
        else:
            self.paused.leave_out(sorted({*event_types, *in_part}))

    @property
    def _rows_wait(self) -> bool:
        return self._ordered is not None and self._ordered.waiting

    async def _claim_undamaged(
        self, limit: int, max_bytes: int, excluded: Sequence[EventId], without: Sequence[str]
    ) -> list[tuple[Any, ...]]:
        """As ``_claim_rows``; again without payloads where the database cannot read one of them."""
        try:
            return await self._claim_rows(limit, max_bytes, excluded, without)
        except StorageError as error:
            if not is_damage(error) or not self._appetite.inline_bytes:
                raise
            self._appetite.damage_met()  # the statement was rolled back; the reader finds out which row it is
        return await self._claim_rows(limit, max_bytes, excluded, without)

    async def _claim_rows(
        self, limit: int, max_bytes: int, excluded: Sequence[EventId], without: Sequence[str]
    ) -> list[tuple[Any, ...]]:
        """Rows that begin with the fields of ``OutboxEvent`` and end with the fence; oldest first, or in key order."""
        if self.paused.everything:
            return []
        self.paused.next_claim(excluded, without)
        for _ in range(_MOST_STRETCHES):
            span = self.paused.head.span()
            if not span.is_stretch:
                break
            if rows := await self._claim_span(span, limit, max_bytes, excluded, without):
                return rows
        return await self._claim_span(self.paused.head.ahead(), limit, max_bytes, excluded, without)

    async def _claim_span(
        self, span: ClaimSpan, limit: int, max_bytes: int, excluded: Sequence[EventId], without: Sequence[str]
    ) -> list[tuple[Any, ...]]:
        """One claim, from the head on or of a stretch behind it."""
        tags = (*(("excluding",) if excluded or without else ()), *self.paused.tags, *self._fan_out)
        parameters = {
            "limit": Int8(limit),
            "max_bytes": Int8(max_bytes),
            "inline_bytes": Int8(self._appetite.inline_bytes),
            "max_attempts": self._options.retry.max_attempts,
            "relay_id": self._options.relay_id,
            "excluded": id_array(excluded),
            "without": list(without),
            **self.paused.parameters(),
            **span.parameters(),
        }

        async def work(connection: Connection) -> list[tuple[Any, ...]]:
            if self._ordered is not None:
                inline = self._appetite.inline_bytes
                return await self._ordered.rows(connection, limit, max_bytes, inline, excluded, self.paused, span)
            cursor = connection.cursor(binary=True)
            query = self._sql("outbox/claim:claim", *tags, *tags_of(connection))
            await self._guarded(connection, cursor, query, parameters)
            rows = await cursor.fetchall()
            rows.sort(key=_due)
            self._claimed(span, rows)
            return rows

        return await self._claiming.run("claiming", work)

    def _claimed(self, span: ClaimSpan, rows: Sequence[tuple[Any, ...]]) -> None:
        """Tell the head what a claim without order brought."""
        if rows:
            self.paused.head.claimed(span, len(rows), _due(rows[-1]), rows[0][_FENCE].timestamp())
        else:
            self.paused.head.found_nothing(span)

    async def _due_first(self, max_bytes: int, excluded: Sequence[EventId], without: Sequence[str]) -> EventId | None:
        """The row that a claim with a limit of 1 leases."""
        span, left_out = self.paused.head.span(), {"excluded": id_array(excluded), "without": list(without)}
        parameters = {"limit": 1, **left_out, **self.paused.parameters(), **span.parameters()}
        query = self._sql("outbox/claim:first_due", *self.paused.tags)

        async def work(connection: Connection) -> list[tuple[Any, ...]]:
            if self._ordered is not None:
                return await self._ordered.rows(connection, 1, max_bytes, 0, excluded, self.paused, span, peek=True)
            cursor = connection.cursor(binary=True)
            await self._guarded(connection, cursor, query, parameters)
            return await cursor.fetchall()

        rows = await self._claiming.run("claiming", work)
        return rows[0][0] if rows else None

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """Write verdicts, fenced; all of them commit together, and durably, before this returns."""
        if not any(settlements):
            return [Settled()] * len(settlements)

        async def work(connection: Connection) -> list[Settled]:
            return await self._settle.execute(connection, settlements, self.paused.released)

        return await self._settling.run("settling", work)

    async def held(self, settlements: Sequence[Settlement]) -> list[frozenset[EventId]]:
        """Which events of each settlement are still held under its fence."""
        return await self._settling.run("reading back", partial(self._settle.held_of_each, settlements=settlements))

    async def renew(self, fence: Fence, event_ids: Sequence[EventId]) -> Renewal:
        """Prolong leases to a full lease from now; a lost reply is read back before this returns."""
        return await self._renewer.renew(fence, event_ids)

    async def reap(self, limit: int, excluded: Sequence[EventId] = ()) -> Reaped:
        """Reclaim up to ``limit`` expired leases, each as a failed attempt, and as many that were behind others."""
        return await self._reaping.reap(limit, max(self._options.lease_timeout, self.longest_lease), excluded)

    async def look(self) -> Rest:
        """Look for rows that claims have gone past (``relay.outbox.look``)."""
        return await self._reads.look()

    async def backlog(self) -> Backlog:
        """Count and age what waits (may be slow on a huge backlog)."""
        return await self._reads.backlog()

    async def oldest_due_age(self) -> float:
        """The lag alone; one index probe on any table."""
        return await self._reads.oldest_due_age()

    async def upkeep(self) -> Upkeep:
        """How far prune and vacuum are behind; an index probe or two, and the sessions of the server."""
        return await self._reads.upkeep()

    async def _guarded(
        self, connection: Connection, cursor: Cursor, query: LiteralString, values: Values = None
    ) -> None:
        """Run it; with the guard before it, in one round trip and one transaction, where it was slow without."""
        wanted = self._guard.on or not self.paused.head.walk_is_cheap  # dead entries: another index costs all of them
        guarded = wanted and not plans_once(connection)  # such a session is guarded
        stepping = bool(self.paused.tags) and self.paused.head.ahead().first == BEFORE_ALL
        began = time.monotonic()
        try:
            if guarded:
                async with one_transaction(connection):
                    await connection.execute(self._guard_sql)
                    await cursor.execute(query, values, prepare=True)
            else:
                await cursor.execute(query, values, prepare=True)
        except BaseException:  # a statement that is given up at its deadline is cancelled
            self._guard.failed(time.monotonic() - began)
            raise
        # Right after a pause a claim steps over the paused rows: that is slow for another reason than the planner.
        if not (guarded or stepping):
            self._guard.took(time.monotonic() - began)

    async def ping(self) -> None:
        """Raise unless the database answers and takes writes."""
        over = self._spare if self._housekeeping.busy else self._housekeeping
        try:
            answer = await self._one_row("pinging the database", self._ping, self._beside, over)
        finally:
            await self._spare.close()
        read_only, *beside = answer
        self.extensions = Extensions(*beside)
        if read_only:
            self._generation.advance()
            raise StorageUnavailable(
                "the server refuses writes: it is a standby, or default_transaction_read_only is on"
            )

    async def _one_row(
        self,
        doing: str,
        sql: LiteralString,
        parameters: dict[str, Any] | None = None,
        over: DeadlineConnection | None = None,
    ) -> tuple[Any, ...]:
        """The row of a statement; with ``over`` it is a ping, with a ping's deadline."""

        async def work(connection: Connection) -> tuple[Any, ...] | None:
            cursor = connection.cursor(binary=True)
            await cursor.execute(sql, parameters or {})
            return await cursor.fetchone()

        deadline = None if over is None else self._ping_deadline
        row = await (over or self._housekeeping).run(doing, work, deadline)
        if row is None:
            raise SchemaError(f"{doing}: the statement returned no row")
        return row
