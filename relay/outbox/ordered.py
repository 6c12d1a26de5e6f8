"""Claims in order per key, whatever waits: the two statements that make them, and which of them is sent.

Rows that may not be claimed yet are behind others of their key: in flight, backing off, dead and holding it. A claim
looks at the oldest due rows. Where all of those are behind others (one key with a long backlog is enough), the next
one goes from key to key instead, each of which costs a single probe however many rows it has, and takes rows without
a key by an index of their own. The keys are walked round and round, each relay from a place of its own, so that none
is passed over. Neither way costs more when more is waiting.

Beside a held horizon going from key to key reads the dead entries of all these keys. Where that took long it rests, so
that it has a twentieth of the time, and claims look at more of the oldest due rows meanwhile.

A key is held by one claim at a time, until all its events of that claim are settled. So where few keys wait, a claim
takes long runs of a few of them, and leaves the others to the claims beside it: ``RunLength`` finds out how long.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from operator import itemgetter
from typing import Any, Final, LiteralString

from psycopg.errors import QueryCanceled
from psycopg.types.numeric import Int8

from openoutbox.schema import index_name
from relay.core.event import EventId
from relay.outbox.floors import MOST_KEYS, KeyFloors, Snapshot
from relay.outbox.left_out import PausedRows
from relay.outbox.outbox_options import KeyOrder, PostgresOptions
from relay.outbox.span import ClaimSpan, Place
from relay.postgres.codec import id_array
from relay.postgres.connect import Connection
from relay.postgres.pipeline import one_transaction
from relay.postgres.prepared import plans_once, tags_of
from relay.postgres.sql import TableName, statement

LONGEST_RUN: Final = 100
"""Most rows behind the first one of a key in one claim."""

_SMALLEST: Final = 200  # due rows looked at in any case
_WIDEST: Final = 4  # and for each one wanted, where fewer do not give enough that may be claimed
_WIDEST_RESTING: Final = 32  # the same, while going from key to key rests
_LONG_WALK: Final = 0.05  # seconds from which on going from key to key rests
_REST: Final = 19  # times as long as that took
_KEYS: Final = 1000  # keys looked at by one statement; a few milliseconds
_WALKS: Final = 10  # such statements in one claim, while nothing is found
_GROUND: Final = 8.0  # seconds that a claim may wait for the ground
_FIRST_HASH: Final = -(2**63)
_last: Final = itemgetter(-1)
_LAST_HASH: Final = 2**63 - 1
_KEY: Final = 2  # its place in a claimed row

Row = tuple[Any, ...]


class RunLength:
    """How many rows of each key a claim is to take: more where keys are scarce, fewer where runs are short.

    A claim that came back short although more rows waited than it looked at met keys that other claims hold: the next
    ones take twice as many rows of half as many keys. One that came back short with as many keys as it was to take met
    runs that are shorter: the next one takes more keys.
    """

    def __init__(self, longest: int) -> None:
        """``longest`` is the most rows behind the first one."""
        self._longest = longest + 1
        self._wanted = 1
        self._brought = True
        """Whether the last claim brought rows. Several in a row that bring none say no more than the first of them."""

    def firsts(self, limit: int) -> int:
        """Most keys of a claim of that many rows."""
        return -(-limit // self._wanted)

    def adapt(self, limit: int, keys: int, rows: int, *, more_wait: bool) -> bool:
        """Learn from a claim; returns whether it was short of keys that it left behind, so that the next may follow."""
        left_behind = 0 < rows < limit and keys == self.firsts(limit)
        if left_behind:
            self._wanted = max(self._wanted // 2, 1)
        elif rows < limit and more_wait and self._brought:
            self._wanted = min(self._wanted * 2, self._longest)
        self._brought = rows > 0
        return left_behind


class OrderedClaim:
    """The claim of one relay. Not to be called again before a call has ended."""

    def __init__(self, options: PostgresOptions, longest_run: int = LONGEST_RUN) -> None:
        self._table = options.table
        self._durable = ("durable",) if options.durable_claims else ()
        self._fixed = {
            "relay_id": options.relay_id,
            "block": options.key_order is KeyOrder.BLOCK,
            "run": longest_run,
            "max_attempts": options.retry.max_attempts,
        }
        self._run = RunLength(longest_run)
        self._floors = KeyFloors()
        self._keys = statement("outbox/floors:keys", options.table)
        self._kept = statement("outbox/claim_ordered:kept", options.table)
        self._ground_bounds = statement("outbox/floors:ground_bounds")
        self._ground = statement("outbox/floors:ground", options.table)
        self._again = TableName(index_name(options.table, "order_again"), options.table.schema).quoted
        self.waiting = False
        """Whether the last call saw more due rows than it claimed."""
        self.wrote_less = False
        """Whether the last call left rows that it chose as they were."""
        self.fan_out: tuple[str, ...] = ()
        """The tag ``fan_out`` where the table has the column of that extension."""
        self._width = 1
        self._walks_next = False
        self._walk_from = float("-inf")
        """When going from key to key has rested."""
        self._from = random.randrange(_FIRST_HASH, _LAST_HASH)

    async def rows(
        self,
        connection: Connection,
        limit: int,
        max_bytes: int,
        inline_bytes: int,
        excluded: Sequence[EventId],
        paused: PausedRows,
        span: ClaimSpan,
        *,
        peek: bool = False,
    ) -> list[Row]:
        """Claim up to ``limit`` rows: fields of ``OutboxEvent``, then the fence; the rows of a key are in order.

        What is in ``excluded`` or ``paused``, and what is behind it in its key, is left out. With ``peek`` nothing is
        claimed. Tells the head what it saw of ``span``; in a stretch behind the head it looks at a window once.
        """
        bounds: dict[str, Any] = {"limit": Int8(limit), "max_bytes": Int8(max_bytes)}
        bounds |= {"inline_bytes": Int8(inline_bytes), "firsts": Int8(self._run.firsts(limit))}
        bounds["excluded"] = id_array(excluded)
        bounds |= paused.parameters() | span.parameters()
        left_out = [*self._durable, *(["excluding"] if excluded else [])]
        tags = (*left_out, *(["peek"] if peek else []), *self.fan_out, *paused.tags, *tags_of(connection))
        if span.is_stretch or not self._may_walk:
            window = max(limit * self._width, _SMALLEST * max(self._width - _WIDEST, 1))
            dear = not paused.head.walk_is_cheap
            bounds["window"] = Int8(window)
            exact = peek or limit == 1
            batch, seen, first_due, at = await self._oldest(connection, bounds, tags, floors=dear, exact=exact)
            if not peek:
                first = None if first_due is None else (first_due, float("-inf"))
                paused.head.waiting_from(span, len(batch), first, at, whole=seen < window)
            if span.is_stretch or (dear and self._floors.missed):
                self.waiting = True  # what is ahead was not looked at, or not all keys
                return batch
            self._adapt(limit, batch, seen, window)
            if batch:
                return batch
        return await self._walk(connection, bounds, tags, paused.head.refused) if self._may_walk else []

    @property
    def _may_walk(self) -> bool:
        return self._walks_next and time.monotonic() >= self._walk_from

    async def chosen(
        self,
        connection: Connection,
        chosen: Sequence[EventId],
        max_bytes: int,
        inline_bytes: int,
        paused: PausedRows,
        *,
        peek: bool = False,
    ) -> list[Row]:
        """As ``rows``, of these rows those that are the first of their keys, wherever they are."""
        most = Int8(len(chosen))
        bounds: dict[str, Any] = {"limit": most, "firsts": most, "window": most, "run": 0, "chosen": id_array(chosen)}
        bounds |= {"max_bytes": Int8(max_bytes), "inline_bytes": Int8(inline_bytes)} | paused.parameters()
        tags = (*self._durable, *(["peek"] if peek else []), *self.fan_out, *paused.tags, *tags_of(connection))
        rows = await self._execute(connection, _bare(self._table, "oldest", "chosen", *tags), bounds)
        return self._taken(rows, 4, tags)

    async def _oldest(
        self, connection: Connection, bounds: dict[str, Any], tags: Sequence[str], *, floors: bool, exact: bool
    ) -> tuple[list[Row], int, float | None, float]:
        """What the oldest due rows give, how many there are, when the first was due, and the time.

        With ``floors`` the finished events of the keys are stepped over; unless ``exact``, those of keys that the claim
        before has seen, and of others only if these give nothing.
        """
        known = await self._floors_of_window(connection, bounds, exact=exact) if floors else None
        if known is None:
            self._floors.saw(())
            rows = await self._execute(connection, _bare(self._table, "oldest", *tags), bounds)
            return self._taken(rows, 4, tags), *rows[0][1:4]
        rows = await self._above(connection, bounds, tags, known)
        if not rows[0][0] and self._floors.missed:
            rows = await self._above(connection, bounds, tags, self._floors.of(self._floors.window))
        return self._taken(rows, 9, tags), *rows[0][1:4]

    async def _above(
        self, connection: Connection, bounds: dict[str, Any], tags: Sequence[str], known: str
    ) -> list[Row]:
        oldest = _bare(self._table, "oldest", "floors", *tags)
        try:
            rows = await self._execute(connection, oldest, {**bounds, "floors": known})
        except BaseException:  # too slow, perhaps: the next one looks at fewer keys without a floor
            self._floors.failed()
            raise
        self._floors.worked()
        *snapshot, hashes = rows[0][4:7]
        self._floors.learn((row[7:9] for row in rows if row[7] is not None), Snapshot(*snapshot))
        self._floors.saw(hashes or ())
        return rows

    async def _floors_of_window(self, connection: Connection, bounds: dict[str, Any], *, exact: bool) -> str | None:
        """The floors of the keys in the window; None where the table has no index for what is below them."""
        if not self._floors.usable_over(connection):
            return None
        if not exact and not self._floors.to_be_asked:
            return self._floors.of(self._floors.window)
        [(usable, hashes, highest, *snapshot)] = await self._execute(
            connection, self._keys, {**bounds, "again": self._again}
        )
        self._floors.index_is_there = usable
        if not usable:
            return None
        if self._floors.wants_ground(highest, Snapshot(*snapshot)):
            await self._look_for_ground(connection)
        return self._floors.of(hashes or ())

    async def _look_for_ground(self, connection: Connection) -> None:
        """Where it takes too long, the claims of each key find its floor."""
        cursor = connection.cursor(binary=True)
        with suppress(QueryCanceled):
            async with one_transaction(connection):
                await connection.execute(self._ground_bounds, {"timeout": str(round(_GROUND * 1000))})
                await cursor.execute(self._ground, {"most": Int8(MOST_KEYS + 1)})
            self._floors.stand_on(await cursor.fetchall())

    def _taken(self, rows: list[Row], front: int, tags: Sequence[str]) -> list[Row]:
        """The rows as an unordered claim returns them, without the first columns; a claim of none has one, of NULLs."""
        taken = [] if rows[0][front] is None else [row[front:] for row in rows]
        if "peek" not in tags:
            taken = leased(taken)
        self.wrote_less = len(taken) < rows[0][0]
        return taken

    async def behind_kept(self, event_ids: Sequence[EventId], connection: Connection) -> dict[EventId, EventId]:
        """Of claimed rows those behind one of their key that waits still, and that one."""
        return dict(await self._execute(connection, self._kept, {"event_ids": id_array(event_ids)}))

    def _adapt(self, limit: int, batch: list[Row], seen: int, window: int) -> None:
        """Learn from a claim from the head on how many keys and rows the next one looks at, and where."""
        self.waiting = seen > len(batch)
        left_behind = self._run.adapt(limit, _keys(batch), len(batch), more_wait=seen == window)
        self._walks_next = seen == window and len(batch) < limit and not left_behind
        if self._walks_next and not self._may_walk:
            self._width = min(self._width * 2, _WIDEST_RESTING)
        elif len(batch) == limit or not batch:  # where nothing may be claimed, looking further is for the walk
            self._width = max(self._width // 2, 1)
        elif self._walks_next:
            self._width = min(self._width * 2, _WIDEST)

    async def _walk(
        self, connection: Connection, bounds: dict[str, Any], tags: Sequence[str], passed: tuple[Place, Place] | None
    ) -> list[Row]:
        """Go from key to key until something is claimed, once around at most; not to what claims have gone past."""
        began = time.monotonic()
        try:
            return await self._walked(connection, bounds, tags, passed)
        finally:
            ended = time.monotonic()
            if (took := ended - began) > _LONG_WALK:
                self._walk_from = ended + took * _REST

    async def _walked(
        self, connection: Connection, bounds: dict[str, Any], tags: Sequence[str], passed: tuple[Place, Place] | None
    ) -> list[Row]:
        if passed is not None:
            tags = (*tags, "passed")
            bounds["passed_due"], bounds["passed_created"] = passed[1]
        by_key = _bare(self._table, "by_key", *tags)
        self._walks_next = False
        wrapped = False
        for _ in range(_WALKS):
            rows = await self._execute(connection, by_key, {**bounds, "keys": _KEYS, "from": Int8(self._from)})
            at_the_end, last = rows[0][1:3]
            at_the_end = at_the_end or last == _LAST_HASH
            self._from = _FIRST_HASH if at_the_end else last + 1
            if batch := self._taken(rows, 3, tags):
                return batch
            if at_the_end and wrapped:
                break
            wrapped = wrapped or at_the_end
        return []

    async def _execute(self, connection: Connection, sql: LiteralString, parameters: dict[str, Any]) -> list[Row]:
        cursor = connection.cursor(binary=True)
        values = {**self._fixed, **parameters}
        if plans_once(connection):  # such a session is guarded
            await cursor.execute(sql, values, prepare=True)
            return await cursor.fetchall()
        async with one_transaction(connection):
            await connection.execute(statement("outbox/claim:guard", tags=tags_of(connection)))
            await cursor.execute(sql, values, prepare=True)
        # Not inside the pipeline: there the rows come before the Sync is sent,
        # and until it is, the transaction stays open and keeps its locks.
        return await cursor.fetchall()


def leased(rows: list[Row]) -> list[Row]:
    """Without rows that a BEFORE trigger returned as they were: they count as written, and have no fence."""
    return [row for row in rows if row[-1] is not None] if None in map(_last, rows) else rows


@cache
def _bare(table: TableName, *tags: str) -> LiteralString:
    """The statement without comments and indentation: psycopg remembers what it has parsed up to 4,096 characters."""
    lines: list[LiteralString] = [
        line.strip() for line in statement("outbox/claim_ordered:ordered", table, tags=tags).splitlines()
    ]
    return "\n".join(line for line in lines if not line.startswith("--"))


def _keys(batch: list[Row]) -> int:
    """How many first rows a claim has: keys, and rows without one."""
    keys = [row[_KEY] for row in batch]
    return len({key for key in keys if key is not None}) + keys.count(None)
