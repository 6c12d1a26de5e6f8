"""Alembic's autogenerate beside the outbox: it drops nothing of ours, and makes what it was told of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata, produce_migrations
from alembic.migration import MigrationContext
from alembic.operations import Operations

from openoutbox import alembic as ours
from openoutbox import dead_letter_statements, inbox_statements
from openoutbox.names import TableName
from relay.outbox.extensions import add_extension, extension_names
from relay.outbox.migrate import migrate, plan
from tests.support.fixtures.database import Database


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests declared."""
    monkeypatch.setattr(ours, "_declared", {})


def engine(database: Database) -> sa.Engine:
    return sa.create_engine(sa.make_url(database.url).set(drivername="postgresql+psycopg"), poolclass=sa.NullPool)


def context(connection: sa.Connection, include_name: Callable[..., bool]) -> MigrationContext:
    options: dict[str, Any] = {"include_name": include_name, "compare_type": True, "compare_server_default": True}
    return MigrationContext.configure(connection, opts=options)


def everything(database: Database, table: str, inbox: str) -> None:
    name = TableName.parse(table)
    migrate(database.url, name)
    for extension in extension_names():
        add_extension(database.url, name, extension)
    for statement in (*inbox_statements(inbox), *dead_letter_statements(inbox)):
        database.run(statement)


@pytest.mark.parametrize(
    ("table", "inbox", "include_name"),
    [
        ("openoutbox_events", "openoutbox_inbox", ours.include_name),
        ("Orders", "seen", ours.leaving_out(table="Orders", inbox="seen")),
    ],
)
def test_autogenerate_drops_no_table_of_ours_and_each_other_one(
    database: Database, table: str, inbox: str, include_name: Callable[..., bool]
) -> None:
    everything(database, table, inbox)
    database.run("CREATE TABLE openoutbox_of_somebody_else (id INT)")
    with engine(database).connect() as connection:
        found = compare_metadata(context(connection, include_name), sa.MetaData())
    assert [(change[0], change[1].name) for change in found] == [("remove_table", "openoutbox_of_somebody_else")]


def test_what_is_declared_equals_what_migrate_makes_whatever_extensions_there_are(database: Database) -> None:
    everything(database, "openoutbox_events", "openoutbox_inbox")
    metadata = sa.MetaData()
    outbox, _ = ours.tables(metadata)
    with engine(database).connect() as connection:
        assert compare_metadata(context(connection, ours.include_name), metadata) == []
        outbox.append_column(sa.Column("of_the_application", sa.Text))
        [change] = compare_metadata(context(connection, ours.include_name), metadata)
    assert (change[0], change[3].name) == ("add_column", "of_the_application")


def test_autogenerate_makes_the_tables_that_are_declared(database: Database) -> None:
    metadata = sa.MetaData()
    outbox, inbox = ours.tables(metadata)
    assert (outbox.name, inbox.name) == ("openoutbox_events", "openoutbox_inbox")
    with engine(database).begin() as connection:
        alembic = context(connection, ours.include_name)
        operations = Operations(alembic)
        steps = produce_migrations(alembic, metadata).upgrade_ops
        assert steps is not None
        for step in steps.ops:
            for one in getattr(step, "ops", [step]):
                operations.invoke(one)
    assert plan(database.url, TableName()).up_to_date
