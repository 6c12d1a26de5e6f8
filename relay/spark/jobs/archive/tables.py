"""An archive in tables of a format with atomic commits: ``delta``, ``iceberg``.

    events   the archived rows, with ``COLUMNS`` and ``PARTITIONS``, partitioned by ``run`` and ``day``
    runs     the states of each run, a row for each: begun, published, closed; or discarded, or withdrawn

The tables' commits are used instead of manifests: a run's rows are visible all at once or not at all, and its row in
``runs`` makes them part of the archive. The steps of a run, and what a crash leaves after each commit:

    write     a commit appends to ``runs`` that the run has begun, another one its rows to ``events``. The next run
              deletes them, and notes in ``runs`` that the run was discarded, whatever appears of it later
    verify    reads the rows back from the commit
    publish   a commit appends to ``runs`` that the run is published. The next run deletes its rows from the outbox
    delete    deletes the rows from the outbox; the ids of those that stay are in Spark's memory. Nothing is committed
    close     a commit takes the rows that stay out of ``events``, if there are any; another one appends to ``runs``
              that the run is closed. Between the two, the next run finds nothing more to delete, and closes it

``events`` without ``runs`` is the archive too, except for rows of a run that is being written and verified, or was
killed meanwhile: these are in the outbox as well. To delete a run's rows, or to read some days, opens no file of other
runs or days, since both are partitions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from relay.spark.jobs.archive.delta import DeltaTables
from relay.spark.jobs.archive.iceberg import IcebergTables
from relay.spark.jobs.archive.ledger import Manifest
from relay.spark.jobs.archive.model import CREATED, EVENT_COLUMNS, EVENT_NAMES, EVENTS, RUNS, Days, check_owner

RUN_COLUMNS: Final = (
    "run string, state string, at timestamp, outbox string, rows bigint, checksum string, before string, "
    "statuses array<string>, files int, retained bigint, closed_by string"
)
"""The first row has the ``outbox``, a ``published`` one ``rows`` to ``files``, as a manifest has them, a ``closed`` one
``retained``, the number of rows that stayed in the outbox, and the run that deleted the others."""

_BEGUN: Final = "begun"
_PUBLISHED: Final = "published"
_CLOSED: Final = "closed"
_DISCARDED: Final = "discarded"
_WITHDRAWN: Final = "withdrawn"


@dataclass(slots=True)
class TableArchive:
    """An ``Archive`` in tables."""

    spark: SparkSession
    location: str
    """The folder, or the name of the table of rows."""
    tables: DeltaTables | IcebergTables
    """Each method of theirs that writes makes one atomic commit."""
    _known: set[tuple[str, str]] = field(default_factory=set)
    """The run and the state of each row of ``runs``, as this archive has read and written them."""

    @property
    def file(self) -> str:
        """The column with the address of a row's file."""
        return self.tables.file

    def exists(self) -> bool:
        """Whether the tables have an owner."""
        return self.tables.owner() is not None

    def belongs_to(self, outbox: str) -> None:
        """Create the tables."""
        owner = self.tables.owner()
        check_owner(self.location, owner, outbox)
        if owner is None:
            self.tables.create(outbox, self._row("", CREATED, outbox=outbox))

    def strays(self) -> list[str]:
        """Runs that have begun, and no more; and discarded ones with rows, which a dead client has written late."""
        self._known = states = self._states()
        ended = _runs(states, _PUBLISHED, _DISCARDED, _WITHDRAWN)
        late = self.tables.read(EVENTS).where(f.col("run").isin(sorted(_runs(states, _DISCARDED))))
        return sorted(
            {*_runs(states, _BEGUN) - ended, *(row["run"] for row in late.select("run").distinct().collect())}
        )

    def discard(self, run: str) -> None:
        """Append that the run is discarded, which counts more than that it is published; then delete its rows."""
        if (run, _DISCARDED) not in self._known:
            self._record(run, _DISCARDED)
        self.tables.replace(run, self.spark.createDataFrame([], EVENT_COLUMNS))

    def open_runs(self) -> list[str]:
        """Runs that are published and not closed."""
        states = self._states()
        return sorted(_published(states) - _runs(states, _CLOSED))

    def withdraw(self, run: str) -> None:
        """Append that the run is withdrawn."""
        self._record(run, _WITHDRAWN)

    def write(self, run: str, rows: DataFrame) -> None:
        """Append that the run has begun, then its rows."""
        self._record(run, _BEGUN)
        self.tables.append(EVENTS, rows.withColumn("run", f.lit(run)).select(*EVENT_NAMES))

    def rows(self, run: str) -> DataFrame:
        """The run's rows in ``events``."""
        return self.tables.read(EVENTS).where(f.col("run") == run)

    def publish(self, manifest: Manifest) -> None:
        """Append the run to ``runs``."""
        self._record(
            manifest.run,
            _PUBLISHED,
            rows=manifest.rows,
            checksum=manifest.checksum,
            before=manifest.before,
            statuses=list(manifest.statuses),
            files=len(manifest.files),
        )

    def retain(self, run: str, by: str, remaining: DataFrame) -> DataFrame:  # noqa: ARG002 - the commit names the run
        """Evaluate, and hold the ids in Spark's memory. Ids that an executor loses are evaluated again."""
        retained = remaining.persist()
        retained.count()
        return retained

    def close(self, run: str, by: str, retained: DataFrame) -> int:
        """Rewrite the run's rows without the retained ones, if there are any; append the end to ``runs``."""
        count = retained.count()
        if count:
            rows = self.rows(run).join(retained, "event_id", "left_anti")
            self.tables.replace(run, rows.select(*EVENT_NAMES))
        retained.unpersist()
        self._record(run, _CLOSED, retained=count, closed_by=by)
        return count

    def taken_over(self, run: str, *, published: bool) -> bool:  # noqa: ARG002 - any other state says so
        """Whether another run has recorded a state."""
        return self._states() != self._known

    def read(self, days: Days) -> DataFrame:
        """The rows in ``events`` of runs that are in ``runs``."""
        first, last = days
        rows = self.tables.read(EVENTS).where(f.col("run").isin(sorted(_published(self._states()))))
        if first is not None:
            rows = rows.where(f.col("day") >= f.lit(first))
        if last is not None:
            rows = rows.where(f.col("day") <= f.lit(last))
        return rows.select(*EVENT_NAMES)

    def _states(self) -> set[tuple[str, str]]:
        return {(row["run"], row["state"]) for row in self.tables.read(RUNS).select("run", "state").collect()}

    def _record(self, run: str, state: str, **values: object) -> None:
        self.tables.append(RUNS, self._row(run, state, **values))
        self._known.add((run, state))

    def _row(self, run: str, state: str, **values: object) -> DataFrame:
        row = {"run": run, "state": state, "at": datetime.now(UTC), **values}
        names = [column.split()[0] for column in RUN_COLUMNS.split(", ")]
        return self.spark.createDataFrame([tuple(row.get(name) for name in names)], RUN_COLUMNS).coalesce(1)


def _runs(states: set[tuple[str, str]], *names: str) -> set[str]:
    """Runs with one of these states."""
    return {run for run, state in states if state in names}


def _published(states: set[tuple[str, str]]) -> set[str]:
    return _runs(states, _PUBLISHED) - _runs(states, _DISCARDED)
