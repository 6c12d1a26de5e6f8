"""A driver is killed while seven jobs are under way: what the databases show then, and what the next runs do.

One death serves all: a batch and a stream stop before their commit, another stream after it; of the documented
``foreachBatch`` one stops within its commit, another between it and Spark's own; one archiving writes files, another
deletes rows. On the cluster, so the executors outlive their driver for a moment. ``Seen`` holds what the databases
showed right after the death; each test then runs one of the jobs again, in another driver.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.spark.documented import DocumentedStream, documented_stream
from tests.spark.driver import PATIENCE, Driver, Job, stream, submit, write
from tests.spark.gate import stopped_at, stopped_task, wait_disconnected
from tests.spark.history import a_past, fill, in_archive, in_table
from tests.spark.ledger import runs, staging_tables
from tests.support.documents import blocks
from tests.support.fixtures.outbox import Outbox
from tests.support.fixtures.postgres import create_database, drop_database
from tests.support.servers.spark import SparkCluster
from tests.support.waiting import wait_until

Rows = list[tuple[object, ...]]

FILES = 3
"""Files of a stream, 100 rows each: a fault happens at the second one's micro-batch."""
_EXAMPLE = next(block for block in blocks("docs/guide/spark.md") if "foreachBatch" in block.text)


@dataclass
class Scene:
    """An outbox for each job, and a folder."""

    folder: Path
    batch: Outbox
    before_commit: Outbox
    after_commit: Outbox
    within_version: Outbox
    after_version: Outbox
    writing: Outbox
    deleting: Outbox

    @property
    def streams(self) -> tuple[Outbox, Outbox]:
        """Those of the streams of the data source, before and after a commit."""
        return self.before_commit, self.after_commit

    @property
    def documented_streams(self) -> tuple[Outbox, Outbox]:
        """Those of the documented streams, within and after a commit."""
        return self.within_version, self.after_version

    def faulty(self, outbox: Outbox, fault: str) -> tuple[dict[str, str], Path]:
        """Options of a faulty write to the outbox, and the mark that it leaves when it stops."""
        marks = self.folder / f"{outbox.database.name}-{fault}"
        marks.mkdir()
        return {"url": outbox.url, "fault": fault, "marks": str(marks)}, marks / "stopped"

    def stream(self, outbox: Outbox, options: dict[str, str]) -> Job:
        """The stream of the files into the outbox; it continues from its checkpoint."""
        return Job(options, "openoutbox_faulty", folder=str(self.folder / "in"), checkpoint=self._checkpoint(outbox))

    def documented(self, outbox: Outbox, stopped: Path | None = None) -> DocumentedStream:
        """The documented stream of the files into the outbox; with ``stopped`` it stops after its second version."""
        example = _EXAMPLE.adapted({"/data/orders-checkpoint": self._checkpoint(outbox)})
        return DocumentedStream(example.text, outbox.url, str(self.folder / "in"), stopped)

    def _checkpoint(self, outbox: Outbox) -> str:
        return str(self.folder / f"checkpoint-{outbox.database.name}")

    def archive(self, outbox: Outbox) -> Path:
        """The outbox's archive."""
        return self.folder / f"archive-{outbox.database.name}"

    def archiving(self, outbox: Outbox) -> tuple[str, ...]:
        """The arguments of the job that archives the outbox."""
        return (str(self.archive(outbox)), "--url", outbox.url, "--batch-rows", "3", "--max-connections", "1")


@dataclass(frozen=True)
class Seen:
    """What the databases showed: of both archivings before the jobs began, of everything right after the death."""

    rows_to_write: Rows
    rows_to_delete: Rows
    batch: Rows
    staging_of_batch: list[str]
    streams: list[int]
    """The numbers of events of the streams."""
    writing: Rows
    deleting: Rows
    archive: Rows


@pytest.fixture(scope="module")
def scene(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    databases = [create_database(postgres) for _ in range(7)]
    scene = Scene(tmp_path_factory.mktemp("death"), *(Outbox.create(database) for database in databases))
    (scene.folder / "in").mkdir()
    for file in range(FILES):
        lines = "\n".join(json.dumps({"number": number}) for number in range(file * 100, file * 100 + 100))
        (scene.folder / "in" / f"{file}.json").write_text(lines)
    a_past(scene.writing, 30)
    a_past(scene.deleting, 10)
    yield scene
    for database in databases:
        drop_database(database)


def wait_for(mark: Path, under_way: Sequence[Future[Any]]) -> None:
    """Wait until a job has left the mark, or has ended without it."""
    wait_until(lambda: mark.exists() or any(job.done() for job in under_way), PATIENCE, str(mark))


def stopped_jobs(scene: Scene, doomed: Driver) -> list[Future[Any]]:
    """Start all jobs but the archiving that writes, and wait until each has stopped where it shall die."""
    batch, batch_stopped = scene.faulty(scene.batch, "stop-before-commit")
    before_commit, before_stopped = scene.faulty(scene.before_commit, "stop-before-commit")
    after_commit, after_stopped = scene.faulty(scene.after_commit, "stop-after-commit")
    version_stopped = scene.folder / "version-stopped"
    under_way: list[Future[Any]] = [
        doomed.call(submit, "archive", *scene.archiving(scene.deleting)),
        doomed.call(write, Job({**batch, "idColumns": "number"}, "openoutbox_faulty", rows=1000)),
        doomed.call(stream, scene.stream(scene.before_commit, before_commit)),
        doomed.call(stream, scene.stream(scene.after_commit, after_commit)),
        doomed.call(documented_stream, scene.documented(scene.within_version)),
        doomed.call(documented_stream, scene.documented(scene.after_version, version_stopped)),
    ]
    for mark in (batch_stopped, before_stopped, after_stopped, version_stopped):
        wait_for(mark, under_way)
    for outbox in (scene.deleting, scene.within_version):
        stopped_task(outbox)
    return under_way


@pytest.fixture(scope="module")
def seen(scene: Scene, spark_cluster: SparkCluster, driver: Driver) -> Seen:
    rows_to_write, rows_to_delete = in_table(scene.writing), in_table(scene.deleting)
    with ExitStack() as stack:
        # One executor, of two tasks at a time, starts faster than two.
        doomed = stack.enter_context(Driver(spark_cluster.url, scene.folder / "log", {"spark.executor.cores": "2"}))
        stack.enter_context(stopped_at(scene.deleting, "DELETE"))
        stack.enter_context(stopped_at(scene.writing, "DELETE", passing=0))
        stack.enter_context(stopped_at(scene.within_version, "INSERT", passing=105))
        under_way = stopped_jobs(scene, doomed)
        under_way.append(doomed.call(submit, "archive", *scene.archiving(scene.writing)))
        archive = scene.archive(scene.writing)
        wait_until(lambda: list(archive.glob("run=*")) or under_way[-1].done(), PATIENCE, "the first files")
        assert not any(job.done() for job in under_way)
        doomed.kill()
        seen = Seen(
            rows_to_write=rows_to_write,
            rows_to_delete=rows_to_delete,
            batch=scene.batch.rows("event_id"),
            staging_of_batch=staging_tables(scene.batch),
            streams=[len(outbox.rows("event_id")) for outbox in (*scene.streams, *scene.documented_streams)],
            writing=in_table(scene.writing),
            deleting=in_table(scene.deleting),
            archive=driver.run(in_archive, scene.archive(scene.deleting)),
        )
    for outbox in (scene.writing, scene.deleting, scene.within_version):
        wait_disconnected(outbox)
    return seen


def test_before_its_commit_a_batch_is_invisible_and_the_next_run_is_exact(
    scene: Scene, seen: Seen, driver: Driver
) -> None:
    assert seen.batch == []
    assert len(seen.staging_of_batch) == 1
    driver.run(write, Job({"url": scene.batch.url, "idColumns": "number"}, rows=1000))
    assert len(scene.batch.rows("event_id")) == 1000
    assert staging_tables(scene.batch) == []
    assert runs(scene.batch) == [("aborted", None, None), ("committed", 1000, 1000)]


def test_around_a_commit_a_stream_writes_each_micro_batch_once(scene: Scene, seen: Seen, driver: Driver) -> None:
    assert seen.streams[:2] == [100, 200]
    again = [driver.call(stream, scene.stream(outbox, scene.faulty(outbox, "none")[0])) for outbox in scene.streams]
    for query in again:
        query.result(PATIENCE)
    for outbox in scene.streams:
        assert_each_file_is_there_once(outbox)


def test_around_a_commit_the_documented_foreach_batch_writes_each_event_once(
    scene: Scene, seen: Seen, driver: Driver
) -> None:
    assert seen.streams[2:] == [100, 200]
    again = [driver.call(documented_stream, scene.documented(outbox)) for outbox in scene.documented_streams]
    for outbox, query in zip(scene.documented_streams, again, strict=True):
        query_id = query.result(PATIENCE)
        assert_each_file_is_there_once(outbox)
        assert outbox.database.run("SELECT DISTINCT query_id FROM openoutbox_spark.runs") == [(query_id,)]


def assert_each_file_is_there_once(outbox: Outbox) -> None:
    """One event for each line, one committed micro-batch for each file, and no staging table."""
    payloads = sorted(json.loads(bytes(payload))["number"] for (payload,) in outbox.rows("payload"))
    assert payloads == list(range(FILES * 100))
    epochs = outbox.database.run("SELECT epoch FROM openoutbox_spark.runs WHERE state = 'committed' ORDER BY epoch")
    assert epochs == [(epoch,) for epoch in range(FILES)]
    assert staging_tables(outbox) == []


def test_an_archiving_that_died_while_it_wrote_is_begun_again(scene: Scene, seen: Seen, driver: Driver) -> None:
    assert seen.writing == seen.rows_to_write
    printed = driver.run(submit, "archive", *scene.archiving(scene.writing), "--json")
    assert printed.code == 0, printed.err
    done = json.loads(printed.out)
    assert (done["archived"], len(done["discarded"]), done["recovered"]) == (60, 1, [])
    archive = driver.run(in_archive, scene.archive(scene.writing))
    assert sorted([*in_table(scene.writing), *archive], key=str) == seen.rows_to_write


def test_an_archiving_that_died_while_it_deleted_is_finished_by_the_next(
    scene: Scene, seen: Seen, driver: Driver
) -> None:
    assert set(seen.deleting + seen.archive) == set(seen.rows_to_delete)
    assert len(seen.archive) == 20
    fill(scene.deleting, "DEAD", 10)
    new = [row for row in in_table(scene.deleting) if row not in seen.rows_to_delete]
    printed = driver.run(submit, "archive", *scene.archiving(scene.deleting), "--json")
    assert printed.code == 0, printed.err
    done = json.loads(printed.out)
    assert (done["archived"], len(done["recovered"])) == (10, 1)
    archive = driver.run(in_archive, scene.archive(scene.deleting))
    assert sorted([*in_table(scene.deleting), *archive], key=str) == sorted([*seen.rows_to_delete, *new], key=str)
