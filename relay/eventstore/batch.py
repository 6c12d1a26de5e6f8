"""A batch of a subscription: events, the checkpoint behind them, and the streams that are set aside with it.

Acknowledging stores all of that in one transaction, under the fence of the lease. A batch of a parked stream that is
retried stores how far that stream has come instead of a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from uuid import UUID

import psycopg

from relay.core.checkpoint import Checkpoint
from relay.eventstore.database import Connection, translated
from relay.eventstore.errors import UndecodableEvent
from relay.eventstore.lease import SubscriptionLease
from relay.eventstore.model import StoredEvent
from relay.eventstore.parking import HeldStream, Park, Parking


@dataclass(frozen=True, slots=True)
class BatchContent:
    """What a batch was read as."""

    events: list[StoredEvent]
    checkpoint: Checkpoint
    read_from: int
    """The stored position that acknowledging replaces."""
    faults: tuple[UndecodableEvent, ...] = ()
    replayed: bool = False
    retried: HeldStream | None = None
    """The parked stream that the events are of."""


class SubscriptionBatch:
    """Events in the order of their positions. Iterate over it; requesting the next batch acknowledges this one."""

    def __init__(self, lease: SubscriptionLease, parking: Parking, content: BatchContent) -> None:
        self._lease = lease
        self._parking = parking
        self._content = content
        self._holder = lease.holder
        self._parks: dict[tuple[UUID, UUID], Park] = {}
        self._stored: set[tuple[UUID, UUID]] = set()
        """Those that a part of the same batch has stored."""
        for fault in content.faults:
            self.park(fault, fault.reason)
        self.acknowledged = False
        """Whether the consumer has acknowledged it in a transaction of its own, which may still roll back."""
        self.is_lost = False
        """Whether the consumer has found that another instance took over."""

    @property
    def events(self) -> list[StoredEvent]:
        """Its events; those behind one that was parked since are left out of the iteration only."""
        return self._content.events

    @property
    def checkpoint(self) -> Checkpoint:
        """What acknowledging stores; a consumer that keeps its own may pass it to ``read_all``.

        Of a retried stream: the one that is stored already.
        """
        return self._content.checkpoint

    @property
    def position(self) -> int:
        """Its position."""
        return self._content.checkpoint.position

    @property
    def set_aside(self) -> tuple[UndecodableEvent, ...]:
        """The rows between its events that cannot be decoded, with which their streams are parked."""
        return self._content.faults

    @property
    def replayed(self) -> bool:
        """Whether its events were delivered before, up to a reset of the subscription."""
        return self._content.replayed

    @property
    def retried(self) -> bool:
        """Whether it holds events of one parked stream, from below the checkpoint."""
        return self._content.retried is not None

    @property
    def read_from(self) -> int:
        """The stored position that acknowledging replaces."""
        return self._content.read_from

    @property
    def changes_parking(self) -> bool:
        """Whether acknowledging writes more than the checkpoint."""
        return bool(self._parks) or self.retried

    def __iter__(self) -> Iterator[StoredEvent]:
        """The events, without those behind one that is parked meanwhile."""
        for event in self._content.events:
            park = self._parks.get((event.tenant_id, event.stream_id))
            if park is None or event.sequence_num < park.event.sequence_num:
                yield event

    def __len__(self) -> int:
        return len(self._content.events)

    def park(self, event: StoredEvent | UndecodableEvent, error: BaseException | str, tries: int = 1) -> None:
        """Set the event's stream aside at this event, with the acknowledgement of the batch.

        The event counts as not applied: roll back what was done for it. This and later events of the stream wait until
        an operator retries or skips it; all others go on. Of two events of a stream, the earlier one counts.
        """
        stream = event.tenant_id, event.stream_id
        known = self._parks.get(stream)
        if known is None or event.sequence_num < known.event.sequence_num:
            self._parks[stream] = Park.of(event, error, tries)

    async def acknowledge(self, connection: Connection) -> None:
        """Store the checkpoint in the transaction that is open on ``connection``, with the consumer's own work.

        Commit before requesting the next batch: otherwise this one is delivered again. Raises
        ``SubscriptionLost`` when another instance has taken over, or when this batch was acknowledged already, and
        ``PositionsWentBack`` when the stored position is not the one from which the batch was read: roll back.
        """
        try:
            await self.store(connection, synchronous_commit=None)
        except psycopg.Error as error:
            raise translated(error, "acknowledge a batch") from error
        self.acknowledged = True

    async def store(self, connection: Connection, *, synchronous_commit: str | None) -> None:
        """As ``acknowledge``, with the driver's errors. In a transaction, where it ``changes_parking``."""
        content = self._content
        if content.retried is None:
            await self._lease.store(connection, content.checkpoint, content.read_from, self._holder, synchronous_commit)
            parks = [park for stream, park in self._parks.items() if stream not in self._stored]
            await self._parking.park(connection, parks)
            return
        await self._lease.fence(connection, self._holder)
        last = content.events[-1] if content.events else None
        await self._parking.settle(connection, content.retried, last, next(iter(self._parks.values()), None))

    def split(self) -> Iterator[SubscriptionBatch]:
        """A batch for each event, to be acknowledged one after the other in the place of this one.

        What one of them parks, the later ones leave out.
        """
        content = self._content
        stored: dict[tuple[UUID, UUID], Park] = {}
        for part in self._parts():
            batch = SubscriptionBatch(self._lease, self._parking, part)
            batch._holder = self._holder
            batch._stored = set(stored)
            batch._parks |= stored
            yield batch
            stored |= batch._parks
            self._parks |= batch._parks  # for changes_parking
            if content.retried is not None and batch._parks:
                return

    def _parts(self) -> Iterator[BatchContent]:
        """One for each event. A row that cannot be decoded is in the part whose checkpoint passes it."""
        content, held = self._content, self._content.retried
        read_from, faults = content.read_from, content.faults
        for number, event in enumerate(content.events, 1):
            is_last = number == len(content.events)
            checkpoint = content.checkpoint if is_last or held is not None else event.checkpoint
            passed = faults if is_last else tuple(one for one in faults if one.sequence_num < event.sequence_num)
            faults = faults[len(passed) :]
            yield replace(
                content, events=[event], checkpoint=checkpoint, read_from=read_from, faults=passed, retried=held
            )
            read_from = checkpoint.position
            held = None if held is None else held._replace(position=event.sequence_num + 1)
