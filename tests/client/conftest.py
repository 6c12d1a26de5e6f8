"""A database with the contract's table in it."""

from __future__ import annotations

import pytest

from relay.postgres.sql import TableName, sql_root, statement
from tests.support.fixtures.postgres import Database


def create_outbox(database: Database, table: TableName | None = None) -> None:
    """Create the contract's table, under another name if one is given (its indexes keep theirs)."""
    for path in sorted((sql_root() / "outbox" / "migrations").glob("*.sql")):
        database.run(statement(f"outbox/migrations/{path.name}", table), {})


@pytest.fixture
def outbox(database: Database) -> Database:
    """A database of this test's own with an empty outbox."""
    create_outbox(database)
    return database
