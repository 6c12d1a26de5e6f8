"""On a standalone cluster of two workers: executors are killed, attempts run side by side, connections are few."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from relay.localservers.postgres import PostgresServer
from tests.spark.driver import PATIENCE, Driver, Job, submit, write
from tests.spark.gate import kill_an_executor_at_work, stopped_at
from tests.spark.history import a_past, in_archive, in_table
from tests.spark.jobs.test_replay import copied
from tests.spark.ledger import runs, staging_tables
from tests.support.fixtures.outbox import Outbox
from tests.support.fixtures.postgres import create_database

ROWS = 4000


@pytest.mark.parametrize("commit", ["atomic", "partition"])
@pytest.mark.parametrize(
    ("fault", "marks"),
    [("twice", {"written-0", "written-1"}), ("kill", {"killed-within", "killed-after"})],
)
def test_killed_executors_and_speculative_attempts_write_once(
    driver: Driver, outbox: Outbox, tmp_path: Path, fault: str, marks: set[str], commit: str
) -> None:
    """``kill``: one executor dies in the middle of a partition, one when the database has committed another.

    tests/spark/write/test_attempts.py has more of what such attempts leave in the database, without Spark.
    """
    options = {"url": outbox.url, "fault": fault, "marks": str(tmp_path), "commit": commit}
    driver.run(write, Job(options, "openoutbox_faulty", rows=ROWS, partitions=4, speculative=fault == "twice"))
    assert {path.name for path in tmp_path.iterdir()} == marks
    assert [(state, written) for state, written, _ in runs(outbox)] == [("committed", ROWS)]
    assert outbox.database.run("SELECT count(*), count(DISTINCT payload) FROM openoutbox_events") == [(ROWS, ROWS)]
    assert staging_tables(outbox) == []


def test_an_executor_that_is_killed_while_it_deletes_loses_and_repeats_nothing(
    driver: Driver, outbox: Outbox, tmp_path: Path
) -> None:
    a_past(outbox, 30)
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
    assert printed.out.startswith("60 rows archived in ")
    assert driver.run(in_archive, folder) == archived
    assert len(archived) == 60
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
    options = {"url": outbox.url, "maxConnections": "1", "idColumns": "number"}
    driver.run(write, Job(options, rows=800, partitions=8))
    assert runs(outbox) == [("committed", 800, 800)]
    assert logging_server.most_connections() == 1
