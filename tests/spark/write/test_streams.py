"""Streams on ``local[2]``, each with a checkpoint of its own."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.support.fixtures.outbox import Outbox


def test_streams_with_one_query_id_in_their_options_lose_nothing(
    spark: SparkSession, outbox: Outbox, tmp_path: Path
) -> None:
    """The second one begins with micro-batch 0 too, which the first has committed. Rows keep the order of the file."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rows").write_text("\n".join(f"{name} {number}" for number in range(300)))
        source = spark.readStream.text(str(tmp_path / name)).selectExpr("'t' AS event_type", "value AS payload")
        writer = source.writeStream.format("openoutbox").option("url", outbox.url).option("queryId", "nightly")
        query = writer.option("checkpointLocation", str(tmp_path / f"of {name}")).trigger(availableNow=True).start()
        query.awaitTermination()
    bodies = outbox.database.run("SELECT convert_from(payload, 'UTF8') FROM openoutbox_events ORDER BY ctid")
    assert bodies == [(f"{name} {number}",) for name in ("first", "second") for number in range(300)]
    ((checkpoints,),) = outbox.database.run("SELECT array_agg(checkpoint ORDER BY 1) FROM openoutbox_spark.runs")
    assert checkpoints == [str(tmp_path / "of first"), str(tmp_path / "of second")]
