"""The counts of a write on Spark's own pages, and for its listeners."""

from __future__ import annotations

import uuid
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from relay.spark import show_run
from relay.spark.write.observed import show_counts
from tests.spark.pages import description, page
from tests.support.fixtures.outbox import Outbox
from tests.support.fixtures.spark import Save
from tests.support.waiting import wait_until


def test_a_runs_rows_new_ones_bytes_and_retries_are_on_sparks_pages(
    spark: SparkSession, outbox: Outbox, save: Save
) -> None:
    frame = spark.range(0, 30, 1, 2).select(f.lit("t").alias("event_type"), f.struct("id").alias("payload"), "id")
    save(frame.where("id < 10"), idColumns="id")
    run_id = uuid.uuid4()
    save(frame, idColumns="id", runId=run_id)
    summary = show_run(spark, outbox.url, run_id)
    assert (summary.rows, summary.new, summary.skipped, summary.retries) == (30, 20, 10, 0)
    assert summary.bytes > 0
    title = f"openoutbox run {run_id}, committed, "
    shown = description(spark, title)
    assert shown.endswith(f" s: 30 rows, 20 new, 10 skipped, {summary.bytes:,} bytes, 0 retries")
    (query,) = [
        each
        for each in page(spark, "sql?details=false&planDescription=true&length=100000")
        if each["description"] == shown
    ]
    assert "openoutbox, [30 AS rows#" in query["planDescription"]
    assert "20 AS new#" in query["planDescription"]
    assert spark.sparkContext.getLocalProperty("spark.job.description") is None


class Listener:
    """A listener of Spark's queries, called from the JVM."""

    def __init__(self) -> None:
        self.metrics: list[str] = []

    def onSuccess(self, name: str, query: Any, nanoseconds: int) -> None:  # noqa: N802 - Spark's signature
        self.metrics.append(query.observedMetrics().toString())

    def onFailure(self, name: str, query: Any, error: Any) -> None:  # noqa: N802 - Spark's name
        raise AssertionError(name, query, error)

    class Java:
        """Of Py4J."""

        implements = ("org.apache.spark.sql.util.QueryExecutionListener",)


def test_listeners_get_the_counts_as_observed_metrics(spark: SparkSession) -> None:
    listener = Listener()
    manager = spark._jsparkSession.listenerManager()
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    manager.register(listener)
    try:
        show_counts(spark, "openoutbox test", {"rows": 3, "waiting_events": 4})
        wait_until(lambda: listener.metrics)
    finally:
        manager.unregister(listener)
    assert listener.metrics[-1] == "Map(openoutbox -> [3,4])"
    assert description(spark, "openoutbox test") == "openoutbox test: 3 rows, 4 waiting events"
