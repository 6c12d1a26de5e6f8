"""Slow claims stop being compiled, or sorting the backlog: the planner may think both worth while, and they are not."""

from __future__ import annotations

import pytest

from relay.core.errors import StorageError
from relay.outbox.storage import PostgresOutbox
from relay.postgres.connect import Connection
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.options import storage_options

_NOTED = """
CREATE TABLE noted (jit text, enable_sort text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
$$ BEGIN INSERT INTO noted VALUES (current_setting('jit'), current_setting('enable_sort')); RETURN NEW; END $$;
CREATE TRIGGER note BEFORE UPDATE ON openoutbox_events FOR EACH ROW EXECUTE FUNCTION note()
"""


async def test_claims_are_guarded_once_one_was_slow_and_nothing_is_left_of_it(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the guard sets is local to the claim's transaction; a claim that finds nothing ends it."""
    storage = await watched(outbox)
    outbox.insert([Row("topic")] * 4)
    assert len((await storage.claim(1, 1000)).events) == 1
    monkeypatch.setattr("relay.outbox.storage._SLOW", -1.0)
    assert len((await storage.claim(1, 1000)).events) == 1
    monkeypatch.setattr("relay.outbox.storage._SLOW", 60.0)
    for number in (1, 1, 0):
        assert len((await storage.claim(1, 1000)).events) == number
    outbox.insert([Row("topic")])
    assert len((await storage.claim(1, 1000)).events) == 1
    left = await storage._claiming.run("asking", settings)
    await storage.close()
    assert noted(outbox) == [("on", "on")] * 2 + [("off", "off")] * 2 + [("on", "on")]
    assert left == ("on", "on")


async def test_a_slow_look_at_the_lag_or_a_failure_has_the_next_claim_guarded(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = await watched(outbox)
    outbox.insert([Row("topic")])
    monkeypatch.setattr("relay.outbox.storage._SLOW", -1.0)
    assert await storage.oldest_due_age() > 0
    monkeypatch.setattr("relay.outbox.storage._SLOW", 60.0)
    assert len((await storage.claim(1, 1000)).events) == 1
    assert not (await storage.claim(1, 1000)).events
    outbox.insert([Row("topic")])
    with pytest.raises(StorageError):
        await storage.claim(1 << 70, 1000)  # more than a bigint
    assert len((await storage.claim(1, 1000)).events) == 1
    await storage.close()
    assert noted(outbox) == [("off", "off")] * 2


async def watched(outbox: Outbox) -> PostgresOutbox:
    """A storage whose claims are noted with the settings that they ran with."""
    with outbox.database.connect() as connection:
        connection.execute(_NOTED)
    storage = PostgresOutbox(storage_options(url=outbox.relay_url, relay_id="relay"))
    await storage.open()
    return storage


def noted(outbox: Outbox) -> list[tuple[str, ...]]:
    """The settings of each claim."""
    return outbox.database.run("SELECT jit, enable_sort FROM noted")


async def settings(connection: Connection) -> object:
    """What the session goes on with."""
    cursor = await connection.execute("SELECT current_setting('jit'), current_setting('enable_sort')")
    return await cursor.fetchone()
