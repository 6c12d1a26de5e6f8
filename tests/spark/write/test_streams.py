"""Streams on ``local[2]``, each with a checkpoint of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.spark.ledger import runs
from tests.support.documents import Block, blocks
from tests.support.fixtures.outbox import Outbox

FOREACH_BATCH: Block = next(block for block in blocks("docs/guide/spark.md") if "foreachBatch" in block.text)


def test_streams_with_one_query_id_in_their_options_lose_nothing(
    spark: SparkSession, outbox: Outbox, tmp_path: Path
) -> None:
    """The second one begins with micro-batch 0 too, which the first has committed."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rows").write_text("\n".join(f"{name} {number}" for number in range(300)))
        source = spark.readStream.text(str(tmp_path / name)).selectExpr("'t' AS event_type", "value AS payload")
        writer = source.writeStream.format("openoutbox").option("url", outbox.url).option("queryId", "nightly")
        query = writer.option("checkpointLocation", str(tmp_path / f"of {name}")).trigger(availableNow=True).start()
        query.awaitTermination()
    assert len(outbox.rows("event_id")) == 600
    ((checkpoints,),) = outbox.database.run("SELECT array_agg(checkpoint ORDER BY 1) FROM openoutbox_spark.runs")
    assert checkpoints == [str(tmp_path / "of first"), str(tmp_path / "of second")]


def test_the_documented_foreach_batch_writes_a_micro_batch_once_that_is_killed_after_its_commit(
    spark: SparkSession, outbox: Outbox, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows").write_text("\n".join(str(number) for number in range(100)))
    source = spark.readStream.text(str(tmp_path / "in"))
    events = source.selectExpr("'t' AS event_type", "value AS payload")
    block = FOREACH_BATCH.adapted({"/data/orders-checkpoint": str(tmp_path / "checkpoint")})

    def start(text: str) -> Any:
        names: dict[str, Any] = {"events": events, "url": outbox.url}
        exec(text, names)
        return names["query"]

    # The function ends after the outbox's commit and before Spark's: what a kill at this moment leaves.
    with pytest.raises(StreamingQueryException, match="ZeroDivisionError"):
        start(block.text.replace(".save()", ".save(); 1 / 0")).awaitTermination()
    query = start(block.text)
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert len(outbox.rows("event_id")) == 100
    assert runs(outbox) == [("committed", 100, 100)]
    ((recorded,),) = outbox.database.run("SELECT query_id FROM openoutbox_spark.runs")
    assert recorded == query.id
