"""What only the ClickHouse driver has: copies that are not merged, its TTL, one process a folder, prefixes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from relay.core.errors import ConfigError, OutboxError
from relay.core.origins import SecretOrigin, remember
from relay.deliverylog import (
    DeliveryLogError,
    DeliveryLogUnavailable,
    Granularity,
    ListAttempts,
    ListEvents,
    MetricsQuery,
    ResourceLimit,
    TimeWindow,
    open_delivery_log,
)
from relay.deliverylog.clickhouse.driver import ClickHouseDeliveryLog
from tests.deliverylog.conftest import drop_tables
from tests.deliverylog.making import BASE, all_items, attempt_ids, entry, event, ms
from tests.support.paths import ROOT
from tests.support.servers.clickhouse_http import ClickHouseHttp

pytestmark = pytest.mark.xdist_group("clickhouse")


async def test_copies_that_are_not_merged_appear_once(clickhouse: ClickHouseDeliveryLog, prefix: str) -> None:
    for table in ("event_log", "event_log_attempts", "event_log_events"):
        await clickhouse._client.command(f"SYSTEM STOP MERGES {prefix}{table}")
    its = [event(f"e{n}", BASE + ms(n)) for n in range(6)]
    for round_ in range(4):
        await clickhouse.insert_many([entry(f"a{n}", BASE + ms(n), one, code=str(round_)) for n, one in enumerate(its)])
    raw = await clickhouse._client.rows(f"SELECT count() FROM {prefix}event_log")
    assert raw[0][0] == 24
    for limit in (1, 4, 6):
        page = await clickhouse.list_attempts(ListAttempts(limit=limit))
        assert len(page.items) == limit
        records = await all_items(clickhouse, ListAttempts(limit=limit, order="asc"))
        assert [(record.attempt.id, record.attempt.code) for record in records] == [(f"a{n}", "3") for n in range(6)]
        assert [one.id for one in await all_items(clickhouse, ListEvents(limit=limit, order="asc"))] == [
            f"e{n}" for n in range(6)
        ]
    counted = await clickhouse.attempt_metrics(
        MetricsQuery(start=BASE, end=BASE + ms(100), measures=["count"], dimensions=["code"])
    )
    assert counted.rows == [{"code": "3", "count": 6}]
    counted = await clickhouse.event_metrics(MetricsQuery(start=BASE, end=BASE + ms(100), measures=["count"]))
    assert counted.rows == [{"count": 6}]


async def test_retention_is_the_servers_ttl_and_read_back_from_it(clickhouse: ClickHouseDeliveryLog) -> None:
    assert await clickhouse.retention() is None
    await clickhouse.apply_retention(None)  # removing what is not there is no error
    await clickhouse.apply_retention(7)
    assert await clickhouse.retention() == 7
    now = datetime.now(UTC)
    await clickhouse.insert_many([entry("new", now)])
    await clickhouse.apply_retention(7)
    await clickhouse.apply_retention(30)
    assert await clickhouse.retention() == 30
    await clickhouse.apply_retention(0)
    assert await clickhouse.retention() is None
    assert attempt_ids(await all_items(clickhouse, ListAttempts())) == ["new"]


async def test_equal_entries_are_quarantined_once_and_the_retention_covers_them(
    clickhouse: ClickHouseDeliveryLog,
) -> None:
    bad = [entry(name, BASE, attempt_number=-1) for name in ("a", "a", "b")]
    for batch in (bad, bad[1:]):
        await clickhouse.insert_many(batch)
    table = clickhouse._sql.table("event_log_quarantine")
    assert len(await clickhouse._client.rows(f"SELECT entry FROM {table}")) == 2
    await clickhouse._client.command(
        f"INSERT INTO {table} (quarantined_at, reason, entry) VALUES (now64(3) - toIntervalDay(8), 'old', 'old')"
    )
    await clickhouse.apply_retention(7)
    reasons = await clickhouse._client.rows(f"SELECT DISTINCT reason FROM {table}")
    assert [row[0] for row in reasons] == ["attempt_number is -1"]


async def test_prefixes_keep_deployments_apart(clickhouse: ClickHouseDeliveryLog, chdb_folder: Path) -> None:
    other = await open_delivery_log(f"chdb:///{chdb_folder}", prefix="other_")
    with pytest.raises(DeliveryLogError, match="relay-cli log migrate"):
        await other.list_attempts(ListAttempts())
    await other.migrate()
    await clickhouse.insert_many([entry("here")])
    assert await all_items(other, ListAttempts()) == []
    await drop_tables(other, "other_")
    await other.close()
    for bad in ("1x", "a-b", "`", "x" * 41):
        with pytest.raises(ConfigError, match="prefix"):
            await open_delivery_log(f"chdb:///{chdb_folder}", prefix=bad)


async def test_a_folder_that_another_process_holds_gives_a_clear_error(
    clickhouse: ClickHouseDeliveryLog, chdb_folder: Path, tmp_path: Path
) -> None:
    program = (
        "import asyncio\nfrom relay.deliverylog import open_delivery_log\n"
        f"asyncio.run(open_delivery_log('chdb:///{chdb_folder}'))\n"
    )
    second = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert second.returncode != 0
    assert "another process is using it" in second.stderr
    with pytest.raises(DeliveryLogUnavailable, match="only one"):
        await open_delivery_log(f"chdb:///{tmp_path}")


async def test_a_password_that_changes_in_its_file_is_taken(chdb_folder: Path, prefix: str, tmp_path: Path) -> None:
    file = tmp_path / "url"
    with ClickHouseHttp(chdb_folder) as server:
        server.password = "first-secret"
        url = ClickHouseHttp.url(server.port).replace("//", "//log:first-secret@")
        file.write_text(url)
        remember(url, SecretOrigin("DELIVERY_LOG_URL_FILE", file.read_text))
        log = await open_delivery_log(url, prefix=prefix, connections=2)
        await log.migrate()
        server.password = "other-secret"
        with pytest.raises(DeliveryLogError, match="AUTHENTICATION_FAILED"):
            await log.ping()
        for wrong in ("first-secret", "postgres://log:first-secret@h:first-secret/d", url.replace("127", "secret@127")):
            file.write_text(wrong)
            with pytest.raises(OutboxError) as refused:
                await log.ping()
            assert "secret" not in str(refused.value)
        file.write_text(url.replace("first-secret", "other-secret"))
        await log.ping()
        await log.insert_many([entry("here")])
        await drop_tables(log, prefix)
        await log.close()


async def test_bounds_below_a_second_are_exact(clickhouse: ClickHouseDeliveryLog) -> None:
    await clickhouse.insert_many([entry(f"a{n}", BASE + ms(n * 100)) for n in range(20)])
    window = MetricsQuery(start=BASE + ms(500), end=BASE + ms(1500), measures=["count"])
    assert (await clickhouse.attempt_metrics(window)).rows == [{"count": 10}]
    assert (await clickhouse.event_metrics(window)).rows == [{"count": 10}]


async def test_the_zone_of_session_and_process_changes_nothing(
    clickhouse: ClickHouseDeliveryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    edge = datetime(2026, 3, 1, tzinfo=UTC)
    await clickhouse._client.command("SET session_timezone = 'America/St_Johns'")
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        await clickhouse.insert_many([entry("before", edge - ms(1)), entry("at", edge)])
        records = (await clickhouse.list_attempts(ListAttempts(order="asc", time=TimeWindow(gte=edge - ms(1))))).items
        assert [record.attempt.time for record in records] == [edge - ms(1), edge]
        assert records[0].attempt.time.utcoffset() == timedelta(0)
        for unit, begin in (("d", edge - timedelta(days=1)), ("M", datetime(2026, 2, 1, tzinfo=UTC))):
            counted = await clickhouse.attempt_metrics(
                MetricsQuery(start=begin, end=edge + ms(1), measures=["count"], granularity=Granularity(1, unit))
            )
            assert [(row["time"], row["count"]) for row in counted.rows] == [(begin, 1), (edge, 1)]
    finally:
        await clickhouse._client.command("SET session_timezone = ''")
        monkeypatch.undo()
        time.tzset()


async def test_a_far_past_and_many_days_in_one_batch(clickhouse: ClickHouseDeliveryLog) -> None:
    start = datetime(1970, 1, 1, tzinfo=UTC)
    await clickhouse.insert_many([entry(f"a{n:03d}", start + timedelta(days=n * 31)) for n in range(150)])
    assert len(await all_items(clickhouse, ListAttempts(limit=70))) == 150


async def test_an_error_of_the_server_is_reported_without_its_whole_text(clickhouse: ClickHouseDeliveryLog) -> None:
    with pytest.raises(DeliveryLogError, match="refused") as caught:
        await clickhouse._client.rows("SELECT nonsense FROM system.one")
    assert len(str(caught.value)) < 400


async def test_a_read_that_takes_too_long_is_cancelled_and_says_so(clickhouse: ClickHouseDeliveryLog) -> None:
    with pytest.raises(ResourceLimit, match=r"longer than 0\.5 s and was cancelled"):
        await clickhouse._client.rows("SELECT sum(sipHash64(number)) FROM numbers(1000000000000)", seconds=0.5)
    assert (await clickhouse.list_attempts(ListAttempts())).items == []
