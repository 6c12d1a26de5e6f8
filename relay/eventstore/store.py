"""The event store's public face: one object an application keeps while it runs.

Every method may be called from any task of the event loop it was connected in. A method that raises has changed
nothing, but for a lost connection (``StorageUnavailable``), where the outcome is unknown: read the stream to find out.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from types import TracebackType
from uuid import UUID

from relay.core.errors import ConfigError
from relay.eventstore import appending, archive, reading, schema, tenants
from relay.eventstore.announcement import Announcement, Destination, as_announcement
from relay.eventstore.database import Connection, Database
from relay.eventstore.meter import Meter, NoMeter
from relay.eventstore.model import Appended, NewEvent, StoredEvent, checked_events, checked_id, checked_version
from relay.eventstore.reading import EventFilter
from relay.eventstore.statements import DEFAULT_SCHEMA, EventStoreStatements
from relay.eventstore.subscription import Start, Subscription, SubscriptionBatch, SubscriptionOptions, SubscriptionState
from relay.eventstore.wakeup import Wakeup

Id = UUID | str


class EventStore:
    """Append-only streams of many tenants. Made by ``connect``; use it as a context manager or call ``close``."""

    def __init__(self, database: Database, statements: EventStoreStatements) -> None:
        self._database = database
        self._statements = statements
        self._wakeup = Wakeup(database, statements)

    @classmethod
    async def connect(
        cls, url: str, *, schema: str = DEFAULT_SCHEMA, tenant: Id | None = None, max_connections: int = 10
    ) -> EventStore:
        """Connect to the store in ``schema``, with up to ``max_connections`` of its own.

        ``tenant`` names the tenant of an application role under row-level security (see ``isolate_tenants``). Raises
        ``ConfigError`` for an invalid URL or schema, ``StorageUnavailable`` when there is no answer in 10 s.
        """
        statements = EventStoreStatements(schema)
        on_connect = None
        if tenant is not None:
            on_connect = statements.text("eventstore/read:be_tenant"), {"tenant": str(checked_id("tenant", tenant))}
        database = Database(url, max_connections=max_connections, on_connect=on_connect)
        await database.open()
        return cls(database, statements)

    async def close(self) -> None:
        """Stop listening and close the connections."""
        await self._wakeup.close()
        await self._database.close()

    async def __aenter__(self) -> EventStore:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def migrate(self, *, positions: schema.Positions = "gapless", notify: bool = True) -> None:
        """Make the store, or bring it up to date; repeatable. ``notify`` may be changed, ``positions`` may not."""
        await schema.migrate(self._database, self._statements, positions, notify)

    async def isolate_tenants(self, role: str) -> None:
        """Let database role ``role`` append and read, but only within the tenant of its session.

        That is the setting ``eventstore.tenant``, which ``connect(tenant=...)`` makes. The store's owner still sees
        everything. It guards against mistakes, not against an application that sends SQL of its own choosing.
        """
        await schema.isolate(self._database, self._statements, role)

    async def provision_tenant(self, tenant_id: Id) -> None:
        """Give a tenant its partition. Repeatable, and safe while others append and read."""
        await tenants.provision(self._database, self._statements, checked_id("tenant_id", tenant_id))

    async def list_tenants(self) -> list[UUID]:
        """All tenants that have a partition, in the order of their ids."""
        return await tenants.listed(self._database, self._statements)

    async def drop_tenant(self, tenant_id: Id, *, confirm: Id) -> None:
        """Destroy all of a tenant's events, for good. ``confirm`` is the id again.

        It waits for the transactions in progress and blocks none. When it is interrupted, call it again. Raises
        ``UnknownTenant``, or ``ConfigError`` where ``confirm`` differs.
        """
        await tenants.drop(self._database, self._statements, checked_id("tenant_id", tenant_id), confirm)

    async def append(
        self,
        tenant_id: Id,
        stream_id: Id,
        events: Iterable[NewEvent],
        expected_version: int,
        outbox: Announcement | Destination | None = None,
        *,
        connection: Connection | None = None,
    ) -> Appended:
        """Append to one stream, all events or none, and announce them in the same transaction.

        ``expected_version`` is the version the stream has now, ``NO_STREAM`` or ``ANY``. ``outbox`` says which events
        get a row in the outbox: a mapping from event type to destination, a function, or an ``Announcement``.
        ``connection`` is a psycopg ``AsyncConnection`` of the caller's: the append then belongs to its transaction,
        behind a savepoint, and is committed by the caller.

        Raises ``VersionConflict``, ``UnknownTenant``, ``EventError`` before anything is sent, and ``RowRefused`` for an
        event that the database refuses; nothing is written then, and nothing retried.
        """
        order = appending.Append(
            checked_id("tenant_id", tenant_id),
            checked_id("stream_id", stream_id),
            checked_version(expected_version),
            checked_events(events),
            as_announcement(outbox),
        )
        if connection is not None:
            return await appending.append_within(connection, self._statements, order)
        return await appending.append(self._database, self._statements, order)

    async def read_stream(
        self,
        tenant_id: Id,
        stream_id: Id,
        from_version: int = 1,
        to_version: int | None = None,
        limit: int | None = None,
        *,
        backward: bool = False,
    ) -> list[StoredEvent]:
        """One stream's events by version, both ends included, newest first if ``backward``; none: an empty list."""
        _check_limit(limit)
        stream = checked_id("tenant_id", tenant_id), checked_id("stream_id", stream_id)
        versions = from_version, to_version
        return await reading.read_stream(self._database, self._statements, stream, versions, limit, backward)

    async def read_all(
        self,
        after: int = 0,
        limit: int = 1000,
        tenants: Iterable[Id] | None = None,
        types: Iterable[str] | None = None,
    ) -> list[StoredEvent]:
        """The next events of all tenants after a position, in the order of positions.

        Passing the last one's position on reads every event once: one that commits later has a later position than
        all that were returned. ``None`` means all tenants or types.
        """
        _check_limit(limit)
        event_filter = _filter(tenants, types)
        return (await reading.read_page(self._database, self._statements, after, limit, event_filter)).events

    def subscribe(
        self,
        name: str,
        *,
        batch_size: int = 1000,
        tenants: Iterable[Id] | None = None,
        types: Iterable[str] | None = None,
        start: Start = "beginning",
        lease: float = 3.0,
        poll_interval: float = 1.0,
        meter: Meter | None = None,
    ) -> AsyncGenerator[SubscriptionBatch, None]:
        """New events as they come, in batches, from where the subscription of this name has got to.

        Asking for the next batch acknowledges the one before; or ``await batch.acknowledge(connection)`` does, in the
        consumer's own transaction. One instance of a name is active; another takes over when it falls silent for
        ``lease`` seconds. Notifications wake it; without them it looks every ``poll_interval`` seconds. ``start``
        counts for a name that is not known yet: ``"beginning"``, ``"end"`` or a position.

        Close it (``contextlib.aclosing``) to let another instance take over at once.
        """
        _check_limit(batch_size)
        if not name or "\x00" in name:
            raise ConfigError("name: empty or with a NUL character; name the subscription")
        if lease <= 0 or poll_interval <= 0:
            raise ConfigError(f"lease and poll_interval: {lease!r} and {poll_interval!r}; both must be above 0 seconds")
        event_filter = _filter(tenants, types)
        options = SubscriptionOptions(batch_size, event_filter, start, lease, poll_interval, meter or NoMeter())
        return Subscription(self._database, self._statements, self._wakeup, name, options).batches()

    async def list_subscriptions(self) -> list[SubscriptionState]:
        """All subscriptions by name, and how far they have got."""
        rows = await self._database.run("list subscriptions", self._statements.text("eventstore/subscriptions:list"))
        return [SubscriptionState(*row) for row in rows]

    async def reset_subscription(self, name: str, position: int = 0) -> None:
        """Let a subscription go on after ``position``, 0 being the beginning.

        Its active instance, if any, cannot acknowledge the batch in hand any more and begins there too.
        """
        values = {"name": name, "position": position}
        await self._database.run("reset subscription", self._statements.text("eventstore/subscriptions:reset"), values)

    async def delete_subscription(self, name: str) -> None:
        """Forget a subscription; nothing happens when there is none of that name."""
        await self._database.run(
            "delete subscription", self._statements.text("eventstore/subscriptions:delete"), {"name": name}
        )

    async def export_tenant(self, tenant_id: Id, path: str | Path) -> int:
        """Write all of a tenant's events to a file of JSON lines, as of one moment; returns how many there are."""
        tenant = checked_id("tenant_id", tenant_id)
        return await archive.export(self._database, self._statements, tenant, Path(path))

    async def import_tenant(self, path: str | Path, tenant_id: Id | None = None) -> tuple[UUID, int]:
        """Provision the exported tenant, or another, and add the file's events with their versions and times.

        Returns the tenant and the number of events. Nothing is announced in the outbox. Raises ``ConfigError`` for
        a file that is not whole, ``TenantBusy`` for a tenant that has events.
        """
        tenant = None if tenant_id is None else checked_id("tenant_id", tenant_id)
        return await archive.restore(self._database, self._statements, Path(path), tenant)


def _filter(tenant_ids: Iterable[Id] | None, types: Iterable[str] | None) -> EventFilter:
    if isinstance(types, str):
        raise ConfigError(f"types: {types!r} is a single string; pass a list of types")
    return EventFilter(
        None if tenant_ids is None else tuple(dict.fromkeys(checked_id("tenants", one) for one in tenant_ids)),
        None if types is None else tuple(types),
    )


def _check_limit(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise ConfigError(f"limit: {limit}; pass 1 or more")
