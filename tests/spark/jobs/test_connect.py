"""The jobs on a Spark Connect server: what they do, what they say of a failure, and that the server shows no password.

The client is a process of its own: PySpark has one kind of session in a process.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from relay.core.errors import ConfigError
from relay.spark.jobs import session as sessions
from relay.spark.jobs.archive.arguments import ArchiveArguments
from relay.spark.jobs.archive.job import run as run_archive
from relay.spark.jobs.archive.steps import archive_run
from relay.spark.jobs.folder import folder_at
from relay.spark.jobs.program import run_job
from relay.spark.jobs.report.arguments import ReportArguments
from relay.spark.jobs.session import ConnectError, active_stages, open_session
from relay.spark.source import OutboxDataSource
from relay_cli.app import app
from tests.spark.driver import Driver, Printed, submit
from tests.spark.gate import CONNECTED, stopped_at
from tests.spark.history import a_past, answering, in_archive, in_both, in_table
from tests.support.documents import blocks
from tests.support.fixtures.outbox import Outbox
from tests.support.servers.spark import SparkConnect, environment
from tests.support.servers.spark_home import spark_home
from tests.support.waiting import wait_until

Ask = Callable[..., Any]


@pytest.fixture
def ask(spark_connect: SparkConnect, connect_client: Driver) -> Ask:
    """``ask("archive", "/folder", …)`` runs a job of the client on the server: its answer as JSON."""

    def answer(job: str, *arguments: str, code: int = 0) -> Any:
        printed = connect_client.run(submit, job, *arguments, "--json", "--remote", spark_connect.url)
        assert printed.code == code, printed.err
        return json.loads(printed.out)

    return answer


def write_folder(session: SparkSession, path: str) -> None:
    """Two files, one of them deleted."""
    folder = folder_at(session, path)
    assert (folder.read("a.json"), folder.contents("small")) == (None, {})
    for name in ("a.json", "b.json"):
        folder.write(f"small/{name}", name)
    folder.delete("small/b.json")


def use_folder(session: SparkSession, path: str) -> None:
    """Read what ``write_folder`` wrote, and do what every kind of files does."""
    folder = folder_at(session, path)
    assert folder.contents("small") == {"a.json": "a.json\n"}
    assert (folder.read("small/a.json"), folder.read("small/b.json")) == ("a.json\n", None)
    folder.write("small/a.json", "again")
    folder.write("small/b.json", '{"é": 1}\n\n{}')
    assert folder.contents("small") == {"a.json": "again\n", "b.json": '{"é": 1}\n\n{}\n'}
    folder.delete("small/a.json")
    folder.delete("small/a.json")
    folder.delete("nowhere")
    assert folder.contents("small") == {"b.json": '{"é": 1}\n\n{}\n'}
    folder.delete("small")
    assert folder.contents("small") == {}


def test_small_files_are_the_same_whichever_way_they_are_reached(
    spark: SparkSession, connect_client: Driver, tmp_path: Path
) -> None:
    write_folder(spark, f"{tmp_path}/a folder = 100%")
    connect_client.run(use_folder, f"{tmp_path}/a folder = 100%")
    connect_client.run(write_folder, f"{tmp_path}/another folder = 100%")
    use_folder(spark, f"{tmp_path}/another folder = 100%")


def test_archive_report_reconcile_and_replay(
    spark: SparkSession, connect_client: Driver, outbox: Outbox, ask: Ask, tmp_path: Path
) -> None:
    a_past(outbox, 4)
    before = in_table(outbox)
    folder = tmp_path / "archive = 100%"
    archived = ask("archive", str(folder), "--url", outbox.url, "--max-connections", "2")
    assert (archived["archived"], archived["deleted"], archived["left"]) == (8, 8, 0)
    assert connect_client.run(in_archive, folder) == in_archive(spark, folder)
    assert in_both(spark, outbox, folder) == before

    report = ask("report", "--archive", str(folder), "--output", f"{tmp_path}/report")
    assert (report["delivered"], report["dead"]) == (4, 4)
    (part,) = (tmp_path / "report/summary.json").glob("part-*.txt")
    assert json.loads(part.read_text()) == report

    delivered = [row[0] for row in before if row[5] == "DELIVERED"]
    pq.write_table(pa.table({"event_id": delivered[1:]}), tmp_path / "consumer.parquet")
    sources = ("--url", outbox.url, "--archive", str(folder), "--consumer", f"{tmp_path}/consumer.parquet")
    reconciled = ask("reconcile", *sources, "--output", f"{tmp_path}/compared", code=3)
    assert (reconciled["rows"], reconciled["delivered"]) == (len(before), len(delivered))
    assert reconciled["findings"]["missing"] == 1
    assert not any(reconciled["findings"][kind] for kind in ("duplicated", "changed", "unexpected"))

    replayed = ask("replay", "--archive", str(folder), "--status", "dead", "--url", outbox.url)
    assert (replayed["inserted"], replayed["total"]) == (4, 4)
    assert outbox.database.run("SELECT count(*) FROM openoutbox_events WHERE headers ? 'replay_id'") == [(4,)]


def read_outbox(session: SparkSession, url: str) -> int:
    """A read in the session of a job; its plan is short enough to be shown whole."""
    reader = open_session("test", OutboxDataSource).read.format("openoutbox").option("url", url)
    return reader.load().count()


def test_the_server_shows_no_password(spark_connect: SparkConnect, connect_client: Driver, outbox: Outbox) -> None:
    secret = urlsplit(outbox.url)._replace(query="application_name=hush-hush").geturl()
    assert connect_client.run(read_outbox, secret) == 0
    (log,) = spark_connect.event_log.iterdir()
    events = log.read_text()
    assert 'format: \\"openoutbox\\"' in events
    assert "hush-hush" not in events


def test_either_way_goes_on_with_what_the_other_one_left(
    spark: SparkSession,
    spark_connect: SparkConnect,
    connect_client: Driver,
    outbox: Outbox,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A classic run stops before its manifest, one with --keep leaves its rows; an earlier release made the archive."""
    a_past(outbox, 4)
    before = in_table(outbox)
    folder = tmp_path / "archive"
    with archive_run(spark, ArchiveArguments(url=outbox.url, path=str(folder))) as stopped:
        for step in stopped.steps()[:2]:
            step()
    classic = answering(run_archive, "archive", outbox, capsys)
    first = classic(str(folder), "--keep", "--status", "dead")
    assert first["discarded"] == [stopped.progress.run]
    about = folder / "archive.json"
    about.rename(folder / "_archive.json")
    (folder / ".archive.json.crc").unlink()
    arguments = ("archive", str(folder), "--url", outbox.url, "--json", "--remote", spark_connect.url)
    refused = connect_client.run(submit, *arguments)
    assert refused.code == 1
    assert "archive into it once without Spark Connect" in refused.err
    assert len(connect_client.run(in_archive, folder)) == 4
    assert classic(str(folder), "--keep", "--status", "dead")["archived"] == 0
    assert about.exists()
    printed = connect_client.run(submit, *arguments)
    assert printed.code == 0, printed.err
    done = json.loads(printed.out)
    assert (done["archived"], done["deleted"], done["recovered"]) == (4, 4, [first["run"]])
    assert in_both(spark, outbox, folder) == before


def without_progress(text: str) -> list[str]:
    """The lines of an error without its advice, and without progress, which only a slow machine prints."""
    return [line for line in text.splitlines() if not re.match(r"-> |\w+: (.*: )?stage \d", line)]


def submit_without_kafka(session: SparkSession, *arguments: str) -> Printed:
    """``submit`` of reconcile without a Kafka source: that of Avro, which Spark lacks in the same way."""
    reader = type(session.read)
    known = reader.format
    with patch.object(reader, "format", lambda self, source: known(self, source.replace("kafka", "avro"))):
        return submit(session, "reconcile", *arguments)


def one_line(printed: Printed, code: int, message: str) -> None:
    """It ended with this code and one line of error, which has this message."""
    assert (printed.code, printed.out) == (code, ""), printed.err
    (error,) = without_progress(printed.err)
    assert error.startswith("error: ")
    assert message in error


def test_ingest_and_failures_in_one_line(
    spark_connect: SparkConnect, connect_client: Driver, outbox: Outbox, tmp_path: Path
) -> None:
    def run(job: str, *arguments: str) -> Printed:
        return connect_client.run(submit, job, *arguments, "--remote", spark_connect.url)

    rows = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": range(5), "body": ["a", "b", "c", "d", None]}), rows)
    body = ("--event-type", "t", "--raw-payload", "body", "--url", outbox.url)
    printed = run("ingest", str(rows), *body, "--where", "body IS NOT NULL")
    assert (printed.code, printed.out.partition(";")[0]) == (0, "4 rows: 4 new, 0 there already")
    nowhere = urlsplit(outbox.url)._replace(path="/nowhere").geturl()
    report = ("--output", f"{tmp_path}/report")
    for code, message, arguments in (
        (1, "error: column payload: null in 1 rows", ("ingest", str(rows), *body)),
        (1, 'database "nowhere" does not exist', ("archive", f"{tmp_path}/archive", "--url", nowhere)),
        (1, "there is no table nowhere", ("archive", f"{tmp_path}/a", "--url", outbox.url, "--table", "nowhere")),
        (1, f"error: {tmp_path}/none: there is no archive", ("report", "--archive", f"{tmp_path}/none", *report)),
        (1, "no-such-scheme", ("report", "--archive", "no-such-scheme://a/b", *report)),
        (2, "--packages, --jars: not with Spark Connect", ("report", "--archive", "a", "--jars", "b", *report)),
    ):
        one_line(run(*arguments), code, message)
    kafka = ("--url", outbox.url, "--kafka", "127.0.0.1:1", *report, "--remote", spark_connect.url)
    one_line(connect_client.run(submit_without_kafka, *kafka), 2, "start-connect-server.sh")


def test_a_server_that_does_not_answer_is_one_line_without_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_CONNECT_TIMEOUT", 0.2)
    with pytest.raises(ConnectError, match=r"^sc://127\.0\.0\.1:1: no Spark Connect server accepts connections"):
        sessions._check_server("sc://127.0.0.1:1/;token=hush-hush;use_ssl=true")
    with pytest.raises(ConfigError, match=r"^--remote: sc://: invalid; the form is sc://HOST:PORT"):
        sessions._check_server("sc:///;token=hush-hush")
    done = CliRunner().invoke(app, ["spark", "report", "--archive", "a", "--output", "b", "--remote", "local"])
    assert isinstance(done.exception, ConfigError)
    assert str(done.exception).startswith("--remote: not the URL of a Spark Connect server")


def test_an_error_of_grpc_and_an_interruption_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """The errors of gRPC as they are printed: PySpark passes them on as they are."""
    parts = ["status = StatusCode.UNAVAILABLE", 'details = "Socket closed"', 'debug_error_string = "…"']
    text = "\n\t".join(["<_MultiThreadedRendezvous of RPC that terminated with:", *parts]) + "\n>"

    socket_closed = "the Spark Connect server does not answer: Socket closed (UNAVAILABLE)"
    ends: list[tuple[BaseException, int, str]] = [
        (PySparkException(text), 1, socket_closed),
        (KeyboardInterrupt(), 130, "interrupted"),
    ]
    for error, code, message in ends:

        def fail(job: ReportArguments, error: BaseException = error) -> int:
            raise error

        assert run_job(ReportArguments, fail, "report", ["--archive", "a", "--output", "b"]) == code
        assert capsys.readouterr().err == f"error: {message}\n"


def hold(session: SparkSession, gate: str) -> None:
    """A job of one task that ends when the file is there."""

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        wait_until(Path(gate).exists)
        yield from batches

    session.range(1).coalesce(1).mapInArrow(wait, "id long").collect()


def test_the_tasks_of_active_stages_are_known(connect_client: Driver, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = connect_client.call(hold, str(gate))
    stages = wait_until(lambda: connect_client.run(active_stages))
    gate.touch()
    job.result()
    assert [stage[1:] for stage in stages] == [(0, 1)]
    assert connect_client.run(active_stages) == []


_WAITING = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'openoutbox-spark' AND wait_event_type = 'Lock'
"""


def test_a_killed_client_leaves_an_archive_that_the_next_run_completes(
    spark: SparkSession, spark_connect: SparkConnect, connect_client: Driver, outbox: Outbox, tmp_path: Path
) -> None:
    """The server goes on deleting for the client that was killed, beside the run that completes its work."""
    a_past(outbox, 6)
    before = in_table(outbox)
    folder = tmp_path / "archive"
    (block,) = [each for each in blocks("docs/guide/spark.md") if "--remote" in each.text]
    own = {"s3a://lake/outbox": str(folder), "sc://spark.example:15002": spark_connect.url}
    server, line = block.adapted(own).text.splitlines()
    script = spark_home() / server.split()[1]
    # The wheel of PySpark 4.1 lacks it; Spark's own archive has it.
    assert script.exists() or pyspark.__version__.startswith("4.1."), script
    words = [*shlex.split(line)[1:], "--max-connections", "1"]
    command = [sys.executable, "-c", "from relay_cli.main import main; main()", *words]
    settings = {**environment(), "STORAGE_URL": outbox.url}

    with stopped_at(outbox, "DELETE"):
        with subprocess.Popen(command, env=settings) as client:
            wait_until(lambda: outbox.database.run(_WAITING) >= [(1,)], what="a task that waits in the database")
            client.kill()
        last = connect_client.call(submit, "archive", *words[2:], "--url", outbox.url, "--json")
        wait_until(lambda: outbox.database.run(_WAITING) >= [(2,)], what="the next run to delete")
    printed = last.result()
    assert printed.code == 0, printed.err
    assert len(json.loads(printed.out)["recovered"]) == 1
    wait_until(lambda: not outbox.database.run(CONNECTED), what="the server to end the killed client's job")
    assert in_both(spark, outbox, folder) == before
