"""The record of replays as the delivery log reads it: exact where it is there, and never in the way where it is not."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

import pytest

from relay.core.event import EventId
from relay.outbox.admin.replay import ReplayOptions, replay
from relay.outbox.admin.selection import Selection
from relay.outbox.extensions import add_extension
from relay.outbox.replays import OutboxReplays
from relay.postgres.sql import TableName
from tests.support.clock import Clock
from tests.support.fixtures.outbox import Outbox, Row

TABLE = TableName()
WHO_KNOWS = EventId("00000000-0000-7000-8000-000000000000")
KILL = "UPDATE openoutbox_events SET status = 'DEAD', updated_at = NOW() WHERE event_type = 'a'"
READ = "SELECT min(replayed_at) FROM openoutbox_replays"


def event_ids(outbox: Outbox) -> list[EventId]:
    rows = outbox.database.run("SELECT event_id FROM openoutbox_events ORDER BY event_type")
    return [EventId(str(event_id)) for (event_id,) in rows]


async def test_the_first_replay_of_each_event_is_known(outbox: Outbox) -> None:
    outbox.insert([Row("a"), Row("b")])
    add_extension(outbox.database.url, TABLE, "replay-audit")
    outbox.database.run("GRANT SELECT, INSERT ON openoutbox_replays TO openoutbox_relay")
    first, second = event_ids(outbox)
    replays = OutboxReplays(outbox.relay_url, "r", TABLE)
    assert await replays.first_replays([first, second]) == {}
    times: list[datetime] = []
    for _ in range(2):
        outbox.database.run(KILL)
        assert replay(outbox.relay_url, TABLE, Selection(), ReplayOptions()).dead == 1
        [(time,)] = outbox.database.run(READ)
        times.append(time)
    known = await replays.first_replays([first, second, WHO_KNOWS])
    assert known == {first: times[0]}
    assert times[0] == times[1]
    assert known[first].utcoffset() == timedelta(0)
    await replays.close()
    elsewhere = OutboxReplays(outbox.relay_url, "r", TableName("another"))
    assert await elsewhere.first_replays([first]) == {}
    await elsewhere.close()


async def test_without_the_record_nothing_is_known_and_nothing_said(
    outbox: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    outbox.insert([Row("a")])
    clock = Clock()
    replays = OutboxReplays(outbox.relay_url, "r", TABLE, clock)
    requested = event_ids(outbox)
    with caplog.at_level(logging.WARNING):
        assert await replays.first_replays(requested) == {}
    assert caplog.messages == []
    add_extension(outbox.database.url, TABLE, "replay-audit")
    outbox.database.run("GRANT INSERT ON openoutbox_replays TO openoutbox_relay")
    outbox.database.run(KILL)
    replay(outbox.relay_url, TABLE, Selection(), ReplayOptions())
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            clock.now += 61
            assert await replays.first_replays(requested) == {}
    [said] = caplog.messages
    assert 'GRANT SELECT, INSERT ON "openoutbox_replays"' in said
    outbox.database.run("GRANT SELECT ON openoutbox_replays TO openoutbox_relay")
    assert await replays.first_replays(requested) == {}, "it was not asked again so soon"
    clock.now += 61
    assert list(await replays.first_replays(requested)) == requested
    await replays.close()


async def test_a_database_that_is_away_is_no_error() -> None:
    replays = OutboxReplays("postgres://nobody@127.0.0.1:1/none", "r", TABLE)
    assert await replays.first_replays([WHO_KNOWS]) == {}
    await replays.close()


def test_an_older_record_gets_its_index(outbox: Outbox) -> None:
    add_extension(outbox.database.url, TABLE, "replay-audit")
    outbox.database.run("DROP INDEX openoutbox_replays_event_id")
    add_extension(outbox.database.url, TABLE, "replay-audit")
    assert outbox.database.run("SELECT 1 FROM pg_indexes WHERE indexname = 'openoutbox_replays_event_id'") == [(1,)]
