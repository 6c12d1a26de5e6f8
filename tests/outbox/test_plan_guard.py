"""Slow claims stop being compiled, or sorting the backlog: the planner may think both worth while, and they are not."""

from __future__ import annotations

import pytest

from relay.core.errors import StorageError
from relay.core.event import EventId
from relay.outbox.plan_guard import ClaimGuard
from relay.outbox.storage import PostgresOutbox
from relay.postgres.connect import Connection
from relay.postgres.prepared import Preparation
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.options import storage_options

_NOTED = """
CREATE TABLE noted (jit text, enable_sort text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
$$ BEGIN INSERT INTO noted VALUES (current_setting('jit'), current_setting('enable_sort')); RETURN NEW; END $$;
CREATE TRIGGER note BEFORE UPDATE ON openoutbox_events FOR EACH ROW EXECUTE FUNCTION note()
"""


async def test_claims_are_guarded_once_two_were_slow_and_nothing_is_left_of_it(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the guard sets is local to the claim's transaction; a claim that finds nothing ends it."""
    storage = await watched(outbox)
    outbox.insert([Row("topic")] * 5)
    monkeypatch.setattr("relay.outbox.plan_guard._SLOW", 60.0)  # whatever else the machine does
    assert len((await storage.claim(1, 1000)).events) == 1
    monkeypatch.setattr("relay.outbox.plan_guard._SLOW", -1.0)
    monkeypatch.setattr("relay.outbox.plan_guard._TIMES", 1_000_000)
    for _ in range(2):
        assert len((await storage.claim(1, 1000)).events) == 1
    monkeypatch.setattr("relay.outbox.plan_guard._SLOW", 60.0)
    for number in (1, 1, 0):
        assert len((await storage.claim(1, 1000)).events) == number
    outbox.insert([Row("topic")])
    assert len((await storage.claim(1, 1000)).events) == 1
    left = await storage._claiming.run("asking", settings)
    await storage.close()
    assert noted(outbox) == [("on", "on")] * 3 + [("off", "off")] * 2 + [("on", "on")]
    assert left == ("on", "on")


async def test_a_failure_has_the_next_claim_guarded(outbox: Outbox) -> None:
    storage = await watched(outbox)
    outbox.insert([Row("topic")])
    with pytest.raises(StorageError):
        await storage.claim(1, 1000, [EventId("not an id")])
    assert len((await storage.claim(1, 1000)).events) == 1
    await storage.close()
    assert noted(outbox) == [("off", "off")]


def test_one_slow_claim_is_the_machine() -> None:
    guard, _ = guard_and_clock()
    guard.took(5.0)
    assert not guard.on
    guard.took(0.01)
    guard.took(5.0)
    assert not guard.on


def test_two_in_a_row_are_guarded_against_in_proportion_to_their_length() -> None:
    guard, clock = guard_and_clock()
    guard.took(0.5)
    guard.took(2.0)
    clock[0] += 99.0
    assert guard.on
    clock[0] += 2.0
    assert not guard.on


def test_after_a_failure_the_next_are_guarded_at_once() -> None:
    guard, clock = guard_and_clock()
    guard.failed(0.001)
    assert guard.on
    clock[0] += 60.0
    assert not guard.on


def test_a_claim_that_finds_nothing_ends_it() -> None:
    guard, _ = guard_and_clock()
    guard.failed(15.0)
    guard.lift()
    assert not guard.on


def guard_and_clock() -> tuple[ClaimGuard, list[float]]:
    clock = [1000.0]
    return ClaimGuard(lambda: clock[0]), clock


async def watched(outbox: Outbox) -> PostgresOutbox:
    """A storage whose claims are noted with the settings that they ran with."""
    with outbox.database.connect() as connection:
        connection.execute(_NOTED)
    storage = PostgresOutbox(storage_options(url=outbox.relay_url, relay_id="relay", prepared=Preparation.OFF))
    await storage.open()
    return storage


def noted(outbox: Outbox) -> list[tuple[str, ...]]:
    """The settings of each claim."""
    return outbox.database.run("SELECT jit, enable_sort FROM noted")


async def settings(connection: Connection) -> object:
    """What the session goes on with."""
    cursor = await connection.execute("SELECT current_setting('jit'), current_setting('enable_sort')")
    return await cursor.fetchone()
