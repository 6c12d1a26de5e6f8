"""The minutes of a table: what relays add up, at the same time too, what is read and what is deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from relay.core.errors import SchemaError
from relay.core.optional_parts import TypeCounts
from relay.outbox.admin.series import SeriesPoint, read_series
from relay.outbox.extensions import add_extension
from relay.outbox.series import RETENTION, OutboxSeries
from relay.outbox.storage import PostgresOutbox
from relay.postgres.sql import TableName
from tests.support.fixtures.outbox import Outbox, give_rights
from tests.support.options import storage_options

pytestmark = pytest.mark.postgres

TABLE = TableName()
COUNTS = [TypeCounts("b", 10, 2, 1), TypeCounts("a", 5, 0, 0), TypeCounts("", 0, 0, 0)]
ROWS = "SELECT event_type, delivered, failed, dead, lag FROM openoutbox_series ORDER BY event_type"
FILL = """
INSERT INTO openoutbox_series
SELECT DATE_TRUNC('minute', now()) - make_interval(mins => n), t, 1, 0, 0, 0
FROM generate_series(0, {}) AS n,
     unnest(ARRAY['', 'order.placed', 'order.paid', 'user.signup', 'invoice.sent', 'stock.changed']) AS t
"""
IN_THIS_MINUTE = "UPDATE openoutbox_series SET minute = DATE_TRUNC('minute', now()) - make_interval(mins => 1)"


@pytest.fixture
async def relays(outbox: Outbox) -> AsyncIterator[list[OutboxSeries]]:
    """Three relays on a table with the extension, as users with a relay's rights."""
    add_extension(outbox.owner_url, TABLE, "series")
    with outbox.database.connect() as connection:
        give_rights(connection)
    async with AsyncExitStack() as stack:
        series = []
        for number in range(3):
            storage = PostgresOutbox(storage_options(outbox.relay_url, f"relay-{number}"))
            stack.push_async_callback(storage.close)
            await storage.open()
            series.append(OutboxSeries(storage, TABLE))
        yield series


def sums(outbox: Outbox) -> list[tuple[object, ...]]:
    return outbox.database.run(
        "SELECT event_type, sum(delivered)::int, sum(failed)::int, sum(dead)::int FROM openoutbox_series "
        "GROUP BY 1 ORDER BY 1"
    )


async def test_relays_add_up_in_one_minute_at_the_same_time(outbox: Outbox, relays: list[OutboxSeries]) -> None:
    """Their types come in other orders: none waits in a circle, and no count is lost."""
    orders = [COUNTS, COUNTS[::-1], [COUNTS[1], COUNTS[2], COUNTS[0]]]

    async def add(one: OutboxSeries, counts: list[TypeCounts]) -> None:
        for _ in range(40):
            wait = await one.add(counts, 1.5, 0.0)
            assert wait is not None
            assert 0 < wait <= 60

    await asyncio.gather(*(add(one, counts) for one, counts in zip(relays, orders, strict=True)))
    assert sums(outbox) == [("", 0, 0, 0), ("a", 600, 0, 0), ("b", 1200, 240, 120)]
    assert len(outbox.database.run(ROWS)) <= 6  # two minutes, where one ended meanwhile


async def test_the_longest_lag_stays_and_counts_go_to_the_middle_of_their_time(
    outbox: Outbox, relays: list[OutboxSeries]
) -> None:
    for lag in (2.0, 30.0, 1.0):
        await relays[0].add(COUNTS[2:], lag, 3_600.0)
    places = outbox.database.run("SELECT now() - minute, lag FROM openoutbox_series ORDER BY lag DESC")
    assert 1_800 <= places[0][0].total_seconds() <= 1_861
    assert places[0][1] == 30.0


async def test_what_is_older_than_a_week_is_deleted(outbox: Outbox, relays: list[OutboxSeries]) -> None:
    minutes = int(RETENTION / 60)
    outbox.database.run(FILL.format(minutes + 3))
    outbox.database.run("INSERT INTO openoutbox_series VALUES (now() - interval '1 year', 'old', 1, 1, 1, 1)")
    await asyncio.gather(*(one.add(COUNTS, 0.0, 0.0) for one in relays))
    oldest = outbox.database.run("SELECT now() - min(minute) FROM openoutbox_series")[0][0]
    assert oldest.total_seconds() <= RETENTION + 60


def test_a_week_of_five_types_takes_ten_megabytes_at_most(outbox: Outbox) -> None:
    add_extension(outbox.owner_url, TABLE, "series")
    outbox.database.run(FILL.format(7 * 1440 - 1))  # a minute may end before they are read
    [(size,)] = outbox.database.run("SELECT pg_total_relation_size('openoutbox_series')")
    assert 5_000_000 < size < 10_000_000
    with outbox.database.connect() as connection:
        give_rights(connection)
    points = read_series(outbox.reader_url, TABLE, 360, 28)
    assert points is not None
    assert sum(point.delivered for point in points) == 6 * 7 * 1440
    assert {point.counted for point in points[1:-1]} == {28}


async def test_every_step_is_read_and_one_without_a_relay_says_so(outbox: Outbox, relays: list[OutboxSeries]) -> None:
    await relays[0].add(COUNTS, 4.0, 0.0)
    outbox.database.run(IN_THIS_MINUTE)
    points = read_series(outbox.reader_url, TABLE, 3, 1)
    assert points is not None
    assert [tuple(point[1:]) for point in points] == [(0, 0, 0, 0.0, 0)] * 2 + [(15, 2, 1, 4.0, 1), (0, 0, 0, 0.0, 0)]
    of_type = read_series(outbox.reader_url, TABLE, 1, 1440, "b")
    assert of_type is not None
    assert of_type[0] == SeriesPoint(of_type[0].start, 10, 2, 1, 4.0, 1)


async def test_a_table_of_another_name_has_its_own(outbox: Outbox) -> None:
    table = TableName.parse("orders")
    outbox.database.run("CREATE TABLE orders (LIKE openoutbox_events INCLUDING ALL)")
    add_extension(outbox.url, table, "series")
    storage = PostgresOutbox(storage_options(outbox.url, "r", table=table))
    await storage.open()
    assert await OutboxSeries(storage, table).add(COUNTS, 0.0, 0.0) is not None
    await storage.close()
    assert outbox.database.run("SELECT count(*) FROM orders_series") == [(3,)]


async def test_without_the_right_the_message_names_the_grant_and_least_privilege_is_enough(
    outbox: Outbox, relays: list[OutboxSeries]
) -> None:
    with pytest.raises(SchemaError, match="permission denied"):
        read_series(outbox.url_of("writer"), TABLE, 1, 1)
    assert read_series(outbox.url_of("console"), TABLE, 1, 1) is not None
    assert read_series(outbox.url_of("operator"), TABLE, 1, 1) is not None
    outbox.database.run("REVOKE UPDATE ON openoutbox_series FROM openoutbox_relay")
    with pytest.raises(SchemaError, match=r'GRANT SELECT, INSERT, UPDATE, DELETE ON "openoutbox_series"'):
        await relays[0].add(COUNTS, 0.0, 0.0)


async def test_without_the_extension_nothing_is_sent(outbox: Outbox) -> None:
    storage = PostgresOutbox(storage_options(outbox.relay_url, "r"))
    await storage.open()
    assert await OutboxSeries(storage, TABLE).add(COUNTS, 0.0, 0.0) is None
    assert read_series(outbox.reader_url, TABLE, 1, 1) is None
    await storage.close()
