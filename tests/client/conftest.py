"""A database with the contract's table in it."""

from __future__ import annotations

import pytest

from openoutbox.names import TableName
from openoutbox.statements import sql_files, statement
from tests.support.fixtures.database import Database


def create_outbox(database: Database, table: TableName | None = None) -> None:
    """Create the contract's table, under another name if one is given (its indexes keep theirs)."""
    for path in sql_files("outbox/migrations"):
        database.run(statement(path, table), {})


@pytest.fixture
def outbox(database: Database) -> Database:
    """A database of this test's own with an empty outbox."""
    create_outbox(database)
    return database
