"""A driver is killed while five jobs are under way: what the databases show then, and what the next runs do.

One death serves all: a batch and a stream stop before their commit, another stream after it, one archiving writes
files, another deletes rows. On the cluster, so the executors outlive their driver for a moment. ``Seen`` holds what the
databases showed right after the death; each test then runs one of the jobs again, in another driver.
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

from tests.spark.driver import PATIENCE, Driver, Job, stream, submit, write
from tests.spark.gate import stopped_at, stopped_task, wait_disconnected
from tests.spark.history import a_past, fill, in_archive, in_table
from tests.spark.ledger import runs, staging_tables
from tests.support.fixtures.outbox import Outbox
from tests.support.fixtures.postgres import create_database, drop_database
from tests.support.servers.spark import SparkCluster
from tests.support.waiting import wait_until

Rows = list[tuple[object, ...]]

FILES = 3
"""Files of a stream, 100 rows each: a fault happens at the second one's micro-batch."""


@dataclass
class Scene:
    """An outbox for each job, and a folder."""

    folder: Path
    batch: Outbox
    before_commit: Outbox
    after_commit: Outbox
    writing: Outbox
    deleting: Outbox

    def faulty(self, outbox: Outbox, fault: str) -> tuple[dict[str, str], Path]:
        """Options of a faulty write to the outbox, and the mark that it leaves when it stops."""
        marks = self.folder / f"{outbox.database.name}-{fault}"
        marks.mkdir()
        return {"url": outbox.url, "fault": fault, "marks": str(marks)}, marks / "stopped"

    def stream(self, outbox: Outbox, options: dict[str, str]) -> Job:
        """The stream of the files into the outbox; it continues from its checkpoint."""
        checkpoint = str(self.folder / f"checkpoint-{outbox.database.name}")
        return Job(options, "openoutbox_faulty", folder=str(self.folder / "in"), checkpoint=checkpoint)

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
    before_commit: int
    after_commit: int
    writing: Rows
    deleting: Rows
    archive: Rows


@pytest.fixture(scope="module")
def scene(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    databases = [create_database(postgres) for _ in range(5)]
    scene = Scene(tmp_path_factory.mktemp("death"), *(Outbox.create(database) for database in databases))
    (scene.folder / "in").mkdir()
    for file in range(FILES):
        lines = "\n".join(json.dumps({"number": number}) for number in range(file * 100, file * 100 + 100))
        (scene.folder / "in" / f"{file}.json").write_text(lines)
    a_past(scene.writing, 30)
    a_past(scene.deleting, 30)
    yield scene
    for database in databases:
        drop_database(database)


def wait_for(mark: Path, under_way: Sequence[Future[Any]]) -> None:
    """Wait until a job has left the mark, or has ended without it."""
    wait_until(lambda: mark.exists() or any(job.done() for job in under_way), PATIENCE, str(mark))


@pytest.fixture(scope="module")
def seen(scene: Scene, spark_cluster: SparkCluster, driver: Driver) -> Seen:
    rows_to_write, rows_to_delete = in_table(scene.writing), in_table(scene.deleting)
    batch, batch_stopped = scene.faulty(scene.batch, "stop-before-commit")
    before_commit, before_stopped = scene.faulty(scene.before_commit, "stop-before-commit")
    after_commit, after_stopped = scene.faulty(scene.after_commit, "stop-after-commit")
    with ExitStack() as stack:
        # One executor, of two tasks at a time, starts faster than two.
        doomed = stack.enter_context(Driver(spark_cluster.url, scene.folder / "log", {"spark.executor.cores": "2"}))
        stack.enter_context(stopped_at(scene.deleting, "DELETE"))
        stack.enter_context(stopped_at(scene.writing, "DELETE", passing=0))
        under_way: list[Future[Any]] = [
            doomed.call(submit, "archive", *scene.archiving(scene.deleting)),
            doomed.call(write, Job({**batch, "idColumns": "number"}, "openoutbox_faulty", rows=1000)),
            doomed.call(stream, scene.stream(scene.before_commit, before_commit)),
            doomed.call(stream, scene.stream(scene.after_commit, after_commit)),
        ]
        stopped_task(scene.deleting)
        for mark in (batch_stopped, before_stopped, after_stopped):
            wait_for(mark, under_way)
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
            before_commit=len(scene.before_commit.rows("event_id")),
            after_commit=len(scene.after_commit.rows("event_id")),
            writing=in_table(scene.writing),
            deleting=in_table(scene.deleting),
            archive=driver.run(in_archive, scene.archive(scene.deleting)),
        )
    wait_disconnected(scene.writing)
    wait_disconnected(scene.deleting)
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
    assert (seen.before_commit, seen.after_commit) == (100, 200)
    outboxes = (scene.before_commit, scene.after_commit)
    again = [driver.call(stream, scene.stream(outbox, scene.faulty(outbox, "none")[0])) for outbox in outboxes]
    for query in again:
        query.result(PATIENCE)
    for outbox in outboxes:
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
    assert len(seen.archive) == 60
    fill(scene.deleting, "DEAD", 10)
    new = [row for row in in_table(scene.deleting) if row not in seen.rows_to_delete]
    printed = driver.run(submit, "archive", *scene.archiving(scene.deleting), "--json")
    assert printed.code == 0, printed.err
    done = json.loads(printed.out)
    assert (done["archived"], len(done["recovered"])) == (10, 1)
    archive = driver.run(in_archive, scene.archive(scene.deleting))
    assert sorted([*in_table(scene.deleting), *archive], key=str) == sorted([*seen.rows_to_delete, *new], key=str)
