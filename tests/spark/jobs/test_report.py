"""The job ``report``: from a real delivery log, from an archive, from nothing at all."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from relay.deliverylog import LogEntry, open_delivery_log
from relay.spark.jobs.archive.formats import open_archive
from relay.spark.jobs.archive.job import run as run_archive
from relay.spark.jobs.report.arguments import ReportArguments
from relay.spark.jobs.report.job import _outcomes, run
from relay.spark.jobs.report.outcomes import by_type, failures, from_archive, totals
from tests.deliverylog.making import entry, event
from tests.spark.history import answering
from tests.spark.pages import description
from tests.support.fixtures.granted import granted
from tests.support.fixtures.outbox import Outbox
from tests.support.fixtures.postgres import Database

START = datetime(2026, 3, 10, 12, 59, tzinfo=UTC)
REFUSED = "no topic"


def fill(url: str, entries: list[LogEntry]) -> None:
    """Make a log and write these."""

    async def work() -> None:
        log = await open_delivery_log(url)
        await log.migrate()
        await log.insert_many(entries)
        await log.close()

    asyncio.run(work())


def attempts() -> list[LogEntry]:
    """Ten orders delivered after two seconds, half of them at the second attempt, and one refused event."""
    entries = []
    for number in range(10):
        order = event(f"e{number}", START, topic="orders")
        second = 1 + number % 2
        if second == 2:
            entries.append(entry(f"f{number}", START + timedelta(seconds=1), order, status="failed", code="TIMED_OUT"))
        entries.append(entry(f"s{number}", START + timedelta(seconds=60 * second), order, attempt_number=second))
    refused = event("r", START, topic=REFUSED, eligible_for_retry=False)
    entries.append(entry("r1", START, refused, status="failed", code="TOPIC_EXCEPTION"))
    return entries


def test_the_delivery_log_by_type_and_hour(
    spark: SparkSession, database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(database.url, attempts())
    with granted(database, "docs/guide/spark-report.md", "spark_reader") as url:
        assert run("report", ["--output", f"{tmp_path}/report", "--json", "--partitions", "2"], log_url=url) == 0
    summary = json.loads(capsys.readouterr().out)
    assert [summary[name] for name in ("delivered", "failed", "retries", "dead")] == [10, 6, 5, 1]
    assert description(spark, "openoutbox report: ").endswith(": 10 delivered, 6 failed, 5 retries, 1 dead")
    assert summary["latency_seconds"] == {"p50": 60.0, "p95": 120.0, "p99": 120.0, "max": 120.0}
    hours = {
        (row["type"], row["hour"].astimezone(UTC).hour): (row["delivered"], row["failed"], row["latency_p50"])
        for row in spark.read.parquet(f"{tmp_path}/report/hours").collect()
    }
    assert hours == {("orders", 12): (0, 5, None), ("orders", 13): (10, 0, 60.0), (REFUSED, 12): (0, 1, None)}
    codes = {row["code"]: row["count"] for row in spark.read.parquet(f"{tmp_path}/report/failures").collect()}
    assert codes == {"TIMED_OUT": 5, "TOPIC_EXCEPTION": 1}
    assert json.loads((tmp_path / "report/summary.json").read_text()) == summary
    window = ["--since", "2026-03-10T13:00:30Z", "--event-type", "orders,paid"]
    assert run("report", ["--output", f"{tmp_path}/report", "--log-url", database.url, *window]) == 0
    assert capsys.readouterr().out.startswith("5 delivered, 0 failed, 5 retries, 0 dead; latency p50 2 min, p99 2 min")


def test_an_archives_events(spark: SparkSession) -> None:
    late = START + timedelta(hours=1)
    rows = spark.createDataFrame(
        [
            ("a", "DELIVERED", 0, None, START, START + timedelta(seconds=4), late),
            ("a", "DELIVERED", 2, "NO_ACK: no answer", START, START + timedelta(seconds=6), late),
            ("b", "DEAD", 3, "MAX_PAYLOAD: too large", START, None, late),
            ("b", "DEAD", 0, "what this is: nobody knows", START, None, late),
        ],
        "event_type string, status string, attempts int, last_error string, created_at timestamp, "
        "delivered_at timestamp, updated_at timestamp",
    )
    outcomes = from_archive(rows)
    types = {row["type"]: row.asDict() for row in by_type(outcomes).collect()}
    names = ("delivered", "failed", "retries", "dead", "latency_p50", "latency_max")
    assert [types["a"][name] for name in names] == [2, 2, 2, 0, 4.0, 6.0]
    assert [types["b"][name] for name in names] == [0, 3, 2, 2, None, None]
    assert {row["code"]: row["count"] for row in failures(outcomes).collect()} == {"NO_ACK": 1, "MAX_PAYLOAD": 1}
    assert [totals(outcomes)[name] for name in names] == [2, 5, 4, 2, 4.0, 6.0]


def test_an_archives_days_are_those_of_utc_whatever_the_zone_of_the_bounds(
    spark: SparkSession, outbox: Outbox, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outbox.database.run(
        "INSERT INTO openoutbox_events (event_id, event_type, payload, status, delivered_at) VALUES "
        "(gen_random_uuid(), 'orders', '', 'DELIVERED', '2026-03-10 23:30:00Z'), "
        "(gen_random_uuid(), 'orders', '', 'DELIVERED', '2026-03-11 00:30:00Z')"
    )
    assert answering(run_archive, "archive", outbox, capsys)(f"{tmp_path}/archive")["archived"] == 2
    since = datetime(2026, 3, 11, 4, tzinfo=timezone(timedelta(hours=5)))
    until = datetime(2026, 3, 10, 20, tzinfo=timezone(timedelta(hours=-5)))
    job = ReportArguments(archive=f"{tmp_path}/archive", output=f"{tmp_path}/report")
    for bounded in (replace(job, since=since), replace(job, until=until)):
        assert _outcomes(spark, bounded).count() == 2


def test_an_empty_report(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    open_archive(spark, str(tmp_path / "archive")).belongs_to("somebody")
    assert run("report", ["--archive", f"{tmp_path}/archive", "--output", f"{tmp_path}/report"]) == 0
    assert capsys.readouterr().out.startswith("0 delivered, 0 failed, 0 retries, 0 dead\n")
    assert spark.read.parquet(f"{tmp_path}/report/hours").count() == 0
    assert json.loads((tmp_path / "report/summary.json").read_text())["delivered"] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "--log-url, --log-url-file or --archive: missing"),
        (["--log-url", "clickhouse://h/d"], 2, "relay-cli log metrics"),
        (["--log-url", "postgresql://h/d", "--archive", "a"], 2, "give one of the two"),
        (["--archive", "/nowhere/at/all"], 1, "there is no archive"),
    ],
)
def test_what_is_wrong_is_one_line(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    assert run("report", ["--output", f"{tmp_path}/report", *arguments]) == code
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith("error: ")
    assert message in error
