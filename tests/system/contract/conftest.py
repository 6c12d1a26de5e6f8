"""The acceptance suite's daemons, and tables that write down each of their changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.fixtures.postgres import Database
from tests.system.contract.history import WatchedTable

Watch = Callable[..., WatchedTable]


@pytest.fixture
def watch(database: Database) -> Iterator[Watch]:
    """``watch(table=…, schema=…)`` makes a table by hand in the test's database, with a user of its own."""
    tables: list[WatchedTable] = []

    def create(**named: str) -> WatchedTable:
        tables.append(WatchedTable.create(database, **named))
        return tables[-1]

    yield create
    for table in tables:
        table.drop_user()
