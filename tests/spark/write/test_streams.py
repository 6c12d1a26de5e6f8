"""Streams on ``local[2]``, each with a checkpoint of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.support.fixtures.outbox import Outbox


def test_streams_with_one_query_id_in_their_options_lose_nothing(
    spark: SparkSession, outbox: Outbox, tmp_path: Path
) -> None:
    """The second one begins with micro-batch 0 too, which the first has committed. Rows keep the order of the file."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rows").write_text("\n".join(f"{name} {number}" for number in range(300)))
        source = spark.readStream.text(str(tmp_path / name)).selectExpr("'t' AS event_type", "value AS payload")
        writer = source.writeStream.format("openoutbox").option("url", outbox.url).option("txnAppId", "nightly")
        query = writer.option("checkpointLocation", str(tmp_path / f"of {name}")).trigger(availableNow=True).start()
        query.awaitTermination()
    bodies = outbox.database.run("SELECT convert_from(payload, 'UTF8') FROM openoutbox_events ORDER BY ctid")
    assert bodies == [(f"{name} {number}",) for name in ("first", "second") for number in range(300)]
    ((checkpoints,),) = outbox.database.run("SELECT array_agg(checkpoint ORDER BY 1) FROM openoutbox_spark.runs")
    assert checkpoints == [str(tmp_path / "of first"), str(tmp_path / "of second")]


def test_two_saves_of_one_micro_batch_need_two_names(spark: SparkSession, outbox: Outbox, tmp_path: Path) -> None:
    """The second one was dropped without a word."""

    def write(batch: DataFrame, number: int) -> None:
        query_id = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        for topic in ("placed", "paid"):
            events = batch.selectExpr(f"'{topic}' AS event_type", "value AS payload")
            writer = events.write.format("openoutbox").mode("append").option("url", outbox.url)
            writer.option("txnAppId", f"{query_id}").option("txnVersion", number).save()

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows").write_text("a\nb")
    stream = spark.readStream.text(str(tmp_path / "in")).writeStream.foreachBatch(write)
    query = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match="give each save\\(\\) of a foreachBatch a txnAppId of its own"):
        query.awaitTermination()
    assert outbox.rows("event_type") == [("placed",), ("placed",)]
