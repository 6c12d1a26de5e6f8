"""Reaps begin at a head, and what is behind it is reclaimed by a walk over all leases."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from relay.core.ports import Reaped
from relay.outbox.reaping import SHARE, Reaping
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
    clock.now += 10.0 / SHARE + 1.0
    assert await reap(reaping) == 1


async def test_a_locked_lease_that_a_reap_went_past_is_reclaimed(
    outbox: Outbox, reaping: Reaping, clock: Clock
) -> None:
    expired(outbox, 3600.0)
    with outbox.database.connect() as connection, connection.transaction():
        connection.execute("SELECT 1 FROM openoutbox_events FOR UPDATE")
        await make_dear(reaping, clock)
    assert await reap(reaping) == 0
    clock.now += 10.0 / SHARE + 1.0
    assert await reap(reaping) == 1


async def test_more_leases_behind_the_head_than_one_reap_takes_are_reclaimed_without_a_pause(
    outbox: Outbox, reaping: Reaping, clock: Clock
) -> None:
    await make_dear(reaping, clock)
    expired(outbox, 3600.0, 25)
    clock.now += 10.0 / SHARE + 1.0
    assert [await reap(reaping, 10) for _ in range(3)] == [10, 10, 5]


async def test_while_a_walk_is_cheap_every_reap_looks_at_all_leases(outbox: Outbox, reaping: Reaping) -> None:
    assert await reaping.reap(100, LEASE, ()) == Reaped(0, 0)
    expired(outbox, 3600.0)
    assert await reap(reaping) == 1
