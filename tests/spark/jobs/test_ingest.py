"""The job ``ingest``: files and streams into the outbox, a dry run, and what it says."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener
from typer.testing import CliRunner

from relay.spark import key_id
from relay.spark.jobs.ingest.job import run
from relay_cli.app import app
from tests.spark.pages import description
from tests.support.fixtures.outbox import Outbox
from tests.support.waiting import wait_until

ROWS = [
    {"number": number, "customer": f"c{number % 3}", "region": "north" if number % 2 else None, "total": number / 4}
    for number in range(20)
]


@pytest.fixture
def orders_file(tmp_path: Path) -> str:
    """A folder with a file of JSON lines."""
    folder = tmp_path / "orders"
    folder.mkdir()
    (folder / "1.json").write_text("\n".join(json.dumps(row) for row in ROWS))
    return str(folder)


SHAPED = ["--format", "json", "--schema", "number long, customer string, region string, total double"]
SHAPED += ["--event-type", "orders.created", "--key", "region,customer", "--id-columns", "number"]
SHAPED += ["--payload-columns", "number,total", "--headers", "customer=customer,total=total"]


def test_files_become_events_once(
    spark: SparkSession, outbox: Outbox, orders_file: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    secret = tmp_path / "url"
    secret.write_text(outbox.url + "\n")
    arguments = [orders_file, *SHAPED, "--url-file", str(secret), "--partitions", "3"]
    assert run("ingest", arguments) == 0
    assert capsys.readouterr().out.startswith("20 rows: 20 new, 0 there already; ")
    assert run("ingest", [*arguments, "--commit", "partition", "--where", "number < 5"]) == 0
    summary = capsys.readouterr().out
    assert summary.startswith("5 rows: 0 new, 5 there already; ")
    assert ": 5 rows, 0 new, 5 skipped, " in description(spark, f"openoutbox run {summary.split()[-1]}")
    row = outbox.row(str(key_id("", "orders.created", 7)))
    assert row["payload"] == b'{"number":7,"total":1.75}'
    assert row["headers"] == {"customer": "c1", "total": 1.75}
    assert row["partition_key"] == "north:c1"
    assert outbox.row(str(key_id("", "orders.created", 8)))["partition_key"] is None


def test_a_dry_run_shows_ten_rows_as_they_would_be_and_writes_nothing(
    spark: SparkSession, outbox: Outbox, orders_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("ingest", [orders_file, *SHAPED, "--dry-run"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 10
    assert lines[1] == {
        "event_id": str(key_id("", "orders.created", 1)),
        "event_type": "orders.created",
        "partition_key": "north:c1",
        "headers": {"customer": "c1", "total": 0.25},
        "available_at": "now",
        "payload": '{"number":1,"total":0.25}',
    }
    assert outbox.rows("event_id") == []


class Progress(StreamingQueryListener):
    """The rows that streams observe."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def onQueryStarted(self, event: object) -> None:  # noqa: N802 - Spark's names
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        observed = event.progress.observedMetrics.get("openoutbox")
        self.rows += [observed.rows] if observed and observed.rows else []

    def onQueryTerminated(self, event: object) -> None:  # noqa: N802
        pass


def test_a_stream_goes_on_where_it_stopped(
    spark: SparkSession, outbox: Outbox, orders_file: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    arguments = [orders_file, "--format", "json", "--event-type", "t", "--stream", "--checkpoint", checkpoint]
    arguments += ["--url", outbox.url]
    progress = Progress()
    spark.streams.addListener(progress)
    assert run("ingest", arguments) == 0
    assert wait_until(lambda: progress.rows) == [20]
    spark.streams.removeListener(progress)
    summary = capsys.readouterr().out
    assert summary.startswith("20 rows: 20 new, 0 there already; ")
    assert description(spark, f"openoutbox query {summary.split()[-1]}").endswith(": 20 rows, 20 new, 0 skipped")
    (Path(orders_file) / "2.json").write_text("\n".join(json.dumps(row) for row in ROWS[:5]))
    assert run("ingest", arguments) == 0
    assert capsys.readouterr().out.startswith("5 rows: 5 new, 0 there already; ")
    assert run("ingest", arguments) == 0
    assert len(outbox.rows("event_id")) == 25


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (["--event-type", "t", "--key", "colour"], 2, "--key: the source has no column colour; it has number"),
        (["--event-type", "t", "--id-columns", "total"], 1, "column total: is double"),
        (["--event-type", "t", "--table", "nowhere"], 1, "option table: there is no table nowhere"),
        (["--event-type", "t", "--event-type-column", "customer"], 2, "give one of the two"),
        (["--event-type", "t", "--headers", "customer"], 2, "--headers: 'customer' is not NAME=VALUE"),
        (["--event-type", "t", "--stream"], 2, "--stream: give --checkpoint too"),
        (
            ["--event-type", "t", "--stream", "--checkpoint", "c", "--commit", "partition"],
            2,
            "--commit partition: not for a stream",
        ),
    ],
)
def test_what_is_wrong_is_one_line(
    spark: SparkSession,
    outbox: Outbox,
    orders_file: str,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    code: int,
    message: str,
) -> None:
    schema = "number long, customer string, region string, total double"
    assert run("ingest", [orders_file, "--format", "json", "--schema", schema, "--url", outbox.url, *more]) == code
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert outbox.rows("event_id") == []


def test_relay_cli_takes_the_outbox_from_the_environment(
    spark: SparkSession, outbox: Outbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process; tests/spark/jobs/test_connect.py runs a job of relay-cli as a process of its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.csv").write_text("number,customer\n1,é\n2,b\n")
    arguments = ["spark", "ingest", str(tmp_path / "orders.csv"), "--format", "csv", "--option", "header=true"]
    arguments += ["--event-type", "orders.created", "--id-columns", "number", "--table", "openoutbox_events"]
    done = CliRunner().invoke(app, arguments, env={"STORAGE_URL": outbox.url})
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("2 rows: 2 new, 0 there already; ")
    assert outbox.row(str(key_id("", "orders.created", "1")))["payload"] == '{"number":"1","customer":"é"}'.encode()


def test_its_help_has_examples() -> None:
    done = CliRunner().invoke(app, ["spark", "ingest", "--help"])
    assert done.exit_code == 0, done.output
    assert "examples:" in done.stdout
    assert "spark-submit ingest.py" in done.stdout


def test_raw_bodies_ids_and_times_come_from_columns(
    spark: SparkSession, outbox: Outbox, capsys: pytest.CaptureFixture[str]
) -> None:
    event_id = uuid.uuid4()
    spark.sql(
        f"SELECT '{event_id}' AS id, 'a body' AS body, 'what' AS kind, '2031-01-01T00:00:00Z' AS due"
    ).createOrReplaceTempView("source")
    arguments = ["--source-table", "source", "--event-type-column", "kind", "--raw-payload", "body", "--event-id", "id"]
    assert run("ingest", [*arguments, "--available-at", "due", "--url", outbox.url]) == 0
    row = outbox.row(str(event_id))
    assert (row["event_type"], row["payload"], str(row["available_at"])) == (
        "what",
        b"a body",
        "2031-01-01 00:00:00+00:00",
    )
