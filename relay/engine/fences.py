"""The leases on a batch's events, and the fences that its verdicts are written under; used by ``Batch`` only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
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


class Leased(ABC):
    """The part of a batch about its leases, and about the transactions that its events are in.

    There is the lease of the claim, and those of events whose renewal was written, or failed, apart from the others.
    """

    __slots__ = ("_apart", "_own", "_pinned")
    offered: dict[EventId, OutboxEvent]

    def __init__(self, lease: Lease) -> None:
        self._own = lease
        self._apart: dict[EventId, Lease] = {}
        self._pinned: set[EventId] = set()
        """Events in a transaction, whose proof names the fence: their lease stays as it is."""

    @abstractmethod
    def held_ids(self) -> list[EventId]:
        """Every event that is not settled."""

    def _lease_of(self, event_id: EventId) -> Lease:
        return self._apart.get(event_id, self._own)

    def expires_at(self, event_id: EventId) -> float:
        """When its lease runs out by the relay's clock."""
        return self._lease_of(event_id).expires_at

    @property
    def renew_at(self) -> float:
        """When the first of its leases must be renewed; never where all are pinned."""
        if not self._apart and not self._pinned:
            return self._own.renew_at
        never = float("inf") if self._pinned else self._own.renew_at
        return min((lease.renew_at for lease, _ in self.leases()), default=never)

    def renewal_overdue(self, now: float) -> bool:
        """Whether the renewer has missed its turn: a quarter of what was left of the lease has passed since."""
        renew_at = self.renew_at
        return now >= renew_at + max(self._own.expires_at - renew_at, 0.0) / 4

    def leases(self) -> list[tuple[Lease, Sequence[EventId]]]:
        """What is held, by lease; one entry unless a renewal had to be written in parts.

        An event whose renewal the database refused is alone. Without those whose lease is pinned.
        """
        event_ids = self.held_ids()
        if self._pinned:
            event_ids = [event_id for event_id in event_ids if event_id not in self._pinned]
            if not event_ids:
                return []
        if not self._apart:
            return [(self._own, event_ids)]
        by_lease: dict[tuple[Lease, EventId | None], list[EventId]] = {}
        for event_id in event_ids:
            lease = self._lease_of(event_id)
            by_lease.setdefault((lease, event_id if lease.refused else None), []).append(event_id)
        return [(lease, members) for (lease, _), members in by_lease.items()]

    def renewed(self, lease: Lease, event_ids: Collection[EventId]) -> None:
        """These events are held under ``lease`` now; it becomes the batch's own when it is that of every event."""
        if set(self.held_ids()) <= set(event_ids):
            self._own = lease
            self._apart.clear()
        else:
            self._apart.update(dict.fromkeys(event_ids, lease))

    def renewal_failed(self, lease: Lease, event_ids: Iterable[EventId], again_at: float, *, refused: bool) -> None:
        """``lease`` stays; it is tried again at ``again_at``. ``refused``: the database refuses the only row."""
        later = replace(lease, renew_at=again_at, refused=refused)
        if lease is self._own and not refused:
            self._own = later
        else:
            self._apart.update(dict.fromkeys(event_ids, later))

    def expired(self, event_ids: Iterable[EventId], now: float) -> list[EventId]:
        """Those of ``event_ids`` whose lease has run out by the relay's clock."""
        if not self._apart:
            return list(event_ids) if now >= self._own.expires_at else []
        return [event_id for event_id in event_ids if now >= self.expires_at(event_id)]

    def expired_offered(self, now: float) -> bool:
        """Whether the lease of an event has run out that is with the publisher, and in no transaction."""
        return not self._pinned.issuperset(self.expired(self.offered, now))

    def expired_unrenewable(self, now: float) -> list[EventId]:
        """Events offered whose lease has run out because the database refused to renew it."""
        refused = [one for one, lease in self._apart.items() if lease.refused and one not in self._pinned]
        return [event_id for event_id in self.expired(refused, now) if event_id in self.offered]

    def _under_fences(self, settlement: Settlement) -> list[Settlement]:
        """The settlement under the present fence, or one for each of the present fences."""
        if not self._apart:
            return [replace(settlement, fence=self._own.fence)]
        by_lease: dict[Lease, set[EventId]] = {}
        for event_id in settlement.event_ids():
            by_lease.setdefault(self._lease_of(event_id), set()).add(event_id)
        return [
            replace(settlement.where(event_ids.__contains__), fence=lease.fence)
            for lease, event_ids in by_lease.items()
        ]

    # In a transaction (``relay.core.proofs``).

    def older(self, events: Iterable[OutboxEvent], since: float) -> Mapping[Lease, Sequence[EventId]]:
        """Of these those offered still, whose lease was sent for before ``since`` and can be renewed, by lease."""
        older: dict[Lease, list[EventId]] = {}
        for event_id in [event.event_id for event in events if event.event_id in self.offered]:
            lease = self._lease_of(event_id)
            if lease.sent_at < since and not lease.refused:
                older.setdefault(lease, []).append(event_id)
        return older

    def renew(self, older: Mapping[Lease, Sequence[EventId]]) -> None:
        """These leases are due for their renewal."""
        for lease, event_ids in older.items():
            self.renewal_failed(lease, event_ids, lease.sent_at, refused=False)

    def begin(self, events: Iterable[OutboxEvent], since: float, until: float) -> list[Begun]:
        """Those offered still, whose lease was sent for at ``since`` or later and lasts until ``until``; it is pinned.

        A pinned lease is not renewed, and its event not released, until ``end``, or for good.
        """
        by_lease: dict[Lease, list[OutboxEvent]] = {}
        for event in [event for event in events if event.event_id in self.offered]:
            lease = self._lease_of(event.event_id)
            if lease.sent_at >= since and lease.expires_at >= until:
                by_lease.setdefault(lease, []).append(event)
        begun = [Begun(lease.fence, lease.expires_at, members) for lease, members in by_lease.items()]
        self._pinned.update(event.event_id for one in begun for event in one.events)
        return begun

    def end(self, event_ids: Iterable[EventId]) -> None:
        """The transaction with these events was aborted: their leases may be renewed again."""
        self._pinned.difference_update(event_ids)
