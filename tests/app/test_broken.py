"""What is broken behind the broker: findings about the inbox and the event store, where they are there."""

from __future__ import annotations

import asyncio

import pytest

from openoutbox import Message, inbox
from relay.app.broken import consumer_troubles
from relay.core.finding import Level
from relay.eventstore import EventStore
from relay.inbox.table import create
from relay.postgres.sql import DEFAULT_INBOX, TableName
from tests.support.fixtures.outbox import Outbox, give_rights

pytestmark = pytest.mark.postgres

TABLE = TableName()
_PARKED = """
INSERT INTO event_parked (Name, TenantId, StreamId, Position, Version, Tries, Error, Due, ParkedAt)
VALUES ('sums', gen_random_uuid(), gen_random_uuid(), 1, 1, 5, 'no sum', FALSE, '2026-03-10T12:00:30Z'),
       ('sums', gen_random_uuid(), gen_random_uuid(), 1, 1, 5, 'no sum', TRUE, '2026-03-09T12:00:30Z')
"""


def migrate_store(url: str) -> None:
    async def run() -> None:
        async with await EventStore.connect(url) as store:
            await store.migrate()

    asyncio.run(run())


def test_without_an_inbox_and_an_event_store_there_is_nothing_to_say(outbox: Outbox) -> None:
    assert consumer_troubles(outbox.reader_url, TABLE) == []


def test_dead_letters_and_parked_streams_are_findings_for_those_who_may_read_them(outbox: Outbox) -> None:
    create(outbox.owner_url, TableName(DEFAULT_INBOX), ["dead-letters"])
    migrate_store(outbox.url)
    with outbox.database.connect() as connection:
        give_rights(connection)
    assert consumer_troubles(outbox.url, TABLE) == []
    for number in range(3):
        message = Message(str(number), "orders", None, b"{}", {})
        inbox.set_aside(outbox.database.connect, message, ValueError("no"), consumer="billing 2")
    outbox.database.run("UPDATE openoutbox_inbox_tries SET changed_at = '2026-03-10T12:00:30Z' WHERE event_id = '1'")
    outbox.database.run("UPDATE openoutbox_inbox_tries SET state = 'retry' WHERE event_id = '2'")
    outbox.database.run("INSERT INTO event_subscription (Name, Position) VALUES ('sums', 1)")
    outbox.database.run(_PARKED)
    letters, streams = consumer_troubles(outbox.url, TABLE)
    assert (letters.name, streams.name) == ("billing 2", "sums")
    assert (letters.level, letters.subject) == (Level.WARNING, "inbox")
    assert letters.message == "Consumer billing 2 has 2 dead letters, the oldest since 2026-03-10T12:00:30Z."
    assert letters.advice.endswith("correct the handler, then: relay-cli inbox retry 'billing 2'")
    assert (streams.level, streams.subject) == (Level.WARNING, "subscription")
    assert streams.message == "Subscription sums has set aside 1 stream, the first at 2026-03-10T12:00:30Z."
    assert streams.advice == "relay-cli store parked list sums says why; then: relay-cli store parked retry sums"
    assert consumer_troubles(outbox.writer_url, TABLE) == []
    assert len(consumer_troubles(outbox.reader_url, TABLE)) == 1
