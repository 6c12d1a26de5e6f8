"""The trigger of wake-ups makes PREPARE TRANSACTION fail: check says so before it is added, and after."""

from __future__ import annotations

import psycopg
import pytest

from relay.core.finding import Level
from relay.localservers.postgres import PostgresServer
from relay.outbox.admin.outbox_check import check_storage
from relay.outbox.extensions import add_extension
from relay.postgres.sql import TableName
from tests.support.fixtures.outbox import Outbox
from tests.support.fixtures.postgres import create_database

pytestmark = pytest.mark.postgres

INSERT = "INSERT INTO openoutbox_events (event_id, event_type, payload) VALUES (gen_random_uuid(), 't', '')"


def levels(outbox: Outbox) -> list[Level]:
    findings, _ = check_storage(outbox.url, TableName(), 180.0, retention=1.0)
    return [finding.level for finding in findings if finding.subject == "wake-up"]


def insert_prepared(outbox: Outbox) -> None:
    with outbox.database.connect() as connection:
        connection.execute("BEGIN")
        connection.execute(INSERT)
        connection.execute("PREPARE TRANSACTION 'one'")
        connection.execute("COMMIT PREPARED 'one'")


def test_check_names_the_trigger_of_wake_ups_where_transactions_are_prepared(own_postgres: PostgresServer) -> None:
    outbox = Outbox.create(create_database(own_postgres.url))
    assert levels(outbox) == []
    with psycopg.connect(own_postgres.url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET max_prepared_transactions = 5")
    own_postgres.stop()
    own_postgres.start()
    assert levels(outbox) == [Level.OK]
    insert_prepared(outbox)
    add_extension(outbox.url, TableName(), "wake-up")
    assert levels(outbox) == [Level.WARNING]
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        insert_prepared(outbox)
