"""The rows of a run on their way into the outbox (``commit=atomic``), and what dead runs have left of theirs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

import psycopg

from relay.core.errors import StorageError
from relay.postgres.connect import SyncConnection
from relay.spark.connection import transaction
from relay.spark.statements import SparkStatements, stage_name
from relay.spark.write.epochs import Run
from relay.spark.write.frames import Frame
from relay.spark.write.liveness import is_dead
from relay.spark.write.load import load_staging
from relay.spark.write.repeats import check_repeats, warn_unchecked

_log = logging.getLogger(__name__)

Frames = Callable[[bytes | None], Iterator[Frame]]
"""Rows of the outbox for a time, as a field of COPY, and rows of a staging table for None."""


@dataclass(frozen=True, slots=True)
class Staged:
    """The rows of the attempts that Spark names."""

    attempts: Sequence[int]
    """Those in the staging table."""
    rows: int
    inserted: int = 0
    """How many of the rows are in the outbox already, written by tasks of mode ``partition``."""
    unchecked: int = 0
    """How many of the rows they found in the outbox already and did not compare."""
    bytes: int = 0
    """Bytes of COPY data."""
    retries: int = 0
    """Attempts before those that Spark names."""
    id_sum: int = 0
    """A sum over the rows' ids."""
    stream_run: str | None = None
    """The run of the streaming query in whose ``foreachBatch`` the rows were written."""
    carried: Sequence[int] = ()
    """Attempts whose rows came to the driver with their tasks' messages."""
    frames: Frames | None = None
    """The rows of ``carried``."""


def insert_staged(connection: SyncConnection, statements: SparkStatements, run: Run, staged: Staged) -> int:
    """Insert the rows; returns the number of new ones. A repeated run fails on its first row, and then inserts the
    missing rows. Raises EventError where an event of another content has the id of one.
    """
    whole = not staged.attempts  # nothing is in a staging table, so that none is needed
    if not whole:
        _stage_carried(connection, statements, run, staged)
    attempts = {"attempts": [*staged.attempts, *staged.carried]}
    connection.execute(statements.query("staging:read_in_order"))
    try:
        with connection.transaction():
            if whole:
                count = _insert_carried(connection, statements, staged)
            else:
                query = statements.query("staging:insert_staging", run.stage)
                count = connection.execute(query, attempts).rowcount
            if count != staged.rows:
                if not whole:
                    _check_count(connection, statements, run, staged)
                raise StorageError(
                    f"run {run.run_id}: {staged.rows} rows were staged and {count} inserted; a trigger or a rule of "
                    f"{statements.outbox} drops rows. Nothing was written: remove it"
                )
            return count
    except psycopg.errors.UniqueViolation:
        if whole:
            connection.execute(statements.query("staging:create_staging", run.stage))
            _stage_carried(connection, statements, run, staged)
        _check_count(connection, statements, run, staged)
        count = connection.execute(statements.query("staging:insert_staging", run.stage, "known"), attempts).rowcount
        if count < staged.rows and not check_repeats(
            connection, statements, "staging:others_staging", run.stage, **attempts
        ):
            warn_unchecked(statements, run.run_id, staged.rows - count)
        return count


def clean(connection: SyncConnection, statements: SparkStatements, max_age: float) -> list[UUID]:
    """Remove the staging tables of ended and dead runs; returns their ids. Waits 100 ms at most for a lock.

    A run whose driver only seems dead is aborted together with the table's removal, or not at all: a task that writes
    holds a lock on the table, and shows that the run is active.
    """
    values = {"schema": statements.schema, "max_age": max_age}
    with transaction(connection):
        connection.execute(statements.query("runs:retire_runs"))
        tables = connection.execute(statements.query("staging:list_staging"), values).fetchall()
    removed = []
    for run_id, state, driver, silent in tables:
        if state == "writing" and not silent and not is_dead(driver):
            continue
        if drop_staging(connection, statements, run_id, "100ms", abort=state == "writing"):
            _log.info("removed the staging table of run %s, which has ended", run_id)
            removed.append(run_id)
    return removed


def drop_staging(
    connection: SyncConnection, statements: SparkStatements, run_id: UUID, wait: str, *, abort: bool = False
) -> bool:
    """Drop a run's staging table, and abort the run with it; False when a task, or another role, has the table."""
    try:
        with transaction(connection):
            connection.execute(statements.query("slots:lock_timeout"), {"wait": wait})
            if abort:
                connection.execute(statements.query("runs:abort_run"), {"run_id": run_id})
            connection.execute(statements.query("staging:drop_staging", stage_name(run_id)))
    except (psycopg.errors.LockNotAvailable, psycopg.errors.InsufficientPrivilege):
        return False
    return True


def _insert_carried(connection: SyncConnection, statements: SparkStatements, staged: Staged) -> int:
    if staged.frames is None:
        return 0
    ((now,),) = connection.execute(statements.query("slots:transaction_time")).fetchall()
    frames = staged.frames(int(now).to_bytes(8, "big", signed=True))
    return load_staging(connection, statements.query("direct:copy_events"), frames)


def _stage_carried(connection: SyncConnection, statements: SparkStatements, run: Run, staged: Staged) -> None:
    if staged.frames is not None:
        load_staging(connection, statements.query("staging:copy_staging", run.stage), staged.frames(None))


def _check_count(connection: SyncConnection, statements: SparkStatements, run: Run, staged: Staged) -> None:
    """Raises StorageError when the staging table has lost rows."""
    attempts = {"attempts": [*staged.attempts, *staged.carried]}
    query = statements.query("staging:count_staging", run.stage)
    ((count,),) = connection.execute(query, attempts).fetchall()
    if count != staged.rows:
        raise StorageError(
            f"run {run.run_id}: {staged.rows} rows were staged and {count} are in the staging table; the database "
            "server was restarted or failed over meanwhile. Nothing was written: run it again"
        )
