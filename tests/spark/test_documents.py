"""What the documents of Spark show works: docs/guide/spark.md is run, the jobs' pages have arguments that exist."""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from typer.testing import CliRunner

from relay.spark import key_id
from relay.spark.jobs.archive.arguments import ArchiveArguments
from relay.spark.jobs.arguments import Arguments, CommandLine
from relay.spark.jobs.reconcile.arguments import ReconcileArguments
from relay.spark.jobs.replay.arguments import ReplayArguments
from relay.spark.jobs.report.arguments import ReportArguments
from relay_cli.app import app
from tests.spark.read.test_events import TENANTS, append, make
from tests.support.documents import Block, blocks
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.fixtures.postgres import Database
from tests.support.paths import ROOT
from tests.support.servers.spark import environment, submit_arguments
from tests.support.servers.spark_home import spark_home

BLOCKS: dict[str, Block] = {block.key: block for block in blocks("docs/guide/spark.md")}
JOBS: dict[str, type[Any]] = {"reconcile": ReconcileArguments, "report": ReportArguments}
FALLBACK = {"reconcile": {"url": "postgresql://there"}, "report": {"log_url": "postgresql://there"}}


def test_the_batch(spark: SparkSession, outbox: Outbox) -> None:
    own = {"postgresql://spark_writer@db.example:5432/shop": outbox.url}
    orders = spark.sql("SELECT id AS number, 'Ada' AS customer FROM range(10)")
    exec(BLOCKS["docs/guide/spark.md python 1"].adapted(own).text, {"orders": orders})
    assert outbox.row(str(key_id("", "orders.created", 3)))["payload"] == b'{"number":3,"customer":"Ada"}'
    assert key_id("", "orders.created", 4711) != key_id("other", "orders.created", 4711)


def test_the_stream(spark: SparkSession, outbox: Outbox, tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text("\n".join(json.dumps({"payload": str(number)}) for number in range(10)))
    source = spark.readStream.schema("payload string").json(str(tmp_path / "*.json"))
    events = source.selectExpr("'t' AS event_type", "payload")
    text = BLOCKS["docs/guide/spark.md python 2"].adapted({"/data/checkpoint": str(tmp_path / "checkpoint")}).text
    names = {"events": events, "url": outbox.url}
    exec(f"query = {text}", names)
    query = names["query"]
    try:
        query.processAllAvailable()  # type: ignore[attr-defined]
        assert len(outbox.rows("event_id")) == 10
    finally:
        query.stop()  # type: ignore[attr-defined]


def test_reading(spark: SparkSession, outbox: Outbox, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outbox.insert([Row("orders.created", b"x"), Row("users.created", b"y")])
    outbox.database.run("UPDATE openoutbox_events SET status = 'DELIVERED', delivered_at = now()")
    own = {"postgresql://spark_reader@db.example:5432/shop": outbox.reader_url}
    exec(BLOCKS["docs/guide/spark.md python 3"].adapted(own).text, {"spark": spark})
    assert "orders.created" in (shown := capsys.readouterr().out)
    assert "users.created" not in shown
    text = BLOCKS["docs/guide/spark.md python 4"].adapted({"/data/outbox": str(tmp_path / "outbox")}).text
    exec(text, {"spark": spark, "url": outbox.reader_url})
    assert spark.read.parquet(str(tmp_path / "outbox")).count() == 2


def test_the_stream_of_events(spark: SparkSession, database: Database, tmp_path: Path) -> None:
    asyncio.run(make(database.url, "gapless"))
    asyncio.run(append(database.url, TENANTS[0], 100))
    own = {"/data/events-checkpoint": str(tmp_path / "checkpoint"), "/data/events": str(tmp_path / "events")}
    names: dict[str, object] = {"spark": spark, "url": database.url}
    exec(BLOCKS["docs/guide/spark.md python 5"].adapted(own).text, names)
    query = names["query"]
    assert isinstance(query, StreamingQuery)
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert spark.read.parquet(str(tmp_path / "events")).count() == 100


def documented_commands(outbox: Outbox, folder: Path) -> tuple[str, str]:
    """How the guide runs a job by spark-submit and by relay-cli, of a hundred orders and for the test's outbox."""
    orders = pa.table({"order_number": range(100), "customer": ["Ada"] * 100})
    pq.write_table(orders, folder / "orders.parquet")
    (folder / "url").write_text(outbox.url)
    own = {"/data/orders": str(folder / "orders.parquet"), "/secrets/outbox-url": str(folder / "url")}
    text = BLOCKS["docs/guide/spark.md sh 1"].adapted(own).text.replace("\\\n", " ")
    submit, relay_cli = text.splitlines()
    return submit, relay_cli


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_spark_submit(outbox: Outbox, tmp_path: Path) -> None:
    """A job as a process with a JVM of its own; tests/spark/test_cluster.py runs jobs in a driver on a cluster."""
    program, *arguments = shlex.split(documented_commands(outbox, tmp_path)[0])
    done = subprocess.run(
        [spark_home() / "bin" / program, "--master", "local[1]", *submit_arguments(), *arguments],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    # spark-submit puts its driver's standard error, and so the progress of a slow run, into its standard output
    (summary,) = [line for line in done.stdout.splitlines() if line and not line.startswith("ingest: ")]
    assert summary.startswith("100 rows: 100 new, 0 there already; ")
    assert len(outbox.rows("event_id")) == 100


def test_the_command_line(spark: SparkSession, outbox: Outbox, tmp_path: Path) -> None:
    """In this process; tests/spark/jobs/test_connect.py runs a job of relay-cli as a process of its own."""
    program, *arguments = shlex.split(documented_commands(outbox, tmp_path)[1])
    assert program == "relay-cli"
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    shown = done.stdout.splitlines()
    assert len(shown) == 10
    assert json.loads(shown[0])["partition_key"] == "Ada"
    assert outbox.rows("event_id") == []


@pytest.mark.parametrize("job", [ArchiveArguments, ReplayArguments])
def test_the_commands_of_a_jobs_page_have_arguments_that_exist(tmp_path: Path, job: type[Arguments]) -> None:
    name = job.name
    (tmp_path / "url").write_text("postgresql://there")
    (block,) = [each for each in blocks(f"docs/guide/spark-{name}.md") if each.language == "sh"]
    commands = block.text.replace("\\\n", " ").replace("/secrets/outbox-url", str(tmp_path / "url")).splitlines()
    for command in commands:
        program, _, arguments = command.partition(f"{name}.py " if "spark-submit" in command else f"spark {name} ")
        assert program in ("spark-submit deploy/spark/", "relay-cli ")
        CommandLine(job, name, shlex.split(arguments)).read({"url": "postgresql://there"})
    assert len(commands) >= 3


def commands(text: str, job: str) -> list[list[str]]:
    """What the lines give to the job."""
    arguments = []
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line)
        for program in (f"{job}.py", f"deploy/spark/{job}.py", job):
            if program in words and "spark" in line:
                arguments.append(words[words.index(program) + 1 :])
                break
    return arguments


@pytest.mark.parametrize("job", JOBS)
def test_every_command_can_be_read(job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "secret").write_text("postgresql://u@h/d")
    (tmp_path / "properties").write_text("security.protocol=SASL_SSL")
    instead = {"/secrets/outbox-url": "secret", "/secrets/log-url": "secret", "kafka.properties": "properties"}
    with pytest.raises(SystemExit):
        CommandLine(JOBS[job], job, ["--help"])
    shown = commands(capsys.readouterr().out.partition("examples:")[2], job)
    documented = [each for block in blocks(f"docs/guide/spark-{job}.md") for each in commands(block.text, job)]
    assert len(shown) >= 2
    assert len(documented) >= 2
    for arguments in [*shown, *documented]:
        words: Sequence[str] = [str(tmp_path / instead[word]) if word in instead else word for word in arguments]
        assert CommandLine(JOBS[job], job, words).read(FALLBACK[job]).output
