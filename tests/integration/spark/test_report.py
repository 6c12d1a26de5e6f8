"""The job ``report``: from a real delivery log, from an archive, from nothing at all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from relay.spark.archived import Archive
from relay.spark.outcomes import by_type, curve, failures, of_archive, totals
from relay.spark.report import run

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]

START = datetime(2026, 3, 10, 12, 59, tzinfo=UTC)


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
    outcomes = of_archive(rows)
    found = {row["type"]: row.asDict() for row in by_type(outcomes).collect()}
    names = ("delivered", "failed", "retries", "dead", "latency_p50", "latency_max")
    assert [found["a"][name] for name in names] == [2, 2, 2, 0, 4.0, 6.0]
    assert [found["b"][name] for name in names] == [0, 3, 2, 2, None, None]
    assert {row["code"]: row["count"] for row in failures(outcomes).collect()} == {"NO_ACK": 1, "MAX_PAYLOAD": 1}
    assert [(bucket.start, bucket.counts["delivered"]) for bucket in curve(outcomes, 3600)] == [
        (int(START.timestamp()) // 3600 * 3600, 2),
        (int(late.timestamp()) // 3600 * 3600, 0),
    ]
    assert totals(outcomes)["first"] == int(START.timestamp()) + 4


def test_an_empty_report(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Archive.at(spark, str(tmp_path / "archive")).belongs_to("somebody")
    assert run("report", ["--archive", f"{tmp_path}/archive", "--output", f"{tmp_path}/report"]) == 0
    assert capsys.readouterr().out.startswith("0 delivered, 0 failed, 0 retries, 0 dead\n")
    assert spark.read.parquet(f"{tmp_path}/report/hours").count() == 0
    assert "There is nothing in this time." in (tmp_path / "report/index.html").read_text()


@pytest.mark.parametrize(
    ("given", "code", "told"),
    [
        ([], 2, "--log-url, --log-url-file or --archive: missing"),
        (["--log-url", "clickhouse://h/d"], 2, "relay-cli log metrics"),
        (["--log-url", "postgresql://h/d", "--archive", "a"], 2, "give one of the two"),
        (["--archive", "/nowhere/at/all"], 1, "there is no archive"),
    ],
)
def test_what_is_wrong_is_one_line(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], given: list[str], code: int, told: str
) -> None:
    assert run("report", ["--output", f"{tmp_path}/report", *given]) == code
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("error: ")
    assert told in said
