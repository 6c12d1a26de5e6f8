"""A relay's way to the scripted database: the behaviour of ``relay.outbox.storage`` without its SQL.

Three connections, each with one statement at a time and a deadline, which begins again while a reply arrives; a
statement that passes it is cancelled and its connection cut; the reply to a renewal that was lost is read back. How
much a claim asks for, and how the payloads that it left behind are read, is the work of ``relay.outbox.payloads``; what
it leaves out because of a pause is that of ``relay.outbox.left_out``, over one connection more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from relay.core.backoff import RetryPolicy
from relay.core.errors import StorageBusy, StorageError, StorageTimeout, StorageUnavailable
from relay.core.event import Claim, EventId, Fence, Status
from relay.core.places import Flow
from relay.core.storage import Backlog, Reaped, Renewal, Rest, Settled, Settlement, Upkeep
from relay.outbox.outbox_options import KeyOrder
from relay.outbox.payloads import Appetite, PayloadReader
from relay.outbox.span import BEFORE_ALL
from relay.outbox.storage import Extensions
from tests.support.doubles.memory_storage import MemoryRow
from tests.system.simulation.database import BUFFERS, Database, Statement, run, weightless
from tests.system.simulation.pauses import PausingOutbox, SimulatedPausedRows, Watching, place
from tests.system.simulation.payloads import SimulatedPayloads
from tests.system.simulation.scheduler import Process

_LONGEST_CANCEL = 1.0
_CONNECTING = 0.003
_REST = 0.25
_TIE = 2  # rows of a claim that share one place, after which claims read on in the table
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0


class _Overdue(Exception):
    pass


class _Connection:
    """One connection with a deadline for each use, as ``DeadlineConnection``."""

    def __init__(self, storage: SimulatedStorage) -> None:
        self._storage = storage
        self._lock = asyncio.Lock()
        self._connected = -1

    @property
    def busy(self) -> bool:
        return self._lock.locked()

    async def run(
        self,
        op: str,
        work: Callable[[], Any],
        *,
        size: int = 0,
        locks: Callable[[], tuple[Sequence[EventId], int]] | None = None,
        weigh: Callable[[Any], int] = weightless,
        blocked_by: Callable[[], bool] = bool,
        deadline: float | None = None,
    ) -> Any:
        storage = self._storage
        deadline = storage.deadline if deadline is None else deadline
        async with self._lock:
            if storage.closed:
                raise StorageUnavailable("closed")
            process, database = storage.process, storage.database
            answer = process.create_future()
            statement = Statement(op, storage.name, work, answer, blocked_by, size, locks, weigh)
            statement.reads = lambda: not process.frozen
            timer = process.call_later(deadline, self._expire, statement, deadline)
            try:
                if self._connected != storage.generation:
                    await self._connect()
                database.send(statement)
                return await answer
            except _Overdue:
                await self._abandon(statement)
                raise StorageTimeout(f"{op}: no answer within {deadline:g} s") from None
            except asyncio.CancelledError:
                await self._abandon(statement)
                raise
            except StorageUnavailable:
                storage.generation += 1
                self.disconnect()
                raise
            finally:
                timer.cancel()

    def _expire(self, statement: Statement, deadline: float) -> None:
        if statement.answer.done():
            return
        if self._storage.database.progresses(statement):
            self._storage.process.call_later(deadline, self._expire, statement, deadline)
        else:
            statement.answer.set_exception(_Overdue())

    async def _connect(self) -> None:
        self.disconnect()
        if self._storage.database.connect(self._storage.name):
            self._connected = self._storage.generation
        await asyncio.sleep(_CONNECTING)

    async def _abandon(self, statement: Statement) -> None:
        storage = self._storage
        storage.generation += 1
        reachable = storage.database.cancel(statement)
        self.disconnect()
        await asyncio.sleep(_CONNECTING if reachable else _LONGEST_CANCEL)

    def disconnect(self) -> None:
        if self._connected >= 0:
            self._connected = -1
            self._storage.database.disconnect(self._storage.name)


class SimulatedStorage:
    """One relay's ``OutboxStorage``."""

    memory_type = PausingOutbox

    def __init__(
        self,
        database: Database,
        process: Process,
        *,
        name: str,
        relay_id: str,
        lease: float,
        retry: RetryPolicy,
        key_order: KeyOrder | None,
        delete_delivered: bool,
        deadline: float,
        ping_deadline: float,
        pauses: bool = False,
        has_head: bool = False,
    ) -> None:
        self.database = database
        self.process = process
        self.name = name
        self.deadline = deadline
        self.generation = 0
        self.closed = False
        self.relay_id = relay_id
        self._ping_deadline = ping_deadline
        self._lease = lease
        self._key_order = key_order
        self._appetite = Appetite(lease)
        self._memory = self.memory_type(
            database.table, relay_id, lease, retry, key_order, delete_delivered=delete_delivered
        )
        self._connections = [_Connection(self) for _ in range(5)]
        self._claiming, self._settling, self._housekeeping, self._spare, self._slow = self._connections
        self.extensions = Extensions(pauses=pauses)
        self.paused = SimulatedPausedRows(database.table, database.ledger.pauses, name, process.time)
        self.watching = Watching(self._housekeeping.run)
        self._has_head = has_head
        self._rows_wait = False

    async def open(self) -> None:
        """Look at the table, and read the pauses."""
        await self._housekeeping.run("open", lambda: None)
        if self.extensions.pauses:
            await self.watching.run("reading the pauses", self.paused.read)
        if self._has_head:
            await Watching(self._slow.run).run("finding where claims begin", self.paused.find)
        else:
            self.paused.head.walk_is_cheap = True

    async def close(self) -> None:
        """Close the connections."""
        self.closed = True
        for statement in list(self.database.under_way):
            if statement.relay == self.name:
                self.database.cancel(statement)
                statement.fail(StorageUnavailable("the connection was closed meanwhile"))
        for connection in self._connections:
            connection.disconnect()

    async def claim(
        self,
        limit: int,
        max_bytes: int,
        excluded: Sequence[EventId] = (),
        without: Sequence[str] = (),
        *,
        control: bool = False,
    ) -> Claim:
        """Lease due rows."""
        if self.paused.everything:
            return Claim(None, [], waiting=self._rows_wait)
        appetite = self._appetite
        began = self.process.time()
        try:
            claim = await self._claim(limit, appetite.payload(max_bytes), excluded, without)
        except StorageTimeout:
            appetite.claim_failed()
            raise
        if claim.fence is not None and not _carries_payloads(claim):
            claim = await self._payload_reader().complete(claim.fence, claim.events)
        elif claim.events:
            appetite.arrived(_payload_bytes(claim), self.process.time() - began)
        if claim.unread:
            appetite.read_late(sum(len(event.payload) for event in claim.events))
        elif claim.events:
            appetite.in_time(max_bytes)
        self._rows_wait = claim.waiting
        return claim

    def pass_over(self, event_id: EventId) -> None:
        """Its tables refuse no row."""

    def leave_out(self, flows: Sequence[Flow], in_part: Sequence[Flow] = ()) -> None:
        """Leave these event types, or parts of them, out of claims."""
        if self.database.table.fan_out:
            self.paused.leave_out(flows, in_part)
        else:
            self.paused.leave_out(sorted({*flows, *in_part}, key=str))

    async def _claim(self, limit: int, max_bytes: int, excluded: Sequence[EventId], without: Sequence[str]) -> Claim:
        """The payloads are None where they are more than the claim is to carry."""
        most = self._appetite.inline_bytes
        memory = self._memory
        self.paused.next_claim(excluded, without)
        span = self.paused.head.span()
        memory.obey(self.paused, span)
        self.database.ledger.pauses.claim_sent(self.name)
        first, whole, oldest, last, at, tied = None, True, BEFORE_ALL, BEFORE_ALL, 0.0, None

        def locks() -> tuple[list[EventId], int]:
            rows = memory.claimable(limit, max_bytes, excluded, without)
            size = sum(len(row.payload) for row in rows)
            return [row.event_id for row in rows], size if size <= most else 0

        def work() -> Claim:
            nonlocal first, whole, oldest, last, at, tied
            first, whole = memory.looked(limit) if self._key_order is not None else (None, True)
            claim: Claim = run(memory.claim(limit, max_bytes, excluded, without))
            rows = [self.database.table.rows[event.event_id] for event in claim.events]
            oldest, last = min(map(place, rows), default=BEFORE_ALL), max(map(place, rows), default=BEFORE_ALL)
            if len(rows) >= min(limit, _TIE) and oldest == last:
                tied = str(max(row.insertion_order for row in rows))
            at = self.database.table.now.timestamp()
            if _payload_bytes(claim) > most:
                claim = claim._replace(events=[event._replace(payload=None) for event in claim.events])  # type: ignore[arg-type]
            return claim

        # What fits into the buffers is never open: not asking saves every claim a look at the table.
        claim: Claim = await self._claiming.run(
            "claim", work, size=limit, locks=locks if most > BUFFERS else None, weigh=_payload_bytes
        )
        head = self.paused.head
        if self._key_order is not None:
            head.waiting_from(span, len(claim.events), first, at, whole=whole)
        elif claim.events:
            head.claimed(span, len(claim.events), oldest, last, at, tied)
        else:
            head.found_nothing(span)
        return claim

    def _payload_reader(self) -> PayloadReader:
        def held(fence: Fence, event_ids: Iterable[EventId]) -> list[MemoryRow]:
            return [row for row in self._held(event_ids) if row.locked_at == fence]

        return SimulatedPayloads(
            self._claiming.run, held, self._lease, self._key_order, self._appetite, self.process.time
        )

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """Write verdicts."""
        # Copies: the engine must not be able to change what is on its way.
        sent = [_copy(one) for one in settlements]
        settled: list[Settled] = await self._settling.run(
            "settle",
            lambda: run(self._memory.settle(sent)),
            size=sum(len(one) for one in sent),
            blocked_by=lambda: any(self._locked(one.fence, one.event_ids()) for one in sent),
        )
        for event_id in [event_id for one in sent for event_id in one.released]:
            if row := self.database.table.rows.get(event_id):
                self.paused.released(row.event_type, place(row), place(row))
        return settled

    async def held(self, settlements: Sequence[Settlement]) -> list[frozenset[EventId]]:
        """What is not settled yet."""
        held: list[frozenset[EventId]] = await self._settling.run("held", lambda: run(self._memory.held(settlements)))
        return held

    async def renew(self, fence: Fence, event_ids: Sequence[EventId]) -> Renewal:
        """Prolong leases; a lost reply is read back."""
        sent = list(event_ids)
        if not sent:
            return Renewal(fence, frozenset())
        renewed: Renewal | None = None
        until = self.process.time() + self._lease

        def work() -> Renewal:
            nonlocal renewed
            renewed = run(self._memory.renew(fence, sent))
            assert renewed is not None
            return renewed

        try:
            renewal: Renewal = await self._settling.run(
                "renew", work, size=len(sent), blocked_by=lambda: self._locked(fence, sent)
            )
        except (StorageUnavailable, StorageBusy) as error:
            if renewed is None or not renewed.held:
                raise
            return await self._read_back(fence, renewed.fence, sent, until, error)
        return renewal

    async def _read_back(
        self, fence: Fence, renewed: Fence, ids: list[EventId], until: float, error: StorageError
    ) -> Renewal:
        def work() -> Renewal:
            held, unchanged = self._held_under(renewed, ids), self._held_under(fence, ids)
            return Renewal(renewed if held else fence, held, unchanged)

        pause = _FIRST_PAUSE
        while self.process.time() < until:
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            try:
                renewal: Renewal = await self._settling.run("read back", work)
            except (StorageUnavailable, StorageBusy) as latest:
                error = latest
            else:
                return renewal
        raise StorageError("renewing: the reply was lost, and the lease expired before it was read back") from error

    def _held_under(self, fence: Fence, event_ids: Iterable[EventId]) -> frozenset[EventId]:
        return frozenset(row.event_id for row in self._held(event_ids) if row.locked_at == fence)

    async def reap(self, limit: int, excluded: Sequence[EventId] = ()) -> Reaped:
        """Take back expired leases."""
        reaped: Reaped = await self._housekeeping.run(
            "reap", lambda: run(self._memory.reap(limit, excluded)), size=limit
        )
        return reaped

    async def look(self) -> Rest:
        """Look behind the head, seldom: histories have few rows."""
        if not self._has_head or self.paused.everything:
            return Rest(1.0, claimable=False)
        rest: Rest = await Watching(self._slow.run).run("looking", self.paused.look)
        return rest._replace(seconds=max(rest.seconds, _REST))

    async def backlog(self) -> Backlog:
        """Count what waits."""
        backlog: Backlog = await self._slow.run("stats", lambda: run(self._memory.backlog()))
        return backlog

    async def oldest_due_age(self) -> float:
        """The lag alone."""
        age: float = await self._slow.run("stats", lambda: run(self._memory.oldest_due_age()))
        return age

    async def upkeep(self) -> Upkeep:
        """The age of what prune has left."""
        upkeep: Upkeep = await self._slow.run("stats", lambda: run(self._memory.upkeep()))
        return upkeep

    async def ping(self) -> None:
        """A sign of life."""
        over = self._spare if self._housekeeping.busy else self._housekeeping
        try:
            await over.run("ping", lambda: None, deadline=self._ping_deadline)
        finally:
            self._spare.disconnect()

    def _held(self, event_ids: Iterable[EventId]) -> list[MemoryRow]:
        rows = [self.database.table.rows[one] for one in event_ids if one in self.database.table.rows]
        return [row for row in rows if row.status is Status.DELIVERING and row.locked_by == self.relay_id]

    def _locked(self, fence: Fence, event_ids: Iterable[EventId]) -> bool:
        locked = self.database.table.locked
        if not locked or not self.database.waits_for_locked_rows:
            return False
        return any(row.event_id in locked and row.locked_at == fence for row in self._held(event_ids))


def _carries_payloads(claim: Claim) -> bool:
    payload: bytes | None = claim.events[0].payload
    return payload is not None


def _payload_bytes(claim: Claim) -> int:
    return sum(len(event.payload or b"") for event in claim.events)


def _copy(one: Settlement) -> Settlement:
    verdicts = list(one.delivered), list(one.retried), list(one.buried), list(one.released)
    return Settlement(one.fence, *verdicts, dict(one.acknowledged), holder=one.holder)
