"""Spark's connections: what a role's or a database's own defaults do not change."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from relay.postgres.sql import TableName
from relay.spark.connection import connect
from relay.spark.setup import create_ledger
from relay.spark.statements import SparkStatements
from relay.spark.write.epochs import Run
from relay.spark.write.runs import open_run
from tests.support.fixtures.outbox import Outbox
from tests.support.waiting import wait_until


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_tasks_open_one_run_side_by_side_whatever_isolation_is_the_databases_default(
    outbox: Outbox, level: str
) -> None:
    """Executors of several machines do: the second one waits for the row that the first one has written."""
    outbox.database.run(f"ALTER DATABASE {outbox.database.name} SET default_transaction_isolation = '{level}'")
    statements = SparkStatements(TableName(), "openoutbox_spark")
    run = Run(uuid.uuid4(), '"openoutbox_events"', "", "atomic", "elsewhere/1/1")
    with connect(outbox.url) as first, connect(outbox.url) as second, ThreadPoolExecutor(1) as pool:
        create_ledger(first, statements)
        open_run(first, statements, run)
        with first.transaction():
            open_run(first, statements, run)
            other = pool.submit(open_run, second, statements, run)
            wait_until(lambda: other.done() or outbox.database.waiting_for_locks(), what="the second task to wait")
        other.result(60)
