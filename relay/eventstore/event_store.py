"""The event store's public class: one object that an application keeps while it runs.

Each part implements the methods of its topic, in the module of its name:

- ``AppendPart`` in ``append.py``: ``append``
- ``ReadPart`` in ``read.py``: ``read_stream``, ``read_all``
- ``SubscriptionPart`` in ``subscriptions.py``: ``subscribe``, ``process``, and listing, resetting and deleting
  subscriptions
- ``ParkedPart`` in ``parked.py``: listing, retrying and skipping what subscriptions have set aside
- ``DeletionPart`` in ``deletion.py``: ``delete_stream``
- ``TenantPart`` in ``tenants.py``: ``provision_tenant``, ``list_tenants``, ``drop_tenant``
- ``ArchivePart`` in ``archive.py``: ``export_tenant``, ``import_tenant``
- ``SchemaPart`` in ``schema.py``: ``migrate``, ``grant``, ``isolate_tenants``

Every method may be called from any task of the event loop that it was connected in. A method that raises has changed
nothing, except after a lost connection (``StorageUnavailable``): then the outcome is unknown, and reading the stream
shows it.
"""

from __future__ import annotations

from types import TracebackType

from relay.eventstore.append import AppendPart
from relay.eventstore.archive import ArchivePart
from relay.eventstore.database import Database
from relay.eventstore.decoding import decode_body
from relay.eventstore.deletion import DeletionPart
from relay.eventstore.model import MAX_EVENT_BYTES, checked_id
from relay.eventstore.read import ReadPart
from relay.eventstore.schema import SchemaPart
from relay.eventstore.statements import DEFAULT_SCHEMA, EventStoreStatements
from relay.eventstore.store_part import Id
from relay.eventstore.subscriptions import SubscriptionPart
from relay.eventstore.tenants import TenantPart


class EventStore(AppendPart, SubscriptionPart, ReadPart, ArchivePart, DeletionPart, TenantPart, SchemaPart):
    """Append-only streams of many tenants. Created by ``connect``; use it as a context manager or call ``close``."""

    @classmethod
    async def connect(
        cls,
        url: str,
        *,
        schema: str = DEFAULT_SCHEMA,
        tenant: Id | None = None,
        max_connections: int = 10,
        max_event_bytes: int = MAX_EVENT_BYTES,
    ) -> EventStore:
        """Connect to the store in ``schema``, with up to ``max_connections`` of its own.

        ``tenant`` names the tenant of an application role under row-level security (see ``isolate_tenants``). An
        event of more than ``max_event_bytes`` is refused, before anything is sent: it would hold all writers up. Raises
        ``ConfigError`` for an invalid URL or schema, ``StorageUnavailable`` when there is no answer in 10 s.
        """
        statements = EventStoreStatements(schema)
        own_tenant = None if tenant is None else checked_id("tenant", tenant)
        on_connect = None
        if own_tenant is not None:
            on_connect = statements.text("eventstore/read:be_tenant"), {"tenant": str(own_tenant)}
        database = Database(url, max_connections=max_connections, on_connect=on_connect, decode=decode_body)
        await database.open()
        store = cls(database, statements, own_tenant)
        store._max_event_bytes = max_event_bytes
        return store

    async def close(self) -> None:
        """Stop listening and close the connections."""
        await self._wakeup.close()
        await self._renewals.close()
        await self._database.close()

    async def __aenter__(self) -> EventStore:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
