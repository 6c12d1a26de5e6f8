"""The multi-tenant event store: append-only streams in PostgreSQL, one partition a tenant, joined to the outbox.

from relay.eventstore import NO_STREAM, EventStore, NewEvent

async with await EventStore.connect(url, schema="bank") as store:
    await store.migrate(positions="gapless", notify=True)
    await store.provision_tenant(tenant_id)
    await store.append(tenant_id, stream_id, [NewEvent("AccountOpened", {"owner": "Ada"})], NO_STREAM,
                       outbox={"AccountOpened": "bank.accounts"})

``event_store`` is the public class, made of parts: ``append``, ``read``, ``subscriptions``, ``tenants``, ``archive``,
``deletion``, ``schema`` (``migration_list``), over the connections of ``database`` with their deadlines. ``model`` has
what goes in and out, and its bounds; ``errors`` also the store's own SQLSTATEs.

``announcement`` makes outbox rows of events, ``notifying`` notifies after a commit, ``wakeup`` listens. Positions are
assigned in SQL (``sql/eventstore/positions_gapless.sql``, ``positions_settled.sql``); a page of all tenants is read
from their ``partitions``, and ``decoding`` turns rows into events. ``browse`` and ``states`` are for operators.

``subscriptions`` has the options and defaults of a ``subscription``, which reads each ``batch`` under a ``lease``
(``renewal``), as one instance or as a part of ``groups``; ``process`` calls a handler, and sets failing streams aside
(``parking``; ``parked`` is the operator's side). ``checkpoints`` finds out whether a position is still of this store.
"""

from relay.core.backoff import RetryPolicy
from relay.core.checkpoint import Checkpoint
from relay.core.errors import EventStoreError, PositionsWentBack
from relay.eventstore.announcement import Announcement
from relay.eventstore.append import append_sync
from relay.eventstore.batch import SubscriptionBatch
from relay.eventstore.errors import (
    EventIdConflict,
    SubscriptionDeleted,
    SubscriptionLost,
    TenantBusy,
    UndecodableEvent,
    UnknownTenant,
    VersionConflict,
)
from relay.eventstore.event_store import EventStore
from relay.eventstore.meter import Meter
from relay.eventstore.model import ANY, NO_STREAM, Appended, Expected, NewEvent, StoredEvent
from relay.eventstore.parking import ParkedStream
from relay.eventstore.read import EventsRead
from relay.eventstore.schema import StoreMigration
from relay.eventstore.states import SubscriptionState

__all__ = [
    "ANY",
    "NO_STREAM",
    "Announcement",
    "Appended",
    "Checkpoint",
    "EventIdConflict",
    "EventStore",
    "EventStoreError",
    "EventsRead",
    "Expected",
    "Meter",
    "NewEvent",
    "ParkedStream",
    "PositionsWentBack",
    "RetryPolicy",
    "StoreMigration",
    "StoredEvent",
    "SubscriptionBatch",
    "SubscriptionDeleted",
    "SubscriptionLost",
    "SubscriptionState",
    "TenantBusy",
    "UndecodableEvent",
    "UnknownTenant",
    "VersionConflict",
    "append_sync",
]
