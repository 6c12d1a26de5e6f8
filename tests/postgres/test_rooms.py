"""All rooms read URLs, connect and understand PostgreSQL's errors alike."""

from __future__ import annotations

import ast
from collections.abc import Awaitable, Callable
from typing import LiteralString

import pytest

from openoutbox.failure import STATES
from relay.core.errors import (
    ConfigError,
    OutboxError,
    RowRefused,
    SchemaError,
    StorageBusy,
    StorageError,
    StorageRefuses,
    StorageUnavailable,
)
from relay.deliverylog.errors import DeliveryLogBusy, DeliveryLogError, DeliveryLogUnavailable
from relay.deliverylog.log_options import DeliveryLogOptions
from relay.deliverylog.postgres.driver import PostgresDeliveryLog
from relay.eventstore.database import Database as EventStoreDatabase
from relay.outbox.admin.connection import operating
from relay.outbox.storage import PostgresOutbox
from relay.postgres.connect import DeadlineConnection, Generation
from relay.postgres.errors import translating
from relay.postgres.sql import TableName
from relay.postgres.url import check_url, connection_parameters
from relay.spark.connection import connect
from tests.support.fixtures.outbox import Outbox
from tests.support.options import storage_options
from tests.support.paths import ROOT

_LOG_KINDS: dict[type[StorageError], type[DeliveryLogError]] = {
    StorageUnavailable: DeliveryLogUnavailable,
    StorageRefuses: DeliveryLogUnavailable,
    StorageBusy: DeliveryLogBusy,
    SchemaError: DeliveryLogError,
    RowRefused: DeliveryLogError,
    StorageError: DeliveryLogError,
}
LOG_OPTIONS = DeliveryLogOptions("openoutbox_log", prefix="", retention_days=None, months_ahead=0, connections=4)
_GO_URL = "?pool_max_conns=3"

Room = Callable[[str, LiteralString], Awaitable[None]]
"""Sends a statement to the database of a URL."""


async def outbox(url: str, statement: LiteralString) -> None:
    connection = DeadlineConnection(connection_parameters(url, "test"), 10.0, Generation())
    try:
        await connection.run("testing", lambda own: own.execute(statement))
    finally:
        await connection.close()


async def outbox_admin(url: str, statement: LiteralString) -> None:
    with operating(url, TableName(), "testing") as connection:
        connection.execute(statement)


async def event_store(url: str, statement: LiteralString) -> None:
    database = EventStoreDatabase(url, max_connections=1, on_connect=None)
    await database.open()
    try:
        await database.rows("testing", statement)
    finally:
        await database.close()


async def delivery_log(url: str, statement: LiteralString) -> None:
    store = await PostgresDeliveryLog.open(url, LOG_OPTIONS)
    try:
        await store._pool.run("testing", lambda connection: connection.execute(statement))
    finally:
        await store.close()


async def spark(url: str, statement: LiteralString) -> None:
    with translating("testing"), connect(url) as connection:
        connection.execute(statement)


ROOMS = [outbox, outbox_admin, event_store, delivery_log, spark]


def raising(state: str) -> LiteralString:
    """A statement that fails with this SQLSTATE."""
    text: LiteralString = f"DO $$ BEGIN RAISE EXCEPTION 'for a test' USING ERRCODE = '{state}'; END $$"
    return text


async def kind(room: Room, url: str, state: str) -> type[OutboxError]:
    """What a room makes of a state."""
    with pytest.raises(OutboxError) as caught:
        await room(url, raising(state))
    return caught.type


@pytest.mark.parametrize("room", ROOMS)
async def test_a_state_means_the_same_in_every_room(outbox: Outbox, room: Room) -> None:
    expected: dict[str, type[StorageError]] = {
        "25006": StorageUnavailable,
        "57014": StorageBusy,
        "55P03": StorageBusy,
        **STATES,
        "08006": StorageUnavailable,
        "22003": RowRefused,
        "23502": RowRefused,
        "23514": RowRefused,
        "28P01": StorageUnavailable,
        "42601": StorageError,
        "53100": StorageRefuses,
        "53300": StorageUnavailable,
        "54000": RowRefused,
        "58030": StorageRefuses,
        "XX000": StorageUnavailable,
    }
    for state, meaning in expected.items():
        wanted = _LOG_KINDS[meaning] if room is delivery_log else meaning
        assert await kind(room, outbox.url, state) is wanted, state


@pytest.mark.parametrize("room", ROOMS)
async def test_parameters_of_pgx_are_dropped_in_every_room(outbox: Outbox, room: Room) -> None:
    await room(outbox.url + _GO_URL, "SELECT 1")


@pytest.mark.parametrize(
    ("source", "read"),
    [
        ("STORAGE_URL", lambda url: PostgresOutbox(storage_options(url, "r"))),
        ("url", lambda url: EventStoreDatabase(url, max_connections=1, on_connect=None)),
        ("option url", connect),
        ("--url", lambda url: check_url(url, "--url")),
    ],
)
@pytest.mark.parametrize("url", ["postgres://u:geheim@[h/d", "postgres://u:geheim@h/d?sslmod=require"])
def test_a_wrong_url_is_refused_by_the_name_of_its_source(source: str, read: Callable[[str], object], url: str) -> None:
    with pytest.raises(ConfigError, match=f"{source}[:=]") as caught:
        read(url)
    assert "geheim" not in str(caught.value)


async def test_the_log_refuses_a_wrong_url_by_its_name() -> None:
    with pytest.raises(ConfigError, match=r"^DELIVERY_LOG_URL: ") as caught:
        await PostgresDeliveryLog.open("postgres://u:geheim@h/d?sslmod=require", LOG_OPTIONS)
    assert "geheim" not in str(caught.value)


def test_nothing_else_connects_or_reads_urls() -> None:
    own = {ROOT / "relay" / "postgres", ROOT / "relay" / "localservers", ROOT / "relay" / "conformance"}
    files = [*(ROOT / "relay").rglob("*.py"), *(ROOT / "cli").rglob("*.py"), *ROOT.glob("pyspark_*.py")]
    offenders = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path in files
        if not own & set(path.parents)
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and _connects(ast.unparse(call.func))
    ]
    assert offenders == []


def _connects(function: str) -> bool:
    return function.endswith(("ConnectionPool", "conninfo_to_dict", "make_conninfo")) or function in {
        "psycopg.connect",
        *(f"{module}{kind}.connect" for module in ("", "psycopg.") for kind in ("Connection", "AsyncConnection")),
    }
