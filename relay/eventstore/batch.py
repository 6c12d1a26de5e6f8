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
from relay.eventstore.parking import Held, Park, Parking


@dataclass(frozen=True, slots=True)
class BatchContent:
    """What a batch was read as."""

    events: list[StoredEvent]
    checkpoint: Checkpoint
    read_from: int
    """The stored position that acknowledging replaces."""
    faults: tuple[UndecodableEvent, ...] = ()
    replayed: bool = False
    retried: Held | None = None
    """The parked stream that the events are of."""


class SubscriptionBatch:
    """Events in the order of their positions. Iterate over it; requesting the next batch acknowledges this one."""

    def __init__(self, lease: SubscriptionLease, parking: Parking, content: BatchContent) -> None:
        self._lease = lease
        self._parking = parking
        self._content = content
        self._holder = lease.holder
        self._parks: dict[tuple[UUID, UUID], Park] = {}
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
        an operator retries or skips it; all others go on.
        """
        self._parks.setdefault((event.tenant_id, event.stream_id), Park.of(event, error, tries))

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
            await self._parking.park(connection, list(self._parks.values()))
            return
        await self._lease.fence(connection, self._holder)
        last = content.events[-1] if content.events else None
        await self._parking.settle(connection, content.retried, last, next(iter(self._parks.values()), None))

    def split(self) -> Iterator[SubscriptionBatch]:
        """A batch for each event, to be acknowledged one after the other in the place of this one.

        What one of them parks, the later ones leave out.
        """
        content = self._content
        read_from, held = content.read_from, content.retried
        for number, event in enumerate(content.events, 1):
            is_last = number == len(content.events)
            checkpoint = content.checkpoint if is_last or held is not None else event.checkpoint
            # Rows that cannot be decoded are parked before the checkpoint can pass them.
            has_faults = is_last if held is not None else number == 1
            part = replace(
                content,
                events=[event],
                checkpoint=checkpoint,
                read_from=read_from,
                faults=content.faults if has_faults else (),
                retried=held,
            )
            batch = SubscriptionBatch(self._lease, self._parking, part)
            batch._holder = self._holder
            known = set(batch._parks)
            batch._parks |= {stream: park for stream, park in self._parks.items() if stream not in known}
            yield batch
            self._parks |= batch._parks
            read_from = checkpoint.position
            if held is not None:
                if batch._parks:
                    return
                held = held._replace(position=event.sequence_num + 1)
