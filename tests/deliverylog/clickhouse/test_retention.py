"""Retention in ClickHouse: lists whose deliveries the TTL has deleted, clauses of others, and changes of the days."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from relay.deliverylog import DeliveryLogError, ListAttempts, ListEvents, MetricsQuery, open_delivery_log
from relay.deliverylog.clickhouse.driver import ClickHouseDeliveryLog
from tests.deliverylog.making import BASE, all_items, attempt_ids, entry, event, ms

pytestmark = pytest.mark.xdist_group("clickhouse")

NOW = datetime.now(UTC).replace(microsecond=0)
OLD = NOW - timedelta(days=10)


async def test_lists_read_on_past_deliveries_that_the_ttl_has_deleted(
    clickhouse: ClickHouseDeliveryLog, prefix: str
) -> None:
    """Each table is merged at another time: entries of a list outlive the rows that they name."""
    await clickhouse.insert_many([entry(f"a{n:02d}", BASE + ms(n)) for n in range(40)])
    await clickhouse._client.command(
        f"ALTER TABLE {prefix}event_log DELETE WHERE delivery_id BETWEEN 'a05' AND 'a34' SETTINGS mutations_sync = 1"
    )
    retained = [f"a{n:02d}" for n in (*range(5), *range(35, 40))]
    for limit in (1, 3, 100):
        events = await all_items(clickhouse, ListEvents(limit=limit, order="asc"))
        assert [one.id for one in events] == [f"e-{name}" for name in retained]
        assert attempt_ids(await all_items(clickhouse, ListAttempts(limit=limit, order="asc"))) == retained
    newest = await clickhouse.list_events(ListEvents(limit=7))
    assert [one.id for one in newest.items] == [f"e-a{n:02d}" for n in (39, 38, 37, 36, 35, 4, 3)]


async def test_an_event_is_listed_while_one_of_its_deliveries_is_retained(
    clickhouse: ClickHouseDeliveryLog, prefix: str
) -> None:
    its = event("e", OLD, data=b"first", matched_destination_ids=["d1", "d2"])
    for n, time in enumerate((OLD, OLD + ms(1), NOW)):
        await clickhouse.insert_many([entry(f"a{n}", time, its, attempt_number=n + 1)])
    counted = MetricsQuery(start=OLD, end=OLD + ms(1), measures=["count"], dimensions=["destination_id"])
    await clickhouse._client.command(f"OPTIMIZE TABLE {prefix}event_log_events FINAL")
    assert await all_items(clickhouse, ListEvents()) == [its]
    either = MetricsQuery(start=OLD, end=OLD + ms(1), measures=["count"], filters={"destination_id": ["d1", "d2"]})
    assert (await clickhouse.event_metrics(either)).rows == [{"count": 2}]  # once for each destination
    both = [{"destination_id": "d1", "count": 1}, {"destination_id": "d2", "count": 1}]
    assert sorted((await clickhouse.event_metrics(counted)).rows, key=str) == sorted(both, key=str)
    await clickhouse.apply_retention(7)
    assert attempt_ids(await all_items(clickhouse, ListAttempts())) == ["a2"]
    for query in (ListEvents(), ListEvents(destination_ids=["d2"]), ListEvents(tenant_ids=["t1"])):
        assert await all_items(clickhouse, query) == [its]
    assert await clickhouse.retrieve_event("e", destination_id="d1") is not None
    assert sorted((await clickhouse.event_metrics(counted)).rows, key=str) == sorted(both, key=str)


async def test_an_event_of_the_first_copy_is_shown_while_that_is_retained(
    clickhouse: ClickHouseDeliveryLog, prefix: str
) -> None:
    for n in range(3):
        copy = event("e", BASE, data=f"{n}".encode())
        await clickhouse.insert_many([entry(f"a{n}", BASE + ms(5 - n), copy, attempt_number=n + 1)])
    for expected in (b"0", b"1", b"2"):
        assert [one.data for one in await all_items(clickhouse, ListEvents())] == [expected]
        await clickhouse._client.command(
            f"ALTER TABLE {prefix}event_log DELETE WHERE data = '{expected.decode()}' SETTINGS mutations_sync = 1"
        )
    assert await all_items(clickhouse, ListEvents()) == []
    assert await clickhouse.retrieve_event("e") is None


async def test_a_ttl_of_the_operators_is_named_and_stays(clickhouse: ClickHouseDeliveryLog, prefix: str) -> None:
    """It was taken for none, so that "keep everything" went on deleting."""
    table = f"{prefix}event_log_attempts"
    await clickhouse._client.command(f"ALTER TABLE {table} MODIFY TTL toDateTime(time) + INTERVAL 3 MONTH")
    for days in (None, 7):
        with pytest.raises(DeliveryLogError, match=rf"table {table} has the TTL .*toIntervalMonth\(3\)"):
            await clickhouse.apply_retention(days)
    with pytest.raises(DeliveryLogError, match=table):
        await clickhouse.retention()


async def test_an_error_in_one_table_names_it(clickhouse: ClickHouseDeliveryLog, prefix: str) -> None:
    table = f"{prefix}event_log_attempts"
    await clickhouse._client.command(f"RENAME TABLE {table} TO {prefix}aside")
    with pytest.raises(DeliveryLogError, match=f"table {table} is missing"):
        await clickhouse.apply_retention(7)
    with pytest.raises(DeliveryLogError, match=f"table {table} is missing"):
        await clickhouse.list_attempts(ListAttempts())
    await clickhouse._client.command(f"RENAME TABLE {prefix}aside TO {table}")
    with pytest.raises(DeliveryLogError, match=f"table {table}: .*refused"):
        await clickhouse._alter(table, clickhouse._sql.no_ttl(table))


async def test_the_days_of_the_options_act_when_they_change(
    clickhouse: ClickHouseDeliveryLog, prefix: str, chdb_folder: Path
) -> None:
    await clickhouse.apply_retention(30)
    changed = await open_delivery_log(f"chdb:///{chdb_folder}", prefix=prefix, retention_days=5)
    await changed.prepare_ahead()
    assert await clickhouse.retention() == 5
    await clickhouse.prepare_ahead()  # without days in its options it leaves what is in force
    assert await clickhouse.retention() == 5
    await changed.close()
