"""Drivers are killed, each while several jobs are under way: what the database shows then, and what the next runs do.

The first driver dies before a batch and a stream's micro-batch are committed, and while an archiving writes files; the
second one after the micro-batch's commit, and while the archiving deletes. What was seen in between is in ``Seen``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
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


@dataclass
class Scene:
    """Three outboxes, what is written to them and where."""

    folder: Path
    batch: Outbox
    streamed: Outbox
    archived: Outbox

    @property
    def archive(self) -> Path:
        return self.folder / "archive"

    def marks(self, name: str) -> Path:
        """A new folder for the marks of a faulty write."""
        path = self.folder / name
        path.mkdir()
        return path

    def faulty_stream(self, fault: str) -> Job:
        """The stream of the files, with a fault at its second micro-batch; it goes on from the same checkpoint."""
        options = {"url": self.streamed.url, "fault": fault, "marks": str(self.marks(f"stream-{fault}"))}
        checkpoint = str(self.folder / "checkpoint")
        return Job(options, "openoutbox_faulty", folder=str(self.folder / "in"), checkpoint=checkpoint)

    def archiving(self) -> tuple[str, ...]:
        """The arguments of the job that archives."""
        return (str(self.archive), "--url", self.archived.url, "--batch-rows", "3", "--max-connections", "1")


@dataclass
class Seen:
    """What the databases showed right after a driver's death."""

    batch: Rows = field(default_factory=list)
    staging_of_batch: list[str] = field(default_factory=list)
    streamed: int = 0
    table: Rows = field(default_factory=list)
    archive: Rows = field(default_factory=list)


@pytest.fixture(scope="module")
def scene(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    databases = [create_database(postgres) for _ in range(3)]
    scene = Scene(tmp_path_factory.mktemp("deaths"), *(Outbox.create(database) for database in databases))
    (scene.folder / "in").mkdir()
    for file in range(4):
        numbers = range(file * 100, file * 100 + 100)
        lines = "\n".join(json.dumps({"number": number}) for number in numbers)
        (scene.folder / "in" / f"{file}.json").write_text(lines)
    a_past(scene.archived, 30)
    yield scene
    for database in databases:
        drop_database(database)


@pytest.fixture(scope="module")
def before(scene: Scene) -> Rows:
    """The rows that are archived, and those beside them."""
    return in_table(scene.archived)


def wait_for(mark: Path, under_way: Sequence[Future[Any]]) -> None:
    """Wait until a job has left the mark, or has ended without it."""
    wait_until(lambda: mark.exists() or any(job.done() for job in under_way), PATIENCE, str(mark))


@pytest.fixture(scope="module")
def first_death(scene: Scene, before: Rows) -> Seen:
    """On ``local[3]``: nothing of a driver's work that is not committed outlives its executors."""
    marks = scene.marks("batch")
    options = {"url": scene.batch.url, "fault": "stop-before-commit", "marks": str(marks), "idColumns": "number"}
    streaming = scene.faulty_stream("stop-before-commit")
    with ExitStack() as stack:
        doomed = stack.enter_context(Driver("local[3]", scene.folder / "first.log"))
        stack.enter_context(stopped_at(scene.archived, "DELETE", passing=0))
        under_way: list[Future[Any]] = [
            doomed.call(write, Job(options, "openoutbox_faulty", rows=1000)),
            doomed.call(stream, streaming),
        ]
        for stopped in (marks / "stopped", Path(streaming.options["marks"]) / "stopped"):
            wait_for(stopped, under_way)
        under_way.append(doomed.call(submit, "archive", *scene.archiving()))
        wait_until(lambda: list(scene.archive.glob("run=*")) or under_way[-1].done(), PATIENCE, "the first files")
        assert not any(job.done() for job in under_way)
        doomed.kill()
        return Seen(
            batch=scene.batch.rows("event_id"),
            staging_of_batch=staging_tables(scene.batch),
            streamed=len(scene.streamed.rows("event_id")),
            table=in_table(scene.archived),
        )


@pytest.fixture(scope="module")
def second_death(scene: Scene, first_death: Seen, spark_cluster: SparkCluster, driver: Driver) -> Seen:
    """On the cluster: executors outlive their driver for a moment."""
    wait_disconnected(scene.archived)
    streaming = scene.faulty_stream("stop-after-commit")
    with ExitStack() as stack:
        doomed = stack.enter_context(Driver(spark_cluster.url, scene.folder / "second.log"))
        stack.enter_context(stopped_at(scene.archived, "DELETE"))
        under_way: list[Future[Any]] = [
            doomed.call(stream, streaming),
            doomed.call(submit, "archive", *scene.archiving()),
        ]
        wait_for(Path(streaming.options["marks"]) / "stopped", under_way)
        stopped_task(scene.archived)
        assert not any(job.done() for job in under_way)
        doomed.kill()
        seen = Seen(
            streamed=len(scene.streamed.rows("event_id")),
            table=in_table(scene.archived),
            archive=driver.run(in_archive, scene.archive),
        )
    wait_disconnected(scene.archived)
    return seen


def test_before_its_commit_nothing_is_visible_and_the_next_run_is_exact(
    scene: Scene, first_death: Seen, driver: Driver
) -> None:
    assert first_death.batch == []
    assert len(first_death.staging_of_batch) == 1
    driver.run(write, Job({"url": scene.batch.url, "idColumns": "number"}, rows=1000))
    assert len(scene.batch.rows("event_id")) == 1000
    assert staging_tables(scene.batch) == []
    assert runs(scene.batch) == [("aborted", None, None), ("committed", 1000, 1000)]


def test_around_a_commit_a_stream_writes_each_micro_batch_once(
    scene: Scene, first_death: Seen, second_death: Seen, driver: Driver
) -> None:
    assert (first_death.streamed, second_death.streamed) == (100, 200)
    driver.run(stream, scene.faulty_stream("none"))
    payloads = sorted(json.loads(bytes(payload))["number"] for (payload,) in scene.streamed.rows("payload"))
    assert payloads == list(range(400))
    epochs = scene.streamed.database.run(
        "SELECT epoch FROM openoutbox_spark.runs WHERE state = 'committed' ORDER BY epoch"
    )
    assert epochs == [(0,), (1,), (2,), (3,)]
    assert staging_tables(scene.streamed) == []


def test_while_it_writes_or_deletes_the_next_archiving_makes_up_for_it(
    scene: Scene, before: Rows, first_death: Seen, second_death: Seen, driver: Driver
) -> None:
    assert first_death.table == before
    assert set(second_death.table + second_death.archive) == set(before)
    fill(scene.archived, "DEAD", 10)
    everything = sorted([*before, *(row for row in in_table(scene.archived) if row not in before)], key=str)
    printed = driver.run(submit, "archive", *scene.archiving(), "--json")
    assert printed.code == 0, printed.err
    done = json.loads(printed.out)
    assert (done["archived"], len(done["recovered"])) == (10, 1)
    assert sorted([*in_table(scene.archived), *driver.run(in_archive, scene.archive)], key=str) == everything
