"""Deletes streams irreversibly, as a person's right to erasure demands.

A stream is deleted from its lowest version up, in short transactions, each behind the first lock that an append takes:
appends to the stream see whole steps only. Each step records the last version that it deleted, and appends number new
events after it.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from psycopg import errors

from relay.core.errors import ConfigError, SchemaError
from relay.eventstore.database import Connection, execute
from relay.eventstore.model import checked_id
from relay.eventstore.store_part import Id, StorePart
from relay.eventstore.tenants import check_tenant, is_same_id
from relay.postgres.grants import NO_PRIVILEGE

_VERSIONS_AT_ONCE: Final = 1000
"""A gapless store accepts no append while a transaction deletes that many events."""


class DeletionPart(StorePart):
    """Deleting streams."""

    async def delete_stream(self, tenant_id: Id, stream_id: Id, *, confirm: Id) -> int:
        """Delete all events of a stream irreversibly, from the feed too; returns their number. ``confirm`` is the
        stream's id again.

        The stream has no events then: ``NO_STREAM`` and ``ANY`` may append to it, a version from before conflicts, and
        new events are numbered after the deleted ones. Only the owner of the store may delete. What was announced in
        the outbox is not recalled. When it is interrupted, call it again.

        Raises ``UnknownTenant``, ``ConfigError`` when ``confirm`` differs, and ``SchemaError`` for any other role.
        """
        tenant, stream = checked_id("tenant_id", tenant_id), checked_id("stream_id", stream_id)
        if not is_same_id(confirm, stream):
            raise ConfigError(f"confirm: deleting is irreversible; pass the stream's id again: confirm={str(stream)!r}")
        doing = f"delete stream {stream} of tenant {tenant}"

        async def delete(connection: Connection) -> int:
            await check_tenant(connection, self._statements, tenant)
            count, is_done = 0, False
            while not is_done:
                try:
                    deleted, is_done = await self._delete_some(connection, tenant, stream)
                except errors.InsufficientPrivilege as error:
                    message = f"{doing}: only the owner of the store may delete streams"
                    raise SchemaError(message, NO_PRIVILEGE) from error
                count += deleted
            return count

        return await self._database.run(doing, delete)

    async def _delete_some(self, connection: Connection, tenant_id: UUID, stream_id: UUID) -> tuple[int, bool]:
        """Delete the lowest versions in one transaction; their number, and whether the stream is empty then."""
        values: dict[str, object] = {"tenant": tenant_id, "stream": stream_id}
        lowest = self._statements.text("eventstore/deletion:lowest")
        async with connection.transaction():
            await execute(connection, self._statements.text("eventstore/deletion:begin"), values)
            first, deleted = (await execute(connection, lowest, values))[0][0], 0
            if first is not None:
                values["before"] = first + _VERSIONS_AT_ONCE
                deleted = (await execute(connection, self._statements.text("eventstore/deletion:delete"), values))[0][0]
            is_done = first is None or (await execute(connection, lowest, values))[0][0] is None
            if is_done:  # before the next append, whose events a subscription must not take for parked ones
                await execute(connection, self._statements.text("eventstore/parking:forget_stream"), values)
            return deleted, is_done
