"""Each test of writing that uses an outbox has one in a database with somebody else's defaults."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.rows import TupleRow

from tests.support.fixtures.postgres import Database

_DEFAULTS = {
    "statement_timeout": "'1s'",
    "idle_in_transaction_session_timeout": "'1s'",
    "idle_session_timeout": "'1s'",
    "search_path": "public, another",
    "default_transaction_isolation": "'repeatable read'",
    "synchronous_commit": "off",
}
"""What Spark's connections get, unless they set it themselves."""
_OF_TESTS = " ".join(f"-c {name}=0" for name in _DEFAULTS if name.endswith("timeout"))


def connect(self: Database, *, autocommit: bool = True) -> psycopg.Connection[TupleRow]:
    """``Database.connect`` without the limits, for what a test does beside Spark."""
    return psycopg.connect(self.url, autocommit=autocommit, options=_OF_TESTS)


@pytest.fixture(autouse=True)
def defaults_of_somebody_else(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Limits of a second, and a table of the same name in another schema of ``search_path``, which stays empty."""
    if "outbox" not in request.fixturenames:
        yield
        return
    outbox = request.getfixturevalue("outbox")
    with outbox.database.connect() as connection:
        connection.execute("CREATE SCHEMA another")
        connection.execute("CREATE TABLE another.openoutbox_events (LIKE public.openoutbox_events INCLUDING ALL)")
        for name, value in _DEFAULTS.items():
            connection.execute(f'ALTER DATABASE "{connection.info.dbname}" SET {name} = {value}'.encode())
    monkeypatch.setattr(Database, "connect", connect)
    yield
    assert outbox.database.run("SELECT count(*) FROM another.openoutbox_events") == [(0,)]
