"""Runs: open, commit and abort; docs/design/spark-write.md has their states and each place where one may stop.

The commit makes all rows visible at once. Rows of attempts that Spark does not name (repeated, speculative or killed
ones) are not read.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, replace
from typing import Any
from uuid import UUID

import psycopg

from relay.core.errors import ConfigError, StorageError
from relay.postgres.connect import SyncConnection
from relay.postgres.errors import translating
from relay.postgres.sql import TableName
from relay.spark.connection import DEFAULT_MAX_WAIT, Wait, connect, persist, transaction
from relay.spark.statements import DEFAULT_SCHEMA, SparkStatements
from relay.spark.write.epochs import Committed, Run, check_rows, committed_version
from relay.spark.write.repeats import warn_unchecked
from relay.spark.write.staging import Staged, clean, drop_staging, insert_staged
from relay.spark.write.table import prepare_table
from relay.spark.write.write_options import Commit, WriteOptions

_log = logging.getLogger(__name__)


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
        return {name: getattr(self, name) for name in ("rows", "new", "skipped", "bytes", "retries")}


def prepare(options: WriteOptions) -> SparkStatements:
    """The statements of a write. Checks outbox and ledger before a run, and cleans up after dead runs.

    Creates a missing ledger if this role may. Raises SchemaError, which names what is missing.
    """

    def work(wait: Wait) -> SparkStatements:
        with connect(options.url, writes=True, wait=wait) as connection:
            statements = prepare_table(connection, SparkStatements(options.table, options.staging_schema))
            clean(connection, statements, options.staging_max_age)
            return statements

    with translating("preparing to write"):
        return persist(work, options.max_wait)


def begin_run(options: WriteOptions, statements: SparkStatements, run: Run) -> Committed | None:
    """Record a new run; returns what was committed before, by its ``runId`` or ``txnVersion``.

    Raises StorageError for a run that was aborted, and ConfigError where table and ledger disagree.
    """

    def work(wait: Wait) -> Committed | None:
        with connect(options.url, writes=True, wait=wait) as connection, transaction(connection):
            version = _version(connection, statements, run)
            if version is not None:
                return version
            state, same, rows, _ = _open(connection, statements, run)
            if not same:
                raise ConfigError(f"option runId: run {run.run_id} wrote to another table; take a new id")
            if state == "aborted":
                raise StorageError(f"option runId: run {run.run_id} was aborted; take a new id")
            return None if state == "writing" else Committed(0, rows, None)

    with translating("opening the run"):
        return persist(work, options.max_wait)


def open_run(connection: SyncConnection, statements: SparkStatements, run: Run) -> None:
    """Record the run, or that it is alive, and make its staging table. Raises StorageError for a run that has ended."""
    with translating("opening the run"), transaction(connection):
        state, *_ = _open(connection, statements, run)
        if state != "writing":
            raise StorageError(f"run {run.run_id} is {state} already; one of its tasks started too late")
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
        connection.execute(statements.query("runs:abort_run"), {"run_id": run_id})
    return drop_staging(connection, statements, run_id, wait)


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
        ((rows, inserted),) = connection.execute(statements.query("runs:summarise_stream"), values).fetchall()
    return rows, inserted


def _open(connection: SyncConnection, statements: SparkStatements, run: Run) -> tuple[Any, ...]:
    """The run's state, whether it is of this table, and its numbers; locked until the transaction ends."""
    (row,) = connection.execute(statements.query("runs:open_run"), asdict(run)).fetchall()
    return row


def _commit(connection: SyncConnection, statements: SparkStatements, run: Run, staged: Staged) -> tuple[int, int]:
    state, _, rows, inserted = _open(connection, statements, run)
    if state == "committed":
        return rows, inserted
    version = _version(connection, statements, run)
    if version is not None:
        if not run.transaction:
            check_rows(run, version, staged.rows, staged.id_sum, statements.runs)
        connection.execute(statements.query("runs:abort_run"), {"run_id": run.run_id})
        return 0, 0
    if state != "writing":
        kept = "what its tasks have written stays" if run.mode == Commit.PARTITION else "nothing was written"
        raise StorageError(
            f"run {run.run_id} is {state}: another run cleaned it up after stagingMaxAge without a sign of life; "
            f"{kept}, run it again with a longer stagingMaxAge"
        )
    if staged.attempts or staged.carried:
        staged = replace(staged, inserted=insert_staged(connection, statements, run, staged))
    warn_unchecked(statements, run.run_id, staged.unchecked)
    values = {name: getattr(staged, name) for name in ("rows", "inserted", "bytes", "retries", "id_sum", "stream_run")}
    connection.execute(statements.query("runs:commit_run"), {**values, "run_id": run.run_id})
    return staged.rows, staged.inserted


def _version(connection: SyncConnection, statements: SparkStatements, run: Run) -> Committed | None:
    """What the ledger has of the run's version."""

    def lookup(exact: bool) -> Committed | None:
        query = statements.query("runs:committed_version", "", *(["exact"] if exact else []))
        row = connection.execute(query, asdict(run)).fetchone()
        return None if row is None else Committed(*row)

    return None if run.epoch is None else committed_version(run, lookup)


def _tidy(connection: SyncConnection, statements: SparkStatements, run: Run) -> None:
    """Clean up after the commit. An error is logged only: ``clean`` of the next run removes the rest."""
    try:
        drop_staging(connection, statements, run.run_id, "5s")
        if run.query_id is None:
            return
        values = {**asdict(run), "schema": statements.schema}
        with transaction(connection):
            connection.execute(statements.query("runs:forget_versions"), values)
            tries = connection.execute(statements.query("runs:other_tries"), values)
            others = [] if run.transaction else tries.fetchall()  # a job may write several versions at once
        for (other,) in others:
            abort_run(connection, statements, other, wait="100ms")
    except psycopg.Error as error:
        _log.warning("run %s is committed, but its staging could not be removed yet: %s", run.run_id, error)
