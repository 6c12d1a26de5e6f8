"""The outbox in memory for who asks about expired leases before they are reclaimed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from relay.core.event import EventId, Fence, Status
from relay.core.proofs import ExpiredLeases, LeasedRow
from relay.core.storage import Reaped
from tests.support.doubles.memory_storage import MemoryOutbox


class AskedMemoryOutbox(MemoryOutbox):
    """``relay.core.proofs.AskedStorage``, too."""

    shown: frozenset[EventId] = frozenset()
    """Rows that this round over the expired leases has shown."""

    async def expired(self, limit: int, excluded: Sequence[EventId] = (), *, first: bool) -> ExpiredLeases:
        """Expired leases, oldest first."""
        now = self._statement()
        left_out = {*excluded, *(() if first else self.shown)}
        rows = [row for row in self._in(Status.DELIVERING) if row.locked_at and row.locked_at < now - self._lease]
        rows = sorted((row for row in rows if row.event_id not in left_out), key=lambda row: row.locked_at or now)
        leased = [LeasedRow(row.locked_by or "", Fence(row.locked_at or now), row.event_id) for row in rows[:limit]]
        self.shown = frozenset({*left_out, *(row.event_id for row in leased)})
        return ExpiredLeases(leased, now if leased else None)

    async def own_leases(self) -> list[LeasedRow]:
        """What is held under this relay's id."""
        own = [row for row in self._in(Status.DELIVERING) if row.locked_by == self._relay_id and row.locked_at]
        return [LeasedRow(self._relay_id, Fence(row.locked_at), row.event_id) for row in own if row.locked_at]

    async def reap_exactly(
        self, rows: Sequence[LeasedRow], acknowledged: Mapping[EventId, str], *, former: bool = False
    ) -> Reaped:
        """Take back these leases."""
        now = self._statement()
        held = {row.event_id: (row.holder, row.fence) for row in rows}
        free = filter(self._is_free, self._in(Status.DELIVERING))
        chosen = [row for row in free if held.get(row.event_id) == (row.locked_by or "", row.locked_at)]
        with self.table.statement(chosen):
            for row in chosen:
                if self.table.fan_out and row.event_id in acknowledged:
                    row.acknowledged_by = ",".join(filter(None, (row.acknowledged_by, acknowledged[row.event_id])))
            return self._take_back(chosen, now)
