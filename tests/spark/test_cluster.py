"""On a standalone cluster, one master and two workers: executors and drivers are killed, attempts run side by side."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from relay.localservers.postgres import PostgresServer
from tests.spark.driver import Job, run_driver
from tests.spark.ledger import runs, staging_tables
from tests.spark.test_batch import orders
from tests.support.fixtures.outbox import Outbox
from tests.support.fixtures.postgres import create_database
from tests.support.fixtures.spark import Save
from tests.support.servers.spark import SparkCluster

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.quantile": "0.25",
    "spark.speculation.minTaskRuntime": "200ms",
}


def faulty(outbox: Outbox, folder: Path, name: str, fault: str, commit: str) -> Job:
    marks = folder / name
    marks.mkdir()
    options = {"url": outbox.url, "fault": fault, "marks": str(marks), "commit": commit, "job": name}
    return Job(options, "openoutbox_faulty", rows=40_000, partitions=4, conf=SPECULATION)


def test_killed_executors_and_speculative_attempts_write_once(
    spark_cluster: SparkCluster, outbox: Outbox, tmp_path: Path
) -> None:
    jobs = [
        faulty(outbox, tmp_path, f"{fault} {commit}", fault, commit)
        for fault, commit in [
            ("twice", "partition"),
            ("twice", "atomic"),
            ("kill-within", "atomic"),
            ("kill-within", "partition"),
            ("kill-after", "atomic"),
            ("kill-after", "partition"),
        ]
    ]
    done = run_driver(spark_cluster.url, *jobs)
    assert done.returncode == 0, done.stderr[-4000:]
    assert {path.name for path in tmp_path.glob("*/*")} == {"written-0", "written-1", "killed"}
    assert [(state, written) for state, written, _ in runs(outbox)] == [("committed", 40_000)] * 6
    assert outbox.database.run("SELECT count(*), count(DISTINCT payload) FROM openoutbox_events") == [(240_000, 40_000)]
    assert staging_tables(outbox) == []


def test_a_driver_that_is_killed_before_its_commit_leaves_nothing_visible_and_the_next_run_is_exact(
    spark_cluster: SparkCluster, spark: SparkSession, outbox: Outbox, save: Save, tmp_path: Path
) -> None:
    options = {"url": outbox.url, "fault": "kill-driver", "marks": str(tmp_path), "idColumns": "number"}
    died = run_driver(spark_cluster.url, Job(options, "openoutbox_faulty", rows=1000))
    assert died.returncode != 0
    assert (tmp_path / "killed").exists()
    assert outbox.rows("event_id") == []
    assert len(staging_tables(outbox)) == 1
    save(orders(spark), idColumns="number")
    assert len(outbox.rows("event_id")) == 1000
    assert staging_tables(outbox) == []
    assert runs(outbox) == [("aborted", None, None), ("committed", 1000, 1000)]


def test_a_stream_whose_driver_is_killed_around_a_commit_writes_each_micro_batch_once(
    spark_cluster: SparkCluster, outbox: Outbox, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for file in range(4):
        numbers = range(file * 100, file * 100 + 100)
        (folder / f"{file}.json").write_text("\n".join(json.dumps({"number": number}) for number in numbers))

    def start(fault: str) -> int:
        marks = tmp_path / fault
        marks.mkdir()
        options = {"url": outbox.url, "fault": fault, "marks": str(marks)}
        job = Job(options, "openoutbox_faulty", folder=str(folder), checkpoint=str(tmp_path / "checkpoint"))
        return int(run_driver(spark_cluster.url, job).returncode)

    assert start("kill-before-commit") != 0
    assert len(outbox.rows("event_id")) == 100
    assert start("kill-after-commit") != 0
    assert len(outbox.rows("event_id")) == 200
    assert start("none") == 0
    payloads = sorted(json.loads(bytes(payload))["number"] for (payload,) in outbox.rows("payload"))
    assert payloads == list(range(400))
    epochs = outbox.database.run("SELECT epoch FROM openoutbox_spark.runs WHERE state = 'committed' ORDER BY epoch")
    assert epochs == [(0,), (1,), (2,), (3,)]
    assert staging_tables(outbox) == []


@dataclass(frozen=True)
class LoggedOutbox:
    """An outbox whose server writes down who comes and goes."""

    outbox: Outbox
    server: PostgresServer

    def most_connections(self) -> int:
        """The most connections that Spark held at a time, by the server's log."""
        held = most = 0
        ours = set()
        for line in (self.server.folder / "log").read_text(errors="replace").splitlines():
            pid = line.partition(" ")[0]
            if "connection authorized" in line and "application_name=openoutbox-spark" in line:
                ours.add(pid)
                held += 1
                most = max(most, held)
            elif re.search(r" LOG: +disconnection", line) and pid in ours:
                ours.discard(pid)
                held -= 1
        return most


@pytest.fixture
def full_server() -> Iterator[LoggedOutbox]:
    """A server that takes 20 connections besides those of superusers."""
    settings = {
        "max_connections": "23",
        "superuser_reserved_connections": "3",
        "log_connections": "on",
        "log_disconnections": "on",
        "log_line_prefix": "%p ",
    }
    with PostgresServer(settings=settings) as server:
        yield LoggedOutbox(Outbox.create(create_database(server.url)), server)


def test_200_partitions_share_a_few_connections(spark_cluster: SparkCluster, full_server: LoggedOutbox) -> None:
    outbox = full_server.outbox
    options = {"url": outbox.url, "maxConnections": "3", "idColumns": "number"}
    done = run_driver(spark_cluster.url, Job(options, rows=4000, partitions=200))
    assert done.returncode == 0, done.stderr[-4000:]
    assert runs(outbox) == [("committed", 4000, 4000)]
    assert full_server.most_connections() == 3
