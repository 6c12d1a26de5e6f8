"""A claim is never compiled and never sorts the backlog: the planner would think both worth while, but they are not."""

from __future__ import annotations

import pytest

from relay.core.errors import StorageError
from relay.storage.lane import Connection
from relay.storage.options import PostgresOptions
from relay.storage.postgres import PostgresOutbox
from tests.fixtures.outbox import Outbox, Row

pytestmark = pytest.mark.integration

_NOTED = """
CREATE TABLE noted (jit text, enable_sort text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
$$ BEGIN INSERT INTO noted VALUES (current_setting('jit'), current_setting('enable_sort')); RETURN NEW; END $$;
CREATE TRIGGER note BEFORE UPDATE ON openoutbox_events FOR EACH ROW EXECUTE FUNCTION note()
"""


async def test_claims_are_guarded_while_events_wait_and_nothing_is_left_of_it(outbox: Outbox) -> None:
    """What the guard sets is local to the claim's transaction; a claim after one that found nothing goes without."""
    with outbox.database.connect() as connection:
        connection.execute(_NOTED)
    outbox.insert([Row("topic")] * 3)
    storage = PostgresOutbox(PostgresOptions(url=outbox.relay_url, relay_id="relay"))
    await storage.open()
    for found in (1, 1, 1, 0):
        assert len((await storage.claim(1, 1000)).events) == found
    outbox.insert([Row("topic")] * 3)
    for _ in range(2):
        assert len((await storage.claim(1, 1000)).events) == 1
    left = await storage._claiming.run("asking", settings)
    await storage.close()
    noted = [("off", "off")] * 3 + [("on", "on"), ("off", "off")]
    assert outbox.database.run("SELECT jit, enable_sort FROM noted") == noted
    assert left == ("on", "on")


async def test_a_lag_or_a_failure_has_the_next_claim_guarded(outbox: Outbox) -> None:
    with outbox.database.connect() as connection:
        connection.execute(_NOTED)
    storage = PostgresOutbox(PostgresOptions(url=outbox.relay_url, relay_id="relay"))
    await storage.open()
    assert not (await storage.claim(1, 1000)).events
    outbox.insert([Row("topic")])
    assert await storage.oldest_due_age() > 0
    assert len((await storage.claim(1, 1000)).events) == 1
    assert not (await storage.claim(1, 1000)).events
    outbox.insert([Row("topic")])
    with pytest.raises(StorageError):
        await storage.claim(-1, 1000)
    assert len((await storage.claim(1, 1000)).events) == 1
    await storage.close()
    assert outbox.database.run("SELECT jit, enable_sort FROM noted") == [("off", "off")] * 2


async def settings(connection: Connection) -> object:
    """What the session goes on with."""
    cursor = await connection.execute("SELECT current_setting('jit'), current_setting('enable_sort')")
    return await cursor.fetchone()
