"""Runs a room's migrations on a connection to PostgreSQL. What a run does, ``relay.postgres.migrations`` says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg

from relay.postgres.connect import Connection, SyncConnection
from relay.postgres.errors import classify
from relay.postgres.migrations import (
    LONGEST_WAIT,
    Item,
    Migration,
    MigrationPlan,
    Query,
    Rows,
    Schema,
    drive,
    drive_async,
    migrating,
)


def migrate(
    connection: SyncConnection,
    schema: Schema,
    *,
    dry_run: bool = False,
    wait: float = LONGEST_WAIT,
    beside: SyncConnection | None = None,
    on_step: Callable[[Migration], None] | None = None,
) -> MigrationPlan:
    """Run ``migrating`` in one transaction, statements ``alone`` on ``beside``. Both are at READ COMMITTED.

    ``on_step`` receives each step that has taken effect. The caller translates the driver's errors, but for a missing
    right, which raises SchemaError.
    """
    applied: list[Migration] = []
    report = on_step or (lambda _: None)

    def answer(item: Item) -> Rows:
        if isinstance(item, float):
            time.sleep(item)
        elif isinstance(item, Migration):
            report(item) if item.alone else applied.append(item)
        else:
            to = beside if item.alone and beside is not None else connection
            cursor = to.execute(item.sql, item.values, prepare=False)
            return cursor.fetchall() if item.reads else []
        return []

    with _naming_the_right(connection, schema), connection.transaction():
        plan = drive(migrating(schema, dry_run=dry_run, wait=wait), answer)
    for migration in applied:
        report(migration)
    return plan


async def migrate_async(connection: Connection, schema: Schema, *, dry_run: bool = False) -> MigrationPlan:
    """As ``migrate``, on an asynchronous connection; for schemas without steps ``alone``."""

    async def answer(item: Item) -> Rows:
        if isinstance(item, float):
            await asyncio.sleep(item)
        elif isinstance(item, Query):
            cursor = await connection.execute(item.sql, item.values, prepare=False)
            return await cursor.fetchall() if item.reads else []
        return []

    with _naming_the_right(connection, schema):
        async with connection.transaction():
            return await drive_async(migrating(schema, dry_run=dry_run), answer)


@contextmanager
def _naming_the_right(connection: Connection | SyncConnection, schema: Schema) -> Iterator[None]:
    """Only this error is translated: the connection's owner must see the others, such as the loss of it."""
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise classify(error, schema.doing, schema_hint=schema.remedy(connection.info.user)) from error
