"""An outbox in memory whose statements fail on order: refused, lost on the way there or back, or without an answer.

It keeps a record of what truly happened to each event, which the engine's own account must agree with.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from enum import Enum
from typing import TypeVar

from relay.core.errors import StorageBusy, StorageUnavailable
from relay.core.event import Claim, EventId, Fence, Status
from relay.core.storage import Backlog, Reaped, Renewal, Settled, Settlement, Upkeep
from tests.support.doubles.memory_storage import MemoryOutbox, MemoryTable
from tests.support.virtual_time import virtual_sleep

T = TypeVar("T")

_ROUND_TRIP = 0.002
_DEADLINE = 15.0


class Fault(Enum):
    """What becomes of one statement."""

    BUSY = "40001 40P01 55P03 57014"
    """Rolled back; may be sent again."""
    AWAY = "57P01 25006 53100"
    """Not carried out, and the database cannot be used."""
    LOST_REPLY = "connection lost after the commit"
    """Carried out, but the reply is lost."""
    SILENT = "no answer, not carried out"
    SILENT_AND_DONE = "no answer, carried out"


class Truth:
    """What happened to the events of one table, whichever relay did it."""

    def __init__(self, table: MemoryTable, lease: float) -> None:
        self.table = table
        self.lease = timedelta(seconds=lease)
        self.reaped: Counter[EventId] = Counter()
        self.unheard: Counter[EventId] = Counter()
        """Claims whose reply was lost."""

    def expired(self) -> set[EventId]:
        """Whose lease has run out."""
        rows = self.table.rows.values()
        now = self.table.now
        return {row.event_id for row in rows if row.locked_at is not None and row.locked_at < now - self.lease}


class FaultyOutbox(MemoryOutbox):
    """One relay's view of the table. ``faults`` are taken one by one by the statements they name."""

    def __init__(self, truth: Truth, relay_id: str, seconds: Callable[[], float], **options: object) -> None:
        super().__init__(truth.table, relay_id, truth.lease.total_seconds(), **options)  # type: ignore[arg-type]
        self.faults: dict[str, deque[Fault]] = {}
        self.failed: Counter[str] = Counter()
        self.gone = False
        """The relay was killed: nothing of it reaches the table any more."""
        self.known: Callable[[], set[EventId]] = set
        """The events whose outcome this relay knows and has not written."""
        self._truth = truth
        self._seconds = seconds
        self._began = truth.table.now - timedelta(seconds=seconds())

    async def claim(
        self,
        limit: int,
        max_bytes: int,
        excluded: Sequence[EventId] = (),
        without: Sequence[str] = (),
        *,
        control: bool = False,
    ) -> Claim:
        def unheard(claim: Claim) -> None:
            self._truth.unheard.update(event.event_id for event in claim.events)

        claim = super().claim
        return await self._do("claim", lambda: claim(limit, max_bytes, excluded, without), unheard)

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        return await self._do("settle", lambda: super(FaultyOutbox, self).settle(settlements))

    async def held(self, settlements: Sequence[Settlement]) -> list[frozenset[EventId]]:
        return await self._do("held", lambda: super(FaultyOutbox, self).held(settlements))

    async def renew(self, fence: Fence, event_ids: Sequence[EventId]) -> Renewal:
        return await self._do("renew", lambda: super(FaultyOutbox, self).renew(fence, event_ids))

    async def reap(self, limit: int, excluded: Sequence[EventId] = ()) -> Reaped:
        return await self._do("reap", lambda: self._reap(limit, excluded))

    async def backlog(self) -> Backlog:
        return await self._do("stats", super().backlog)

    async def oldest_due_age(self) -> float:
        return await self._do("stats", super().oldest_due_age)

    async def upkeep(self) -> Upkeep:
        return await self._do("upkeep", super().upkeep)

    async def ping(self) -> None:
        await self._do("ping", super().ping)

    async def _reap(self, limit: int, excluded: Sequence[EventId]) -> Reaped:
        expired = self._truth.expired() - set(excluded)
        assert not expired & self.known(), "it takes back events whose outcome it knows"
        reaped = await super().reap(limit, excluded)
        rows = self._truth.table.rows
        self._truth.reaped.update(one for one in expired if rows[one].status is not Status.DELIVERING)
        return reaped

    async def _do(self, op: str, statement: Callable[[], object], unheard: Callable[[T], None] | None = None) -> T:
        """One statement with its fault, if one is due for it."""
        waiting = self.faults.get(op)
        fault = waiting.popleft() if waiting else None
        if fault is not None:
            self.failed[op] += 1
        await virtual_sleep(_ROUND_TRIP / 2)
        if self.gone:
            raise StorageUnavailable("killed")
        if fault is Fault.BUSY:
            raise StorageBusy("lost a race", "40001")
        if fault is Fault.AWAY:
            raise StorageUnavailable("going down", "57P01")
        if fault is Fault.SILENT:
            await virtual_sleep(_DEADLINE)
            raise StorageUnavailable("no answer")
        self._truth.table.now = max(self._truth.table.now, self._began + timedelta(seconds=self._seconds()))
        result: T = await statement()  # type: ignore[misc]
        if fault is not None:
            if unheard is not None:
                unheard(result)
            await virtual_sleep(_DEADLINE if fault is Fault.SILENT_AND_DONE else 0)
            raise StorageUnavailable("connection lost")
        await virtual_sleep(_ROUND_TRIP / 2)
        return result
