"""Parquet as the jobs write it: row groups that fit into Spark's default memory, and ``materialize``."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from relay.spark.jobs.parquet import ROW_GROUP_BYTES, materialize

INCOMPRESSIBLE = "aes_encrypt(repeat('x', 10240), lpad(id, 16, '0'))"
"""10 KiB that no compression makes smaller: each row has a key of its own."""


def test_row_groups_are_bounded(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(0, 3600, 1, 1).selectExpr("id", f"{INCOMPRESSIBLE} AS body")
    materialize(frame, str(tmp_path / "frame"))
    (file,) = (tmp_path / "frame").glob("*.parquet")
    metadata = pq.read_metadata(file)
    sizes = [metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups)]
    assert sum(sizes) > 2 * ROW_GROUP_BYTES
    assert max(sizes) < 1.25 * ROW_GROUP_BYTES  # the writer looks at the size every few hundred rows
    assert metadata.num_rows == 3600


def test_a_materialized_frame_reads_the_same_rows_again_and_replaces_earlier_ones(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "frame")
    materialize(spark.range(5).selectExpr("'earlier' AS name", "id AS number"), path)
    frame = spark.range(0, 100, 1, 2).selectExpr("id AS number", "uuid() AS name", "IF(id % 2 = 0, NULL, id) AS odd")
    rows = sorted(materialize(frame, path).collect())
    assert [row["number"] for row in rows] == list(range(100))
    assert len({row["name"] for row in rows}) == 100
    assert [row["odd"] for row in rows] == [number if number % 2 else None for number in range(100)]
    read_again = spark.read.parquet(path)
    assert read_again.columns == ["number", "name", "odd"]
    assert {row["number"]: row["name"] for row in read_again.collect()} == {row["number"]: row["name"] for row in rows}
