"""A run's place in the ledger, and the rule by which a stream's micro-batch is written exactly once.

Spark repeats the last micro-batch of a checkpoint after a restart, with the same rows, and no earlier one. So a
micro-batch that is the last committed one of its query is a replay, which changes nothing. A lower number, more rows
than were committed, or another checkpoint mean that a different stream uses the query's id: to take its rows for
written ones would lose them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from relay.core.errors import ConfigError
from relay.spark.statements import stage_name


@dataclass(frozen=True, slots=True)
class Run:
    """The run's row in the ledger; created on the driver, and sent to every task."""

    run_id: UUID
    outbox: str
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

    def parameters(self) -> dict[str, Any]:
        """The values of its row in the ledger."""
        return {
            "run_id": self.run_id,
            "outbox": self.outbox,
            "job": self.job,
            "mode": self.mode,
            "driver": self.driver,
            "query_id": self.query_id,
            "epoch": self.epoch,
            "checkpoint": self.checkpoint,
        }


@dataclass(frozen=True, slots=True)
class Committed:
    """The last committed micro-batch of a query."""

    epoch: int
    rows: int
    checkpoint: str | None


def is_replay(run: Run, rows: int, last: Committed) -> bool:
    """Whether a micro-batch of ``rows`` rows is the committed one; False for a later one.

    Raises ConfigError for a micro-batch of another stream. The versions of a ``txnAppId`` follow the same rule.
    """
    if None not in (run.checkpoint, last.checkpoint) and last.checkpoint not in (run.checkpoint, run.moved_from):
        raise ConfigError(
            f"option checkpointLocation: query {run.query_id} has the checkpoint {last.checkpoint}, and this stream "
            f"has {run.checkpoint}. Nothing was written. Where the checkpoint was moved, set checkpointMovedFrom to "
            f"{last.checkpoint} once. A copy must not run beside its original: start it with a new checkpoint"
        )
    if run.epoch is None or run.epoch > last.epoch:
        return False
    if run.epoch == last.epoch and rows <= last.rows:
        return True
    if run.transaction:
        raise ConfigError(
            f"option txnVersion: txnAppId {run.query_id} has committed version {last.epoch} with {last.rows} rows, and "
            f"this is version {run.epoch} with {rows} rows. Nothing was written. Versions of one txnAppId only grow, "
            "and a version that is repeated has the same rows; take another txnAppId for another checkpoint or job"
        )
    raise ConfigError(
        f"option queryId: query {run.query_id} has committed micro-batch {last.epoch} with {last.rows} rows, and this "
        f"stream writes micro-batch {run.epoch} with {rows} rows: its checkpoint is another one, or was set back. "
        "Nothing was written. Continue with the query's own checkpoint, or start a new checkpoint, with another "
        "queryId where the option is set"
    )


def normal_location(location: str | None) -> str | None:
    """A checkpoint's location, spelt in one way: ``/a``, ``file:/a/`` and ``file:///a`` are one."""
    return None if location is None else re.sub(r"^file:/+", "/", location).rstrip("/") or "/"
