"""Wake-ups: what is inserted is claimed at once, and nothing depends on it."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from relay.core.errors import ConfigError, StorageError
from relay.outbox.extensions import add_extension
from relay.outbox.wakeup import OutboxWakeUps
from relay.postgres.sql import TableName
from tests.engine.conftest import StartRelay
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.fixtures.postgres import create_database
from tests.support.notifications import full_queue, small_queue
from tests.support.waiting import eventually, patience

pytestmark = pytest.mark.session

NEVER = 300.0
"""A poll interval that no test waits for."""

_LISTENING = """
SELECT count(*) FROM pg_stat_activity
WHERE query LIKE '%LISTEN "openoutbox_%' AND state = 'idle' AND datname = current_database()
"""
_END_ASKED = """
SELECT pg_terminate_backend(min(pid)) FROM pg_stat_activity
WHERE query LIKE '%PG_IS_IN_RECOVERY%' AND datname = current_database() AND pid <> pg_backend_pid()
"""


@pytest.fixture
def waking(outbox: Outbox) -> Outbox:
    """The outbox with the trigger, added twice."""
    for _ in range(2):
        add_extension(outbox.owner_url, TableName(), "wake-up")
    return outbox


def wake_ups(outbox: Outbox) -> OutboxWakeUps:
    return OutboxWakeUps(outbox.relay_url, "relay", TableName())


async def listening(outbox: Outbox) -> None:
    """Wait until a relay listens and has gone to rest."""
    await eventually(lambda: outbox.database.run(_LISTENING) == [(1,)])


async def test_an_insert_ends_the_wait_for_the_next_poll(waking: Outbox, start: StartRelay) -> None:
    await start(wake_ups=wake_ups(waking), poll_interval=NEVER)
    await listening(waking)
    for events in ([Row("first")], [Row("second")], [Row("third")]):
        waking.insert(events)
        await eventually(lambda: "PENDING" not in waking.counts() and "DELIVERING" not in waking.counts())
    assert waking.counts() == {"DELIVERED": 3}


@pytest.mark.postgres
def test_a_full_queue_of_notifications_makes_no_insert_fail() -> None:
    with small_queue() as server:
        outbox = Outbox.create(create_database(server.url))
        add_extension(outbox.url, TableName(), "wake-up")
        with full_queue(outbox.database):
            for number in range(3):
                outbox.insert([Row("t", str(number).encode())])
        assert outbox.counts() == {"PENDING": 3}


async def test_a_lost_connection_listens_again_and_looks_for_what_it_missed(waking: Outbox, start: StartRelay) -> None:
    await start(wake_ups=wake_ups(waking), poll_interval=NEVER)
    await listening(waking)
    waking.database.run("ALTER TABLE openoutbox_events DISABLE TRIGGER openoutbox_wake_trigger")
    waking.insert([Row("topic")])
    waking.database.run(_LISTENING.replace("count(*)", "pg_terminate_backend(min(pid))"))
    await eventually(lambda: waking.counts() == {"DELIVERED": 1})


async def test_a_connection_on_which_nothing_comes_is_asked_whether_it_lives(
    waking: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay.outbox.wakeup._SIGN_OF_LIFE", 0.05)
    woken: list[None] = []
    listener = asyncio.create_task(wake_ups(waking).listen(lambda: woken.append(None)))
    await eventually(lambda: len(woken) >= 3)  # at the start, and after each answer
    waking.database.run(_END_ASKED)
    with pytest.raises(StorageError):
        await asyncio.wait_for(listener, patience())


async def test_without_the_trigger_a_warning_says_what_to_do(
    outbox: Outbox, start: StartRelay, caplog: pytest.LogCaptureFixture
) -> None:
    await start(wake_ups=wake_ups(outbox))
    outbox.insert([Row("topic")])
    await eventually(lambda: outbox.counts() == {"DELIVERED": 1})
    await eventually(lambda: "--with wake-up" in caplog.text)


def test_a_writer_needs_no_right_beyond_the_table(waking: Outbox) -> None:
    waking.database.run("CREATE ROLE wake_writer")
    try:
        waking.database.run("GRANT INSERT ON openoutbox_events TO wake_writer")
        with waking.database.connect() as heard, waking.database.connect() as connection:
            [(channel,)] = connection.execute("SELECT 'openoutbox_' || 'openoutbox_events'::regclass::oid").fetchall()
            heard.execute(psycopg.sql.SQL("LISTEN {}").format(psycopg.sql.Identifier(channel)))
            connection.execute("SET ROLE wake_writer")
            connection.execute(
                "INSERT INTO openoutbox_events (event_id, event_type, payload) VALUES (gen_random_uuid(), 'a', '')"
            )
            assert [one.channel for one in heard.notifies(timeout=patience(), stop_after=1)] == [channel]
    finally:
        waking.database.run("DROP OWNED BY wake_writer")
        waking.database.run("DROP ROLE wake_writer")


def test_inserts_go_on_when_the_table_was_renamed(waking: Outbox) -> None:
    waking.database.run("ALTER TABLE openoutbox_events RENAME TO elsewhere")
    waking.database.run("INSERT INTO elsewhere (event_id, event_type, payload) VALUES (gen_random_uuid(), 'a', '')")
    assert waking.database.run("SELECT count(*) FROM elsewhere") == [(1,)]


def test_a_name_that_leaves_no_room_for_the_sequence_is_refused(outbox: Outbox) -> None:
    with pytest.raises(ConfigError, match="63 bytes"):
        add_extension(outbox.owner_url, TableName("t" * 60), "wake-up")
