"""A claim behind a deep backlog is never compiled: the planner would think that worth while, and it is not."""

from __future__ import annotations

import pytest

from relay.storage import postgres
from relay.storage.options import PostgresOptions
from relay.storage.postgres import PostgresOutbox
from tests.fixtures.outbox import Outbox, Row

pytestmark = pytest.mark.integration

_NOTED = """
CREATE TABLE noted (jit text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
$$ BEGIN INSERT INTO noted VALUES (current_setting('jit')); RETURN NEW; END $$;
CREATE TRIGGER note BEFORE UPDATE ON openoutbox_events FOR EACH ROW EXECUTE FUNCTION note()
"""


async def test_compilation_is_off_while_the_backlog_is_deep(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "_DEEP", 3)
    with outbox.database.connect() as connection:
        connection.execute(_NOTED)
    outbox.insert([Row("topic")] * 4)
    storage = PostgresOutbox(PostgresOptions(url=outbox.relay_url, relay_id="relay"))
    await storage.open()
    for _ in range(2):
        assert len((await storage.claim(1, 1000)).events) == 1
        await storage.backlog()  # three wait: deep; then two: not any more
    await storage.claim(1, 1000)
    await storage.close()
    assert outbox.database.run("SELECT jit FROM noted") == [("on",), ("off",), ("on",)]
