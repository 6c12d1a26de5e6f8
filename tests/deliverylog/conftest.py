"""Every driver of the delivery log, empty and migrated: ``store`` runs a test once for each of them.

PostgreSQL gets a database of its own, copied from one that was migrated before. The embedded ClickHouse allows one
folder a process, so each worker has one, and each test a prefix in it: one whose tables another test has left empty,
since making them takes longer than most tests, or its own where it asks for ``prefix``.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from relay.deliverylog import DeliveryLog, open_delivery_log
from relay.deliverylog.clickhouse.driver import ClickHouseDeliveryLog
from relay.deliverylog.clickhouse.statements import FEEDS, RECORD, TABLES
from tests.support.fixtures.postgres import Database

Reopen = Callable[[], Awaitable[DeliveryLog]]

_numbers = itertools.count()
_emptied: list[str] = []
"""Prefixes of migrated logs that a test has left empty."""


@pytest.fixture
def prefix() -> str:
    """A prefix that no other test uses."""
    return f"t{next(_numbers)}_"


@pytest.fixture(
    params=[
        "memory",
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("clickhouse", marks=[pytest.mark.clickhouse, pytest.mark.xdist_group("clickhouse")]),
    ]
)
def driver(request: pytest.FixtureRequest) -> str:
    """The driver's name."""
    return str(request.param)


@pytest.fixture
async def reopen(driver: str, request: pytest.FixtureRequest) -> AsyncIterator[Reopen]:
    """Opens this test's log, each time as another client would; all are closed in the end."""
    async with AsyncExitStack() as stack:

        async def opened(url: str, prefix: str = "") -> DeliveryLog:
            store = await open_delivery_log(url, prefix=prefix, months_ahead=0)
            stack.push_async_callback(store.close)
            return store

        if driver == "memory":
            only = await opened("memory://")

            async def reopen() -> DeliveryLog:
                return only

        elif driver == "postgres":
            database: Database = request.getfixturevalue("log_database")
            reopen = partial(opened, database.url)
        else:
            url = f"chdb:///{request.getfixturevalue('chdb_folder')}"
            name = await stack.enter_async_context(_prefix_of_an_empty_log(request, partial(opened, url)))
            reopen = partial(opened, url, name)
        yield reopen


@asynccontextmanager
async def _prefix_of_an_empty_log(
    request: pytest.FixtureRequest, opened: Callable[[str], Awaitable[DeliveryLog]]
) -> AsyncIterator[str]:
    own = "prefix" in request.fixturenames
    fresh = own or not _emptied
    name: str = request.getfixturevalue("prefix") if fresh else _emptied.pop()
    store = await opened(name)
    if fresh:
        await store.migrate()
    yield name
    if own:
        await drop_tables(store, name)
    else:
        await store.apply_retention(None)
        await _each_table("TRUNCATE", store, name, *FEEDS, *TABLES)
        _emptied.append(name)


async def drop_tables(store: DeliveryLog, prefix: str) -> None:
    """Take a ClickHouse log's tables away, so that their merges do not go on behind other tests."""
    await _each_table("DROP", store, prefix, *FEEDS, *TABLES, RECORD)


async def _each_table(verb: str, store: DeliveryLog, prefix: str, *tables: str) -> None:
    assert isinstance(store, ClickHouseDeliveryLog)
    for table in tables:
        await store._client.command(f"{verb} TABLE {prefix}{table} SYNC")


@pytest.fixture
async def store(reopen: Reopen) -> DeliveryLog:
    """An empty log."""
    return await reopen()


@pytest.fixture
async def clickhouse(chdb_folder: Path, prefix: str) -> AsyncIterator[ClickHouseDeliveryLog]:
    """The embedded ClickHouse's log, for tests of this driver alone."""
    store = await open_delivery_log(f"chdb:///{chdb_folder}", prefix=prefix)
    assert isinstance(store, ClickHouseDeliveryLog)
    await store.migrate()
    yield store
    await drop_tables(store, prefix)
    await store.close()
