"""What an application can do that may insert events and nothing else, and what a reader can."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from tests.support.documents import blocks
from tests.support.fixtures.outbox import Outbox, Row

pytestmark = pytest.mark.postgres

_ROW = "INSERT INTO openoutbox_events (event_id, event_type, payload{}) VALUES (gen_random_uuid(), 't', ''{})"


@pytest.fixture
def inserter(outbox: Outbox) -> Iterator[str]:
    """A role with the rights that docs/operate/trust.md gives."""
    role = f"inserter_{uuid.uuid4().hex}"
    [block] = [one for one in blocks("docs/operate/trust.md") if one.language == "sql"]
    with outbox.database.connect() as connection:
        connection.execute(f"CREATE ROLE {role}".encode())
        connection.execute(block.text.replace("orders", role).encode())
    yield role
    with outbox.database.connect() as connection:
        connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


def insert(outbox: Outbox, role: str, column: str = "", value: str = "") -> None:
    with outbox.database.connect() as connection, connection.transaction():
        connection.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(role)))
        connection.execute(_ROW.format(f", {column}" if column else "", f", {value}" if column else "").encode())


def test_it_writes_the_columns_of_an_event(outbox: Outbox, inserter: str) -> None:
    insert(outbox, inserter)
    for column, value in (("partition_key", "'k'"), ("headers", "'{}'"), ("available_at", "'-infinity'")):
        insert(outbox, inserter, column, value)
    assert outbox.counts() == {"PENDING": 4}
    outbox.check_invariants()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("status", "'DELIVERING'"),
        ("attempts", "-2147483648"),
        ("locked_at", "'infinity'"),
        ("locked_by", "'relay'"),
        ("delivered_at", "now()"),
        ("created_at", "'infinity'"),
        ("last_error", "'LEASE_EXPIRED: x'"),
    ],
)
def test_it_writes_no_column_of_the_relays(outbox: Outbox, inserter: str, column: str, value: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        insert(outbox, inserter, column, value)


@pytest.mark.parametrize(
    "statement",
    [
        _ROW.format("", ""),
        "UPDATE openoutbox_events SET status = 'DEAD'",
        "DELETE FROM openoutbox_events",
        "TRUNCATE openoutbox_events",
        "SELECT FROM openoutbox_events FOR UPDATE",
    ],
)
def test_a_reader_reads_every_payload_and_changes_nothing(outbox: Outbox, statement: str) -> None:
    outbox.insert([Row("t", b"a payload")])
    with psycopg.connect(outbox.reader_url, autocommit=True) as reader:
        assert reader.execute("SELECT payload FROM openoutbox_events").fetchall() == [(b"a payload",)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute(statement.encode())
