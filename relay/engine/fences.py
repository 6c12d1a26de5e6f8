"""The leases on a batch's events, and the fences that its verdicts are written under; used by ``Batch`` only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from relay.core.event import EventId, Fence
from relay.core.ports import Settlement


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on events. Times are by the relay's clock."""

    fence: Fence
    expires_at: float
    renew_at: float
    refused: bool = False
    """The database refuses to renew it for one event, which is therefore renewed alone."""

    @classmethod
    def of(cls, fence: Fence, sent_at: float, seconds: float) -> Lease:
        """A claim's or renewal's, counted from before it was sent: so it never ends later than in the database."""
        return cls(fence, sent_at + seconds, sent_at + seconds / 3)


class Leases:
    """The lease of a claim, and those of events whose renewal was written, or failed, apart from the others."""

    __slots__ = ("_apart", "own")

    def __init__(self, own: Lease) -> None:
        self.own = own
        self._apart: dict[EventId, Lease] = {}

    def of(self, event_id: EventId) -> Lease:
        """The lease of one event."""
        return self._apart.get(event_id, self.own)

    def members(self, event_ids: list[EventId]) -> list[tuple[Lease, list[EventId]]]:
        """These events by lease; one entry unless a renewal had to be written in parts. A refused event is alone."""
        if not self._apart:
            return [(self.own, event_ids)]
        by_lease: dict[tuple[Lease, EventId | None], list[EventId]] = {}
        for event_id in event_ids:
            lease = self.of(event_id)
            by_lease.setdefault((lease, event_id if lease.refused else None), []).append(event_id)
        return [(lease, members) for (lease, _), members in by_lease.items()]

    def renew_at(self, held_ids: Callable[[], list[EventId]]) -> float:
        """When the first lease of the events held must be renewed."""
        if not self._apart:
            return self.own.renew_at
        return min((lease.renew_at for lease, _ in self.members(held_ids())), default=self.own.renew_at)

    def renewed(self, lease: Lease, event_ids: Collection[EventId], held_ids: Iterable[EventId]) -> None:
        """``lease`` holds for these events; it becomes the claim's own when it is that of every event held."""
        if set(held_ids) <= set(event_ids):
            self.own = lease
            self._apart.clear()
        else:
            self._apart.update(dict.fromkeys(event_ids, lease))

    def failed(self, lease: Lease, event_ids: Iterable[EventId], again_at: float, *, refused: bool) -> None:
        """``lease`` was not renewed for these events: it stays, and is tried again at ``again_at``."""
        later = replace(lease, renew_at=again_at, refused=refused)
        if lease is self.own and not refused:
            self.own = later
        else:
            self._apart.update(dict.fromkeys(event_ids, later))

    def expired(self, event_ids: Iterable[EventId], now: float) -> list[EventId]:
        """Those of ``event_ids`` whose lease has run out by the relay's clock."""
        if not self._apart:
            return list(event_ids) if now >= self.own.expires_at else []
        return [event_id for event_id in event_ids if now >= self.of(event_id).expires_at]

    def refused_ids(self) -> list[EventId]:
        """Events that the database refuses to renew the lease of."""
        return [event_id for event_id, lease in self._apart.items() if lease.refused]

    def forget(self, event_id: EventId) -> None:
        """The lease of the event is lost."""
        self._apart.pop(event_id, None)

    def under_fences(self, settlement: Settlement) -> list[Settlement]:
        """The settlement under the present fence, or one for each of the present fences."""
        if not self._apart:
            return [replace(settlement, fence=self.own.fence)]
        by_lease: dict[Lease, set[EventId]] = {}
        for event_id in settlement.event_ids():
            by_lease.setdefault(self.of(event_id), set()).add(event_id)
        return [
            replace(settlement.where(event_ids.__contains__), fence=lease.fence)
            for lease, event_ids in by_lease.items()
        ]
