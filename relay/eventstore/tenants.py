"""Provisions, lists and drops tenants.

A tenant's partition is created as a table of its own and then attached, which locks neither readers nor writers; it is
detached the same way before it is dropped. Each step continues from the state in which an interrupted run stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final, NamedTuple
from uuid import UUID

import psycopg

from relay.core.errors import ConfigError
from relay.eventstore.database import NO_DEADLINE, Connection, execute
from relay.eventstore.errors import TenantBusy, UnknownTenant
from relay.eventstore.model import checked_id
from relay.eventstore.sessions import saying_who_blocks
from relay.eventstore.statements import EventStoreStatements
from relay.eventstore.store_part import Id, StorePart

_DIRECT: Final = "event"
"""The parent of a partition that was created by ``CREATE TABLE ... PARTITION OF event``."""
_TURNS: Final = 10
_BETWEEN_TURNS: Final = 0.5  # seconds


class _Partition(NamedTuple):
    bucket: str | None
    """The number of the bucket that it is attached to; _DIRECT below the table itself, None when it is detached."""
    detaching: bool


class TenantPart(StorePart):
    """Provisioning, listing and dropping tenants."""

    async def provision_tenant(self, tenant_id: Id) -> None:
        """Create the tenant's partition, unless it exists. Repeatable, and safe while others append and read.

        Raises ``TenantBusy`` for a tenant whose drop was interrupted.
        """
        tenant = checked_id("tenant_id", tenant_id)
        await self._database.transaction(
            f"provision tenant {tenant}", lambda connection: _provision(connection, self._statements, tenant)
        )

    async def list_tenants(self) -> list[UUID]:
        """All tenants that have a partition, in the order of their ids."""
        rows = await self._database.rows("list tenants", self._statements.text("eventstore/tenants:list"))
        return [row[0] for row in rows]

    async def drop_tenant(self, tenant_id: Id, *, confirm: Id) -> None:
        """Destroy all of a tenant's events irreversibly. ``confirm`` is the id again.

        Waits for the transactions in progress and blocks none; after 5 s the log names them. When it is interrupted,
        call it again. Raises ``UnknownTenant`` for a tenant of which there is nothing, ``ConfigError`` when ``confirm``
        differs. Of one whose partition was dropped by hand it removes what that has left. A partition that was created
        by hand, below the table itself, is detached at an instant without another transaction; ``StorageBusy`` when
        there is none in 10 s.
        """
        tenant = checked_id("tenant_id", tenant_id)
        if not is_same_id(confirm, tenant):
            raise ConfigError(f"confirm: dropping is irreversible; pass the id again: confirm={str(tenant)!r}")
        doing = f"drop tenant {tenant}"

        async def drop(connection: Connection) -> None:
            async with saying_who_blocks(self._database, self._statements, connection, doing):
                await _drop(connection, self._statements, tenant)

        # No deadline: it waits for the transactions in progress, and for another drop.
        await self._database.run(doing, drop, NO_DEADLINE)


async def _provision(connection: Connection, statements: EventStoreStatements, tenant: UUID) -> None:
    values = {"tenant": tenant}
    await execute(connection, statements.text("eventstore/tenants:lock"), values)
    partition = await _partition(connection, statements, tenant)
    if partition is not None:
        if partition.bucket is None or partition.detaching:
            raise TenantBusy(f"tenant {tenant} is only partly dropped; call drop_tenant again before provisioning it")
        return
    await _forget_ids(connection, statements, tenant)  # of a partition that was dropped by hand
    bucket = (await execute(connection, statements.text("eventstore/tenants:bucket"), values))[0][0]
    await execute(connection, statements.for_tenant("eventstore/tenants:create", tenant))
    await execute(connection, statements.for_tenant("eventstore/tenants:attach", tenant, bucket))


async def _drop(connection: Connection, statements: EventStoreStatements, tenant: UUID) -> None:
    async with _locked(connection, statements, "session", tenant):
        partition = await _partition(connection, statements, tenant)
        if partition is None:
            if not await _forget_remains(connection, statements, tenant):
                raise UnknownTenant(tenant)
            return
        if partition.bucket == _DIRECT:
            await _detach_direct(connection, statements, tenant)
        elif partition.bucket is not None:
            async with _locked(connection, statements, "bucket", partition.bucket):
                await _detach(connection, statements, tenant, partition.bucket)
        await _forget(connection, statements, tenant)
        await execute(connection, statements.for_tenant("eventstore/tenants:drop", tenant))


async def _detach(connection: Connection, statements: EventStoreStatements, tenant_id: UUID, bucket: str) -> None:
    """Detach the tenant's partition, after completing the interrupted detach of any partition of the bucket.

    PostgreSQL refuses to detach a partition while another detach of the same table is pending. The other tenant stays
    partly dropped.
    """
    for pending in await execute(connection, statements.for_tenant("eventstore/tenants:detaching", tenant_id, bucket)):
        await execute(connection, statements.for_tenant("eventstore/tenants:finalize", pending[0], bucket))
    partition = await _partition(connection, statements, tenant_id)
    if partition is not None and partition.bucket is not None:
        await execute(connection, statements.for_tenant("eventstore/tenants:detach", tenant_id, bucket))


async def _forget(connection: Connection, statements: EventStoreStatements, tenant_id: UUID) -> None:
    """Remove the tenant's events from the feed, their ids and the records of deleted streams, in short transactions."""
    await execute(connection, statements.for_tenant("eventstore/tenants:record_drop", tenant_id))
    statement = statements.for_tenant("eventstore/tenants:forget", tenant_id)
    after: int | None = 0
    while after is not None:
        after = (await execute(connection, statement, {"after": after}))[0][0]
    await _forget_ids(connection, statements, tenant_id)


async def _forget_ids(connection: Connection, statements: EventStoreStatements, tenant_id: UUID) -> int:
    """Remove the ids of the tenant's events and the records of its streams; returns how many there were."""
    removed, values = 0, {"tenant": tenant_id}
    ids = statements.text("eventstore/tenants:forget_ids")
    while count := (await execute(connection, ids, values))[0][0]:
        removed += count
    for rest in ("tenants:forget_tombstones", "parking:forget_tenant"):
        removed += len(await execute(connection, statements.text(f"eventstore/{rest}"), values))
    return removed


async def _forget_remains(connection: Connection, statements: EventStoreStatements, tenant_id: UUID) -> int:
    """Remove what a partition that was dropped by hand has left; returns how many rows that were."""
    removed = await _forget_ids(connection, statements, tenant_id)
    after: int | None = 0
    statement = statements.text("eventstore/tenants:forget_feed")
    while after is not None:
        [(after, count)] = await execute(connection, statement, {"after": after, "tenant": tenant_id})
        removed += count
    return removed


async def _detach_direct(connection: Connection, statements: EventStoreStatements, tenant_id: UUID) -> None:
    """Detach a partition of the table itself. Waits in short turns, between which appends and readers go on."""
    for turn in range(_TURNS):
        try:
            async with connection.transaction():
                await execute(connection, statements.text("eventstore/tenants:wait_shortly"))
                await execute(connection, statements.for_tenant("eventstore/tenants:detach_direct", tenant_id))
        except psycopg.errors.LockNotAvailable:
            if turn == _TURNS - 1:
                raise
            await asyncio.sleep(_BETWEEN_TURNS)
        else:
            return


async def check_tenant(connection: Connection, statements: EventStoreStatements, tenant_id: UUID) -> None:
    """Raise UnknownTenant for a tenant without an attached partition."""
    partition = await _partition(connection, statements, tenant_id)
    if partition is None or partition.bucket is None or partition.detaching:
        raise UnknownTenant(tenant_id)


async def _partition(connection: Connection, statements: EventStoreStatements, tenant_id: UUID) -> _Partition | None:
    rows = await execute(connection, statements.for_tenant("eventstore/tenants:state", tenant_id))
    if not rows:
        return None
    bucket, detaching = rows[0]
    return _Partition(None if bucket is None else bucket.removeprefix("event_tenants_"), detaching)


def is_same_id(confirm: Id, tenant_id: Id) -> bool:
    """Whether it is that id, in any spelling of a UUID."""
    try:
        return UUID(str(confirm)) == UUID(str(tenant_id))
    except ValueError:
        return False


@contextlib.asynccontextmanager
async def _locked(
    connection: Connection, statements: EventStoreStatements, lock: str, subject: UUID | str
) -> AsyncIterator[None]:
    """Hold the session's lock of a tenant (``session``) or of a bucket (``bucket``)."""
    values = {"tenant": subject, "bucket": subject}
    await execute(connection, statements.text(f"eventstore/tenants:lock_{lock}"), values)
    try:
        yield
    finally:
        with contextlib.suppress(psycopg.OperationalError):  # a lost connection has released the lock
            await execute(connection, statements.text(f"eventstore/tenants:unlock_{lock}"), values)
