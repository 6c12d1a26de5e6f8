"""On a standalone cluster of two workers: executors are killed, attempts run side by side, connections are few."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from relay.localservers.postgres import PostgresServer
from tests.spark.driver import PATIENCE, Driver, DriverFailed, Job, cancel, stream, submit, write
from tests.spark.gate import kill_an_executor_at_work, stopped_at, wait_disconnected
from tests.spark.history import a_past, in_archive, in_table
from tests.spark.jobs.test_replay import copied
from tests.spark.ledger import runs, staging_tables
from tests.support.fixtures.outbox import Outbox, through
from tests.support.fixtures.postgres import create_database
from tests.support.servers.spark import SparkCluster
from tests.support.waiting import wait_until

ROWS = 4000
BOTH = pytest.mark.parametrize("commit", ["atomic", "partition"])


@BOTH
@pytest.mark.parametrize(("fault", "attempts"), [pytest.param("twice", 2, marks=pytest.mark.soak), ("kill", 3)])
def test_speculative_attempts_and_killed_executors_write_once(
    driver: Driver, outbox: Outbox, tmp_path: Path, fault: str, attempts: int, commit: str
) -> None:
    """``twice``: two attempts at a partition commit in the database. ``kill``: the executor of the first one is killed
    in the middle of its rows, beside the second one, whose executor is killed when the database has committed it; the
    third one repeats it, and so stands for ``twice``.

    tests/spark/write/test_attempts.py has more of what such attempts leave in the database, without Spark.
    """
    options = {"url": outbox.url, "fault": fault, "marks": str(tmp_path), "commit": commit}
    driver.run(write, Job(options, "openoutbox_faulty", rows=ROWS, partitions=4, speculative=True))
    marks = {path.name for path in tmp_path.iterdir()}
    assert {f"begun-{attempt}" for attempt in range(attempts)} <= marks
    assert "alone" not in marks
    assert [(state, written) for state, written, _ in runs(outbox)] == [("committed", ROWS)]
    assert outbox.database.run("SELECT count(*), count(DISTINCT payload) FROM openoutbox_events") == [(ROWS, ROWS)]
    assert staging_tables(outbox) == []


@BOTH
def test_a_job_that_is_cancelled_while_it_writes_is_exact_when_it_is_run_again(
    driver: Driver, outbox: Outbox, tmp_path: Path, commit: str
) -> None:
    """The task outlives its job: Spark interrupts the JVM's side of it, and the Python side goes on."""
    options = {"url": outbox.url, "commit": commit, "idColumns": "number"}
    held = Job(
        {**options, "fault": "hold", "marks": str(tmp_path)},
        "openoutbox_faulty",
        rows=ROWS,
        partitions=4,
        group=f"cancelled {commit}",
    )
    job = driver.call(write, held)
    wait_until(lambda: (tmp_path / "held").exists() or job.done(), PATIENCE, "a task in the middle of its rows")
    driver.run(cancel, f"cancelled {commit}")
    wait_until(lambda: runs(outbox) == [("aborted", None, None)] or job.done(), what="the run to be aborted")
    if commit == "atomic":
        assert outbox.rows("event_id") == []
    (tmp_path / "released").touch()
    with pytest.raises(DriverFailed, match="cancelled"):
        job.result(PATIENCE)
    assert runs(outbox) == [("aborted", None, None)]
    driver.run(write, Job(options, rows=ROWS, partitions=4))
    assert outbox.database.run("SELECT count(*), count(DISTINCT payload) FROM openoutbox_events") == [(ROWS, ROWS)]
    wait_disconnected(outbox)
    driver.run(write, Job(options))
    assert staging_tables(outbox) == []


@BOTH
def test_payloads_of_a_mebibyte(driver: Driver, outbox: Outbox, commit: str) -> None:
    options = {"url": outbox.url, "commit": commit, "idColumns": "number"}
    driver.run(write, Job(options, rows=16, body="aes_encrypt(repeat('x', 1048548), lpad(number, 16, '0'))"))
    sizes = outbox.database.run("SELECT count(DISTINCT payload), min(length(payload)) FROM openoutbox_events")
    assert sizes == [(16, 1 << 20)]


def test_no_rows_write_read_archive_and_replay_nothing(driver: Driver, outbox: Outbox, tmp_path: Path) -> None:
    for commit in ("atomic", "partition"):
        driver.run(write, Job({"url": outbox.url, "commit": commit}))
    assert runs(outbox) == [("committed", 0, 0)] * 2
    archived = driver.run(submit, "archive", str(tmp_path / "archive"), "--url", outbox.url)
    assert archived.out.startswith("0 rows archived in 0 files, 0 deleted; "), archived.err
    assert driver.run(in_archive, tmp_path / "archive") == []
    replayed = driver.run(submit, "replay", "--status", "delivered", "--url", outbox.url)
    assert replayed.out.startswith("0 events inserted, 0 by this replay in all; "), replayed.err


def test_behind_pgbouncer_in_transaction_mode(driver: Driver, outbox: Outbox, pgbouncer: str, tmp_path: Path) -> None:
    """Its pool has two connections: those of a write and its driver, or of an archiving and its lock, wait in turn."""
    options = {"url": through(outbox, pgbouncer).address}
    keyed = {**options, "idColumns": "number"}
    driver.run(write, Job({**keyed, "commit": "partition"}, rows=100, partitions=4))
    driver.run(write, Job({**keyed, "commit": "atomic"}, rows=101, partitions=4))
    assert runs(outbox) == [("committed", 100, 100), ("committed", 101, 1)]
    assert staging_tables(outbox) == []
    outbox.database.run("UPDATE openoutbox_events SET status = 'DELIVERED', delivered_at = now()")
    before = in_table(outbox)
    arguments = (str(tmp_path / "archive"), "--older-than", "0", "--url", options["url"])
    archived = driver.run(submit, "archive", *arguments)
    assert archived.code == 0, archived.err
    assert driver.run(in_archive, tmp_path / "archive") == before
    assert in_table(outbox) == []
    replay = ("--archive", str(tmp_path / "archive"), "--status", "delivered", "--url", options["url"])
    replayed = driver.run(submit, "replay", *replay)
    assert replayed.out.startswith("101 events inserted, "), replayed.err


def test_a_column_that_is_added_between_two_starts_of_a_stream(driver: Driver, outbox: Outbox, tmp_path: Path) -> None:
    files = tmp_path / "in"
    files.mkdir()
    job = Job({"url": outbox.url}, folder=str(files), checkpoint=str(tmp_path / "checkpoint"))
    (files / "0.json").write_text('{"number": 1}')
    driver.run(stream, job)
    (files / "1.json").write_text('{"number": 2, "customer": "Ada"}')
    driver.run(stream, replace(job, columns="number long, customer string"))
    payloads = {bytes(payload) for (payload,) in outbox.rows("payload")}
    assert payloads == {b'{"number":1}', b'{"number":2,"customer":"Ada"}'}
    assert runs(outbox) == [("committed", 1, 1)] * 2


def test_an_executor_that_is_killed_while_it_deletes_loses_and_repeats_nothing(
    driver: Driver, outbox: Outbox, tmp_path: Path
) -> None:
    a_past(outbox, 10)
    before = in_table(outbox)
    folder = tmp_path / "archive"
    with stopped_at(outbox, "DELETE"):
        # One task deletes, so that the other executor can read the archive meanwhile.
        arguments = (str(folder), "--url", outbox.url, "--batch-rows", "3", "--max-connections", "1")
        job = driver.call(submit, "archive", *arguments)
        kill_an_executor_at_work(outbox)
        archived = driver.run(in_archive, folder)
        assert set(in_table(outbox) + archived) == set(before)
    printed = job.result(PATIENCE)
    assert printed.code == 0, printed.err
    assert printed.out.startswith("20 rows archived in ")
    assert driver.run(in_archive, folder) == archived
    assert len(archived) == 20
    assert sorted([*in_table(outbox), *archived], key=str) == before


def test_an_executor_that_is_killed_while_it_inserts_copies_inserts_each_once(driver: Driver, outbox: Outbox) -> None:
    a_past(outbox, 30)
    before = sorted(outbox.rows("event_id::text, event_type, payload, created_at"))
    with stopped_at(outbox, "INSERT"):
        job = driver.call(submit, "replay", "--status", "delivered", "--url", outbox.url, "--batch-rows", "3")
        kill_an_executor_at_work(outbox)
    printed = job.result(PATIENCE)
    assert printed.code == 0, printed.err
    assert printed.out.startswith("35 events inserted, 35 by this replay in all; ")
    assert sorted(outbox.rows("event_id::text, event_type, payload, created_at")) == before
    copies = copied(outbox, "status, headers->>'replay_id'")
    assert len(copies) == 35
    assert len(set(copies)) == 1


@dataclass(frozen=True)
class LoggedOutbox:
    """An outbox whose server logs connections."""

    outbox: Outbox
    server: PostgresServer

    def most_connections(self) -> int:
        """The most connections that tasks held at a time, by the server's log.

        A task's connection asks for a slot. The driver has one of its own, which may end while a task's begins.
        """
        lines = (self.server.folder / "log").read_text(errors="replace").splitlines()
        tasks = {line.partition(" ")[0] for line in lines if "-- Takes one of a job's connections" in line}
        held = most = 0
        for line in lines:
            if line.partition(" ")[0] in tasks:
                held += ("connection authorized" in line) - bool(re.search(r" LOG: +disconnection", line))
                most = max(most, held)
        return most


@pytest.fixture
def logging_server() -> Iterator[LoggedOutbox]:
    """A server that logs each connection and statement."""
    settings = {
        "log_connections": "on",
        "log_disconnections": "on",
        "log_statement": "all",
        "log_line_prefix": "%p ",
    }
    with PostgresServer(settings=settings) as server:
        yield LoggedOutbox(Outbox.create(create_database(server.url)), server)


def test_many_partitions_share_a_connection(driver: Driver, logging_server: LoggedOutbox) -> None:
    """Two tasks at a time need one, and eight in all."""
    outbox = logging_server.outbox
    options = {"url": outbox.url, "numPartitions": "1", "idColumns": "number"}
    driver.run(write, Job(options, rows=ROWS, partitions=8))
    assert runs(outbox) == [("committed", ROWS, ROWS)]
    assert logging_server.most_connections() == 1


@pytest.mark.scale
@pytest.mark.timeout(3600)
def test_ten_thousand_partitions_share_twenty_connections(
    spark_cluster: SparkCluster, logging_server: LoggedOutbox, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row in every second partition, 24 tasks at a time."""
    outbox = logging_server.outbox
    settings = {"spark.cores.max": "24", "spark.executor.cores": "12", "spark.executor.memory": "1g"}
    began = time.perf_counter()
    with Driver(spark_cluster.url, tmp_path / "log", settings) as many:
        options = {"url": outbox.url, "numPartitions": "20", "idColumns": "number"}
        many.call(write, Job(options, rows=5000, partitions=10_000)).result(3000)
        seconds = time.perf_counter() - began
    assert runs(outbox) == [("committed", 5000, 5000)]
    assert staging_tables(outbox) == []
    most = logging_server.most_connections()
    with capsys.disabled():
        print(f"\n10,000 partitions: {seconds:.0f} s, {most} connections at a time")
    assert 1 < most <= 20
