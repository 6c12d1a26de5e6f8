"""relay-cli roles: each role can do what it is for, and no more. Relays run with it everywhere else."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors

from openoutbox import NewEvent, enqueue
from relay.outbox.migrate import migrate, plan
from relay.postgres.sql import TableName
from tests.support.fixtures.outbox import Outbox, Row

INSERT = "INSERT INTO openoutbox_events (event_id, event_type, payload) VALUES (gen_random_uuid(), 't', '')"
SELECT = "SELECT status FROM openoutbox_events"
SETTLE = "UPDATE openoutbox_events SET status = status"
TAMPER = "UPDATE openoutbox_events SET payload = ''"
DELETE = "DELETE FROM openoutbox_events"
DROP = "DROP TABLE openoutbox_events"
ALL = (INSERT, SELECT, SETTLE, TAMPER, DELETE, DROP)


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        ("writer_url", {INSERT}),
        ("relay_url", {SELECT, SETTLE}),
        ("pruner_url", {SELECT, DELETE}),
        ("reader_url", {SELECT}),
        ("owner_url", set(ALL)),
    ],
)
def test_each_role_has_its_rights_and_no_other(outbox: Outbox, role: str, allowed: set[str]) -> None:
    outbox.insert([Row("t")])
    missing = set()
    for statement in ALL:
        with psycopg.connect(getattr(outbox, role)) as connection:
            try:
                connection.execute(statement.encode())
                missing.add(statement)
            except errors.InsufficientPrivilege:
                pass
            connection.rollback()
    assert missing == allowed


def test_the_writer_enqueues_and_repeats_itself(outbox: Outbox) -> None:
    event = NewEvent("user.signup", {"id": 1})
    with psycopg.connect(outbox.writer_url) as connection:
        for _ in range(2):
            enqueue(connection, event)
    assert outbox.counts() == {"PENDING": 1}


def test_the_owner_migrates(outbox: Outbox) -> None:
    outbox.database.run("DROP INDEX idx_openoutbox_stuck_leases")
    migrate(outbox.owner_url, TableName())
    assert plan(outbox.owner_url, TableName()).up_to_date
    migrate(outbox.owner_url, TableName("another"))
    assert plan(outbox.owner_url, TableName("another")).up_to_date
