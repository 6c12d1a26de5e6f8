"""``archive`` and ``replay`` on a standalone cluster: executors and drivers are killed in the middle of them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from relay.spark.archive import run as run_archive
from tests.spark.history import a_past, answering, fill, in_archive, in_both, in_table
from tests.spark.test_documents import conf_dir
from tests.spark.test_replay import copied
from tests.support.fixtures.outbox import Outbox
from tests.support.paths import ROOT
from tests.support.servers.spark import HOME, SparkCluster, environment
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("spark"), pytest.mark.timeout(1200)]

_PATIENCE = 400  # seconds: on a busy machine a job takes minutes to begin
_SMALL = ("--conf", "spark.sql.shuffle.partitions=2")
_GATE = """
CREATE FUNCTION stop_here() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(4711);
    RETURN COALESCE(NEW, OLD);
END
$$
"""
_STOPPED = """
SELECT client_port FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'openoutbox-spark' AND wait_event = 'advisory'
"""

_CONNECTED = """
SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'openoutbox-spark'
"""


@contextmanager
def stopped_at(outbox: Outbox, what: str) -> Iterator[None]:
    """Every ``what`` (INSERT, DELETE) waits while the block runs, but those of the first 5 rows."""
    outbox.database.run(_GATE)
    outbox.database.run("CREATE SEQUENCE passed")
    outbox.database.run(
        f"CREATE TRIGGER gate BEFORE {what} ON openoutbox_events FOR EACH ROW"
        " WHEN (nextval('passed') > 5) EXECUTE FUNCTION stop_here()"
    )
    with psycopg.connect(outbox.url, autocommit=True) as holder:
        holder.execute("SELECT pg_advisory_lock(4711)")
        yield
    outbox.database.run("DROP TRIGGER gate ON openoutbox_events")


@contextmanager
def submitted(folder: Path, cluster: SparkCluster, job: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The job on the cluster; killed at the end if it is still there."""
    folder.mkdir()
    command: list[str | Path] = [
        HOME / "bin" / "spark-submit",
        *_SMALL,
        ROOT / "deploy/spark" / f"{job}.py",
        *arguments,
    ]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment() | {"SPARK_CONF_DIR": conf_dir(folder, cluster)},
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def kill_an_executor_at_work(outbox: Outbox) -> None:
    """Kill the JVM of an executor one of whose tasks waits in the database."""
    ports = wait_until(lambda: outbox.database.run(_STOPPED), _PATIENCE, "a task that waits")
    executor = _executor_of(_owner(int(ports[0][0])))
    os.kill(executor, signal.SIGKILL)


def _owner(port: int) -> int:
    """The process that has a connection from this port."""
    lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    (inode,) = [line.split()[9] for line in lines if line.split()[1].endswith(f":{port:04X}")]
    for found in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if str(found.readlink()) == f"socket:[{inode}]":
                return int(found.parts[2])
        except OSError:
            continue
    raise AssertionError(f"nobody has port {port}")


def _executor_of(pid: int) -> int:
    while b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{pid}/cmdline").read_bytes():
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        pid = int(stat.rpartition(")")[2].split()[1])
        assert pid > 1, "not a process of an executor"
    return pid


def test_an_executor_that_is_killed_while_it_deletes_loses_and_repeats_nothing(
    spark: SparkSession, spark_cluster: SparkCluster, outbox: Outbox, tmp_path: Path
) -> None:
    a_past(outbox, 100)
    before = in_table(outbox)
    folder = tmp_path / "archive"
    arguments = (str(folder), "--url", outbox.url, "--batch-rows", "3")
    with submitted(tmp_path / "job", spark_cluster, "archive", *arguments) as job:
        with stopped_at(outbox, "DELETE"):
            kill_an_executor_at_work(outbox)
            assert set(in_both(spark, outbox, folder)) == set(before)
        assert job.wait(_PATIENCE) == 0, (tmp_path / "job/log").read_text()[-4000:]
    assert in_both(spark, outbox, folder) == before
    assert len(in_archive(spark, folder)) == 200
    assert "200 rows archived in " in (tmp_path / "job/log").read_text()


def test_a_driver_that_is_killed_while_it_writes_or_deletes_is_made_up_for(
    spark: SparkSession,
    spark_cluster: SparkCluster,
    outbox: Outbox,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    a_past(outbox, 100)
    before = in_table(outbox)
    folder = tmp_path / "archive"
    arguments = (str(folder), "--url", outbox.url, "--batch-rows", "3")
    with submitted(tmp_path / "writing", spark_cluster, "archive", *arguments) as job:
        wait_until(lambda: list(folder.glob("run=*")) or job.poll() is not None, _PATIENCE, "the first files")
    assert in_table(outbox) == before
    with stopped_at(outbox, "DELETE"), submitted(tmp_path / "deleting", spark_cluster, "archive", *arguments):
        wait_until(lambda: outbox.database.run(_STOPPED), _PATIENCE, "a task that waits")
        assert set(in_both(spark, outbox, folder)) == set(before)
    wait_until(lambda: not outbox.database.run(_CONNECTED), 60, "the server to notice that the driver is gone")
    fill(outbox, "DEAD", 10)
    before = sorted([*before, *(row for row in in_table(outbox) if row not in before)], key=str)
    done = answering(run_archive, "archive", outbox, capsys)(str(folder))
    assert (done["archived"], len(done["recovered"])) == (10, 1)
    assert in_both(spark, outbox, folder) == before


def test_an_executor_that_is_killed_while_it_inserts_copies_inserts_each_once(
    spark_cluster: SparkCluster, outbox: Outbox, tmp_path: Path
) -> None:
    a_past(outbox, 100)
    before = sorted(outbox.rows("event_id::text, event_type, payload, created_at"))
    arguments = ("--status", "delivered", "--url", outbox.url, "--batch-rows", "3")
    with submitted(tmp_path / "job", spark_cluster, "replay", *arguments) as job:
        with stopped_at(outbox, "INSERT"):
            kill_an_executor_at_work(outbox)
        assert job.wait(_PATIENCE) == 0, (tmp_path / "job/log").read_text()[-4000:]
    said = re.search(r"(\d+) events inserted, (\d+) by this replay", (tmp_path / "job/log").read_text())
    assert said is not None
    assert said.groups() == ("105", "105")
    assert sorted(outbox.rows("event_id::text, event_type, payload, created_at")) == before
    found = copied(outbox, "status, headers->>'replay_id'")
    assert len(found) == 105
    assert len(set(found)) == 1
