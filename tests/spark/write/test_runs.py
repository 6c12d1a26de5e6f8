"""Runs and their staging tables by hand, without Spark: commits, dead drivers, cleaning up after them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from relay.core.errors import StorageError
from relay.postgres.sql import TableName
from relay.spark.connection import APPLICATION, connect
from relay.spark.setup import create_ledger
from relay.spark.statements import SparkStatements, stage_name
from relay.spark.write.epochs import Run
from relay.spark.write.liveness import this_driver
from relay.spark.write.runs import abort_run, commit_run, open_run
from relay.spark.write.staging import Staged, clean
from tests.spark.ledger import staging_tables
from tests.support.fixtures.outbox import Outbox
from tests.support.waiting import wait_until


class Staging:
    """A run by hand, as a driver and its tasks would make it."""

    def __init__(
        self, outbox: Outbox, driver: str | None = None, query: tuple[str, int] | tuple[None, None] = (None, None)
    ) -> None:
        self.outbox = outbox
        self.statements = SparkStatements(TableName(), "openoutbox_spark")
        self.run = Run(uuid.uuid4(), '"openoutbox_events"', "by hand", "atomic", driver or this_driver(), *query)
        with self.connect() as connection:
            create_ledger(connection, self.statements)
            open_run(connection, self.statements, self.run)

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        return connect(self.outbox.url)

    def stage(self, attempt: int, count: int) -> None:
        """Rows as an attempt of a task stages them."""
        self.outbox.database.run(
            f"INSERT INTO openoutbox_spark.{self.run.stage} "
            "SELECT %(attempt)s, n, gen_random_uuid(), 't', NULL, 'x', '{}', NULL "
            "FROM generate_series(1, %(count)s) AS n",
            {"attempt": attempt, "count": count},
        )

    def stage_ids(self, ids: Sequence[uuid.UUID], attempt: int = 1) -> None:
        """Rows with these ids, in this order."""
        self.outbox.database.run(
            f"INSERT INTO openoutbox_spark.{self.run.stage} "
            "SELECT %s, n, id, 't', NULL, 'x', '{}', NULL "
            "FROM unnest(%s::uuid[]) WITH ORDINALITY AS t (id, n) ORDER BY id",
            [attempt, list(ids)],
        )

    def commit(self, attempts: list[int], rows: int) -> tuple[int, int]:
        return commit_run(self.outbox.url, self.statements, self.run, Staged(attempts, rows))

    def clean(self, max_age: float = 3600) -> list[uuid.UUID]:
        with self.connect() as connection:
            return clean(connection, self.statements, max_age)

    @property
    def state(self) -> object:
        return self.outbox.database.run("SELECT state FROM openoutbox_spark.runs WHERE run_id = %s", [self.run.run_id])[
            0
        ][0]


DEAD = this_driver().rpartition("/")[0] + "/1"  # this machine, a process of another time


def test_only_the_attempts_that_spark_names_count(outbox: Outbox) -> None:
    staging = Staging(outbox)
    staging.stage(1, 10)
    staging.stage(2, 10)
    assert staging.commit([2], 10) == (10, 10)
    assert len(outbox.rows("event_id")) == 10
    assert staging_tables(outbox) == []


def test_the_ledger_knows_a_commit_whose_reply_was_lost(outbox: Outbox) -> None:
    staging = Staging(outbox)
    staging.stage(1, 10)
    assert staging.commit([1], 10) == staging.commit([1], 10) == (10, 10)
    assert len(outbox.rows("event_id")) == 10


def test_rows_are_inserted_in_the_order_of_partitions_and_rows(outbox: Outbox) -> None:
    """Whichever attempt staged first, and whatever their ids are."""
    staging = Staging(outbox)
    ids = [uuid.uuid4() for _ in range(50)]
    staging.stage_ids(ids[25:], attempt=2)
    staging.stage_ids(ids[:25], attempt=1)
    staging.commit([2, 1], 50)
    assert [
        event_id for (event_id,) in outbox.database.run("SELECT event_id FROM openoutbox_events ORDER BY ctid")
    ] == ids


def test_a_commit_sorts_no_rows_in_temporary_files(outbox: Outbox) -> None:
    staging = Staging(outbox)
    outbox.database.run(
        f"INSERT INTO openoutbox_spark.{staging.run.stage} "
        "SELECT n % 2, n, gen_random_uuid(), 't', NULL, repeat('x', 500)::bytea, '{}', NULL "
        "FROM generate_series(1, 20000) AS n"
    )
    staging.commit([0, 1], 20_000)
    busy = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s"
    wait_until(lambda: not outbox.database.run(busy, [APPLICATION]), what="the commit's connection to end")
    assert outbox.database.run("SELECT temp_files FROM pg_stat_database WHERE datname = current_database()") == [(0,)]


def test_a_commit_that_loses_a_deadlock_is_tried_again(outbox: Outbox) -> None:
    staging = Staging(outbox)
    low, high = sorted(uuid.uuid4() for _ in range(2))
    staging.stage_ids([low, high])
    insert = "INSERT INTO openoutbox_events (event_id, event_type, payload) VALUES (%s, 't', 'x')"
    with outbox.database.connect(autocommit=False) as other, ThreadPoolExecutor(1) as pool:
        other.execute("SET LOCAL deadlock_timeout = '60s'")  # so that the server ends the commit, and not this
        other.execute(insert, [high])
        commit = pool.submit(staging.commit, [1], 2)
        wait_until(lambda: waits_for_a_transaction(outbox), what="the commit to wait for the other transaction")
        other.execute(insert, [low])
        other.commit()
        assert commit.result(60) == (2, 0)
    assert len(outbox.rows("event_id")) == 2


def test_of_two_runs_that_commit_one_micro_batch_at_once_one_counts(outbox: Outbox) -> None:
    """Both find it uncommitted. The first one that is ready also waits for the other, to clean up after it."""
    slow, fast = Staging(outbox, query=("q", 0)), Staging(outbox, query=("q", 0))
    event_id = uuid.uuid4()
    slow.stage_ids([event_id])
    fast.stage(1, 1)
    with outbox.database.connect(autocommit=False) as other, ThreadPoolExecutor(2) as pool:
        other.execute("INSERT INTO openoutbox_events (event_id, event_type, payload) VALUES (%s, 't', 'x')", [event_id])
        first = pool.submit(slow.commit, [1], 1)
        wait_until(lambda: waits_for_a_transaction(outbox), what="the commit to wait for the other transaction")
        second = pool.submit(fast.commit, [1], 1)
        wait_until(lambda: fast.state == "committed", what="the other commit")
        other.rollback()
        assert (first.result(60), second.result(60)) == ((0, 0), (1, 1))
    assert len(outbox.rows("event_id")) == 1
    assert (slow.state, fast.state) == ("aborted", "committed")
    assert staging_tables(outbox) == []


def waits_for_a_transaction(outbox: Outbox) -> bool:
    statement = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'transactionid'"
    return bool(outbox.database.run(statement))


def test_a_commit_is_refused_when_the_server_has_lost_what_was_staged(outbox: Outbox) -> None:
    staging = Staging(outbox)
    staging.stage(1, 10)
    outbox.database.run(f"DELETE FROM openoutbox_spark.{staging.run.stage}")
    with pytest.raises(StorageError, match="10 rows were staged and 0 are in the staging table"):
        staging.commit([1], 10)
    assert outbox.rows("event_id") == []


def test_what_a_dead_driver_left_is_cleaned_away(outbox: Outbox) -> None:
    dead, alive, elsewhere = Staging(outbox, DEAD), Staging(outbox), Staging(outbox, "another-machine/77/88")
    assert dead.clean() == [dead.run.run_id]
    assert sorted(staging_tables(outbox)) == sorted([alive.run.stage, elsewhere.run.stage])
    assert (dead.state, alive.state, elsewhere.state) == ("aborted", "writing", "writing")
    with pytest.raises(StorageError, match="another run cleaned it up"):
        dead.commit([1], 10)
    with pytest.raises(StorageError, match="started too late"), dead.connect() as connection:
        open_run(connection, dead.statements, dead.run)


def test_a_driver_of_another_machine_is_dead_after_a_long_silence(outbox: Outbox) -> None:
    silent = Staging(outbox, "another-machine/77/88")
    outbox.database.run("UPDATE openoutbox_spark.runs SET seen_at = now() - interval '2 hours'")
    assert silent.clean(3 * 3600) == []
    assert silent.clean(3600) == [silent.run.run_id]


def test_a_table_without_a_run_is_cleaned_away(outbox: Outbox) -> None:
    staging = Staging(outbox)
    orphan = stage_name(uuid.uuid4())
    outbox.database.run(f"CREATE UNLOGGED TABLE openoutbox_spark.{orphan} (attempt BIGINT)")
    staging.clean()
    assert staging_tables(outbox) == [staging.run.stage]


def test_cleaning_leaves_a_table_that_a_task_writes_to(outbox: Outbox) -> None:
    staging = Staging(outbox, DEAD)
    with outbox.database.connect(autocommit=False) as task:
        task.execute(f"LOCK TABLE openoutbox_spark.{staging.run.stage} IN ROW EXCLUSIVE MODE".encode())
        assert staging.clean() == []
        assert staging.state == "writing"
    assert staging.clean() == [staging.run.run_id]


def test_a_run_that_is_given_up_while_a_task_writes_is_aborted_at_once_and_removed_later(outbox: Outbox) -> None:
    """Its driver lives on, so that nothing but the ledger says that the run has ended."""
    abandoned = Staging(outbox)
    with outbox.database.connect(autocommit=False) as task, abandoned.connect() as connection:
        task.execute(f"LOCK TABLE openoutbox_spark.{abandoned.run.stage} IN ROW EXCLUSIVE MODE".encode())
        assert not abort_run(connection, abandoned.statements, abandoned.run.run_id, wait="10ms")
        assert abandoned.state == "aborted"
        assert abandoned.clean() == []
    assert abandoned.clean() == [abandoned.run.run_id]
    assert staging_tables(outbox) == []


def test_a_stream_removes_the_table_of_a_try_that_was_given_up(outbox: Outbox) -> None:
    """Its writer cleans up after other runs only once."""
    abandoned, later = Staging(outbox, query=("q", 0)), Staging(outbox, query=("q", 0))
    with outbox.database.connect(autocommit=False) as task, abandoned.connect() as connection:
        task.execute(f"LOCK TABLE openoutbox_spark.{abandoned.run.stage} IN ROW EXCLUSIVE MODE".encode())
        abort_run(connection, abandoned.statements, abandoned.run.run_id, wait="10ms")
    later.stage(1, 10)
    assert later.commit([1], 10) == (10, 10)
    assert staging_tables(outbox) == []
