"""A run's place in the ledger, and the rule by which a version of its rows is written exactly once.

A version is a micro-batch of a stream's query, or a ``txnVersion`` of a ``txnAppId``. Of a ``txnAppId`` each version
stands for itself. Of a stream Spark repeats the last micro-batch of a checkpoint after a restart, with the same rows,
and no earlier one: then nothing changes. An earlier one, other rows than were committed, or another checkpoint mean
that a different stream uses the query's id: to take its rows for written ones would lose them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from relay.core.errors import ConfigError
from relay.spark.statements import stage_name


@dataclass(frozen=True, slots=True)
class Run:
    """The run's row in the ledger; created on the driver, and sent to every task."""

    run_id: UUID
    outbox: str
    """The quoted name of the table, with its schema."""
    job: str
    mode: str
    driver: str
    query_id: str | None = None
    epoch: int | None = None
    checkpoint: str | None = None
    """The stream's ``checkpointLocation``, as far as Spark passes it on."""
    moved_from: str | None = None
    """Where the checkpoint was before."""
    transaction: bool = False
    """Whether ``query_id`` and ``epoch`` are the options ``txnAppId`` and ``txnVersion`` of a ``save()``."""

    @property
    def stage(self) -> str:
        """The name of its staging table."""
        return stage_name(self.run_id)


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed version of a query."""

    epoch: int
    rows: int
    id_sum: int | None
    """A sum over its rows' ids; None in a ledger of an earlier release, or where an operator has removed it."""
    checkpoint: str | None = None
    stream_run: str | None = None
    """The run of the streaming query in whose ``foreachBatch`` it was committed."""
    outbox: str = ""
    same: bool = True
    """Whether the table of this name is the one that it was written to."""


Lookup = Callable[[bool], Committed | None]
"""The run's own version in the ledger (True), or the last one of its query."""


def committed_version(run: Run, lookup: Lookup) -> Committed | None:
    """The committed version that the run repeats; None for one that is new.

    Raises ConfigError for another stream's micro-batch, and where table and ledger disagree.
    """
    last = lookup(run.transaction)
    if last is None:
        return None
    if not last.same:
        raise ConfigError(
            f"option table: the ledger has version {last.epoch} of {run.query_id} in {last.outbox}, which was another "
            f"table than {run.outbox} is now; was it renamed, restored or created again? Nothing was written. "
            "Where its rows are in this table, let it adopt them: relay-cli spark setup --adopt --table TABLE"
        )
    if run.transaction:
        return last
    if None not in (run.checkpoint, last.checkpoint) and last.checkpoint not in (run.checkpoint, run.moved_from):
        raise ConfigError(
            f"option checkpointLocation: query {run.query_id} has the checkpoint {last.checkpoint}, and this stream "
            f"has {run.checkpoint}. Nothing was written. Where the checkpoint was moved, set checkpointMovedFrom to "
            f"{last.checkpoint} once. A copy must not run beside its original: start it with a new checkpoint"
        )
    if run.epoch is None or run.epoch > last.epoch:
        return None
    version = last if run.epoch == last.epoch else lookup(True)
    if version is None:
        raise ConfigError(
            f"option txnAppId: query {run.query_id} has committed micro-batch {last.epoch}, and this stream writes "
            f"micro-batch {run.epoch}: its checkpoint is another one, or was set back. Nothing was written. Continue "
            "with the query's own checkpoint, or start a new checkpoint, with another txnAppId where the option is set"
        )
    return version


def check_rows(run: Run, version: Committed, rows: int, id_sum: int, ledger: str) -> None:
    """Raises ConfigError when the rows of a repeated version are others than the committed ones."""
    if version.id_sum in (None, id_sum) and rows <= version.rows:
        return
    if run.transaction:
        raise ConfigError(
            f"option txnVersion: this micro-batch has committed version {run.epoch} of txnAppId {run.query_id} with "
            f"{version.rows} rows, and these {rows} are others. They were not written: give each save() of a "
            "foreachBatch a txnAppId of its own"
        )
    raise ConfigError(
        f"option txnAppId: query {run.query_id} has committed micro-batch {run.epoch} with {version.rows} rows, and "
        f"this stream repeats it with {rows} others: its checkpoint is another one, or its rows are not the same each "
        "time. Nothing was written. Start a new checkpoint, with another txnAppId where the option is set; or, in this "
        f"micro-batch's row of {ledger}, set id_sum to NULL to take it as written, or delete the row to write these too"
    )


def normal_location(location: str | None) -> str | None:
    """A checkpoint's location, spelt in one way: ``/a``, ``file:/a/`` and ``file:///a`` are one."""
    return None if location is None else re.sub(r"^file:/+", "/", location).rstrip("/") or "/"
