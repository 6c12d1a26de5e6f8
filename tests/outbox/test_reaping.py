"""Reaps begin at a head, and what is behind it is reclaimed by a walk over all leases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from relay.core.blame import MOST_ALIKE
from relay.core.errors import RowRefused
from relay.core.event import EventId
from relay.core.storage import READING_SHARE, Reaped
from relay.outbox.reaping import Reaping
from relay.outbox.storage import PostgresOutbox
from relay.postgres.connect import DeadlineConnection, Generation
from relay.postgres.url import connection_parameters
from tests.support.fixtures.outbox import Outbox
from tests.support.options import storage_options

pytestmark = pytest.mark.postgres

LEASE = 60.0
INSERT = """
INSERT INTO openoutbox_events (event_id, event_type, payload, status, locked_by, locked_at)
SELECT gen_random_uuid(), 'a', '', 'DELIVERING', 'gone', now() - make_interval(secs => %s) FROM generate_series(1, %s)
"""


class Clock:
    """A clock that a test sets; a walk takes ``seconds`` of it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.seconds = 0.0

    def __call__(self) -> float:
        self.now += self.seconds
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def reaping(outbox: Outbox, clock: Clock) -> AsyncIterator[Reaping]:
    options = storage_options(outbox.relay_url, "r")
    parameters = connection_parameters(options.url, "reaping")
    first, slow = (DeadlineConnection(parameters, 15.0, Generation()) for _ in range(2))
    yield Reaping(first, slow, options, clock)
    await first.close()
    await slow.close()


def expired(outbox: Outbox, age: float, count: int = 1) -> None:
    with outbox.database.connect() as connection:
        connection.execute(INSERT, (age, count))


async def reap(reaping: Reaping, limit: int = 100) -> int:
    return (await reaping.reap(limit, LEASE, ())).total


async def make_dear(reaping: Reaping, clock: Clock) -> None:
    """A walk over all takes ten seconds: from here on reaps begin at the head."""
    clock.seconds = 10.0
    await reap(reaping)
    clock.seconds = 0.0
    assert reaping.head > float("-inf")


async def test_a_lease_that_expires_is_reclaimed_from_the_head_on(
    outbox: Outbox, reaping: Reaping, clock: Clock
) -> None:
    await make_dear(reaping, clock)
    expired(outbox, LEASE + 0.5)
    assert await reap(reaping) == 1


async def test_a_lease_behind_the_head_is_reclaimed_by_the_next_walk_over_all(
    outbox: Outbox, reaping: Reaping, clock: Clock
) -> None:
    await make_dear(reaping, clock)
    expired(outbox, 3600.0)
    assert await reap(reaping) == 0
    clock.now += 10.0 / READING_SHARE + 1.0
    assert await reap(reaping) == 1


async def test_a_locked_lease_that_a_reap_went_past_is_reclaimed(
    outbox: Outbox, reaping: Reaping, clock: Clock
) -> None:
    expired(outbox, 3600.0)
    with outbox.database.connect() as connection, connection.transaction():
        connection.execute("SELECT 1 FROM openoutbox_events FOR UPDATE")
        await make_dear(reaping, clock)
    assert await reap(reaping) == 0
    clock.now += 10.0 / READING_SHARE + 1.0
    assert await reap(reaping) == 1


async def test_more_leases_behind_the_head_than_one_reap_takes_are_reclaimed_without_a_pause(
    outbox: Outbox, reaping: Reaping, clock: Clock
) -> None:
    await make_dear(reaping, clock)
    expired(outbox, 3600.0, 25)
    clock.now += 10.0 / READING_SHARE + 1.0
    assert [await reap(reaping, 10) for _ in range(3)] == [10, 10, 5]


async def test_while_a_walk_is_cheap_every_reap_looks_at_all_leases(outbox: Outbox, reaping: Reaping) -> None:
    assert await reaping.reap(100, LEASE, ()) == Reaped(0, 0)
    expired(outbox, 3600.0)
    assert await reap(reaping) == 1


HOUR = -3600.0
"""The database's clock was set back by an hour: a lease of just before is an hour ahead of it."""


async def test_a_lease_ahead_of_the_clock_is_reclaimed_once_it_has_not_changed_for_lease_timeout(
    outbox: Outbox, reaping: Reaping, clock: Clock
) -> None:
    expired(outbox, HOUR, 5)
    assert await reap(reaping) == 0
    clock.now += LEASE - 1.0
    assert await reap(reaping) == 0
    clock.now += 1.0
    assert await reap(reaping, 3) == 3
    assert await reap(reaping, 3) == 2
    with outbox.database.connect() as connection:
        rows = connection.execute("SELECT DISTINCT status, attempts, left(last_error, 14) FROM openoutbox_events")
        assert rows.fetchall() == [("PENDING", 1, "LEASE_EXPIRED:")]


async def test_a_lease_ahead_of_the_clock_that_is_renewed_is_not_reclaimed(
    outbox: Outbox, reaping: Reaping, clock: Clock
) -> None:
    expired(outbox, HOUR)
    for _ in range(4):
        assert await reap(reaping) == 0
        clock.now += LEASE / 2
        outbox.database.run("UPDATE openoutbox_events SET locked_at = locked_at + INTERVAL '1 microsecond'")


async def test_a_clock_that_is_a_second_behind_takes_no_lease(outbox: Outbox, reaping: Reaping, clock: Clock) -> None:
    expired(outbox, -1.0)
    for _ in range(4):
        assert await reap(reaping) == 0
        clock.now += LEASE


async def test_a_lease_of_an_infinite_time_is_reclaimed(outbox: Outbox, reaping: Reaping, clock: Clock) -> None:
    expired(outbox, 0.0)
    outbox.database.run("UPDATE openoutbox_events SET locked_at = 'infinity'")
    assert await reap(reaping) == 0
    clock.now += LEASE
    assert await reap(reaping) == 1


@pytest.mark.parametrize(
    "change",
    [
        "locked_at = NULL",
        "locked_at = NULL, locked_by = NULL",
        "locked_at = '290000-01-01 00:00:00.123457+00'",
        "locked_at = '-infinity', locked_by = NULL",
        "locked_at = 'infinity', attempts = -2147483648",
        "locked_at = '-infinity', locked_by = repeat('x', 1000000)",
    ],
)
async def test_a_forged_lease_is_reclaimed_as_any_of_the_future_and_the_row_is_whole(
    outbox: Outbox, reaping: Reaping, clock: Clock, change: str
) -> None:
    expired(outbox, 0.0, 3)
    outbox.database.run(f"UPDATE openoutbox_events SET {change}")
    reclaimed = await reap(reaping)
    clock.now += LEASE
    assert reclaimed + await reap(reaping, 2) + await reap(reaping, 2) == 3
    outbox.check_invariants()
    sql = "SELECT DISTINCT status, attempts, left(last_error, 14), length(last_error) <= 2000 FROM openoutbox_events"
    assert outbox.database.run(sql) == [("PENDING", 1, "LEASE_EXPIRED:", True)]


async def test_a_refused_lease_ahead_of_the_clock_is_named_and_left_out(
    outbox: Outbox, reaping: Reaping, clock: Clock
) -> None:
    for _ in range(2):
        expired(outbox, HOUR)
    ids = [one for (one,) in outbox.database.run("SELECT event_id::text FROM openoutbox_events ORDER BY locked_at")]
    outbox.database.run(f"ALTER TABLE openoutbox_events ADD CHECK (event_id <> '{ids[0]}' OR status = 'DELIVERING')")
    await reap(reaping)
    clock.now += LEASE
    with pytest.raises(RowRefused) as refusal:
        await reaping.reap(1, LEASE, ())
    assert refusal.value.event_id == ids[0]
    assert (await reaping.reap(1, LEASE, [EventId(ids[0])])).total == 1
    assert outbox.database.run("SELECT event_id::text FROM openoutbox_events WHERE status = 'PENDING'") == [(ids[1],)]


async def test_leases_among_more_refused_ones_than_are_left_out_by_ids_are_reclaimed_page_by_page(
    outbox: Outbox, reaping: Reaping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay.outbox.reaping._PAGE", 2)
    outbox.database.run("ALTER TABLE openoutbox_events ADD CHECK (status <> 'PENDING' OR event_type = 'a')")
    expired(outbox, 600.0)
    outbox.database.run("UPDATE openoutbox_events SET event_type = 'bad'")
    expired(outbox, 300.0, 3)
    expired(outbox, 200.0)
    others = [EventId(str(uuid4())) for _ in range(MOST_ALIKE)]
    pages = [await reaping.reap(100, LEASE, others) for _ in range(4)]
    reclaimed = [(page.total, len(page.refused), page.more) for page in pages]
    assert reclaimed == [(1, 1, True), (2, 0, True), (1, 0, True), (0, 0, False)]


@pytest.mark.parametrize(("status", "column"), [("DELIVERING", "locked_at"), ("PENDING", "created_at")])
async def test_rows_ahead_of_the_clock_are_counted_and_named_once(
    outbox: Outbox, caplog: pytest.LogCaptureFixture, status: str, column: str
) -> None:
    expired(outbox, 0.0, 2)
    storage = PostgresOutbox(storage_options(outbox.relay_url, "r"))
    assert not any(((await storage.upkeep()).ahead or {"nothing": 1}).values())
    outbox.database.run(f"UPDATE openoutbox_events SET status = %s, {column} = now() + INTERVAL '1 hour'", [status])
    for _ in range(2):
        ahead = (await storage.upkeep()).ahead
        assert ahead is not None
        assert ahead[column] == sum(ahead.values()) == 2
    await storage.close()
    [line] = [record for record in caplog.records if "ahead of the database's clock" in record.message]
    assert f"have a {column} up to 3" in line.message
