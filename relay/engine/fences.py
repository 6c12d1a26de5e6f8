"""The leases on a batch's events, and the fences that its verdicts are written under; used by ``Batch`` only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from relay.core.event import EventId, Fence, OutboxEvent
from relay.core.proofs import Begun
from relay.core.storage import Settlement


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on events. Times are by the relay's clock."""

    fence: Fence
    expires_at: float
    renew_at: float
    refused: bool = False
    """The database refuses to renew it for one event, which is therefore renewed alone."""
    sent_at: float = float("-inf")
    """When the claim or renewal was sent."""

    @classmethod
    def of(cls, fence: Fence, sent_at: float, seconds: float) -> Lease:
        """A claim's or renewal's, counted from before it was sent: so it never ends later than in the database."""
        return cls(fence, sent_at + seconds, sent_at + seconds / 3, sent_at=sent_at)


class Leases:
    """The lease of a claim, and those of events whose renewal was written, or failed, apart from the others."""

    __slots__ = ("_apart", "own", "pinned")

    def __init__(self, own: Lease) -> None:
        self.own = own
        self._apart: dict[EventId, Lease] = {}
        self.pinned: set[EventId] = set()
        """Events in a transaction, whose proof names the fence: their lease stays as it is."""

    def pin(self, events: Iterable[OutboxEvent], since: float, until: float) -> list[Begun]:
        """Pin the leases sent for at ``since`` or later that last until ``until``; returns these events, by lease."""
        by_lease: dict[Lease, list[OutboxEvent]] = {}
        for event in events:
            lease = self.of(event.event_id)
            if lease.sent_at >= since and lease.expires_at >= until:
                by_lease.setdefault(lease, []).append(event)
        begun = [Begun(lease.fence, lease.expires_at, members) for lease, members in by_lease.items()]
        self.pinned.update(event.event_id for one in begun for event in one.events)
        return begun

    def older(self, events: Iterable[OutboxEvent], since: float) -> dict[Lease, list[EventId]]:
        """Of these events those whose lease was sent for before ``since`` and can be renewed, by lease."""
        older: dict[Lease, list[EventId]] = {}
        for event in events:
            lease = self.of(event.event_id)
            if lease.sent_at < since and not lease.refused:
                older.setdefault(lease, []).append(event.event_id)
        return older

    def unpin(self, event_ids: Iterable[EventId]) -> None:
        """These leases may be renewed again."""
        self.pinned.difference_update(event_ids)

    def of(self, event_id: EventId) -> Lease:
        """The lease of one event."""
        return self._apart.get(event_id, self.own)

    def members(self, event_ids: Sequence[EventId]) -> list[tuple[Lease, Sequence[EventId]]]:
        """These events by lease; one entry unless a renewal had to be written in parts. A refused event is alone.

        Without those whose lease is pinned.
        """
        if self.pinned:
            event_ids = [event_id for event_id in event_ids if event_id not in self.pinned]
            if not event_ids:
                return []
        if not self._apart:
            return [(self.own, event_ids)]
        by_lease: dict[tuple[Lease, EventId | None], list[EventId]] = {}
        for event_id in event_ids:
            lease = self.of(event_id)
            by_lease.setdefault((lease, event_id if lease.refused else None), []).append(event_id)
        return [(lease, members) for (lease, _), members in by_lease.items()]

    def renew_at(self, held_ids: Callable[[], list[EventId]]) -> float:
        """When the first lease of the events held must be renewed; never where all are pinned."""
        if not self._apart and not self.pinned:
            return self.own.renew_at
        never = float("inf") if self.pinned else self.own.renew_at
        return min((lease.renew_at for lease, _ in self.members(held_ids())), default=never)

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
        return [event_id for event_id, lease in self._apart.items() if lease.refused and event_id not in self.pinned]

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


class Leased(ABC):
    """The part of a batch about its leases, and about the transactions that its events are in."""

    __slots__ = ("_leases",)

    offered: dict[EventId, OutboxEvent]

    def __init__(self, lease: Lease) -> None:
        self._leases = Leases(lease)

    @abstractmethod
    def held_ids(self) -> list[EventId]:
        """Every event that is not settled."""

    @property
    def renew_at(self) -> float:
        """When the first of its leases must be renewed."""
        return self._leases.renew_at(self.held_ids)

    def renewal_overdue(self, now: float) -> bool:
        """Whether the renewer has missed its turn: a quarter of what was left of the lease has passed since."""
        renew_at = self.renew_at
        return now >= renew_at + max(self._leases.own.expires_at - renew_at, 0.0) / 4

    def leases(self) -> list[tuple[Lease, Sequence[EventId]]]:
        """What is held, by lease; an event whose renewal the database refused is alone."""
        return self._leases.members(self.held_ids())

    def renewed(self, lease: Lease, event_ids: Collection[EventId]) -> None:
        """These events are held under ``lease`` now; it becomes the batch's own when it is that of every event."""
        self._leases.renewed(lease, event_ids, self.held_ids())

    def renewal_failed(self, lease: Lease, event_ids: Iterable[EventId], again_at: float, *, refused: bool) -> None:
        """``lease`` stays; it is tried again at ``again_at``. ``refused``: the database refuses the only row."""
        self._leases.failed(lease, event_ids, again_at, refused=refused)

    def expired(self, event_ids: Iterable[EventId], now: float) -> list[EventId]:
        """Those of ``event_ids`` whose lease has run out by the relay's clock."""
        return self._leases.expired(event_ids, now)

    def expires_at(self, event_id: EventId) -> float:
        """When its lease runs out by the relay's clock."""
        return self._leases.of(event_id).expires_at

    def expired_offered(self, now: float) -> bool:
        """Whether the lease of an event has run out that is with the publisher, and in no transaction."""
        return not self._leases.pinned.issuperset(self.expired(self.offered, now))

    def expired_unrenewable(self, now: float) -> list[EventId]:
        """Events offered whose lease has run out because the database refused to renew it."""
        expired = self.expired(self._leases.refused_ids(), now)
        return [event_id for event_id in expired if event_id in self.offered]

    # In a transaction (``relay.core.proofs``).

    def older(self, events: Iterable[OutboxEvent], since: float) -> Mapping[Lease, Sequence[EventId]]:
        """Of these those offered still, whose lease was sent for before ``since`` and can be renewed, by lease."""
        return self._leases.older([event for event in events if event.event_id in self.offered], since)

    def renew(self, older: Mapping[Lease, Sequence[EventId]]) -> None:
        """These leases are due for their renewal."""
        for lease, event_ids in older.items():
            self._leases.failed(lease, event_ids, lease.sent_at, refused=False)

    def begin(self, events: Iterable[OutboxEvent], since: float, until: float) -> list[Begun]:
        """Those offered still, whose lease was sent for at ``since`` or later and lasts until ``until``; it is pinned.

        A pinned lease is not renewed, and its event not released, until ``end``, or for good.
        """
        return self._leases.pin([event for event in events if event.event_id in self.offered], since, until)

    def end(self, event_ids: Iterable[EventId]) -> None:
        """The transaction with these events was aborted."""
        self._leases.unpin(event_ids)
