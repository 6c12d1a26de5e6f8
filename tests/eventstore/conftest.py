"""A store in a database of the test's own, in both position modes."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit
from uuid import UUID

import pytest

from relay.eventstore import EventStore
from relay.postgres.sql import load_sql, sql_files
from tests.support.fixtures.postgres import Database

TENANT = UUID("847ed188-9e8b-4d23-8eb4-9126ebd77a4d")
OTHER_TENANT = UUID("0b9f5a1e-64f3-4d6c-a1f7-6c5f1b1d9e55")
STREAM = UUID("a88f94db-6e7a-439e-9861-485f63cc8a13")


@pytest.fixture(params=["gapless", "settled"])
def positions(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def store(database: Database, positions: str) -> AsyncIterator[EventStore]:
    """A migrated store with two tenants."""
    async with await EventStore.connect(database.url, max_connections=20) as store:
        await store.migrate(positions=positions, notify=True)  # type: ignore[arg-type]
        await store.provision_tenant(TENANT)
        await store.provision_tenant(OTHER_TENANT)
        yield store


@pytest.fixture
async def gapless_store(database: Database) -> AsyncIterator[EventStore]:
    """As ``store``, for what does not depend on the positions."""
    async with await EventStore.connect(database.url) as store:
        await store.migrate()
        await store.provision_tenant(TENANT)
        await store.provision_tenant(OTHER_TENANT)
        yield store


@pytest.fixture
def outbox_database(database: Database) -> Database:
    """The database with the outbox table in it."""
    for path in sql_files("outbox/migrations"):
        database.run(load_sql(path))
    return database


@pytest.fixture
def role(database: Database) -> Iterator[str]:
    """A role of this test's own; roles belong to the whole server."""
    name = f"app {uuid.uuid4().hex[:8]}"
    database.run(f'CREATE ROLE "{name}" LOGIN')
    yield name
    database.run(f'DROP OWNED BY "{name}"')
    database.run(f'DROP ROLE "{name}"')


def as_role(url: str, role: str) -> str:
    parts = urlsplit(url)
    user = role.replace(" ", "%20")
    return parts._replace(netloc=f"{user}@{parts.hostname}:{parts.port}").geturl()
