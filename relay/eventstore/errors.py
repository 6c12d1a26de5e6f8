"""The event store's own errors, besides those of every room.

    OutboxError
    └── EventStoreError
        ├── VersionConflict   the stream does not have the version that the append expected
        ├── EventIdConflict   an event with the id of a new one is in the stream, with other content
        ├── UnknownTenant     the tenant has no partition; it must be provisioned first
        ├── TenantBusy        the tenant's state refuses the call (it has events, or its drop was interrupted)
        ├── PositionsWentBack  what a reader has read is not in the store any more: it was restored, or failed over
        ├── UndecodableEvent  a stored row has a value that no Python value can represent
        ├── SubscriptionDeleted  the subscription was deleted while an instance of it ran
        └── SubscriptionLost  another instance has become the active one, or the subscription was reset

A database that does not answer raises ``StorageUnavailable``, a lost race ``StorageBusy``, a missing table
``SchemaError`` and an event that the database refuses ``RowRefused``. An invalid event raises ``EventError`` before
anything is sent. What the store's own SQLSTATEs mean is decided in ``relay.eventstore.append``.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from relay.core.errors import EventStoreError

CONFLICT_STATE: Final = "ES001"
"""What ``event_append`` raises when the stream has another version."""
POSITION_STATE: Final = "ES002"
"""What the feed's trigger raises for a position that the store did not assign, ``event_append``'s probe among them."""
ID_STATE: Final = "ES003"
"""What ``event_append_once`` raises for an id that stands for another event."""
COUNTER_STATE: Final = "ES005"
"""What the first append of a session raises where the positions have not come along with the events."""


class VersionConflict(EventStoreError):
    """The stream has changed. Nothing was written: read the stream again, then decide again."""

    def __init__(self, expected: int, actual: int) -> None:
        super().__init__(f"the stream was expected to have version {int(expected)}, but it has version {actual}")
        self.expected = expected
        self.actual = actual
        """The version the stream has; 0 when it has no event."""

    def __reduce__(self) -> tuple[type[VersionConflict], tuple[int, int]]:
        return VersionConflict, (self.expected, self.actual)


class EventIdConflict(EventStoreError):
    """An id of a new event stands for another event of the stream. Nothing was written.

    Repeat an append with exactly the events of the first one, and give each other event an id of its own.
    """


class UnknownTenant(EventStoreError):
    """The tenant has no partition."""

    def __init__(self, tenant_id: UUID) -> None:
        super().__init__(
            f"tenant {tenant_id} has no partition; provision it first: await store.provision_tenant({str(tenant_id)!r})"
            f" or relay-cli tenant provision {tenant_id}"
        )
        self.tenant_id = tenant_id

    def __reduce__(self) -> tuple[type[UnknownTenant], tuple[UUID]]:
        return UnknownTenant, (self.tenant_id,)


class TenantBusy(EventStoreError):
    """The tenant is not in the state that the call needs; the message says what to do."""


class UndecodableEvent(EventStoreError):
    """A stored row cannot become an event. Correct the row, or let a subscription set it aside."""

    def __init__(self, sequence_num: int, tenant_id: UUID, stream_id: UUID, version: int, reason: str) -> None:
        super().__init__(
            f"the event at position {sequence_num} (tenant {tenant_id}, stream {stream_id}, version {version}) cannot "
            f"be decoded: {reason}; correct its row, or subscribe with undecodable='set aside'"
        )
        self.sequence_num = sequence_num
        self.tenant_id = tenant_id
        self.stream_id = stream_id
        self.version = version
        self.reason = reason
        """Which column, and why."""

    def __reduce__(self) -> tuple[type[UndecodableEvent], tuple[int, UUID, UUID, int, str]]:
        return UndecodableEvent, (self.sequence_num, self.tenant_id, self.stream_id, self.version, self.reason)


class SubscriptionLost(EventStoreError):
    """This instance is no longer the active one: whatever depends on its checkpoint must be rolled back."""


class SubscriptionDeleted(EventStoreError):
    """The subscription was deleted while this instance of it ran. Subscribe again to create it."""
