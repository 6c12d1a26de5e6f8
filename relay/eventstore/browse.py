"""Looks at a store for the console: tenants, streams and their events, subscriptions. Reads only, a page at a time.

Every statement has a deadline, after which it is cancelled on the server. Bodies stay JSON texts, as PostgreSQL writes
them, so that no row is beyond what Python can decode.
"""

from __future__ import annotations

from typing import Final, LiteralString, NamedTuple
from uuid import UUID

from relay.eventstore.database import Connection, Row, Values
from relay.eventstore.model import LARGEST_VERSION, MOST_PAGE_BYTES
from relay.eventstore.parking import ParkedStream
from relay.eventstore.statements import EventStoreStatements
from relay.eventstore.states import SubscriptionState, states_of
from relay.eventstore.tenants import check_tenant
from relay.postgres.codec import MOMENTS, Moment
from relay.postgres.deadline_pool import DeadlinePool
from relay.postgres.url import connection_parameters

STATEMENT_SECONDS: Final = 5.0
"""A statement that takes longer is cancelled, with StorageTimeout."""

_NAME: Final = "openoutbox-console"
_LONGEST_WAIT: Final = 10.0  # seconds for a connection that other requests use
_CONNECTIONS: Final = 2


class StoreSummary(NamedTuple):
    """A store as a whole."""

    positions: str
    """``gapless`` or ``settled``."""
    notify: bool
    newest: int
    horizon: int
    """How far a reader may read: an open transaction holds back what is above."""


class StreamSummary(NamedTuple):
    """A stream and its newest event; the columns of ``streams`` in ``sql/eventstore/browse.sql``."""

    stream_id: UUID
    version: int
    sequence_num: int
    type: str
    log_date: Moment


class ListedStreamEvent(NamedTuple):
    """One event of a stream; the columns of ``events``."""

    version: int
    sequence_num: int
    type: str
    log_date: Moment
    meta: str | None
    """JSON text; None where bodies were not read."""
    data: str | None
    """The same; also None for an event without a body."""
    data_bytes: int
    """Of the body as JSON text."""


class StoreBrowser:
    """The store of one schema. Connects on demand; every method belongs to the event loop of the first call."""

    def __init__(self, url: str, schema: str) -> None:
        """Connects to nothing yet. Raises ConfigError for an invalid URL or schema."""
        self._statements = EventStoreStatements(schema)
        self._pool = DeadlinePool(
            connection_parameters(url, _NAME),
            size=_CONNECTIONS,
            deadline=STATEMENT_SECONDS,
            longest_wait=_LONGEST_WAIT,
            adapters=MOMENTS,
            schema_hint=(
                f"run as the owner: relay-cli store grant USER console --schema {schema}, with the user of the console"
            ),
        )

    async def close(self) -> None:
        """Close every connection; never raises."""
        await self._pool.close()

    async def summary(self) -> StoreSummary | None:
        """The store as a whole; None where the schema holds none."""

        async def read(connection: Connection) -> StoreSummary | None:
            if not (await self._rows(connection, "migrate:exists"))[0][0]:
                return None
            settings = await self._rows(connection, "migrate:settings")
            [(horizon, newest, *_)] = await self._rows(connection, "read:horizon")
            positions, notify = settings[0] if settings else ("gapless", False)
            return StoreSummary(positions, notify, newest, horizon)

        return await self._pool.run("reading the event store", read)

    async def tenants(self, after: UUID | None, limit: int) -> list[UUID]:
        """Tenants in the order of their ids, those after one."""

        async def read(connection: Connection) -> list[UUID]:
            tags = () if after is None else ("after",)
            rows = await self._rows(connection, "browse:tenants", {"after": after, "limit": limit}, *tags)
            return [row[0] for row in rows]

        return await self._pool.run("listing tenants", read)

    async def streams(self, tenant_id: UUID, after: UUID | None, limit: int) -> list[StreamSummary]:
        """A tenant's streams in the order of their ids, those after one. Raises UnknownTenant."""

        async def read(connection: Connection) -> list[StreamSummary]:
            await check_tenant(connection, self._statements, tenant_id)
            tags = () if after is None else ("after",)
            values = {"tenant": tenant_id, "after": after, "limit": limit}
            rows = await self._rows(connection, "browse:streams", values, *tags)
            return [StreamSummary(*row) for row in rows]

        return await self._pool.run("listing streams", read)

    async def events(
        self, tenant_id: UUID, stream_id: UUID, before: int | None, limit: int, *, with_data: bool
    ) -> list[ListedStreamEvent]:
        """A stream's events below a version, newest first; fewer than ``limit`` where they are large.

        Raises UnknownTenant.
        """

        async def read(connection: Connection) -> list[ListedStreamEvent]:
            await check_tenant(connection, self._statements, tenant_id)
            values: Values = {
                "tenant": tenant_id,
                "stream": stream_id,
                "before": LARGEST_VERSION + 1 if before is None else before,
                "limit": limit,
                "most_bytes": MOST_PAGE_BYTES,
            }
            rows = await self._rows(connection, "browse:events", values, *(("data",) if with_data else ()))
            return [ListedStreamEvent(*row) for row in rows]

        return await self._pool.run("reading a stream", read)

    async def subscriptions(self) -> list[SubscriptionState]:
        """All subscriptions with their lag and holders, as ``EventStore.list_subscriptions``."""

        async def read(connection: Connection) -> list[SubscriptionState]:
            [(horizon, *_)] = await self._rows(connection, "read:horizon")
            return await states_of(connection, self._statements, horizon)

        return await self._pool.run("listing subscriptions", read)

    async def parked(self, subscription: str | None, limit: int) -> list[ParkedStream]:
        """The streams that one subscription has set aside, or all have, the oldest first, by the names in the table."""

        async def read(connection: Connection) -> list[ParkedStream]:
            rows = await self._rows(connection, "parking:list", {"name": subscription, "limit": limit})
            return [ParkedStream(*row) for row in rows]

        return await self._pool.run("listing parked streams", read)

    async def _rows(self, connection: Connection, name: str, values: Values | None = None, *tags: str) -> list[Row]:
        """The rows of a statement, from the binary protocol: times beyond Python's calendar are texts."""
        sql: LiteralString = self._statements.text(f"eventstore/{name}", *tags)
        async with connection.cursor(binary=True) as cursor:
            await cursor.execute(sql, values)
            return await cursor.fetchall()
