"""Runs and their staging tables: open, commit, abort and clean up.

A run is one ``save()`` or one try at a micro-batch. In mode ``atomic``:

    tasks    open the run (the first one creates its staging table), COPY into it, each attempt under its own number
    driver   commits: one transaction inserts the rows of the attempts that Spark names into the outbox, compares the
             count, and marks the run as committed; afterwards the driver drops the staging table

That transaction makes all rows visible at once. Rows of attempts that Spark does not name (repeated, speculative or
killed ones) are not read. If the server crashed meanwhile, the count is wrong, since unlogged tables are emptied, and
the commit fails. If the reply to COMMIT is lost, the ledger has the run's state.

A driver that dies before its commit leaves a run in state ``writing`` and a staging table. ``clean``, called when
another run begins, removes both if that driver is dead, or has given no sign of life for ``stagingMaxAge``. It cannot
remove those of an active run: a task that writes holds a lock on the table.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

import psycopg

from relay.core.errors import ConfigError, SchemaError, StorageError
from relay.postgres.connect import SyncConnection
from relay.postgres.errors import translating
from relay.postgres.sql import TableName, statement
from relay.spark.connection import DEFAULT_MAX_WAIT, Wait, connect, persist, transaction
from relay.spark.setup import create_ledger, has_ledger
from relay.spark.statements import DEFAULT_SCHEMA, SparkStatements, stage_name
from relay.spark.write.epochs import Committed, Run, is_replay
from relay.spark.write.liveness import is_dead
from relay.spark.write.options import WriteOptions

_log = logging.getLogger(__name__)

_PLAIN_TABLE: Final = "r"  # relkind


@dataclass(frozen=True, slots=True)
class Staged:
    """The rows of the attempts that Spark names."""

    attempts: Sequence[int]
    rows: int
    inserted: int = 0
    """How many of the rows are in the outbox already, written by tasks of mode ``partition``."""
    bytes: int = 0
    """Bytes of COPY data."""
    retries: int = 0
    """Attempts before those that Spark names."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run has done, by the ledger. The numbers are 0 before its commit."""

    state: str
    """``writing``, ``committed`` or ``aborted``."""
    rows: int
    """Rows that the run wrote."""
    new: int
    """Rows that were inserted."""
    bytes: int
    """Bytes that its tasks sent to the database."""
    retries: int
    """Attempts at its tasks that failed, or that Spark repeated, before the ones that count."""
    seconds: float
    """From the first statement to the commit, or to the last sign of life."""

    @property
    def skipped(self) -> int:
        """Rows whose event existed already."""
        return self.rows - self.new

    def counts(self) -> dict[str, int]:
        """The numbers by their names."""
        return {
            "rows": self.rows,
            "new": self.new,
            "skipped": self.skipped,
            "bytes": self.bytes,
            "retries": self.retries,
        }


def prepare(options: WriteOptions, statements: SparkStatements) -> None:
    """Check outbox and ledger before a run, and clean up after dead runs.

    Creates a missing ledger if this role may. Raises SchemaError, which names what is missing.
    """

    def work(wait: Wait) -> None:
        with connect(options.url, writes=True, wait=wait) as connection:
            with transaction(connection):
                _check_outbox(connection, statements)
            _ensure_ledger(connection, statements)
            clean(connection, statements, options.staging_max_age)

    with translating("preparing to write"):
        persist(work, options.max_wait)


def begin_run(options: WriteOptions, statements: SparkStatements, run: Run) -> bool:
    """Record a new run; returns False when it was committed before, by its ``runId`` or ``txnVersion``.

    Raises StorageError for a run that was aborted, and ConfigError for an earlier ``txnVersion``.
    """

    def work(wait: Wait) -> str:
        with connect(options.url, writes=True, wait=wait) as connection, transaction(connection):
            if run.epoch is not None and _is_repeated(connection, statements, run, 0):
                return "committed"
            return str(_one(connection, statements, "runs:open_run", run.parameters())[0])

    with translating("opening the run"):
        state = persist(work, options.max_wait)
    if state == "aborted":
        raise StorageError(f"option runId: run {run.run_id} was aborted; take a new id")
    return state == "writing"


def open_run(connection: SyncConnection, statements: SparkStatements, run: Run, *, staging: bool) -> None:
    """Record the run, or that it is alive. Raises StorageError when it was aborted meanwhile."""
    with translating("opening the run"), transaction(connection):
        (state,) = _one(connection, statements, "runs:open_run", run.parameters())
        if state != "writing":
            raise StorageError(f"run {run.run_id} is {state} already; one of its tasks started too late")
        if staging:
            connection.execute(statements.query("staging:create_staging", run.stage))


def commit_run(
    url: str, statements: SparkStatements, run: Run, staged: Staged, max_wait: float = DEFAULT_MAX_WAIT
) -> tuple[int, int]:
    """Make a run visible; returns the numbers of rows that it wrote and of new ones.

    Tries again when the connection is lost, since the ledger says whether an earlier try was committed, and when the
    database rolled the commit back, for example after a deadlock with another run that inserts the same events.
    """

    def work(wait: Wait) -> tuple[int, int]:
        with connect(url, writes=True, wait=wait) as connection:
            try:
                with transaction(connection):
                    counts = _commit(connection, statements, run, staged)
            except psycopg.errors.UniqueViolation:  # another run committed this micro-batch meanwhile; now it is seen
                with transaction(connection):
                    counts = _commit(connection, statements, run, staged)
            _tidy(connection, statements, run)
        return counts

    with translating("committing"):
        return persist(work, max_wait)


def abort_run(connection: SyncConnection, statements: SparkStatements, run_id: UUID, *, wait: str = "5s") -> bool:
    """Abort a run, then drop its staging table; returns False when a task still writes to it.

    Aborting comes first, in a transaction of its own: a task may hold the table for hours, and the next write of any
    driver drops the table of a run that has ended.
    """
    with transaction(connection):
        _finish(connection, statements, run_id, "aborted")
    return _drop(connection, statements, run_id, wait)


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
    for name, run_id, state, driver, silent in tables:
        if state == "writing" and not silent and not is_dead(driver):
            continue
        owner = run_id or UUID(name.removeprefix("stage_"))
        if _drop(connection, statements, owner, "100ms", abort=state == "writing"):
            _log.info("removed the staging table of run %s, which has ended", owner)
            removed.append(owner)
    return removed


def run_summary(url: str, run_id: UUID | str, staging_schema: str = DEFAULT_SCHEMA) -> RunSummary:
    """What the ``save()`` with the option ``runId`` has done. Raises StorageError for an unknown id."""
    statements = SparkStatements(TableName(), staging_schema)
    with translating("reading the ledger"), connect(url) as connection, transaction(connection):
        row = connection.execute(statements.query("runs:summarise_run"), {"run_id": run_id}).fetchone()
    if row is None:
        raise StorageError(f"schema {staging_schema}: the ledger has no run {run_id}; was it the option runId?")
    return RunSummary(*row)


def stream_summary(options: WriteOptions, query_id: str, seconds: float) -> tuple[int, int]:
    """How many rows a stream has written in the last ``seconds``, and how many of them were new."""
    statements = SparkStatements(options.table, options.staging_schema)
    values = {"outbox": options.table.quoted, "query_id": query_id, "seconds": seconds}
    with translating("reading the ledger"), connect(options.url) as connection, transaction(connection):
        rows, inserted = _one(connection, statements, "runs:summarise_stream", values)
    return rows, inserted


def _commit(connection: SyncConnection, statements: SparkStatements, run: Run, staged: Staged) -> tuple[int, int]:
    with connection.cursor() as cursor:
        row = cursor.execute(statements.query("runs:lock_run"), {"run_id": run.run_id}).fetchone()
    state, rows, inserted = row or ("deleted", None, None)
    if state == "committed":
        return rows, inserted
    if run.epoch is not None and _is_repeated(connection, statements, run, staged.rows):
        _finish(connection, statements, run.run_id, "aborted", Staged((), 0))
        return 0, 0
    if state != "writing":
        raise StorageError(
            f"run {run.run_id} is {state}: another run cleaned it up after stagingMaxAge without a sign of life; "
            "nothing was written, run it again with a longer stagingMaxAge"
        )
    inserted = staged.inserted
    if staged.attempts:
        inserted = _insert(connection, statements, run, staged)
    _finish(connection, statements, run.run_id, "committed", replace(staged, inserted=inserted))
    return staged.rows, inserted


def _is_repeated(connection: SyncConnection, statements: SparkStatements, run: Run, rows: int) -> bool:
    """Whether the run's micro-batch is in the outbox already. Raises ConfigError for another stream's micro-batch."""
    last = connection.execute(statements.query("runs:last_epoch"), run.parameters()).fetchone()
    return last is not None and is_replay(run, rows, Committed(*last))


def _insert(connection: SyncConnection, statements: SparkStatements, run: Run, staged: Staged) -> int:
    """Insert the staged rows; returns the number of new ones. A repeated run fails on its first row, and then inserts
    the missing rows.
    """
    attempts = {"attempts": list(staged.attempts)}
    try:
        with connection.transaction():
            count = connection.execute(statements.query("staging:insert_staging", run.stage), attempts).rowcount
            if count != staged.rows:
                _check_count(connection, statements, run, staged)
                raise StorageError(
                    f"run {run.run_id}: {staged.rows} rows were staged and {count} inserted; a trigger or a rule of "
                    f"{statements.outbox} drops rows. Nothing was written: remove it"
                )
            return count
    except psycopg.errors.UniqueViolation:
        _check_count(connection, statements, run, staged)
        return connection.execute(statements.query("staging:insert_staging", run.stage, "known"), attempts).rowcount


def _check_count(connection: SyncConnection, statements: SparkStatements, run: Run, staged: Staged) -> None:
    """Raises StorageError when the staging table has lost rows."""
    attempts = {"attempts": list(staged.attempts)}
    (count,) = _one(connection, statements, "staging:count_staging", attempts, run.stage)
    if count != staged.rows:
        raise StorageError(
            f"run {run.run_id}: {staged.rows} rows were staged and {count} are in the staging table; the database "
            "server was restarted or failed over meanwhile. Nothing was written: run it again"
        )


def _tidy(connection: SyncConnection, statements: SparkStatements, run: Run) -> None:
    """Clean up after the commit. An error is logged only: ``clean`` of the next run removes the rest."""
    try:
        _drop(connection, statements, run.run_id, "5s")
        if run.query_id is None:
            return
        values = {**run.parameters(), "schema": statements.schema}
        with transaction(connection):
            connection.execute(statements.query("runs:forget_epochs"), values)
            tries = connection.execute(statements.query("runs:other_tries"), values).fetchall()
        for (other,) in [] if run.transaction else tries:  # a job may write several versions at once
            abort_run(connection, statements, other, wait="100ms")
    except psycopg.Error as error:
        _log.warning("run %s is committed, but its staging could not be removed yet: %s", run.run_id, error)


def _drop(
    connection: SyncConnection, statements: SparkStatements, run_id: UUID, wait: str, *, abort: bool = False
) -> bool:
    """Drop a run's staging table, and abort the run with it; False when a task, or another role, has the table."""
    try:
        with transaction(connection):
            connection.execute(statements.query("slots:lock_timeout"), {"wait": wait})
            if abort:
                _finish(connection, statements, run_id, "aborted")
            connection.execute(statements.query("staging:drop_staging", stage_name(run_id)))
    except (psycopg.errors.LockNotAvailable, psycopg.errors.InsufficientPrivilege):
        return False
    return True


def _finish(
    connection: SyncConnection,
    statements: SparkStatements,
    run_id: UUID,
    state: str,
    staged: Staged | None = None,
) -> None:
    values = {
        "run_id": run_id,
        "state": state,
        "written_rows": staged and staged.rows,
        "inserted_rows": staged and staged.inserted,
        "bytes": staged and staged.bytes,
        "retries": staged and staged.retries,
    }
    connection.execute(statements.query("runs:finish_run"), values)


def _check_outbox(connection: SyncConnection, statements: SparkStatements) -> None:
    kind, granted, missing, keyed = _one(
        connection, statements, "outbox:describe_outbox", {"outbox": statements.outbox.quoted}
    )
    if kind is None:
        raise SchemaError(f"option table: there is no table {statements.outbox}, or this role may not see its schema")
    if kind != _PLAIN_TABLE:
        raise SchemaError(f"option table: {statements.outbox} is not a plain table")
    if missing:
        raise SchemaError(f"option table: {statements.outbox} is not an outbox; it has no column {', '.join(missing)}")
    if not keyed:
        raise SchemaError(
            f"option table: {statements.outbox} has no primary key event_id, so a repeated task would write its rows "
            f"twice; its owner must run: ALTER TABLE {statements.outbox.quoted} ADD PRIMARY KEY (event_id)"
        )
    sql = statement("outbox/table:refusing_indexes")
    if refusing := [name for (name,) in connection.execute(sql, {"table": statements.outbox.quoted})]:
        raise SchemaError(
            f"option table: {statements.outbox} has the index {', '.join(refusing)}, which may refuse a row with a new "
            "event_id; such a row would be skipped as if its event existed. Drop the index, or write to another table"
        )
    if not granted:
        raise SchemaError(f"this role may not insert into {statements.outbox}; relay-cli spark setup --role grants it")


def _ensure_ledger(connection: SyncConnection, statements: SparkStatements) -> None:
    if has_ledger(connection, statements):
        return
    try:
        create_ledger(connection, statements)
    except SchemaError:  # a missing right
        raise ConfigError(
            f"Spark's ledger in schema {statements.schema} is missing, or of an earlier release, and this role may not "
            "create it; the outbox's owner must run: relay-cli spark setup --role ROLE"
        ) from None


def _one(
    connection: SyncConnection, statements: SparkStatements, name: str, values: dict[str, Any], stage: str = ""
) -> tuple[Any, ...]:
    row = connection.execute(statements.query(name, stage), values).fetchone()
    if row is None:
        raise StorageError(f"{name}: the statement returned no row")
    return row
