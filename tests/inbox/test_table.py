"""Concurrent migrations create the inbox once, and a table that differs is left alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from openoutbox import inbox, inbox_statements
from relay.core.errors import ConfigError, SchemaError, StorageUnavailable
from relay.inbox.prune import InboxRetention, preview
from relay.inbox.table import create, missing
from relay.postgres.sql import TableName
from tests.inbox.conftest import INBOX
from tests.support.fixtures.outbox import Outbox
from tests.support.fixtures.postgres import Database


def test_it_is_created_once(database: Database) -> None:
    assert missing(database.url, INBOX)
    assert create(database.url, INBOX)
    assert not missing(database.url, INBOX)
    assert not create(database.url, INBOX)


def test_several_at_once_create_it_once(database: Database) -> None:
    with ThreadPoolExecutor(8) as pool:
        created = list(pool.map(lambda _: bool(create(database.url, INBOX)), range(8)))
    assert sorted(created) == [False] * 7 + [True]


def test_the_printed_statements_make_the_same_table(database: Database) -> None:
    for sql in inbox_statements(str(INBOX)):
        database.run(sql)
    assert not create(database.url, INBOX)


def test_any_name_is_taken_exactly(database: Database) -> None:
    name = TableName('I"n%b x', "Ä b")
    database.run('CREATE SCHEMA "Ä b"')
    assert create(database.url, name)
    assert not create(database.url, name)
    with database.connect(autocommit=False) as connection, inbox.once(connection, "1", consumer="c", table=name) as new:
        assert new
    assert database.run('SELECT event_id FROM "Ä b"."I""n%b x"') == [("1",)]


COLUMNS = "consumer text, event_id text, received_at timestamptz DEFAULT now()"


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        ("CREATE VIEW openoutbox_inbox AS SELECT 1 AS consumer", "it is not a plain table"),
        (
            "CREATE TABLE openoutbox_inbox (event_id uuid PRIMARY KEY)",
            "its columns are event_id uuid, not consumer text",
        ),
        (
            f"CREATE TABLE openoutbox_inbox ({COLUMNS}, PRIMARY KEY (event_id, consumer))",
            "its primary key is not (consumer, event_id)",
        ),
        (
            f"CREATE TABLE openoutbox_inbox ({COLUMNS}, PRIMARY KEY (consumer, event_id))",
            'CREATE INDEX CONCURRENTLY ON "openoutbox_inbox" (received_at)',
        ),
    ],
)
def test_a_table_that_differs_is_left_alone(database: Database, definition: str, said: str) -> None:
    database.run(definition)
    with pytest.raises(SchemaError) as refused:
        create(database.url, INBOX)
    assert said in str(refused.value)


def test_what_is_missing_is_said_with_what_to_run(database: Database, outbox: Outbox) -> None:
    with pytest.raises(SchemaError, match="there is no table openoutbox_inbox; create it: relay-cli inbox migrate"):
        preview(database.url, INBOX, InboxRetention())
    with pytest.raises(SchemaError, match='GRANT USAGE, CREATE ON SCHEMA "public" TO "test_reader"'):
        create(outbox.reader_url, INBOX)
    with pytest.raises(StorageUnavailable):
        create("postgres://127.0.0.1:1/x", INBOX)


def test_its_extension_is_made_beside_it(database: Database) -> None:
    table = TableName.parse("public.My marks")
    assert [step.name for step in missing(database.url, table, ["dead-letters"])] == [
        "public.My marks",
        "public.My marks_tries",
    ]
    create(database.url, table)
    assert [step.name for step in create(database.url, table, ["dead-letters"])] == ["public.My marks_tries"]
    assert not create(database.url, table, ["dead-letters", "dead-letters"])
    with pytest.raises(ConfigError, match="extension 'letters' does not exist; the extensions are dead-letters"):
        missing(database.url, table, ["letters"])
