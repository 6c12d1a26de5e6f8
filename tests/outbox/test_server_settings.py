"""Anybody's defaults: each setting that PostgreSQL lets a user change, one value off its default, beside the outbox.

The settings come from ``pg_settings`` of the server under test, so that a new version's are tried, too. Each is set for
the database, as a hosted one has it, while the schema is compared, events are claimed, settled and reaped, and the
outbox is checked; what all of these do must not depend on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import psycopg
import pytest
from psycopg import sql

from relay.core.errors import OutboxError
from relay.core.finding import Level
from relay.core.storage import Settlement
from relay.outbox.admin.outbox_check import check_storage
from relay.outbox.extensions import add_extension
from relay.outbox.migrate import migrate, plan
from relay.outbox.outbox_options import KeyOrder
from relay.outbox.storage import PostgresOutbox
from relay.postgres.sql import TableName
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.fixtures.postgres import create_database, drop_database
from tests.support.options import storage_options

_ENUMERATED: Final = """
SELECT name, vartype, setting, boot_val, unit, min_val, max_val, enumvals
FROM pg_settings WHERE context = 'user' AND vartype = %s ORDER BY name
"""
_TEXTS: Final = {
    "DateStyle": "SQL, DMY",
    "IntervalStyle": "sql_standard",
    "TimeZone": "Asia/Kathmandu",
    "bytea_output": "escape",
    "client_encoding": "LATIN1",
    "default_text_search_config": "pg_catalog.german",
    "lc_monetary": "C",
    "lc_numeric": "C",
    "lc_time": "C",
    "search_path": "public",
    "application_name": "another's",
    "timezone_abbreviations": "India",
    "createrole_self_grant": "set, inherit",
    "default_tablespace": "pg_default",
    "restrict_nonsystem_relation_kind": "view, foreign-table",
    "temp_tablespaces": "pg_default",
}
"""A value of each setting whose values are no list."""
_SECONDS: Final = {"ms": 20_000, "s": 20, "min": 1}
"""Of a setting that ends something after a while: one that is not by itself what is in the way."""
_LEFT_OUT: Final = {
    "default_transaction_read_only": "a database that takes no write: check says so (tests/cli/test_check.py)",
    "transaction_read_only": "of one transaction",
    "transaction_isolation": "of one transaction",
    "transaction_deferrable": "of one transaction",
    "role": "it is another user then",
    "session_authorization": "it is another user then",
    "seed": "it cannot be set for a database",
    "is_superuser": "it cannot be set",
    "default_table_access_method": "the server has one",
    "local_preload_libraries": "the server has none",
}
_LEASED: Final = "WHERE status = 'DELIVERING'"
EVENTS: Final = 20


def _numbers(name: str, boot: str, unit: str | None, low: str, high: str) -> Iterator[str]:
    """What is as far from the default as it goes, where that is no deadline that a statement cannot meet."""
    if unit in _SECONDS and boot in {"0", "-1"}:
        yield str(min(_SECONDS[unit], int(float(high))))
        return
    yield from (one for one in (low, high) if one != boot)


def values_of(row: tuple[Any, ...]) -> list[str]:
    """Values off the default: a switch's other one, each other one of a list, the least and the most of a number."""
    name, kind, setting, boot, unit, low, high, listed = row
    default = setting if boot is None else boot
    match kind:
        case "bool":
            return ["off" if default == "on" else "on"]
        case "enum":
            return [one for one in listed if one != default]
        case "string":
            return [_TEXTS[name]] if name in _TEXTS else []
        case _:
            return list(_numbers(name, default, unit, low, high))


@pytest.fixture(scope="module")
def outbox(postgres: str) -> Iterator[Outbox]:
    """One outbox for all; it is empty after each."""
    database = create_database(postgres)
    made = Outbox.create(database)
    add_extension(made.url, TableName(), "key-order")
    yield made
    drop_database(database)


async def _deliver(outbox: Outbox, ordering: KeyOrder | None) -> None:
    relay = PostgresOutbox(storage_options(outbox.relay_url, "r", key_order=ordering))
    await relay.open()
    try:
        delivered = 0
        while delivered < EVENTS:
            claim = await relay.claim(EVENTS, 2**20)
            assert claim.fence is not None, f"{delivered} of {EVENTS}"
            settlement = Settlement(claim.fence)
            settlement.delivered.extend(event.event_id for event in claim.events)
            delivered += len(claim.events)
            await relay.settle([settlement])
        outbox.insert([Row("left.behind")])
        assert (await relay.claim(1, 2**20)).events
        outbox.database.run("UPDATE openoutbox_events SET locked_at = now() - make_interval(hours => 1) " + _LEASED)
        assert (await relay.reap(10)).total == 1
        assert (await relay.backlog()).pending_retrying == 1
    finally:
        await relay.close()


def _works(outbox: Outbox, name: str) -> None:
    """Everything once, over connections that are made after the change."""
    for ordering in (None, KeyOrder.SKIP):
        outbox.database.run("TRUNCATE openoutbox_events")
        outbox.insert([Row("order.placed", f"é{n}".encode(), f"k{n % 3}", '{"a": "1"}') for n in range(EVENTS)])
        asyncio.run(_deliver(outbox, ordering))
    table = TableName(f"t_{name.replace('.', '_').lower()}")
    migrate(outbox.url, table)
    assert plan(outbox.url, table).up_to_date
    findings, types = check_storage(outbox.relay_url, TableName(), 180.0, retention=86_400.0, in_order=True)
    assert [one for one in findings if one.level is not Level.OK] == []
    assert types == ["left.behind"]


_NUMBERS: Final = [pytest.param(kind, marks=pytest.mark.soak) for kind in ("integer", "real")]


@pytest.mark.parametrize("most", [1, pytest.param(100, marks=pytest.mark.soak)], ids=["one value", "all values"])
@pytest.mark.parametrize("kind", ["bool", "enum", "string", *_NUMBERS])
def test_what_the_outbox_does_depends_on_no_setting(outbox: Outbox, kind: str, most: int) -> None:
    with outbox.database.connect() as connection:
        rows = connection.execute(_ENUMERATED, [kind]).fetchall()
    tried = [(row[0], value) for row in rows if row[0] not in _LEFT_OUT for value in values_of(row)[:most]]
    assert len(tried) >= 10
    if kind == "string":  # none without a value, of a new version neither
        assert {row[0] for row in rows} - _LEFT_OUT.keys() == {name for name, _ in tried}
    wrong = {f"{name} = {value}": error for name, value in tried if (error := _trouble(outbox, name, value))}
    assert wrong == {}


def _trouble(outbox: Outbox, name: str, value: str) -> str:
    """What does not work where this is the database's setting."""
    where = sql.Identifier(outbox.database.name), sql.Identifier(name)
    with outbox.database.connect() as connection:
        connection.execute(sql.SQL("ALTER DATABASE {} SET {} = {}").format(*where, sql.Literal(value)))
    try:
        _works(outbox, name)
    except (AssertionError, OutboxError, psycopg.Error) as error:  # all of them are reported at once
        return f"{type(error).__name__}: {error}"
    finally:
        with psycopg.connect(outbox.url, autocommit=True) as connection:
            connection.execute(sql.SQL("ALTER DATABASE {} RESET {}").format(*where))
    return ""


async def test_a_server_that_is_not_supported_is_said_at_the_start(
    outbox: Outbox, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = PostgresOutbox(storage_options(outbox.relay_url, "relay"))
    monkeypatch.setattr("relay.outbox.storage.OLDEST_POSTGRESQL", 99)
    await storage.open()
    await storage.close()
    [record] = [one for one in caplog.records if vars(one).get("action") == "server_unsupported"]
    assert record.getMessage().endswith(" is not supported; use PostgreSQL 99 or newer")
