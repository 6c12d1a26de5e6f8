"""The counts of a write or a job in Spark: on its pages, in its event log, and for its listeners.

Spark takes no metrics of its own from a writer in Python, and commits the write in a process without a session. So the
driver runs one more query afterwards, of one row: its description is the result in a line, and its observed metrics,
under the name ``openoutbox``, are the counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from uuid import UUID

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from relay.spark.statements import DEFAULT_SCHEMA
from relay.spark.write.runs import RunSummary, run_summary

OBSERVATION: Final = "openoutbox"
"""The name of the observed metrics."""

_DESCRIPTION: Final = "spark.job.description"


def show_run(session: SparkSession, url: str, run_id: UUID | str, staging_schema: str = DEFAULT_SCHEMA) -> RunSummary:
    """Show what the ``save()`` with the option ``runId`` has done on Spark's pages, and return it.

    Raises StorageError for an unknown id.
    """
    summary = run_summary(url, run_id, staging_schema)
    show_counts(session, f"openoutbox run {run_id}, {summary.state}, {summary.seconds:.1f} s", summary.counts())
    return summary


def show_counts(session: SparkSession, title: str, counts: Mapping[str, int]) -> None:
    """Run a query of one row that shows ``counts``, with the title and the counts as its description."""
    line = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items())
    columns = [f.lit(count).cast("long").alias(name) for name, count in counts.items()]
    with described(session, f"{title}: {line}"):
        session.range(1).observe(OBSERVATION, *columns).write.format("noop").mode("overwrite").save()


@contextmanager
def described(session: SparkSession, text: str) -> Iterator[None]:
    """Describe the queries of this thread in the block on Spark's pages; a session of Spark Connect cannot."""
    context = getattr(session, "sparkContext", None)
    if context is None:
        yield
        return
    before = context.getLocalProperty(_DESCRIPTION)
    context.setJobDescription(text)
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)
