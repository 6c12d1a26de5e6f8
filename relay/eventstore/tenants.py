"""Provisions, lists and drops tenants. For ``EventStore`` only.

A tenant's partition is made as a table of its own and then attached, which locks neither readers nor writers; it is
detached the same way before it is dropped. Each step finds what an interrupted one has left and goes on from there.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import NamedTuple
from uuid import UUID

import psycopg

from relay.core.errors import ConfigError
from relay.eventstore.database import Connection, Database, execute
from relay.eventstore.errors import TenantBusy, UnknownTenant
from relay.eventstore.statements import EventStoreStatements


class _Partition(NamedTuple):
    bucket: str | None
    """The number of the bucket it hangs in; None when it is detached."""
    detaching: bool


async def provision(database: Database, statements: EventStoreStatements, tenant_id: UUID) -> None:
    """Give a tenant its partition; nothing happens when it has one. Raises TenantBusy for one that is half dropped."""
    async with database.connection(f"provision tenant {tenant_id}") as connection, connection.transaction():
        values = {"tenant": tenant_id}
        await execute(connection, statements.text("eventstore/tenants:lock"), values)
        partition = await _partition(connection, statements, tenant_id)
        if partition is not None:
            if partition.bucket is None or partition.detaching:
                raise TenantBusy(f"tenant {tenant_id} is half dropped; call drop_tenant again before provisioning it")
            return
        bucket = (await execute(connection, statements.text("eventstore/tenants:bucket"), values))[0][0]
        await execute(connection, statements.for_tenant("eventstore/tenants:create", tenant_id))
        await execute(connection, statements.for_tenant("eventstore/tenants:attach", tenant_id, bucket))


async def listed(database: Database, statements: EventStoreStatements) -> list[UUID]:
    """All tenants that can be appended to, in the order of their ids."""
    return [row[0] for row in await database.run("list tenants", statements.text("eventstore/tenants:list"))]


async def drop(database: Database, statements: EventStoreStatements, tenant_id: UUID, confirm: UUID | str) -> None:
    """Destroy a tenant's events. Waits for the transactions that now use the table, and blocks none of them.

    Raises ConfigError unless ``confirm`` is the tenant's id, UnknownTenant when there is no such partition.
    """
    if str(confirm) != str(tenant_id):
        raise ConfigError(f"confirm: dropping is irreversible; pass the id again: confirm={str(tenant_id)!r}")
    doing = f"drop tenant {tenant_id}"
    async with database.connection(doing) as connection, _locked(connection, statements, tenant_id):
        partition = await _partition(connection, statements, tenant_id)
        if partition is None:
            raise UnknownTenant(tenant_id)
        await _detach(connection, statements, tenant_id, partition)
        await _forget(connection, statements, tenant_id)
        await execute(connection, statements.for_tenant("eventstore/tenants:drop", tenant_id))


async def _detach(
    connection: Connection, statements: EventStoreStatements, tenant_id: UUID, partition: _Partition
) -> None:
    if partition.bucket is None:
        return
    step = "eventstore/tenants:finalize" if partition.detaching else "eventstore/tenants:detach"
    await execute(connection, statements.for_tenant(step, tenant_id, partition.bucket))


async def _forget(connection: Connection, statements: EventStoreStatements, tenant_id: UUID) -> None:
    """Take the tenant out of the feed, in short transactions."""
    statement = statements.for_tenant("eventstore/tenants:forget", tenant_id)
    after: int | None = 0
    while after is not None:
        after = (await execute(connection, statement, {"after": after}))[0][0]


async def _partition(connection: Connection, statements: EventStoreStatements, tenant_id: UUID) -> _Partition | None:
    rows = await execute(connection, statements.for_tenant("eventstore/tenants:state", tenant_id))
    if not rows:
        return None
    bucket, detaching = rows[0]
    return _Partition(None if bucket is None else bucket.rpartition("_")[2], detaching)


@contextlib.asynccontextmanager
async def _locked(connection: Connection, statements: EventStoreStatements, tenant_id: UUID) -> AsyncIterator[None]:
    values = {"tenant": tenant_id}
    await execute(connection, statements.text("eventstore/tenants:lock_session"), values)
    try:
        yield
    finally:
        with contextlib.suppress(psycopg.OperationalError):  # a lost connection has given the lock up
            await execute(connection, statements.text("eventstore/tenants:unlock_session"), values)
