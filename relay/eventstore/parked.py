"""The streams that subscriptions have set aside, for an operator: list, retry, skip."""

from __future__ import annotations

from uuid import UUID

from relay.core.errors import ConfigError
from relay.eventstore.model import checked_id
from relay.eventstore.parking import ParkedStream
from relay.eventstore.statements import EventStoreStatements
from relay.eventstore.store_part import Id, StorePart
from relay.postgres.connect import SyncConnection
from relay.postgres.operating import fetch


class ParkedPart(StorePart):
    """Operating what subscriptions have set aside."""

    async def list_parked(self, name: str | None = None) -> list[ParkedStream]:
        """The streams that a subscription has set aside, or all have, each with its error, the oldest first."""
        listing = self._statements.text("eventstore/parking:list")
        stored = None if name is None else self._stored_name(name)
        rows = await self._database.rows("list parked streams", listing, {"name": stored, "limit": None})
        prefix = self._stored_name("")
        return [ParkedStream(row[0].removeprefix(prefix), *row[1:]) for row in rows]

    async def retry_parked(self, name: str, tenant_id: Id | None = None, stream_id: Id | None = None) -> int:
        """Let the active instance retry one parked stream of a subscription, or all of them; returns how many.

        Raises ``ConfigError`` where there is no such parked stream.
        """
        if (tenant_id is None) != (stream_id is None):
            raise ConfigError("tenant_id and stream_id: pass both, or none to retry all parked streams")
        tenant = None if tenant_id is None else checked_id("tenant_id", tenant_id)
        stream = None if stream_id is None else checked_id("stream_id", stream_id)
        values = {"name": self._stored_name(name), "tenant": tenant, "stream": stream}
        retry = self._statements.text("eventstore/parking:retry")
        count = len(await self._database.rows("retry parked streams", retry, values))
        if not count and stream is not None:
            raise ConfigError(f"subscription {name!r} has not parked stream {stream} of tenant {tenant}")
        return count

    async def skip_parked(self, name: str, tenant_id: Id, stream_id: Id) -> None:
        """Give up the event at which a stream is parked: the active instance goes on with the next one of the stream.

        Raises ``ConfigError`` where there is no such parked stream, or where it is retried now.
        """
        tenant, stream = checked_id("tenant_id", tenant_id), checked_id("stream_id", stream_id)
        values = {"name": self._stored_name(name), "tenant": tenant, "stream": stream}
        skip = self._statements.text("eventstore/parking:skip")
        if not await self._database.rows("skip a parked event", skip, values):
            raise ConfigError(
                f"subscription {name!r} has not parked stream {stream} of tenant {tenant}, or retries it now; "
                "list_parked() says which"
            )

    def _stored_name(self, name: str) -> str:
        """The name in the table: a store of one tenant has names of its own, which row-level security tells apart."""
        return name if self._tenant is None else f"{self._tenant}/{name}"


def retry_within(connection: SyncConnection, schema: str, name: str, stream: tuple[UUID, UUID] | None) -> int:
    """Let one parked stream be retried, by tenant and stream, or all of a subscription; how many.

    In the caller's transaction, with ``name`` as in the table.
    """
    tenant_id, stream_id = stream or (None, None)
    values = {"name": name, "tenant": tenant_id, "stream": stream_id}
    return len(fetch(connection, EventStoreStatements(schema).text("eventstore/parking:retry"), values))


def skip_within(connection: SyncConnection, schema: str, name: str, stream: tuple[UUID, UUID]) -> bool:
    """Give up the event at which a stream is parked; False where it is not, or is retried now. As ``retry_within``."""
    tenant_id, stream_id = stream
    values = {"name": name, "tenant": tenant_id, "stream": stream_id}
    return bool(fetch(connection, EventStoreStatements(schema).text("eventstore/parking:skip"), values))
